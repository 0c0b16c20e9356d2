//! Reading around members that are late: from the rest of the stripe while a spike is on, and from elsewhere as well when
//! a read turns out to be late (hedged requests, which FusionRAID, FAST '21, section 4.3 suggests; ToleRAID rebuilds what
//! is late from parity).
//!
//! Here is what both kinds of pool have in common; [`Around`] asks for the rest: `read_around` of mapped pools, and
//! `array/around`.
//!
//! A read that is in flight is never given up: whichever answer comes second is waited for by a task of its own, inside
//! whatever keeps what is being read from being reused. What may be hedged lives in places that are used again, so that a
//! read costs no allocation; what few reads come to is in boxes, so that the others need not carry it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::members::Members;
use sinew_core::buf::Buf;
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};

/// A member has little to do with so many requests in flight.
const IDLE_REQUESTS: usize = 1;

/// The result of reading a copy as it is.
pub type ReadResult = Result<Buf, IoError>;

/// A shard that reads around members that are late.
pub trait HedgedSource<I: Io>: Sized + 'static {
    /// What is read.
    type Part: Copy + 'static;
    /// A place to read it from as it is.
    type Copy: Copy + 'static;
    /// Keeps what a read that nobody waits for still reads.
    type ReadGuard: 'static;
    /// The paths it names.
    const MARKS: HedgeMarks;

    /// The world.
    fn io(&self) -> &I;
    /// The members that the shard reads.
    fn members(&self) -> &Members<I>;
    /// The shard's reusable places for reads.
    fn read_slots(&self) -> &ReadSlots<Self, Self::Part, Self::Copy>;
    /// The member that a copy is on.
    fn member(&self, part: Self::Part, copy: Self::Copy) -> MemberId;
    /// A way to the data that meets no member in a spike, and not this copy.
    fn alternate(&self, part: Self::Part, copy: Self::Copy) -> Option<Alternate<Self::Copy>>;
    /// Reads a copy as it is.
    fn read_copy(self: Rc<Self>, part: Self::Part, copy: Self::Copy) -> impl Future<Output = ReadResult>;
    /// Reads that way what is known to be right; none when it cannot be had.
    fn read_alternate(
        self: Rc<Self>,
        part: Self::Part,
        way: Alternate<Self::Copy>,
    ) -> impl Future<Output = Option<Buf>>;
    /// What a read that nobody waited for came to.
    fn late_read_done(
        self: Rc<Self>,
        part: Self::Part,
        copy: Self::Copy,
        result: ReadResult,
    ) -> impl Future<Output = ()>;
    /// To be held by a read that goes on after the request that began it has ended.
    fn read_guard(&self) -> Self::ReadGuard;
}

/// The paths of one kind of pool.
pub struct HedgeMarks {
    /// A read was reconstructed because its member is in a spike.
    pub around: Mark,
    /// A read was late and was sent to an alternate as well.
    pub hedged: Mark,
    /// The alternate answered first.
    pub won: Mark,
    /// The primary answered first.
    pub lost: Mark,
    /// The hedge budget did not allow the extra reads.
    pub too_dear: Mark,
}

/// Another way to the same data.
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

/// What a read came to.
pub enum ReadOutcome {
    /// What the copy gave, good or not.
    Primary(ReadResult),
    /// What was had in another way; it is right.
    Alternate(Buf),
}

/// A place for reads, one at a time.
trait Reading<S, P, C> {
    fn start(&mut self, shard: Rc<S>, part: P, copy: C);
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ReadResult>;
}

struct Place<F, M> {
    future: Pin<Box<Option<F>>>,
    make: M,
}

impl<S, P, C, F, M> Reading<S, P, C> for Place<F, M>
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

type OneReading<S, P, C> = Box<dyn Reading<S, P, C>>;
type ReadingOf<I, S> = OneReading<S, <S as HedgedSource<I>>::Part, <S as HedgedSource<I>>::Copy>;

fn place<S, P, C, F, M>(make: M) -> OneReading<S, P, C>
where
    F: Future<Output = ReadResult> + 'static,
    M: Fn(Rc<S>, P, C) -> F + 'static,
{
    Box::new(Place { future: Box::pin(None), make })
}

/// Places that are free.
pub struct ReadSlots<S, P, C>(RefCell<Vec<OneReading<S, P, C>>>);

impl<S, P, C> Default for ReadSlots<S, P, C> {
    fn default() -> Self {
        ReadSlots(RefCell::default())
    }
}

impl<S, P, C> ReadSlots<S, P, C> {
    fn take<I: Io>(&self) -> OneReading<S, P, C>
    where
        S: HedgedSource<I, Part = P, Copy = C>,
    {
        let free = self.0.borrow_mut().pop();
        free.unwrap_or_else(|| place(|shard: Rc<S>, part, copy| shard.read_copy(part, copy)))
    }

