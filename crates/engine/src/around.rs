//! Reading around members that are late: from the rest of the stripe while a spike is on, and from elsewhere as well when
//! a read turns out to be late (hedged requests, which FusionRAID, FAST '21, section 4.3 suggests).
//!
//! A read that is in flight is never given up: whichever answer comes second is waited for by a task of its own, which
//! stays inside the era, so that what is being read is not reused. What may be hedged lives in places that are used again,
//! so that a read costs no allocation; what few reads come to is in boxes, so that the others need not carry it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::addr::Home;
use crate::buf::Buf;
use crate::era::EraGuard;
use crate::io::{Io, IoError};
use crate::mapped::MappedShard;
use crate::paths::Path;
use crate::read::ChunkPart;
use crate::tables::StripeState;
use crate::volume::VolumeError;

type ReadResult = Result<Buf, IoError>;

/// A place for reads, one at a time.
trait Reading<I> {
    fn start(&mut self, shard: Rc<MappedShard<I>>, home: Home, part: ChunkPart);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReadResult>;
}

struct Place<F, M> {
    future: Pin<Box<Option<F>>>,
    make: M,
}

impl<I, F, M> Reading<I> for Place<F, M>
where
    F: Future<Output = ReadResult>,
    M: Fn(Rc<MappedShard<I>>, Home, ChunkPart) -> F,
{
    fn start(&mut self, shard: Rc<MappedShard<I>>, home: Home, part: ChunkPart) {
        let future = (self.make)(shard, home, part);
        self.future.as_mut().set(Some(future));
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReadResult> {
        let polled = self.future.as_mut().as_pin_mut().expect("started").poll(cx);
        if polled.is_ready() {
            self.future.as_mut().set(None);
        }
        polled
    }
}

fn place<I, F, M>(make: M) -> Box<dyn Reading<I>>
where
    F: Future<Output = ReadResult> + 'static,
    M: Fn(Rc<MappedShard<I>>, Home, ChunkPart) -> F + 'static,
{
    Box::new(Place { future: Box::pin(None), make })
}

/// Places that are free.
pub(crate) struct Readings<I>(RefCell<Vec<Box<dyn Reading<I>>>>);

impl<I> Default for Readings<I> {
    fn default() -> Self {
        Readings(RefCell::default())
    }
}

impl<I: Io> Readings<I> {
    fn take(&self) -> Box<dyn Reading<I>> {
        let free = self.0.borrow_mut().pop();
        free.unwrap_or_else(|| {
            place(|shard: Rc<MappedShard<I>>, home, part: ChunkPart| async move {
                shard.members.read(home, part.offset, part.count).await
            })
        })
    }

    fn give_back(&self, place: Box<dyn Reading<I>>) {
        self.0.borrow_mut().push(place);
    }
}

/// Another way to the same data.
#[derive(Clone, Copy)]
enum Elsewhere {
    Copy(Home),
    /// So many reads of the rest of the stripe.
    Rest(usize),
}

impl<I: Io> MappedShard<I> {
    /// Reads part of a data column, not waiting for a member that is late if it can be had otherwise.
    pub(crate) async fn read_around(self: &Rc<Self>, part: ChunkPart) -> Result<Buf, VolumeError> {
        let Some((index, home)) = self.next_copy(part, &[]) else {
            return Box::pin(self.read_part_without(part, Vec::new())).await;
        };
        self.members.responses.earn();
        if !self.members.responds(home.member)
            && let Some(buf) = Box::pin(self.read_rest(part, home)).await
        {
            return Ok(buf);
        }
        let mut reading = self.readings.take();
        reading.start(Rc::clone(self), home, part);
        loop {
            let due = self.io.now_coarse() + self.members.responses.hedge_ns(home.member);
            let mut alarm = self.alarms.at(due);
            let in_time = poll_fn(|cx| match reading.poll(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if alarm.poll(cx, self.io.now_coarse()) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            })
            .await;
            drop(alarm);
            if let Some(result) = in_time {
                self.readings.give_back(reading);
                return match result {
                    Ok(buf) if self.mismatches(part, &buf) == 0 => Ok(buf),
                    result => Box::pin(self.accept(part, (index, home), result)).await,
                };
            }
            // What cannot be done now may be possible after as long again.
            if let Some(way) = self.affordable(part, home) {
                return Box::pin(self.hedge(part, (index, home), reading, way)).await;
            }
        }
    }

    /// What a copy gave, or what can be had without it.
    async fn accept(
        self: &Rc<Self>,
        part: ChunkPart,
        copy: (usize, Home),
        result: ReadResult,
    ) -> Result<Buf, VolumeError> {
        match self.judge(part, copy.1, result).await {
            Some(buf) => Ok(buf),
            None => Box::pin(self.read_part_without(part, vec![copy])).await,
        }
    }

    /// The part from the rest of its stripe, while its member does not respond and enough others do.
    async fn read_rest(self: &Rc<Self>, part: ChunkPart, home: Home) -> Option<Buf> {
        let Some(Elsewhere::Rest(reads)) = self.elsewhere(part, home) else { return None };
        if !self.members.responses.spend(reads.saturating_sub(1)) {
            self.io.reach(Path::AroundTooDear);
            return None;
        }
        let buf = self.rebuild_around(part).await?;
        self.io.reach(Path::ReadAround);
        self.members.responses.note(home.member, |watch| {
            watch.redirections += 1;
            watch.reconstructions += 1;
        });
        Some(buf)
    }

    /// A way to the data of a part that meets no member in a spike, and not this copy.
    fn elsewhere(&self, part: ChunkPart, home: Home) -> Option<Elsewhere> {
        let other = self.next_copy(part, &[(part.column, home)]);
        if let Some((_, other)) = other.filter(|(_, other)| self.members.responds(other.member)) {
            return Some(Elsewhere::Copy(other));
        }
        let stripe = self.tables.borrow().stripe(part.stripe);
        if stripe.state != StripeState::Parity {
            return None;
        }
        let g = &self.geometry;
        let parity = (0..g.parity_columns()).map(|p| g.parity_index(p));
        let others = (0..usize::from(stripe.columns)).filter(|&i| i != part.column).chain(parity);
        let (mut reads, mut lost) = (0, 1);
        for index in others {
            let home = self.live_home(part.stripe, index);
            if home.is_some_and(|home| self.members.responds(home.member)) {
                reads += 1;
            } else {
                lost += 1;
            }
        }
        (lost <= g.parity_columns()).then_some(Elsewhere::Rest(reads))
    }

    /// The part from the rest of its stripe, as far as members respond.
    async fn rebuild_around(self: &Rc<Self>, part: ChunkPart) -> Option<Buf> {
        self.rebuild_part_from(part, |home| self.members.responds(home.member)).await
    }

    /// A way to the data of a part whose copy here is late, if there is one and it may be gone.
    fn affordable(&self, part: ChunkPart, home: Home) -> Option<Elsewhere> {
        let way = self.elsewhere(part, home)?;
        let reads = if let Elsewhere::Rest(reads) = way { reads } else { 1 };
        let is_paid = self.members.responses.spend(reads);
        if !is_paid {
            self.io.reach(Path::AroundTooDear);
        }
        is_paid.then_some(way)
    }

    /// A read is late: asks elsewhere too, and takes what comes first.
    async fn hedge(
        self: &Rc<Self>,
        part: ChunkPart,
        copy: (usize, Home),
        mut reading: Box<dyn Reading<I>>,
        way: Elsewhere,
    ) -> Result<Buf, VolumeError> {
        self.io.reach(Path::ReadHedged);
        self.members.responses.note(copy.1.member, |watch| {
            watch.hedges += 1;
            watch.reconstructions += u64::from(matches!(way, Elsewhere::Rest(_)));
        });
        let mut second = Box::pin(Rc::clone(self).read_elsewhere(part, way));
        let mut second_failed = false;
        let first = poll_fn(|cx| {
            if let Poll::Ready(result) = reading.poll(cx) {
                return Poll::Ready(Ok(result));
            }
            match second_failed {
                false => match second.as_mut().poll(cx) {
                    Poll::Ready(Some(buf)) => Poll::Ready(Err(buf)),
                    Poll::Ready(None) => {
                        second_failed = true;
                        Poll::Pending
                    }
                    Poll::Pending => Poll::Pending,
                },
                true => Poll::Pending,
            }
        })
        .await;
        match first {
            Err(buf) => {
                self.io.reach(Path::ReadHedgeWon);
                let era = self.eras.enter_oldest();
                self.io.spawn(Rc::clone(self).await_late(era, part, copy.1, reading));
                Ok(buf)
            }
            Ok(result) => {
                self.readings.give_back(reading);
                if !second_failed {
                    self.io.reach(Path::ReadHedgeLost);
                    self.io.spawn(async move { drop(second.await) });
                }
                self.accept(part, copy, result).await
            }
        }
    }

    async fn read_elsewhere(self: Rc<Self>, part: ChunkPart, way: Elsewhere) -> Option<Buf> {
        let _era = self.eras.enter_oldest();
        match way {
            Elsewhere::Copy(home) => {
                let result = self.members.read(home, part.offset, part.count).await;
                self.judge(part, home, result).await
            }
            Elsewhere::Rest(_) => self.rebuild_around(part).await,
        }
    }

    /// Waits for a read that nobody needs any more: its buffer is the device's until then.
    async fn await_late(
        self: Rc<Self>,
        _era: EraGuard,
        part: ChunkPart,
        home: Home,
        mut reading: Box<dyn Reading<I>>,
    ) {
        let result = poll_fn(|cx| reading.poll(cx)).await;
        self.readings.give_back(reading);
        self.judge(part, home, result).await;
    }
}
