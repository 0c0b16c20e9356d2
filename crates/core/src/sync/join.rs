//! Running several futures in one task.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Polls futures, each with a key. Ready with the key and output of one that has ended, which is removed from `running`;
/// ready with `None` when `running` is empty.
pub fn poll_next<K, F: Future>(
    cx: &mut Context<'_>,
    running: &mut Vec<(K, Pin<Box<F>>)>,
) -> Poll<Option<(K, F::Output)>> {
    for i in 0..running.len() {
        if let Poll::Ready(output) = running[i].1.as_mut().poll(cx) {
            return Poll::Ready(Some((running.swap_remove(i).0, output)));
        }
    }
    if running.is_empty() { Poll::Ready(None) } else { Poll::Pending }
}

/// Waits until one of the futures has ended, as [`poll_next`] does.
pub async fn next_of<K, F: Future>(running: &mut Vec<(K, Pin<Box<F>>)>) -> Option<(K, F::Output)> {
    std::future::poll_fn(|cx| poll_next(cx, running)).await
}

/// Waits for all of the futures. Returns their outputs in the order in which they ended.
pub async fn end_all<K, F: Future>(running: &mut Vec<(K, Pin<Box<F>>)>) -> Vec<(K, F::Output)> {
    let mut ended = Vec::with_capacity(running.len());
    while let Some(one) = next_of(running).await {
        ended.push(one);
    }
    ended
}

/// Runs two futures concurrently.
pub async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
        if first.is_none()
            && let Poll::Ready(output) = one.as_mut().poll(cx)
        {
            first = Some(output);
        }
        if second.is_none()
            && let Poll::Ready(output) = other.as_mut().poll(cx)
        {
            second = Some(output);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    first.zip(second).expect("both have ended")
}

/// The output of a future, or `None` if the other one ends first.
pub async fn before<F: Future>(future: F, deadline: impl Future<Output = ()>) -> Option<F::Output> {
    let (mut future, mut deadline) = (pin!(future), pin!(deadline));
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => deadline.as_mut().poll(cx).map(|()| None),
    })
    .await
}

/// A future that runs, or its output.
enum Joined<F: Future> {
    Running(Pin<Box<F>>),
    Done(F::Output),
}

/// Runs the futures concurrently. Returns their outputs in the order of `futures`.
pub async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<Joined<F>> = futures.into_iter().map(|f| Joined::Running(Box::pin(f))).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for one in &mut all {
            if let Joined::Running(future) = one {
                match future.as_mut().poll(cx) {
                    Poll::Ready(output) => *one = Joined::Done(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let output = |one| match one {
        Joined::Done(output) => output,
        Joined::Running(_) => unreachable!("every future is done"),
    };
    all.into_iter().map(output).collect()
}
