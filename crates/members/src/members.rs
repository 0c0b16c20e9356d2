//! The members of a pool as one shard uses them: device, state, requests in flight, errors and latency of each.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use async_channel::Sender;

use crate::deadlines::Deadlines;
use crate::full_members::{FullMembers, RETRY_NS, SHOWN_NS};
use crate::io_timeout::{IoTimeouts, PendingRequest};
use crate::latency::{LatencyTable, MemberLatency, RequestKind, RequestStart, SpikeAvoidance};
use crate::marks::Mark;
use crate::member_stats::MemberStats;
use crate::message::ShardEvent;
use crate::open_mode::OpenMode;
use crate::overlay::Overlay;
use crate::space_credit::SpaceCredit;
use crate::writing::Writing;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, MemberId};
use sinew_core::io::{DeviceId, Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::config::{MemberConfig, MemberState};
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, MemberLayout};

/// Blocks that take as long as a request of none. For a drive on SATA: writes of 4 and 64 KiB take 37 and 147 us.
const REQUEST_BLOCKS: u32 = 4;

/// One member of the pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The device that it is now; `None` while the member is out.
    pub device: Option<DeviceId>,
    /// Whether it takes part.
    pub state: MemberState,
    /// How the device is divided.
    pub layout: MemberLayout,
    /// Whether the member was written since its last flush began.
    unflushed: bool,
    /// The device of the last request that failed.
    failed: Option<DeviceId>,
    /// The value of `Members::version` when the member last went out.
    lost_at: u64,
    in_flight: u32,
    blocks_in_flight: u32,
    /// Read errors at the time when the control was last told of many.
    read_errors_told: u32,
    /// Requests of this shard since the device joined.
    pub stats: MemberStats,
}

impl Member {
    fn new(device: Option<DeviceId>, state: MemberState, layout: MemberLayout) -> Member {
        Member {
            device,
            state,
            layout,
            unflushed: false,
            failed: None,
            lost_at: 0,
            in_flight: 0,
            blocks_in_flight: 0,
            read_errors_told: 0,
            stats: MemberStats::default(),
        }
    }
}

/// The records of a request in flight.
struct InFlight {
    /// For the latency; `None` when it is not measured.
    start: Option<RequestStart>,
    /// For the I/O timeout; `None` when requests complete on the spot.
    pending: Option<PendingRequest>,
}

/// The cost of another read from a member, in the order in which members are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Burden {
    /// Requests that the member has not answered for too long; 0 when latency is not measured.
    pub stragglers: u32,
    /// Requests of this shard in flight to the member.
    pub in_flight: u32,
}

/// All members of the pool.
pub struct Members<I> {
    /// The world.
    pub io: I,
    shard: usize,
    control: Sender<ShardEvent>,
    list: RefCell<Vec<Member>>,
    /// Counts changes of any member's state.
    version: Cell<u64>,
    /// Requests that wait for a failed member to be out.
    pub failures_reported: Cell<u64>,
    /// Latency of each member; not in the list, whose entries are copied.
    pub latency: LatencyTable,
    /// Deadlines of requests that may be late.
    pub deadlines: Deadlines,
    /// Pending requests, for the I/O timeout.
    pub io_timeouts: Rc<IoTimeouts>,
    /// Members without physical space.
    pub full: FullMembers,
    /// Physical space that may still be used.
    pub space: SpaceCredit,
    /// Whether all devices carry out requests on the spot, so that none is ever pending.
    completes_on_the_spot: Cell<bool>,
    /// What was written, if the pool is served read-only.
    overlay: Option<Overlay>,
    /// Writes and discards under way, which end when the pool is closed.
    pub(crate) writing: Writing,
}

impl<I: Io> Members<I> {
    /// Wakes requests at their deadlines, for ever.
    pub async fn run_deadlines(&self) {
        self.deadlines.run(&self.io, || self.latency.shortest_delay_ns()).await;
    }

