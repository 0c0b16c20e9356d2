//! Hedged reads: reads that do not wait for slow members.
//!
//! While a member is in a latency spike, its data is reconstructed from the other columns of the stripe. When a read turns
//! out to be late, it is sent to an alternate as well, and the first answer counts (hedged requests, which FusionRAID,
//! FAST '21, section 4.3 suggests; ToleRAID reconstructs late data from parity). Both kinds of pool share this algorithm;
//! each supplies its copies and alternates as a [`HedgedSource`].
//!
//! A read in flight is never cancelled. A task of its own waits for the slower answer and holds a [guard], so that the
//! chunk being read is not reused before. Primary reads run in reusable slots, so that a read costs no allocation; the
//! futures of rare cases are boxed, so that the common case does not carry their size.
//!
//! [guard]: HedgedSource::ReadGuard

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::members::Members;
use sinew_core::buf::Buf;
use sinew_core::coverage::MarkName;
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};

/// A member with at most this number of requests in flight counts as idle.
const IDLE_REQUESTS: usize = 1;
/// A member with at most this number of requests in flight is not busy: an SSD has more dies.
const FEW_REQUESTS: u32 = 4;
/// Busy members are read instead of a slow one if each has this part of its requests in flight, or less. Where all are
/// equally busy, being late is the load's doing, and more reads add to it.
const BUSY_PART: usize = 2;

/// The result of reading a copy as it is.
pub type ReadResult = Result<Buf, IoError>;

/// A shard whose reads are hedged.
pub trait HedgedSource<I: Io>: Sized + 'static {
    /// A part of a chunk, which one read covers.
    type Part: Copy + 'static;
    /// A location that holds the part as it is.
    type Copy: Copy + 'static;
    /// Guard that keeps the chunk from being reused while an abandoned read is still in flight.
    type ReadGuard: 'static;
    /// The coverage marks of this kind of pool.
    const MARKS: HedgeMarks;

    /// The world.
    fn io(&self) -> &I;
    /// The members that the shard reads.
    fn members(&self) -> &Members<I>;
    /// The shard's reusable places for reads.
    fn read_slots(&self) -> &ReadSlots<Self, Self::Part, Self::Copy>;
    /// The member that holds a copy.
    fn member(&self, part: Self::Part, copy: Self::Copy) -> MemberId;
    /// An alternate source that involves no spiking member and not `copy`.
    fn alternate(&self, part: Self::Part, copy: Self::Copy) -> Option<Alternate<Self::Copy>>;
    /// Reads a copy as it is.
    fn read_copy(self: Rc<Self>, part: Self::Part, copy: Self::Copy) -> impl Future<Output = ReadResult>;
    /// Reads the part from the alternate, and verifies it; `None` when it cannot be read or is not known to be right.
    fn read_alternate(
        self: Rc<Self>,
        part: Self::Part,
        alternate: Alternate<Self::Copy>,
    ) -> impl Future<Output = Option<Buf>>;
    /// Takes the result of an abandoned read.
    fn late_read_done(
        self: Rc<Self>,
        part: Self::Part,
        copy: Self::Copy,
        result: ReadResult,
    ) -> impl Future<Output = ()>;
    /// A guard for a read that continues after its request has been answered.
    fn read_guard(&self) -> Self::ReadGuard;
}

/// Coverage marks of hedged reads in one kind of pool.
pub struct HedgeMarks {
    /// A read was reconstructed because its member is in a spike.
    pub around: MarkName,
    /// A read was late and was sent to an alternate as well.
    pub hedged: MarkName,
    /// The alternate answered first.
    pub won: MarkName,
    /// The primary answered first.
    pub lost: MarkName,
    /// The other members are as busy, or the hedge budget did not allow the extra reads.
    pub too_dear: MarkName,
}

/// Another source of the same data.
#[derive(Clone, Copy)]
pub enum Alternate<C> {
    /// Another copy.
    Mirror(C),
    /// From the other columns of the stripe.
    Reconstruct {
        /// Reads that the reconstruction takes.
        reads: usize,
        /// Requests that the members to be read have not answered yet, added up.
        in_flight: u32,
    },
}

/// The result of a hedged read.
pub enum ReadOutcome {
    /// The answer of the copy, which is not verified.
    Primary(ReadResult),
    /// Verified data from the alternate.
    Alternate(Buf),
}

/// A slot for primary reads, one at a time.
trait ReadSlot<S, P, C> {
    fn start(&mut self, shard: Rc<S>, part: P, copy: C);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReadResult>;
}

