//! The gate of a shard: gives each volume its share of the shard while several are active.
//!
//! Without it, a volume takes what its queue depth takes. Members serve requests about in the order of their arrival, so one
//! request of a quiet volume waits behind all that a greedy one has sent. The gate keeps these requests waiting in front of the
//! shard, where the next one can be chosen, and lets only a window of work into it.
//!
//! - **Cost.** A request costs its bytes and a fixed part; bytes that are written cost more, since they are written several times,
//!   and flash writes more slowly than it reads. Flushes, discards and requests for the map of a volume pass freely: others may
//!   wait for what they do.
//! - **Share.** While a volume has less work in the shard than its part of the window, its requests enter at once. One that wants
//!   more is *backlogged* until it has none waiting and at most half of its share in the shard. Reads and writes are counted
//!   apart: where writes are late, reads of the same volume may be not, and need not wait for them.
//! - **Grace** (`grace.rs`). A volume that kept to its share lately may have more for a moment, so bursts enter at once, too. With
//!   `Shares::Latency` there is none.
//! - **Order.** Backlogged volumes take turns by start-time fair queuing (Goyal, Vin and Cheng, 1996): each has a start tag,
//!   where its last request ends in virtual time; the lowest has the next turn. Volumes that always have requests waiting are so
//!   served equal costs, whatever they send. Reads of a volume enter before its writes, since clients wait for reads while they
//!   gather writes; one write enters after four reads (`flow.rs`). Otherwise they enter in the order in which they came.
//! - **Window** (`window.rs`). A request enters while the work of backlogged volumes is less than the window, so one larger than
//!   the window does, too. After such a one the gate pauses, so that on average no more than the window is under way; at most
//!   [`PAUSE_MAX`] times as long as the request took.
//! - **Overdue requests.** One that has been in the shard for much longer than its kind takes lately waits for a member that has
//!   stopped, or for space that others are to give back. It does not count as work any more, and tells nothing when it ends, so the
//!   others go on beside it.
//! - **Wake-ups.** A request that ends lets the next ones in, and so do the end of a pause and a request that becomes overdue.
//!
//! A volume alone is not charged, and passes after one comparison. It is alone once no other has had a request for
//! [`ACTIVE_NS`]. Each shard has a gate of its own, on its thread, without locks: the extents of a volume are dealt to all shards
//! alike, so equal shares of each shard are equal shares of the pool.

mod flow;
mod grace;
mod window;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::gate::flow::{Flow, Waiting};
use crate::gate::window::{Beside, Class, Demand, Ended, Window};
use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Promise, promise};
use sinew_format::model::policy::Shares;
use sinew_members::message::Request;
use sinew_members::status::Delayed;

/// The fixed part of the cost of a request, in bytes.
const FIXED_COST: u64 = 16 << 10;
/// What a byte written costs.
const WRITE_COST: u64 = 8;
/// For how long a volume is active after its last request.
const ACTIVE_NS: u64 = 250_000_000;
/// How often the active volumes are counted.
const COUNT_NS: u64 = 50_000_000;
/// The longest pause after a request: in multiples of the time that it took, and for any.
const PAUSE_MAX: u64 = 7;
const PAUSE_MAX_NS: u64 = 100_000_000;
/// What a volume may always have in the shard at once: a small request.
const SHARE_LEAST: u64 = 64 << 10;
/// For how long requests that were not charged may disturb others after the last of them has entered.
const UNCHARGED_NS: u64 = 100_000_000;
/// How soon, and how late, requests that have become overdue are looked for while others wait and none ends.
const LOOK_LEAST_NS: u64 = 1_000_000;
const LOOK_MOST_NS: u64 = 100_000_000;

/// Which requests are not charged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Free {
    None,
    /// Those of the only volume that is active.
    Of(VolumeId),
    All,
}

/// When a request is overdue, and a number.
type Age = (u64, u64);

/// A request in the shard that counts as work.
struct Work {
    volume: VolumeId,
    cost: u64,
    class: Class,
    /// When it entered.
    at: u64,
}