    /// The members of a pool on these devices, for shard `shard`. Starts the watchdog of the I/O timeout.
    pub fn new(
        io: I,
        shard: usize,
        control: Sender<ShardEvent>,
        members: &[MemberConfig],
        devices: &[Option<DeviceId>],
        mode: OpenMode,
    ) -> Members<I> {
        let member = |(member, &device): (&MemberConfig, &Option<DeviceId>)| {
            Member::new(device, member.state, member.layout)
        };
        let list = RefCell::new(members.iter().zip(devices).map(member).collect());
        let members = Members {
            io,
            shard,
            control,
            list,
            version: Cell::new(0),
            failures_reported: Cell::new(0),
            latency: LatencyTable::default(),
            deadlines: Deadlines::default(),
            io_timeouts: Rc::default(),
            full: FullMembers::default(),
            space: SpaceCredit::default(),
            completes_on_the_spot: Cell::new(false),
            overlay: mode.is_read_only().then(Overlay::default),
            writing: Writing::default(),
        };
        members.update_tracking();
        members.run_io_timeouts();
        members
    }

    /// Starts the task that reports hung devices, for ever.
    fn run_io_timeouts(&self) {
        let (io, timeouts, control) = (self.io.clone(), Rc::clone(&self.io_timeouts), self.control.clone());
        self.io.spawn(async move {
            // Control only goes away with the whole pool.
            timeouts.run(io, async |hung| drop(control.send(ShardEvent::Hung(hung)).await)).await;
        });
    }

    /// Whether nothing is written to the devices.
    pub fn are_read_only(&self) -> bool {
        self.overlay.is_some()
    }

    /// Number of members, those that are out included.
    pub fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// All members, in order.
    pub fn ids(&self) -> impl Iterator<Item = MemberId> + use<I> {
        (0..self.count()).map(|i| MemberId(i as u8))
    }

    /// A copy of the member's entry.
    pub fn get(&self, member: MemberId) -> Member {
        self.list.borrow()[usize::from(member.0)].clone()
    }

    /// Whether the member is read and kept up to date.
    pub fn is_active(&self, member: MemberId) -> bool {
        self.list.borrow()[usize::from(member.0)].state.takes_part()
    }

    /// Whether new chunks may be placed on the member.
    pub fn takes_new(&self, member: MemberId) -> bool {
        self.list.borrow()[usize::from(member.0)].state == MemberState::Active
    }

    /// Number of members on which new chunks may be placed.
    pub fn taking_new(&self) -> usize {
        self.ids().filter(|&m| self.takes_new(m)).count()
    }

    /// The members that are read and kept up to date.
    pub fn active(&self) -> Vec<MemberId> {
        self.ids().filter(|&m| self.is_active(m)).collect()
    }

    /// Whether any member is active.
    pub fn any_active(&self) -> bool {
        self.list.borrow().iter().any(|member| member.state.takes_part())
    }

    /// Requests of this shard that the member has not answered yet.
    pub fn in_flight(&self, member: MemberId) -> u32 {
        self.list.borrow()[usize::from(member.0)].in_flight
    }

    /// Blocks of this shard's requests in flight to the member.
    pub fn blocks_in_flight(&self, member: MemberId) -> u32 {
        self.list.borrow()[usize::from(member.0)].blocks_in_flight
    }

    /// How long another request to the member waits for those of this shard in flight: their blocks, each request counted as
    /// some blocks more.
    pub fn load(&self, member: MemberId) -> u32 {
        self.blocks_in_flight(member) + REQUEST_BLOCKS * self.in_flight(member)
    }

    /// The number of changes of members' states so far; see [`Members::lost_since`].
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// Changes a member's state. A member whose number is the next one is added.
    pub fn set(&self, member: MemberId, state: MemberState, device: Option<DeviceId>, layout: MemberLayout) {
        self.version.set(self.version.get() + 1);
        let mut list = self.list.borrow_mut();
        if usize::from(member.0) == list.len() {
            list.push(Member::new(device, state, layout));
        }
        let entry = &mut list[usize::from(member.0)];
        if !state.takes_part() {
            entry.lost_at = self.version.get();
        }
        let is_other = device.is_some() && entry.device.is_some_and(|before| Some(before) != device);
        // The number of a member that was removed goes to another device.
        let is_other = is_other || entry.state == MemberState::Removed && state.takes_part();
        if is_other {
            entry.stats = MemberStats::default();
        }
        entry.state = state;
        entry.device = device;
        entry.layout = layout;
        if !state.takes_part() {
            entry.unflushed = false;
        }
        drop(list);
        self.writing.look_again();
        self.update_tracking();
        if is_other || !state.takes_part() {
            self.space.forget(member);
        }
        if is_other {
            self.latency.forget(member);
        }
    }