/// A slot for the futures that `make` makes.
struct FutureSlot<F, M> {
    future: Pin<Box<Option<F>>>,
    make: M,
}

impl<S, P, C, F, M> ReadSlot<S, P, C> for FutureSlot<F, M>
where
    F: Future<Output = ReadResult>,
    M: Fn(Rc<S>, P, C) -> F,
{
    fn start(&mut self, shard: Rc<S>, part: P, copy: C) {
        let future = (self.make)(shard, part, copy);
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

type BoxedSlot<S, P, C> = Box<dyn ReadSlot<S, P, C>>;
type SlotOf<I, S> = BoxedSlot<S, <S as HedgedSource<I>>::Part, <S as HedgedSource<I>>::Copy>;

fn new_slot<S, P, C, F, M>(make: M) -> BoxedSlot<S, P, C>
where
    F: Future<Output = ReadResult> + 'static,
    M: Fn(Rc<S>, P, C) -> F + 'static,
{
    Box::new(FutureSlot { future: Box::pin(None), make })
}

/// The free slots of one shard.
pub struct ReadSlots<S, P, C>(RefCell<Vec<BoxedSlot<S, P, C>>>);

impl<S, P, C> Default for ReadSlots<S, P, C> {
    fn default() -> Self {
        ReadSlots(RefCell::default())
    }
}

impl<S, P, C> ReadSlots<S, P, C> {
    fn take<I: Io>(&self) -> BoxedSlot<S, P, C>
    where
        S: HedgedSource<I, Part = P, Copy = C>,
    {
        let free = self.0.borrow_mut().pop();
        free.unwrap_or_else(|| new_slot(|shard: Rc<S>, part, copy| shard.read_copy(part, copy)))
    }

    fn give_back(&self, slot: BoxedSlot<S, P, C>) {
        self.0.borrow_mut().push(slot);
    }
}

/// Reads a part from `copy`, or from an alternate when the member of `copy` is in a spike or late.
pub async fn read<I: Io, S: HedgedSource<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> ReadOutcome {
    let members = shard.members();
    let member = shard.member(part, copy);
    members.latency.earn();
    if !members.responds(member)
        && let Some(buf) = Box::pin(reconstruct(shard, part, copy)).await
    {
        return ReadOutcome::Alternate(buf);
    }
    if !members.may_hedge() {
        return ReadOutcome::Primary(Rc::clone(shard).read_copy(part, copy).await);
    }
    let mut primary = shard.read_slots().take::<I>();
    primary.start(Rc::clone(shard), part, copy);
    let delays = members.latency.hedge_delays(member);
    let began = shard.io().now_coarse();
    let mut due = began + delays.idle_ns;
    loop {
        let mut deadline = members.deadlines.at(due);
        let in_time = poll_fn(|cx| match primary.poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if deadline.poll(cx, shard.io().now_coarse()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        drop(deadline);
        if let Some(result) = in_time {
            shard.read_slots().give_back(primary);
            return ReadOutcome::Primary(result);
        }
        let is_early = due < began + delays.ns;
        if let Some(alternate) = affordable(shard, part, copy, is_early) {
            return Box::pin(hedge(shard, part, copy, primary, alternate)).await;
        }
        // An alternate that is not possible now may be possible after the same delay.
        due = if is_early { began + delays.ns } else { due + delays.ns };
    }
}

/// Reconstructs the part, while its member is in a spike and enough of the others are not.
async fn reconstruct<I: Io, S: HedgedSource<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> Option<Buf> {
    let Some(alternate @ Alternate::Reconstruct { .. }) = shard.alternate(part, copy) else {
        return None;
    };
    let latency = &shard.members().latency;
    let load = Load::of(shard, part, copy, alternate);
    if !load.is_lower() || !latency.spend(load.reads.saturating_sub(1)) {
        shard.io().mark(S::MARKS.too_dear);
        return None;
    }
    let buf = Rc::clone(shard).read_alternate(part, alternate).await?;
    shard.io().mark(S::MARKS.around);
    latency.note(shard.member(part, copy), |tracked| {
        tracked.redirections += 1;
        tracked.reconstructions += 1;
    });
    Some(buf)
}

/// How busy the members of an alternate are, beside the member that is to be avoided.
#[derive(Clone, Copy)]
struct Load {
    /// Reads that the alternate takes, each of another member.
    reads: usize,
    /// Requests that these members have in flight, added up.
    in_flight: usize,
    /// Requests in flight to the member that is to be avoided.
    avoided: usize,
}

impl Load {
    fn of<I: Io, S: HedgedSource<I>>(
        shard: &Rc<S>,
        part: S::Part,
        copy: S::Copy,
        alternate: Alternate<S::Copy>,
    ) -> Load {
        let in_flight_to = |copy| shard.members().in_flight(shard.member(part, copy)) as usize;
        let (reads, in_flight) = match alternate {
            Alternate::Mirror(other) => (1, in_flight_to(other)),
            Alternate::Reconstruct { reads, in_flight } => (reads, in_flight as usize),
        };
        Load { reads, in_flight, avoided: in_flight_to(copy) }
    }

    /// Whether the members are idle, so that no other request waits for the extra reads.
    fn is_idle(self) -> bool {
        self.in_flight <= self.reads * IDLE_REQUESTS
    }

    /// Whether the members are so much less busy that they probably answer earlier.
    fn is_lower(self) -> bool {
        self.in_flight <= self.reads * FEW_REQUESTS as usize
            || self.in_flight * BUSY_PART <= self.reads * self.avoided
    }
}

impl<I: Io> Members<I> {
    /// Whether further requests wait for those that the member has in flight.
    pub fn is_busy(&self, member: MemberId) -> bool {
        self.in_flight(member) > FEW_REQUESTS
    }
}

/// An alternate for a part whose copy is late, if there is one, its members are less busy, and the hedge budget allows it.
/// For early hedging only if they are idle.
fn affordable<I: Io, S: HedgedSource<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    is_early: bool,
) -> Option<Alternate<S::Copy>> {
    let alternate = shard.alternate(part, copy)?;
    let latency = &shard.members().latency;
    let load = Load::of(shard, part, copy, alternate);
    if is_early {
        return (load.is_idle() && latency.spend_early(load.reads)).then_some(alternate);
    }
    let is_allowed = load.is_lower() && latency.spend(load.reads);
    if !is_allowed {
        shard.io().mark(S::MARKS.too_dear);
    }
    is_allowed.then_some(alternate)
}

/// Hedges a late read: reads from the alternate as well, and returns the first answer.
async fn hedge<I: Io, S: HedgedSource<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    mut primary: SlotOf<I, S>,
    alternate: Alternate<S::Copy>,
) -> ReadOutcome {
    shard.io().mark(S::MARKS.hedged);
    shard.members().latency.note(shard.member(part, copy), |tracked| {
        tracked.hedges += 1;
        tracked.reconstructions += u64::from(matches!(alternate, Alternate::Reconstruct { .. }));
    });
    let mut second = Box::pin(Rc::clone(shard).read_alternate(part, alternate));
    let mut second_failed = false;
    let first = poll_fn(|cx| {
        if let Poll::Ready(result) = primary.poll(cx) {
            return Poll::Ready(Ok(result));
        }
        if second_failed {
            return Poll::Pending;
        }
        match second.as_mut().poll(cx) {
            Poll::Ready(Some(buf)) => Poll::Ready(Err(buf)),
            Poll::Ready(None) => {
                second_failed = true;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    match first {
        Err(buf) => {
            shard.io().mark(S::MARKS.won);
            let guard = shard.read_guard();
            shard.io().spawn(await_late(Rc::clone(shard), guard, part, copy, primary));
            ReadOutcome::Alternate(buf)
        }
        Ok(result) => {
            shard.read_slots().give_back(primary);
            if !second_failed {
                shard.io().mark(S::MARKS.lost);
                shard.io().spawn(async move { drop(second.await) });
            }
            ReadOutcome::Primary(result)
        }
    }
}

/// Waits for an abandoned read: until it ends, its buffer belongs to the device.
async fn await_late<I: Io, S: HedgedSource<I>>(
    shard: Rc<S>,
    _guard: S::ReadGuard,
    part: S::Part,
    copy: S::Copy,
    mut primary: SlotOf<I, S>,
) {
    let result = poll_fn(|cx| primary.poll(cx)).await;
    shard.read_slots().give_back(primary);
    shard.late_read_done(part, copy, result).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equally_busy_members_are_no_alternate() {
        let load = |reads, in_flight, avoided| Load { reads, in_flight, avoided };
        // Few requests are no load, whatever the other member has.
        assert!(load(3, 12, 0).is_lower() && load(3, 3, 0).is_idle());
        assert!(!load(3, 13, 0).is_lower() && !load(3, 4, 0).is_idle());
        // Saturated members, and one on which requests pile up.
        assert!(!load(3, 96, 32).is_lower() && !load(1, 32, 40).is_lower());
        assert!(load(3, 24, 16).is_lower() && !load(3, 25, 16).is_lower());
    }
}
