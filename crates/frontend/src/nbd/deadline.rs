//! A bound on the time of a conversation.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use sinew_core::io::Io;

use crate::transport::Stream;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Running,
    Stopped,
    Expired,
}

/// Has a conversation on a stream, which is shut down if it is not over after `ns`: that ends what the conversation waits
/// for, so nothing under way is dropped. `None` if it took too long.
///
/// The task of the clock outlives a short conversation, not its stream.
pub(super) async fn within<I: Io, S: Stream, T>(
    io: &I,
    stream: &Rc<S>,
    ns: u64,
    conversation: impl Future<Output = T>,
) -> Option<T> {
    let clock = Rc::new(Cell::new(Clock::Running));
    let (watched, stream, timer) = (Rc::clone(&clock), Rc::downgrade(stream), io.clone());
    io.spawn(async move {
        timer.sleep(ns).await;
        if watched.get() == Clock::Running
            && let Some(stream) = stream.upgrade()
        {
            watched.set(Clock::Expired);
            stream.shutdown();
        }
    });
    let result = conversation.await;
    (clock.replace(Clock::Stopped) != Clock::Expired).then_some(result)
}