    /// Forgets what was counted and measured of a member: another device is about to take its number, and the errors of the
    /// former one must not take it out.
    pub fn forget(&self, member: MemberId) {
        self.note(member, |m| m.stats = MemberStats::default());
        self.latency.forget(member);
    }

    fn update_tracking(&self) {
        let list = self.list.borrow();
        self.latency.resize(list.len());
        let on_the_spot = |m: &Member| m.device.is_none_or(|device| self.io.answers_at_once(device));
        self.completes_on_the_spot.set(list.iter().all(on_the_spot));
    }

    /// Whether the member is not known to be in a latency spike.
    pub fn responds(&self, member: MemberId) -> bool {
        !self.may_be_late() || self.latency.responds(member, self.io.now_coarse())
    }

    /// Changes how spikes are detected and avoided.
    pub fn set_spike_avoidance(&self, mode: SpikeAvoidance) {
        self.latency.set_mode(mode, self.io.now());
    }

    /// Reports of every member's latency.
    pub fn latencies(&self) -> Vec<MemberLatency> {
        let mut all = self.latency.report(self.io.now());
        for (latency, member) in all.iter_mut().zip(self.list.borrow().iter()) {
            latency.unanswered_ns = member.device.map_or(0, |device| self.io_timeouts.unanswered_ns(device));
        }
        all
    }

    /// Of each member, whether it has refused a write for lack of physical space a short time ago.
    pub fn full_members(&self) -> Vec<bool> {
        self.full.refused_within(SHOWN_NS, self.io.now(), self.count())
    }

    /// The cost of another read from the member.
    pub fn burden(&self, member: MemberId) -> Burden {
        let stragglers =
            if self.may_be_late() { self.latency.stragglers(member, self.io.now_coarse()) } else { 0 };
        Burden { stragglers, in_flight: self.in_flight(member) }
    }

    /// Whether a request may be late. Requests that are carried out on the spot are never pending, and their latency is not
    /// measured.
    pub fn may_be_late(&self) -> bool {
        self.latency.avoids() && !self.completes_on_the_spot.get()
    }

    /// Whether a late request may be hedged.
    pub fn may_hedge(&self) -> bool {
        self.may_be_late() && self.latency.hedges()
    }

    fn begin(&self, member: MemberId, device: DeviceId) -> InFlight {
        let is_measured = self.latency.measures() && !self.completes_on_the_spot.get();
        let start = is_measured.then(|| self.latency.begin(member, self.io.now_coarse()));
        InFlight { start, pending: self.pending_request(device) }
    }

    fn end(&self, member: MemberId, kind: RequestKind, sent: InFlight) {
        if let Some(start) = sent.start {
            self.latency.end(member, kind, start, self.io.now_coarse());
        }
        sent.pending.into_iter().for_each(|pending| self.io_timeouts.end(pending));
    }

    /// Counts a request for the I/O timeout, unless it is carried out on the spot.
    fn pending_request(&self, device: DeviceId) -> Option<PendingRequest> {
        (!self.completes_on_the_spot.get()).then(|| self.io_timeouts.begin(device))
    }

    /// Whether the member has been out at any time since `version`: data written to it since then may be lost, even if it
    /// is active again.
    pub fn lost_since(&self, member: MemberId, version: u64) -> bool {
        let entry = &self.list.borrow()[usize::from(member.0)];
        !entry.state.takes_part() || entry.lost_at > version
    }

    /// Reports a member that failed a request, and waits until the failure is recorded on the other members and known to all
    /// shards. Does nothing when another device has taken the member's place since: a late failure says nothing about the new
    /// device. Nor does a member that has no space left: it is full, not failed.
    pub async fn report_failure(&self, member: MemberId, error: IoError) {
        if error == IoError::NoSpace && !mutation::on(Mutation::NoSpaceIsFailure) {
            return;
        }
        let Member { state, device, failed, .. } = self.get(member);
        if !state.takes_part() || (failed.is_some() && failed != device) {
            return;
        }
        self.failures_reported.set(self.failures_reported.get() + 1);
        let (done, answer) = oneshot::async_channel();
        if self.control.send(ShardEvent::MemberFailed { member, error, done }).await.is_ok() {
            // Control only goes away with the whole pool.
            let _ = answer.await;
        }
        self.failures_reported.set(self.failures_reported.get() - 1);
    }