    fn give_back(&self, place: OneReading<S, P, C>) {
        self.0.borrow_mut().push(place);
    }
}

/// Reads a part from this copy, not waiting for a member that is late if it can be had otherwise.
pub async fn read<I: Io, S: HedgedSource<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> ReadOutcome {
    let members = shard.members();
    let member = shard.member(part, copy);
    members.responses.earn();
    if !members.responds(member)
        && let Some(buf) = Box::pin(read_rest(shard, part, copy)).await
    {
        return ReadOutcome::Alternate(buf);
    }
    if !members.may_hedge() {
        return ReadOutcome::Primary(Rc::clone(shard).read_copy(part, copy).await);
    }
    let mut reading = shard.read_slots().take::<I>();
    reading.start(Rc::clone(shard), part, copy);
    let (early_ns, late_ns) = members.responses.hedges_after_ns(member);
    let began = shard.io().now_coarse();
    let mut due = began + early_ns;
    loop {
        let mut alarm = members.alarms.at(due);
        let in_time = poll_fn(|cx| match reading.poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if alarm.poll(cx, shard.io().now_coarse()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await;
        drop(alarm);
        if let Some(result) = in_time {
            shard.read_slots().give_back(reading);
            return ReadOutcome::Primary(result);
        }
        let is_early = due < began + late_ns;
        if let Some(way) = affordable(shard, part, copy, is_early) {
            return Box::pin(hedge(shard, part, copy, reading, way)).await;
        }
        // What cannot be done now may be possible after as long again.
        due = if is_early { began + late_ns } else { due + late_ns };
    }
}

/// The part from the rest of its stripe, while its member does not respond and enough others do.
async fn read_rest<I: Io, S: HedgedSource<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> Option<Buf> {
    let Some(way @ Alternate::Reconstruct { reads, .. }) = shard.alternate(part, copy) else { return None };
    let responses = &shard.members().responses;
    if !responses.spend(reads.saturating_sub(1)) {
        shard.io().mark(S::MARKS.too_dear);
        return None;
    }
    let buf = Rc::clone(shard).read_alternate(part, way).await?;
    shard.io().mark(S::MARKS.around);
    responses.note(shard.member(part, copy), |watch| {
        watch.redirections += 1;
        watch.reconstructions += 1;
    });
    Some(buf)
}

/// A way to the data of a part whose copy here is late, if there is one and it may be gone; while it is early, only if
/// nobody has to wait for that.
fn affordable<I: Io, S: HedgedSource<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    is_early: bool,
) -> Option<Alternate<S::Copy>> {
    let way = shard.alternate(part, copy)?;
    let (reads, in_flight) = match way {
        Alternate::Mirror(other) => (1, shard.members().in_flight(shard.member(part, other))),
        Alternate::Reconstruct { reads, in_flight } => (reads, in_flight),
    };
    let responses = &shard.members().responses;
    if is_early {
        let is_idle = in_flight as usize <= reads * IDLE_REQUESTS;
        return (is_idle && responses.spend_early(reads)).then_some(way);
    }
    let is_paid = responses.spend(reads);
    if !is_paid {
        shard.io().mark(S::MARKS.too_dear);
    }
    is_paid.then_some(way)
}

/// A read is late: asks elsewhere too, and takes what comes first.
async fn hedge<I: Io, S: HedgedSource<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    mut reading: ReadingOf<I, S>,
    way: Alternate<S::Copy>,
) -> ReadOutcome {
    shard.io().mark(S::MARKS.hedged);
    shard.members().responses.note(shard.member(part, copy), |watch| {
        watch.hedges += 1;
        watch.reconstructions += u64::from(matches!(way, Alternate::Reconstruct { .. }));
    });
    let mut second = Box::pin(Rc::clone(shard).read_alternate(part, way));
    let mut second_failed = false;
    let first = poll_fn(|cx| {
        if let Poll::Ready(result) = reading.poll(cx) {
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
            let stay = shard.read_guard();
            shard.io().spawn(await_late(Rc::clone(shard), stay, part, copy, reading));
            ReadOutcome::Alternate(buf)
        }
        Ok(result) => {
            shard.read_slots().give_back(reading);
            if !second_failed {
                shard.io().mark(S::MARKS.lost);
                shard.io().spawn(async move { drop(second.await) });
            }
            ReadOutcome::Primary(result)
        }
    }
}

/// Waits for a read that nobody needs any more: its buffer is the device's until then.
async fn await_late<I: Io, S: HedgedSource<I>>(
    shard: Rc<S>,
    _stay: S::ReadGuard,
    part: S::Part,
    copy: S::Copy,
    mut reading: ReadingOf<I, S>,
) {
    let result = poll_fn(|cx| reading.poll(cx)).await;
    shard.read_slots().give_back(reading);
    shard.late_read_done(part, copy, result).await;
}