struct State<I: Io> {
    flows: BTreeMap<VolumeId, Flow<Entered<I>>>,
    active: u64,
    counted_at: u64,
    /// The volumes that have requests waiting, by start tag, then by the arrival of the request that waits longest.
    turns: BTreeSet<(u64, u64, VolumeId)>,
    arrivals: u64,
    virtual_time: u64,
    /// Cost of the requests in the shard that count as work: of all, and of backlogged volumes.
    inside_all: u64,
    inside: u64,
    by_age: BTreeMap<Age, Work>,
    entries: u64,
    window: Window,
    pause_until: u64,
    /// Whether a task waits for the end of the pause.
    pause_awaited: bool,
    /// Until when requests that were not charged may be in the shard.
    uncharged_until: u64,
    /// Whether a task looks for overdue requests.
    watched: bool,
}

/// The gate of one shard.
pub(crate) struct Gate<I: Io> {
    io: I,
    free: Cell<Free>,
    state: RefCell<State<I>>,
    /// Requests are being let in. One that nothing waits for any more leaves at once, and lets no others in by itself.
    lets_in: Cell<bool>,
}

/// A request in the shard. It leaves when this is dropped, at the latest.
pub(crate) struct Entered<I: Io> {
    gate: Rc<Gate<I>>,
    /// Its place among those that count as work.
    age: Age,
    of: Demand,
    beside: Beside,
    /// Whether the time that it took tells what members take.
    tells: bool,
}

impl<I: Io> Entered<I> {
    /// Leaves the shard. `tells`: the answer is good, and members were waited for; reads of blocks without content, for example,
    /// take no time and tell nothing.
    pub(crate) fn leave(mut self, tells: bool) {
        self.tells = tells || mutation::on(Mutation::NoteAllLatencies);
    }
}

impl<I: Io> Drop for Entered<I> {
    fn drop(&mut self) {
        self.gate.leave(self);
    }
}

/// How a request enters.
pub(crate) enum Entry<I: Io> {
    /// At once, and uncharged.
    Free,
    /// At once.
    Now(Entered<I>),
    /// In its turn.
    Later(Promise<Entered<I>>),
}

/// Cost and class of a request; `None` for those that pass freely.
fn cost_of(request: &Request) -> Option<(u64, Class)> {
    let (is_write, blocks) = match request {
        Request::Read { count, .. } => (false, u64::from(*count)),
        Request::Write { .. } | Request::Merge { .. } => (true, request.stored_blocks()),
        Request::Unmap { .. } | Request::Extents { .. } | Request::Flush => return None,
    };
    let byte = if is_write { WRITE_COST } else { 1 };
    Some((FIXED_COST + blocks * BLOCK_BYTES as u64 * byte, Class::of(is_write, blocks)))
}

impl<I: Io> State<I> {
    /// The state of a volume that has a request now.
    fn flow(&mut self, volume: VolumeId, now: u64) -> &mut Flow<Entered<I>> {
        let flow = self.flows.entry(volume).or_default();
        if !flow.is_active(now) {
            self.active += 1;
        }
        flow.active_until = now + ACTIVE_NS;
        flow
    }

    /// Counts the active volumes again, if that was some time ago.
    fn count_active(&mut self, now: u64) {
        if now >= self.counted_at + COUNT_NS {
            self.counted_at = now;
            self.active = self.flows.values().filter(|flow| flow.is_active(now)).count() as u64;
        }
    }

    /// What a volume may have in the shard without taking turns.
    fn share_of(&self, window: u64) -> u64 {
        (window / self.active.max(1)).max(SHARE_LEAST)
    }

    /// What is in the shard beside a request that counts as work.
    fn beside(&mut self, volume: VolumeId, class: Class, cost: u64) -> Beside {
        let least = self.window.least();
        if self.inside_all - cost <= least {
            return Beside::Little;
        }
        let is_backlogged = self.flows.entry(volume).or_default().lane(class).backlogged;
        let own = if is_backlogged { cost } else { 0 };
        if self.inside - own <= least { Beside::Others } else { Beside::Much }
    }

    fn is_open(&self, now: u64) -> bool {
        self.inside < self.window.size(now) && now >= self.pause_until
    }

    /// The start tag of a volume whose last turn ended at this virtual time.
    fn start_tag(&self, end_tag: u64) -> u64 {
        if mutation::on(Mutation::ShareByArrival) { 0 } else { self.virtual_time.max(end_tag) }
    }