    /// Waits until md's superblocks on all members say that the array is being written; false when too few members are
    /// left.
    pub async fn report_write(&self) -> bool {
        let (done, answer) = oneshot::async_channel();
        self.control.send(ShardEvent::Write { done }).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Sends the control an event that needs no answer.
    pub async fn report(&self, event: ShardEvent) {
        // Control only goes away with the whole pool.
        let _ = self.control.send(event).await;
    }

    /// Replaces the members from number `from` on by these, in an array that grows.
    pub fn extend(&self, from: usize, members: &[(MemberState, Option<DeviceId>)]) {
        let mut list = self.list.borrow_mut();
        list.truncate(from);
        list.extend(
            members.iter().map(|&(state, device)| Member::new(device, state, MemberLayout::default())),
        );
        self.version.set(self.version.get() + 1);
        drop(list);
        self.update_tracking();
    }

    fn note(&self, member: MemberId, f: impl FnOnce(&mut Member)) {
        f(&mut self.list.borrow_mut()[usize::from(member.0)]);
    }

    /// Counts blocks whose checksum did not match.
    pub fn note_checksum_error(&self, member: MemberId, blocks: u64) {
        self.note(member, |m| m.stats.checksum_errors += blocks);
    }

    /// Counts blocks that were written again from redundancy.
    pub fn note_repair(&self, member: MemberId, blocks: u64) {
        self.note(member, |m| m.stats.repaired_blocks += blocks);
    }

    /// Tells the control what a failed read means for the member: without its device it is out; with many bad blocks it goes
    /// out if the pool can do without it, since what else it holds can be read. Returns whether the member is out.
    pub async fn report_read_error(&self, member: MemberId, error: IoError) -> bool {
        if error == IoError::Gone {
            self.report_failure(member, error).await;
            return true;
        }
        let mut has_many = false;
        self.note(member, |m| has_many = m.stats.has_many_read_errors(&mut m.read_errors_told));
        if has_many {
            self.report(ShardEvent::ManyReadErrors { member }).await;
        }
        false
    }

    /// The member's device, and the offset at which its part of the device begins.
    pub(crate) fn place(&self, member: MemberId) -> Result<(DeviceId, u64), IoError> {
        let entry = &self.list.borrow()[usize::from(member.0)];
        Ok((entry.device.ok_or(IoError::Gone)?, entry.layout.origin))
    }

    /// As `place`, for a request that is in flight from now on.
    fn enter(&self, member: MemberId, bytes: usize) -> Result<(DeviceId, u64), IoError> {
        let entry = &mut self.list.borrow_mut()[usize::from(member.0)];
        let device = entry.device.ok_or(IoError::Gone)?;
        entry.in_flight += 1;
        entry.blocks_in_flight += (bytes / BLOCK_BYTES) as u32;
        Ok((device, entry.layout.origin))
    }

    /// Reads `bytes` bytes at `offset` of the member's part of its device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn read_at(&self, member: MemberId, offset: u64, bytes: usize) -> Result<Buf, IoError> {
        if self.overlay.as_ref().is_some_and(|overlay| overlay.has_all(member, offset, bytes)) {
            self.place(member)?;
            return Ok(self.patched(member, offset, Buf::zeroed(bytes)));
        }
        let (device, origin) = self.enter(member, bytes)?;
        let sent = self.begin(member, device);
        let (buf, result) = self.io.read(device, origin + offset, Buf::stale(bytes)).await;
        self.end(member, RequestKind::Read, sent);
        self.note(member, |m| {
            m.in_flight -= 1;
            m.blocks_in_flight -= (bytes / BLOCK_BYTES) as u32;
            match result {
                Ok(()) => {
                    m.stats.reads += 1;
                    m.stats.read_bytes += bytes as u64;
                }
                Err(_) => {
                    m.failed = Some(device);
                    m.stats.read_errors += 1;
                }
            }
        });
        result.map(|()| self.patched(member, offset, buf))
    }

    /// What was read, with what stays in memory of a pool that is served read-only.
    fn patched(&self, member: MemberId, offset: u64, buf: Buf) -> Buf {
        match &self.overlay {
            Some(overlay) => overlay.patch(member, offset, buf),
            None => buf,
        }
    }

