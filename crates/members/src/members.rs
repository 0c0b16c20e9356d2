//! The members as one shard sees them: where each lies, whether it takes part, what it was asked and how it answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use async_channel::Sender;

use crate::deadlines::Deadlines;
use crate::io_timeout::{IoTimeouts, PendingRequest};
use crate::latency::{Kind, LatencyTable, MemberLatency, SpikeAvoidance, Token};
use crate::message::ShardEvent;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{Home, MemberId};
use sinew_core::io::{DeviceId, Gather, Io, IoError};
use sinew_format::model::config::{MemberConfig, MemberState};
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES, MemberLayout};

/// Read errors after which a member counts as failed although single reads still succeed.
const READ_ERRORS_MAX: u32 = 64;

/// One member of the pool.
#[derive(Clone, Debug)]
pub struct Member {
    /// The device that it is now; `None` while the member is out.
    pub device: Option<DeviceId>,
    /// Whether it takes part.
    pub state: MemberState,
    /// How the device is divided.
    pub layout: MemberLayout,
    /// Written since the last flush began.
    unflushed: bool,
    /// The device of the last request that failed.
    failed: Option<DeviceId>,
    /// The version at which it last went out.
    lost_at: u64,
    in_flight: u32,
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
            stats: MemberStats::default(),
        }
    }
}

/// What a member was asked by one shard and how it answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberStats {
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Reads that failed.
    pub read_errors: u32,
    /// Blocks whose checksum did not match.
    pub checksum_errors: u64,
    /// Blocks rewritten from redundancy.
    pub repaired_blocks: u64,
}

/// A request as it was noted when it was sent.
struct Sent {
    token: Option<Token>,
    mark: Option<PendingRequest>,
}

/// All members, and the way to them.
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
    /// How each answers; apart from the list, since it is much.
    pub responses: LatencyTable,
    /// Ring for requests that are late.
    pub alarms: Deadlines,
    /// Who waits for an answer.
    pub vigil: Rc<IoTimeouts>,
    /// Whether requests to all of them are carried out on the spot.
    all_at_once: Cell<bool>,
}

impl<I: Io> Members<I> {
    /// Rings alarms, for ever.
    pub async fn run_alarms(&self) {
        self.alarms.run(&self.io, || self.responses.least_ns()).await;
    }