    /// Moves virtual time to the turn of a request that enters.
    fn take_turn(&mut self, volume: VolumeId, start: u64, cost: u64) {
        self.virtual_time = self.virtual_time.max(start);
        self.flows.entry(volume).or_default().end_tag = start + cost;
    }

    /// Counts a request as work until it ends or is overdue.
    fn count(&mut self, work: Work) -> Age {
        self.inside_all += work.cost;
        let lane = self.flows.entry(work.volume).or_default().lane(work.class);
        lane.inside += work.cost;
        if lane.backlogged {
            self.inside += work.cost;
        }
        self.entries += 1;
        let age = (work.at + self.window.overdue_ns(work.class), self.entries);
        self.by_age.insert(age, work);
        age
    }

    /// Takes a request from those that count as work.
    fn uncount(&mut self, now: u64, work: &Work) {
        self.inside_all -= work.cost;
        let share = self.share_of(self.window.size(now));
        let lane = self.flows.entry(work.volume).or_default().lane(work.class);
        lane.inside -= work.cost;
        if lane.backlogged {
            self.inside -= work.cost;
        }
        if lane.waiting.is_empty() && lane.inside <= share / 2 {
            lane.grace.note(now, false);
            if std::mem::take(&mut lane.backlogged) {
                self.inside -= lane.inside;
            }
        }
    }

    /// When the first request that counts as work will be overdue.
    fn overdue_at(&self) -> u64 {
        self.by_age.first_key_value().map_or(u64::MAX, |(&(overdue_at, _), _)| overdue_at)
    }

    /// Takes a request that is overdue from those that count as work, if there is one. Others may enter then.
    fn uncount_overdue(&mut self, now: u64) -> bool {
        if self.overdue_at() > now || mutation::on(Mutation::CountOverdue) {
            return false;
        }
        let Some((_, work)) = self.by_age.pop_first() else { return false };
        self.window.note_overdue(work.class, now - work.at);
        self.uncount(now, &work);
        true
    }

    /// Takes the request whose turn it is.
    fn next(&mut self, now: u64) -> Option<(VolumeId, Waiting<Entered<I>>)> {
        let (start, _, volume) = self.turns.pop_first()?;
        let waiting = self.flows.get_mut(&volume)?.take_next()?;
        self.take_turn(volume, start, waiting.cost);
        let flow = self.flows.entry(volume).or_default();
        flow.delayed.requests += 1;
        flow.delayed.ns += now - waiting.since;
        let (end_tag, since) = (flow.end_tag, flow.waits_since());
        if let Some(arrival) = since {
            self.turns.insert((self.start_tag(end_tag), arrival, volume));
        }
        Some((volume, waiting))
    }
}

impl<I: Io> Gate<I> {
    /// The gate of a shard whose part of the work is that of this number of members.
    pub(crate) fn new(io: I, members: usize) -> Rc<Gate<I>> {
        let state = State {
            flows: BTreeMap::new(),
            active: 0,
            counted_at: 0,
            turns: BTreeSet::new(),
            arrivals: 0,
            virtual_time: 0,
            inside_all: 0,
            inside: 0,
            by_age: BTreeMap::new(),
            entries: 0,
            window: Window::new(members as u64),
            pause_until: 0,
            pause_awaited: false,
            uncharged_until: 0,
            watched: false,
        };
        Rc::new(Gate {
            io,
            free: Cell::new(Free::None),
            state: RefCell::new(state),
            lets_in: Cell::new(false),
        })
    }

    /// Lets a request of a volume enter, or tells it to wait.
    pub(crate) fn enter(self: &Rc<Self>, volume: VolumeId, request: &Request) -> Entry<I> {
        match self.free.get() {
            Free::Of(only) if only == volume => Entry::Free,
            Free::All => Entry::Free,
            free => self.enter_charged(volume, request, free),
        }
    }