    /// Writes at `offset` of the member's part of its device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn write_at(&self, member: MemberId, offset: u64, data: Gather) -> Result<(), IoError> {
        if let Some(overlay) = self.overlay.as_ref().filter(|_| !mutation::on(Mutation::WriteReadOnly)) {
            self.place(member)?;
            overlay.write(member, offset, &data);
            return Ok(());
        }
        let _change = self.writing.begin(member).await;
        let bytes: usize = data.iter().map(Buf::len).sum();
        let (device, origin) = self.enter(member, bytes)?;
        let sent = self.begin(member, device);
        self.space.begin_write(member, bytes as u64);
        let result = self.io.write(device, origin + offset, data).await;
        self.space.end_write(member, bytes as u64);
        self.end(member, RequestKind::Write, sent);
        self.note(member, |m| {
            m.in_flight -= 1;
            m.blocks_in_flight -= (bytes / BLOCK_BYTES) as u32;
            m.unflushed = true;
            match result {
                Ok(()) => {
                    m.stats.writes += 1;
                    m.stats.written_bytes += bytes as u64;
                }
                Err(IoError::NoSpace) => {}
                Err(_) => m.failed = Some(device),
            }
        });
        if result == Err(IoError::NoSpace) {
            self.io.mark(Mark::MemberFull);
            self.full.note_refusal(member, self.io.now_coarse());
            self.space.note_refusal(member);
        }
        result
    }

    /// Ends writing, since the pool is closed: tasks that go on stop where they would write or discard. Waits for what is under way to
    /// members that take part.
    pub async fn end_writing(&self) {
        if !mutation::on(Mutation::WriteAfterClose) {
            self.writing.end(|member| self.is_active(member)).await;
        }
    }

    /// Whether the member is not known to be without physical space.
    pub fn has_space(&self, member: MemberId) -> bool {
        !self.full.contains(member, self.io.now_coarse())
    }

    /// Whether a member is known to be without physical space.
    pub fn is_any_full(&self) -> bool {
        self.full.refusals() > 0 && self.ids().any(|member| !self.has_space(member))
    }

    /// Waits before a write that was refused for lack of space is tried again.
    pub async fn wait_for_space(&self) {
        self.io.sleep(RETRY_NS).await;
    }

    pub(crate) fn chunk_offset(&self, home: ChunkAddr, block: u32) -> u64 {
        self.list.borrow()[usize::from(home.member.0)].layout.chunk_offset(self.shard, home.chunk, block)
    }

    /// Reads `count` blocks of a chunk, from `block` on.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub fn read(
        &self,
        home: ChunkAddr,
        block: u32,
        count: u32,
    ) -> impl Future<Output = Result<Buf, IoError>> {
        debug_assert!(block + count <= CHUNK_BLOCKS);
        let offset = self.chunk_offset(home, block);
        self.read_at(home.member, offset, count as usize * BLOCK_BYTES)
    }

    /// Writes into a chunk, from `block` on.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn write(&self, home: ChunkAddr, block: u32, data: Gather) -> Result<(), IoError> {
        let offset = self.chunk_offset(home, block);
        if self.latency.only_counts() {
            self.latency.note(home.member, |tracked| tracked.note_write(self.io.now_coarse()));
        }
        self.write_at(home.member, offset, data).await
    }

    /// Takes the active members that were written since their last flush; they count as flushed from now on.
    pub fn take_unflushed(&self) -> Vec<MemberId> {
        let mut list = self.list.borrow_mut();
        let mut taken = Vec::new();
        for (i, member) in list.iter_mut().enumerate() {
            if member.state.takes_part() && std::mem::take(&mut member.unflushed) {
                taken.push(MemberId(i as u8));
            }
        }
        taken
    }

    /// Notes that a flush of the member failed, so that its writes are still not flushed.
    pub fn set_unflushed(&self, member: MemberId) {
        self.note(member, |m| m.unflushed = true);
    }

    /// Flushes the member's device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn flush(&self, member: MemberId) -> Result<(), IoError> {
        let device = self.get(member).device.ok_or(IoError::Gone)?;
        if self.are_read_only() {
            return Ok(());
        }
        let pending = self.pending_request(device);
        let result = self.io.flush(device).await;
        pending.into_iter().for_each(|pending| self.io_timeouts.end(pending));
        self.note(member, |m| match result {
            Ok(()) => m.stats.flushes += 1,
            Err(_) => m.failed = Some(device),
        });
        result
    }
}