    /// The members of a pool on these devices, as one shard sees them.
    pub fn new(
        io: I,
        shard: usize,
        control: Sender<ShardEvent>,
        members: &[MemberConfig],
        devices: &[Option<DeviceId>],
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
            responses: LatencyTable::default(),
            alarms: Deadlines::default(),
            vigil: Rc::default(),
            all_at_once: Cell::new(false),
        };
        members.watch_all();
        members.keep_vigil();
        members
    }

    /// Reports members that answer nothing for long, for ever.
    fn keep_vigil(&self) {
        let (io, vigil, control) = (self.io.clone(), Rc::clone(&self.vigil), self.control.clone());
        self.io.spawn(async move {
            // Control only goes away with the whole pool.
            vigil.keep(io, async |silence| drop(control.send(ShardEvent::Hung(silence)).await)).await;
        });
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

    /// Whether what the member holds is read and kept up to date.
    pub fn is_active(&self, member: MemberId) -> bool {
        self.list.borrow()[usize::from(member.0)].state.takes_part()
    }

    /// Whether anything new may be placed on the member.
    pub fn takes_new(&self, member: MemberId) -> bool {
        self.list.borrow()[usize::from(member.0)].state == MemberState::Active
    }

    /// How many members take what is new.
    pub fn taking_new(&self) -> usize {
        self.ids().filter(|&m| self.takes_new(m)).count()
    }

    /// The members that are read and kept up to date.
    pub fn active(&self) -> Vec<MemberId> {
        self.ids().filter(|&m| self.is_active(m)).collect()
    }

    /// Whether any member takes part.
    pub fn any_active(&self) -> bool {
        self.list.borrow().iter().any(|member| member.state.takes_part())
    }

    /// Requests of this shard that the member has not answered yet.
    pub fn in_flight(&self, member: MemberId) -> u32 {
        self.list.borrow()[usize::from(member.0)].in_flight
    }

    /// The number of changes of members' states so far; see [`Members::lost_since`].
    pub fn version(&self) -> u64 {
        self.version.get()
    }

    /// A member has a new state, or is new; its number is then the next.
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
        self.watch_all();
        if is_other {
            self.responses.forget(member);
        }
    }

    fn watch_all(&self) {
        let list = self.list.borrow();
        self.responses.watch(list.len());
        let at_once = |m: &Member| m.device.is_none_or(|device| self.io.answers_at_once(device));
        self.all_at_once.set(list.iter().all(at_once));
    }

    /// Whether the member answers, as far as is known: no spike is on.
    pub fn responds(&self, member: MemberId) -> bool {
        !self.may_be_late() || self.responses.responds(member, self.io.now_coarse())
    }

    /// Looks for spikes in another way from now on.
    pub fn step_around(&self, mode: SpikeAvoidance) {
        self.responses.set_mode(mode, self.io.now());
    }

    /// How each answers, for people.
    pub fn latencies(&self) -> Vec<MemberLatency> {
        let mut all = self.responses.report(self.io.now());
        for (latency, member) in all.iter_mut().zip(self.list.borrow().iter()) {
            latency.unanswered_ns = member.device.map_or(0, |device| self.vigil.unanswered_ns(device));
        }
        all
    }

    /// What a read of the member waits for: the less, the better.
    pub fn burden(&self, member: MemberId) -> (u32, u32) {
        let stragglers =
            if self.may_be_late() { self.responses.stragglers(member, self.io.now_coarse()) } else { 0 };
        (stragglers, self.in_flight(member))
    }

    /// Whether a request may turn out to be late. Where all are carried out on the spot none is ever pending, and watching
    /// them would only cost.
    pub fn may_be_late(&self) -> bool {
        self.responses.is_on() && !self.all_at_once.get()
    }

    /// Whether a request that is late may be made again elsewhere.
    pub fn may_hedge(&self) -> bool {
        self.may_be_late() && self.responses.hedges()
    }

    fn begin(&self, member: MemberId, device: DeviceId) -> Sent {
        let is_watched = self.responses.measures() && !self.all_at_once.get();
        let token = is_watched.then(|| self.responses.begin(member, self.io.now_coarse()));
        Sent { token, mark: self.pending_request(device) }
    }

    fn end(&self, member: MemberId, kind: Kind, sent: Sent) {
        if let Some(token) = sent.token {
            self.responses.end(member, kind, token, self.io.now_coarse());
        }
        sent.mark.into_iter().for_each(|mark| self.vigil.end(mark));
    }

    /// What is carried out on the spot is never waited for.
    fn pending_request(&self, device: DeviceId) -> Option<PendingRequest> {
        (!self.all_at_once.get()).then(|| self.vigil.begin(device))
    }

    /// Whether the member has been out at any time since `version`: what it was written since then may be lost, even if
    /// it is back.
    pub fn lost_since(&self, member: MemberId, version: u64) -> bool {
        let entry = &self.list.borrow()[usize::from(member.0)];
        !entry.state.takes_part() || entry.lost_at > version
    }

    /// Reports a member that failed a request and waits until all shards and the other members know. What a device fails
    /// late, when another has taken its place, says nothing of that one.
    pub async fn report_failure(&self, member: MemberId, error: IoError) {
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

    /// Asks for md's superblocks to say that the array is being written, and waits until they do on all members; false
    /// when too few are left.
    pub async fn report_write(&self) -> bool {
        let (done, answer) = oneshot::async_channel();
        self.control.send(ShardEvent::Write { done }).await.is_ok() && answer.await.unwrap_or(false)
    }

    /// Tells the control something that needs no answer.
    pub async fn report(&self, event: ShardEvent) {
        // Control only goes away with the whole pool.
        let _ = self.control.send(event).await;
    }

    /// There are more members: those from number `from` on are these.
    pub fn extend(&self, from: usize, members: &[(MemberState, Option<DeviceId>)]) {
        let mut list = self.list.borrow_mut();
        list.truncate(from);
        list.extend(
            members.iter().map(|&(state, device)| Member::new(device, state, MemberLayout::default())),
        );
        self.version.set(self.version.get() + 1);
        drop(list);
        self.watch_all();
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

    /// Whether a read error is reason to stop using the member.
    pub fn read_error_is_fatal(&self, member: MemberId, error: IoError) -> bool {
        error == IoError::Gone || self.get(member).stats.read_errors > READ_ERRORS_MAX
    }

    /// The member's device, and where its part begins there.
    fn place(&self, member: MemberId) -> Result<(DeviceId, u64), IoError> {
        let entry = &self.list.borrow()[usize::from(member.0)];
        Ok((entry.device.ok_or(IoError::Gone)?, entry.layout.origin))
    }

    /// Reads `bytes` bytes at `offset` of the member's part of its device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn read_at(&self, member: MemberId, offset: u64, bytes: usize) -> Result<Buf, IoError> {
        let (device, origin) = self.place(member)?;
        self.note(member, |m| m.in_flight += 1);
        let sent = self.begin(member, device);
        let (buf, result) = self.io.read(device, origin + offset, Buf::stale(bytes)).await;
        self.end(member, Kind::Read, sent);
        self.note(member, |m| {
            m.in_flight -= 1;
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
        result.map(|()| buf)
    }

    /// Writes at `offset` of the member's part of its device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn write_at(&self, member: MemberId, offset: u64, data: Gather) -> Result<(), IoError> {
        let (device, origin) = self.place(member)?;
        let bytes: usize = data.iter().map(Buf::len).sum();
        self.note(member, |m| m.in_flight += 1);
        let sent = self.begin(member, device);
        let result = self.io.write(device, origin + offset, data).await;
        self.end(member, Kind::Write, sent);
        self.note(member, |m| {
            m.in_flight -= 1;
            m.unflushed = true;
            match result {
                Ok(()) => {
                    m.stats.writes += 1;
                    m.stats.written_bytes += bytes as u64;
                }
                Err(_) => m.failed = Some(device),
            }
        });
        result
    }

    fn chunk_offset(&self, home: Home, block: u32) -> u64 {
        self.list.borrow()[usize::from(home.member.0)].layout.chunk_offset(self.shard, home.chunk, block)
    }

    /// Reads `count` blocks of a chunk.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn read(&self, home: Home, block: u32, count: u32) -> Result<Buf, IoError> {
        debug_assert!(block + count <= CHUNK_BLOCKS);
        let offset = self.chunk_offset(home, block);
        self.read_at(home.member, offset, count as usize * BLOCK_BYTES).await
    }

    /// Writes into a chunk, from `block` on.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn write(&self, home: Home, block: u32, data: Gather) -> Result<(), IoError> {
        let offset = self.chunk_offset(home, block);
        if self.responses.only_watches() {
            self.responses.note(home.member, |watch| watch.note_write(self.io.now_coarse()));
        }
        self.write_at(home.member, offset, data).await
    }

    /// Whether the member's device makes use of discards.
    pub fn takes_discards(&self, member: MemberId) -> bool {
        self.get(member).device.is_some_and(|device| self.io.takes_discards(device))
    }

    /// Tells the device that so many chunks are free.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn discard(&self, first: Home, chunks: u64) -> Result<(), IoError> {
        let offset = self.chunk_offset(first, 0);
        let (device, origin) = self.place(first.member)?;
        self.io.discard(device, origin + offset, chunks * CHUNK_BYTES).await
    }

    /// Active members written since their last flush; they count as flushed from here on.
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

    /// A flush of the member failed: what it was to cover is still not flushed.
    pub fn set_unflushed(&self, member: MemberId) {
        self.note(member, |m| m.unflushed = true);
    }

    /// Flushes the member's device.
    ///
    /// # Errors
    /// [`IoError`] of the device; [`IoError::Gone`] when the member has no device.
    pub async fn flush(&self, member: MemberId) -> Result<(), IoError> {
        let device = self.get(member).device.ok_or(IoError::Gone)?;
        let mark = self.pending_request(device);
        let result = self.io.flush(device).await;
        mark.into_iter().for_each(|mark| self.vigil.end(mark));
        self.note(member, |m| match result {
            Ok(()) => m.stats.flushes += 1,
            Err(_) => m.failed = Some(device),
        });
        result
    }
}
