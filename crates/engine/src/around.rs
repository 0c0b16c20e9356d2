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

use crate::addr::MemberId;
use crate::buf::Buf;
use crate::io::{Io, IoError};
use crate::member::Members;
use crate::paths::Path;

/// A member has little to do with so many requests in flight.
const IDLE_REQUESTS: usize = 1;

pub(crate) type ReadResult = Result<Buf, IoError>;

/// A shard that reads around members that are late.
pub(crate) trait Around<I: Io>: Sized + 'static {
    /// What is read.
    type Part: Copy + 'static;
    /// A place to read it from as it is.
    type Copy: Copy + 'static;
    /// Keeps what a read that nobody waits for still reads.
    type Stay: 'static;
    /// The paths it names.
    const PATHS: AroundPaths;

    fn io(&self) -> &I;
    fn members(&self) -> &Members<I>;
    fn readings(&self) -> &Readings<Self, Self::Part, Self::Copy>;
    /// The member that a copy is on.
    fn member(&self, part: Self::Part, copy: Self::Copy) -> MemberId;
    /// A way to the data that meets no member in a spike, and not this copy.
    fn elsewhere(&self, part: Self::Part, copy: Self::Copy) -> Option<Elsewhere<Self::Copy>>;
    /// Reads a copy as it is.
    fn read_copy(self: Rc<Self>, part: Self::Part, copy: Self::Copy) -> impl Future<Output = ReadResult>;
    /// Reads that way what is known to be right; none when it cannot be had.
    fn read_elsewhere(
        self: Rc<Self>,
        part: Self::Part,
        way: Elsewhere<Self::Copy>,
    ) -> impl Future<Output = Option<Buf>>;
    /// What a read that nobody waited for came to.
    fn judge_late(
        self: Rc<Self>,
        part: Self::Part,
        copy: Self::Copy,
        result: ReadResult,
    ) -> impl Future<Output = ()>;
    /// To be held by a read that goes on after the request that began it has ended.
    fn stay(&self) -> Self::Stay;
}

/// The paths of one kind of pool.
pub(crate) struct AroundPaths {
    pub(crate) around: Path,
    pub(crate) hedged: Path,
    pub(crate) won: Path,
    pub(crate) lost: Path,
    pub(crate) too_dear: Path,
}

/// Another way to the same data.
#[derive(Clone, Copy)]
pub(crate) enum Elsewhere<C> {
    Copy(C),
    /// So many reads of the rest of the stripe, on members with so many requests in flight.
    Rest {
        reads: usize,
        in_flight: u32,
    },
}

/// What a read came to.
pub(crate) enum Found {
    /// What the copy gave, good or not.
    There(ReadResult),
    /// What was had in another way; it is right.
    Elsewhere(Buf),
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
type ReadingOf<I, S> = OneReading<S, <S as Around<I>>::Part, <S as Around<I>>::Copy>;

fn place<S, P, C, F, M>(make: M) -> OneReading<S, P, C>
where
    F: Future<Output = ReadResult> + 'static,
    M: Fn(Rc<S>, P, C) -> F + 'static,
{
    Box::new(Place { future: Box::pin(None), make })
}

/// Places that are free.
pub(crate) struct Readings<S, P, C>(RefCell<Vec<OneReading<S, P, C>>>);

impl<S, P, C> Default for Readings<S, P, C> {
    fn default() -> Self {
        Readings(RefCell::default())
    }
}

impl<S, P, C> Readings<S, P, C> {
    fn take<I: Io>(&self) -> OneReading<S, P, C>
    where
        S: Around<I, Part = P, Copy = C>,
    {
        let free = self.0.borrow_mut().pop();
        free.unwrap_or_else(|| place(|shard: Rc<S>, part, copy| shard.read_copy(part, copy)))
    }

    fn give_back(&self, place: OneReading<S, P, C>) {
        self.0.borrow_mut().push(place);
    }
}

/// Reads a part from this copy, not waiting for a member that is late if it can be had otherwise.
pub(crate) async fn read<I: Io, S: Around<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> Found {
    let members = shard.members();
    let member = shard.member(part, copy);
    members.responses.earn();
    if !members.responds(member)
        && let Some(buf) = Box::pin(read_rest(shard, part, copy)).await
    {
        return Found::Elsewhere(buf);
    }
    if !members.may_hedge() {
        return Found::There(Rc::clone(shard).read_copy(part, copy).await);
    }
    let mut reading = shard.readings().take::<I>();
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
            shard.readings().give_back(reading);
            return Found::There(result);
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
async fn read_rest<I: Io, S: Around<I>>(shard: &Rc<S>, part: S::Part, copy: S::Copy) -> Option<Buf> {
    let Some(way @ Elsewhere::Rest { reads, .. }) = shard.elsewhere(part, copy) else { return None };
    let responses = &shard.members().responses;
    if !responses.spend(reads.saturating_sub(1)) {
        shard.io().reach(S::PATHS.too_dear);
        return None;
    }
    let buf = Rc::clone(shard).read_elsewhere(part, way).await?;
    shard.io().reach(S::PATHS.around);
    responses.note(shard.member(part, copy), |watch| {
        watch.redirections += 1;
        watch.reconstructions += 1;
    });
    Some(buf)
}

/// A way to the data of a part whose copy here is late, if there is one and it may be gone; while it is early, only if
/// nobody has to wait for that.
fn affordable<I: Io, S: Around<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    is_early: bool,
) -> Option<Elsewhere<S::Copy>> {
    let way = shard.elsewhere(part, copy)?;
    let (reads, in_flight) = match way {
        Elsewhere::Copy(other) => (1, shard.members().in_flight(shard.member(part, other))),
        Elsewhere::Rest { reads, in_flight } => (reads, in_flight),
    };
    let responses = &shard.members().responses;
    if is_early {
        let is_idle = in_flight as usize <= reads * IDLE_REQUESTS;
        return (is_idle && responses.spend_early(reads)).then_some(way);
    }
    let is_paid = responses.spend(reads);
    if !is_paid {
        shard.io().reach(S::PATHS.too_dear);
    }
    is_paid.then_some(way)
}

/// A read is late: asks elsewhere too, and takes what comes first.
async fn hedge<I: Io, S: Around<I>>(
    shard: &Rc<S>,
    part: S::Part,
    copy: S::Copy,
    mut reading: ReadingOf<I, S>,
    way: Elsewhere<S::Copy>,
) -> Found {
    shard.io().reach(S::PATHS.hedged);
    shard.members().responses.note(shard.member(part, copy), |watch| {
        watch.hedges += 1;
        watch.reconstructions += u64::from(matches!(way, Elsewhere::Rest { .. }));
    });
    let mut second = Box::pin(Rc::clone(shard).read_elsewhere(part, way));
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
            shard.io().reach(S::PATHS.won);
            let stay = shard.stay();
            shard.io().spawn(await_late(Rc::clone(shard), stay, part, copy, reading));
            Found::Elsewhere(buf)
        }
        Ok(result) => {
            shard.readings().give_back(reading);
            if !second_failed {
                shard.io().reach(S::PATHS.lost);
                shard.io().spawn(async move { drop(second.await) });
            }
            Found::There(result)
        }
    }
}

/// Waits for a read that nobody needs any more: its buffer is the device's until then.
async fn await_late<I: Io, S: Around<I>>(
    shard: Rc<S>,
    _stay: S::Stay,
    part: S::Part,
    copy: S::Copy,
    mut reading: ReadingOf<I, S>,
) {
    let result = poll_fn(|cx| reading.poll(cx)).await;
    shard.readings().give_back(reading);
    shard.judge_late(part, copy, result).await;
}