    fn enter_charged(self: &Rc<Self>, volume: VolumeId, request: &Request, free: Free) -> Entry<I> {
        let Some((cost, class)) = cost_of(request) else { return Entry::Free };
        let now = self.io.now_coarse();
        self.look_for_overdue(now);
        let mut state = self.state.borrow_mut();
        if let Free::Of(other) = free {
            // It was not charged so far, and is taken for active, and for one that had more than its share.
            self.free.set(Free::None);
            state.uncharged_until = now + UNCHARGED_NS;
            state.flow(other, now).use_up_grace(now);
        }
        state.flow(volume, now);
        state.count_active(now);
        if state.active == 1 {
            drop(state);
            self.free.set(Free::Of(volume));
            self.let_all_in();
            return Entry::Free;
        }
        let share = state.share_of(state.window.size(now));
        let quiet_share = state.share_of(state.window.least());
        let has_grace = !state.window.uses_tail();
        let flow = state.flow(volume, now);
        let is_quiet = flow.inside() + cost <= quiet_share;
        let (end_tag, waits) = (flow.end_tag, flow.waits());
        let lane = flow.lane(class);
        let fits = lane.inside + cost <= share;
        if !fits {
            lane.grace.note(now, true);
        }
        if !lane.backlogged && (fits || has_grace && lane.grace.is_left(now)) {
            let of = if is_quiet { Demand::Quiet } else { Demand::Below };
            return Entry::Now(self.entered(&mut state, volume, cost, class, of));
        }
        let inside = lane.inside;
        if !std::mem::replace(&mut lane.backlogged, true) {
            state.inside += inside;
        }
        let start = state.start_tag(end_tag);
        if state.turns.is_empty() && state.is_open(now) {
            state.take_turn(volume, start, cost);
            return Entry::Now(self.entered(&mut state, volume, cost, class, Demand::Backlogged));
        }
        let (enter, entered) = promise();
        state.arrivals += 1;
        let arrival = state.arrivals;
        if !waits {
            state.turns.insert((start, arrival, volume));
        }
        state.flow(volume, now).queue(Waiting { arrival, cost, class, since: now, enter });
        self.await_pause(&mut state, now);
        if !std::mem::replace(&mut state.watched, true) {
            self.io.spawn(Rc::clone(self).watch());
        }
        Entry::Later(entered)
    }

    /// A request that is in the shard from now on.
    fn entered(
        self: &Rc<Self>,
        state: &mut State<I>,
        volume: VolumeId,
        cost: u64,
        class: Class,
        of: Demand,
    ) -> Entered<I> {
        let at = self.io.now();
        let age = state.count(Work { volume, cost, class, at });
        let is_known = at >= state.uncharged_until;
        let beside = if is_known { state.beside(volume, class, cost) } else { Beside::Much };
        Entered { gate: Rc::clone(self), age, of, beside, tells: false }
    }

    /// A request has ended.
    fn leave(self: &Rc<Self>, left: &Entered<I>) {
        let Entered { ref age, of, beside, tells, .. } = *left;
        let now = self.io.now();
        self.look_for_overdue(now);
        let mut state = self.state.borrow_mut();
        // An overdue request does not count any more.
        let Some(work) = state.by_age.remove(age) else { return };
        let Work { volume, cost, class, at } = work;
        if tells {
            let (ns, size) = (now - at, state.window.size(now));
            if of == Demand::Backlogged && cost > size {
                let pause = (u128::from(ns) * u128::from(cost - size) / u128::from(size)) as u64;
                state.pause_until = state.pause_until.max(now + pause.min(PAUSE_MAX * ns).min(PAUSE_MAX_NS));
            }
            let beside = beside.max(state.beside(volume, class, cost));
            state.window.note(now, Ended { class, cost, ns, of, beside });
        }
        state.uncount(now, &work);
        drop(state);
        if !mutation::on(Mutation::ShareUnwoken) {
            self.let_in();
        }
    }

    /// Lets in those that may enter now.
    fn let_in(self: &Rc<Self>) {
        if self.lets_in.replace(true) {
            return;
        }
        let now = self.io.now();
        while let Some((volume, next)) = self.next_if_open(now) {
            self.give_turn(volume, next);
        }
        self.lets_in.set(false);
    }

    /// Lets in all those that wait.
    fn let_all_in(self: &Rc<Self>) {
        let now = self.io.now();
        while let Some((volume, next)) = { self.state.borrow_mut().next(now) } {
            self.give_turn(volume, next);
        }
    }

    /// Lets requests in if others have become overdue.
    fn look_for_overdue(self: &Rc<Self>, now: u64) {
        if self.state.borrow().overdue_at() <= now {
            self.let_in();
        }
    }

    fn next_if_open(self: &Rc<Self>, now: u64) -> Option<(VolumeId, Waiting<Entered<I>>)> {
        let mut state = self.state.borrow_mut();
        while state.uncount_overdue(now) {
            self.io.mark(Mark::GateOverdue);
        }
        if state.is_open(now) {
            return state.next(now);
        }
        self.await_pause(&mut state, now);
        None
    }

    fn give_turn(self: &Rc<Self>, volume: VolumeId, next: Waiting<Entered<I>>) {
        let Waiting { cost, class, enter, .. } = next;
        // If nothing waits for it any more, it leaves at once.
        let mut state = self.state.borrow_mut();
        let entered = self.entered(&mut state, volume, cost, class, Demand::Backlogged);
        drop(state);
        enter.fulfil(entered);
    }

    /// Sees to it that requests that wait enter at the end of the pause, if there is one.
    fn await_pause(self: &Rc<Self>, state: &mut State<I>, now: u64) {
        if now >= state.pause_until || state.turns.is_empty() || state.pause_awaited {
            return;
        }
        state.pause_awaited = true;
        let (gate, ns) = (Rc::clone(self), state.pause_until - now);
        self.io.spawn(async move {
            gate.io.sleep(ns).await;
            gate.state.borrow_mut().pause_awaited = false;
            gate.let_in();
        });
    }

    /// Lets requests enter when others become overdue, as long as any wait.
    async fn watch(self: Rc<Self>) {
        loop {
            let now = self.io.now();
            self.look_for_overdue(now);
            let overdue_at = {
                let mut state = self.state.borrow_mut();
                if state.turns.is_empty() {
                    state.watched = false;
                    return;
                }
                state.overdue_at()
            };
            self.io.sleep(overdue_at.saturating_sub(now).clamp(LOOK_LEAST_NS, LOOK_MOST_NS)).await;
        }
    }

    /// Sets what volumes get that are active at the same time.
    pub(crate) fn set(self: &Rc<Self>, shares: Shares) {
        let is_off = shares == Shares::Off;
        self.free.set(if is_off { Free::All } else { Free::None });
        let mut state = self.state.borrow_mut();
        state.uncharged_until = self.io.now() + UNCHARGED_NS;
        state.window.set_tail(shares == Shares::Latency);
        drop(state);
        if is_off {
            self.let_all_in();
        }
    }

    /// Forgets a volume that was deleted.
    pub(crate) fn forget(&self, volume: VolumeId) {
        let flows = &mut self.state.borrow_mut().flows;
        flows.retain(|&id, flow| id != volume || flow.inside() > 0 || flow.waits());
    }

    /// Requests of each volume that waited for their turn.
    pub(crate) fn delayed(&self) -> BTreeMap<VolumeId, Delayed> {
        let delayed = |(&id, flow): (&VolumeId, &Flow<Entered<I>>)| (id, flow.delayed);
        self.state.borrow().flows.iter().map(delayed).filter(|(_, delayed)| delayed.requests > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_core::buf::Buf;

    #[test]
    fn only_reads_and_writes_cost() {
        let read = cost_of(&Request::Read { local: 7, count: 64 });
        assert_eq!(read, Some((FIXED_COST + (256 << 10), Class::of(false, 64))));
        let write = cost_of(&Request::Write { local: 7, data: Buf::zeroed(64 * BLOCK_BYTES) });
        assert_eq!(write, Some((FIXED_COST + WRITE_COST * (256 << 10), Class::of(true, 64))));
        let merge = cost_of(&Request::Merge { local: 7, at: 3, bytes: vec![1] });
        assert_eq!(merge, Some((FIXED_COST + WRITE_COST * BLOCK_BYTES as u64, Class::of(true, 1))));
        assert!(merge.is_some_and(|(cost, _)| cost <= SHARE_LEAST));
        let free =
            [Request::Flush, Request::Unmap { local: 0, count: 9 }, Request::Extents { local: 0, count: 9 }];
        assert!(free.iter().all(|request| cost_of(request).is_none()));
    }
}
