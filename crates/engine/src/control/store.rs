//! The state of an open pool's control and its durable configuration: the one way to change it, and to ask the shards.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;

use async_channel::{Receiver, Sender};

use crate::client::VolumeShared;
use crate::client::directory::Catalog;
use crate::control::absence::AbsentMembers;
use crate::control::error::ControlError;
use crate::control::events::{self, Event, Events};
use crate::control::observation::Seen;
use crate::control::outgoing::OutgoingMembers;
use crate::control::physical_space::SpaceSamples;
use crate::marks::Mark;
use crate::pool::{self, Candidate, Found, NextSlots, SuperblockError};
use crate::pool::{MdBlocks, store_md_superblocks};
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_core::sync::{Signal, before, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::damage::DamagedRanges;
use sinew_format::model::policy::Policy;
use sinew_members::full_members::RETRY_NS;
use sinew_members::io_timeout::IoTimeouts;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::message::{Answer, ControlRequest};
use sinew_members::open_mode::OpenMode;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Limits;

/// Whether a member in this state gets every change of the configuration.
pub(super) fn is_told(state: MemberState) -> bool {
    state.takes_part() || state == MemberState::Spare
}

/// Whether a member fails by this error of a write of its configuration. One without space keeps an older configuration.
fn takes_out(error: &SuperblockError) -> bool {
    matches!(error, SuperblockError::Io(error) if *error != IoError::NoSpace)
}

/// The control of an open pool.
pub struct Control<I> {
    pub(super) io: I,
    pub(super) config: RefCell<Config>,
    pub(super) devices: RefCell<Vec<Option<DeviceId>>>,
    pub(super) shards: Vec<Sender<ControlRequest>>,
    pub(super) catalog: Catalog,
    pub(super) mode: OpenMode,
    pub(super) slots: NextSlots,
    /// Where the configuration is kept, of an array of md's.
    pub(super) md: Option<RefCell<MdBlocks>>,
    /// Counts the times a shard was about to write to an array of md's that it had not declared as written.
    pub(super) write_orders: Cell<u64>,
    pub(super) md_written: Signal,
    /// Of each shard, the key below which everything has moved in the growth under way.
    pub(super) moved: RefCell<Vec<u64>>,
    /// No member took the configuration.
    pub(super) failed: Cell<bool>,
    pub(super) spike_avoidance: Cell<SpikeAvoidance>,
    pub(super) table_cache: Option<u64>,
    pub(super) policy: Cell<Policy>,
    pub(super) throttle: Cell<Limits>,
    pub(super) changing: Cell<bool>,
    pub(super) changed: Signal,
    /// The control's own requests to members, and the I/O timeout.
    pub(super) io_timeouts: Rc<IoTimeouts>,
    pub(super) handling_hung: Cell<bool>,
    pub(super) outgoing: OutgoingMembers,
    pub(super) absent: AbsentMembers,
    /// Devices of members that exceeded the I/O timeout.
    pub(super) timed_out: RefCell<BTreeSet<DeviceId>>,
    /// What has happened.
    pub(super) events: Events,
    pub(super) seen: RefCell<Seen>,
    /// Blocks of volumes that the shards had lost at the last look.
    pub(super) lost_blocks: RefCell<BTreeSet<(VolumeId, u64)>>,
    /// Devices that work, but whose device nodes or files are gone.
    pub(super) unnamed: RefCell<BTreeSet<DeviceId>>,
    /// When a look last found requests that were refused for lack of room.
    pub(super) refused_at: Cell<Option<u64>>,
    pub(super) space: Rc<SpaceSamples>,
    /// The changes of damage that are stored, and the number of volumes.
    pub(super) damage_recorded: Cell<(u64, usize)>,
    /// Damage of volumes that was told and cannot be stored.
    pub(super) damage_told: RefCell<BTreeMap<VolumeId, DamagedRanges>>,
    /// The time of day at which the clock of `Io` was at 0, in seconds since 1970.
    pub(super) wall_clock: Cell<u64>,
    /// All shards are recovered.
    pub(super) is_open: Cell<bool>,
    /// An order about members is under way.
    pub(super) ordered: Cell<bool>,
    pub(super) order_done: Signal,
    /// Closed once the shards write nothing any more: what they have not answered by then may wait for a write.
    pub(super) writing: (Sender<Infallible>, Receiver<Infallible>),
}

/// The turn of one order about members, until it is dropped.
pub(super) struct Turn<'a, I>(&'a Control<I>);

impl<I> Drop for Turn<'_, I> {
    fn drop(&mut self) {
        self.0.ordered.set(false);
        self.0.order_done.notify();
    }
}

impl<I: Io> Control<I> {
    /// A control for a pool just found. `shards` are the mailboxes, in order.
    pub fn new(io: I, found: &Found, shards: Vec<Sender<ControlRequest>>) -> Rc<Control<I>> {
        let catalog = Catalog::default();
        let read_only = found.mode.is_read_only() || found.md.as_ref().is_some_and(|md| !md.is_writable());
        for volume in found.config.volumes.iter().filter(|v| !v.deleting) {
            let damage = found.config.damage.iter().find(|damage| damage.volume == volume.id);
            let damage = damage.map(|damage| damage.ranges.clone()).unwrap_or_default();
            let shared = VolumeShared::new(volume, read_only, damage);
            catalog.lock().insert(volume.name.clone(), Arc::new(shared));
        }
        Rc::new(Control {
            io,
            config: RefCell::new((*found.config).clone()),
            devices: RefCell::new(found.devices.clone()),
            shards,
            catalog,
            mode: found.mode,
            slots: found.slots.clone(),
            md: found.md.clone().map(RefCell::new),
            write_orders: Cell::new(0),
            md_written: Signal::default(),
            moved: RefCell::default(),
            failed: Cell::new(false),
            spike_avoidance: Cell::default(),
            table_cache: found.config.geometry.mapped().and(found.table_cache),
            policy: Cell::default(),
            throttle: Cell::default(),
            changing: Cell::new(false),
            changed: Signal::default(),
            io_timeouts: Rc::default(),
            handling_hung: Cell::new(false),
            outgoing: OutgoingMembers::default(),
            absent: AbsentMembers::default(),
            timed_out: RefCell::default(),
            events: Events::default(),
            seen: RefCell::default(),
            lost_blocks: RefCell::default(),
            unnamed: RefCell::default(),
            refused_at: Cell::new(None),
            space: Rc::default(),
            damage_recorded: Cell::default(),
            damage_told: RefCell::default(),
            wall_clock: Cell::default(),
            is_open: Cell::new(false),
            ordered: Cell::new(false),
            order_done: Signal::default(),
            writing: async_channel::bounded(1),
        })
    }

    /// What has happened since the pool was opened.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Adds an event.
    pub(super) fn note(&self, event: Event) {
        self.events.add(self.io.now(), event);
    }

    /// Adds an event of what happened to clients before they reached a volume.
    pub fn note_client_refused(&self, client: String, reason: String, times: u64) {
        self.note(Event::ClientRefused { client, reason, times });
    }

    /// The configuration now.
    pub fn config(&self) -> Config {
        self.config.borrow().clone()
    }

    /// The devices of the active members and the spares, by member.
    pub fn devices_in_use(&self) -> Vec<(usize, DeviceId)> {
        let (config, devices) = (self.config.borrow(), self.devices.borrow());
        let in_use = |i: &usize| is_told(config.members[*i].state);
        // A device that is joining is not yet in the configuration.
        (0..config.members.len()).filter(in_use).filter_map(|i| Some((i, devices[i]?))).collect()
    }

    /// Whether a device is an active member or a spare now.
    pub fn uses(&self, device: DeviceId) -> bool {
        self.devices_in_use().iter().any(|&(_, used)| used == device)
    }

    /// The volumes, for frontends.
    pub fn catalog(&self) -> Catalog {
        self.catalog.clone()
    }

    /// Changes the configuration: on every active member durably, then in memory. One change at a time.
    pub(super) async fn change(
        &self,
        edit: impl FnOnce(&mut Config) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        self.begin_change().await;
        let mut next = self.config();
        let result = match edit(&mut next) {
            Ok(()) if next == *self.config.borrow() => Ok(()),
            Ok(()) => self.store(next, None).await,
            Err(error) => Err(error),
        };
        self.end_change();
        result
    }

    pub(super) async fn begin_change(&self) {
        self.changed.wait(|| (!self.changing.get()).then_some(())).await;
        self.changing.set(true);
    }

    pub(super) fn end_change(&self) {
        self.changing.set(false);
        self.changed.notify();
    }

    /// Writes the configuration to members and returns a result for each target. Calls `refused` with the number of a member as soon
    /// as its write fails other than for lack of space; writes to hung members may take as long as the I/O timeout.
    pub(super) async fn write_config(
        &self,
        next: &Config,
        targets: &[(usize, DeviceId)],
        refused: impl Fn(usize),
    ) -> Vec<Result<(), SuperblockError>> {
        if let Some(blocks) = &self.md {
            let stored = store_md_superblocks(blocks, &self.io, targets).await;
            return stored.into_iter().map(|result| result.map_err(SuperblockError::Io)).collect();
        }
        let write = async |&(i, device): &(usize, DeviceId)| {
            let writing = pool::write_superblock(&self.io, device, &self.slots, i, next);
            let written = self.watched(device, writing).await;
            if written.as_ref().is_err_and(takes_out) {
                refused(i);
            }
            written
        };
        join_all(targets.iter().map(write)).await
    }

    /// Stores a configuration on its active members; one that fails meanwhile is out in the next attempt, and no member
    /// at all if it was `joining`: nothing is on it yet.
    pub(super) async fn store(&self, mut next: Config, joining: Option<usize>) -> Result<(), ControlError> {
        if self.failed.get() {
            return Err(ControlError::Failed);
        }
        // What changes by itself is known in memory only.
        if self.mode.is_read_only() {
            let changes = events::changes(&self.config.borrow(), &next);
            *self.config.borrow_mut() = next;
            changes.into_iter().for_each(|change| self.note(change));
            return Ok(());
        }
        let mut failed = Vec::new();
        let outgoing = self.outgoing.begin(&[]);
        loop {
            next.generation += 1;
            let devices = self.devices.borrow().clone();
            let active = |i: &usize| is_told(next.members[*i].state);
            let targets: Vec<(usize, DeviceId)> =
                (0..devices.len()).filter(active).filter_map(|i| Some((i, devices[i]?))).collect();
            // What is stored must be enough to be opened again.
            if targets.is_empty() || !next.survives(&next.out()) {
                self.fail_pool().await;
                return Err(ControlError::Failed);
            }
            let refused = |i| {
                if joining != Some(i) {
                    outgoing.add(i);
                }
            };
            let results = self.write_config(&next, &targets, refused).await;
            let mut again = false;
            let mut out = Vec::new();
            let (mut stored, mut is_full) = (0, false);
            for (&(i, _), result) in targets.iter().zip(results) {
                match result {
                    Ok(()) => stored += 1,
                    // It keeps an older configuration, which does no harm beside enough newer ones.
                    Err(SuperblockError::Io(IoError::NoSpace)) if joining != Some(i) => {
                        self.io.mark(Mark::ConfigNoSpace);
                        is_full = true;
                    }
                    Err(SuperblockError::Encode(error)) => return Err(ControlError::Config(error)),
                    Err(SuperblockError::Io(_)) => {
                        self.io.mark(Mark::ConfigMemberLost);
                        again = true;
                        out.push(i);
                    }
                }
            }
            for i in out {
                let joins = joining == Some(i);
                next.members[i].state = if joins { MemberState::Removed } else { MemberState::Failed };
                next.members[i].out_epoch = next.epoch;
                failed.push(i);
            }
            if is_full && stored <= next.geometry.failures() {
                self.io.sleep(RETRY_NS).await;
            } else if !again {
                break;
            }
        }
        let changes = events::changes(&self.config.borrow(), &next);
        *self.config.borrow_mut() = next;
        changes.into_iter().for_each(|change| self.note(change));
        for i in failed {
            self.tell_member(i).await;
        }
        Ok(())
    }

    /// More members have failed than the pool survives. What the members say of each other stays as it was, so that the
    /// pool can be opened again when they are back; until then nothing is acknowledged, since the shards find all out.
    pub(super) async fn fail_pool(&self) {
        self.io.mark(Mark::PoolFailed);
        if !self.failed.replace(true) {
            self.note(Event::PoolFailed);
        }
        let mut members = Vec::new();
        for (index, _) in self.devices_in_use() {
            let member = &mut self.config.borrow_mut().members[index];
            member.state = MemberState::Failed;
            members.push((MemberId(index as u8), member.layout));
        }
        let _ = self.ask_all(|done| ControlRequest::Fail { members: members.clone(), done }).await;
    }

    /// Tells every shard something that has no answer.
    pub(super) async fn tell_all(&self, order: impl Fn() -> ControlRequest) {
        for shard in &self.shards {
            let _ = shard.send(order()).await;
        }
    }

    /// Asks every shard and waits for all. Once writing has ended, [`VolumeError::Gone`] stands for an answer that is not there.
    pub(super) async fn ask_all(
        &self,
        order: impl Fn(Answer<Result<(), VolumeError>>) -> ControlRequest,
    ) -> Result<(), VolumeError> {
        self.ask_each(order).await.map(drop)
    }

    /// As `ask_all`; gives the answers.
    pub(super) async fn ask_each<T>(
        &self,
        order: impl Fn(Answer<Result<T, VolumeError>>) -> ControlRequest,
    ) -> Result<Vec<T>, VolumeError> {
        let asks = self.shards.iter().map(|shard| {
            let (done, answer) = oneshot::async_channel();
            let order = order(done);
            async move {
                shard.send(order).await.map_err(|_| VolumeError::Gone)?;
                let answered = before(answer, self.writing_has_ended()).await;
                answered.and_then(Result::ok).unwrap_or(Err(VolumeError::Gone))
            }
        });
        join_all(asks).await.into_iter().collect()
    }

    async fn writing_has_ended(&self) {
        let _ = self.writing.1.recv().await;
    }

    /// What every shard tells.
    pub(super) async fn ask_for<T>(
        &self,
        order: impl Fn(Answer<T>) -> ControlRequest,
    ) -> Result<Vec<T>, ControlError> {
        let order = &order;
        let asks = self.shards.iter().map(|shard| async move {
            let (reply, answer) = oneshot::async_channel();
            shard.send(order(reply)).await.ok()?;
            answer.await.ok()
        });
        let told: Option<Vec<T>> = join_all(asks).await.into_iter().collect();
        told.ok_or(ControlError::Volume(VolumeError::Gone))
    }

    pub(super) async fn tell_member(&self, index: usize) {
        let (state, layout, weight, device) = {
            let config = self.config.borrow();
            let member = &config.members[index];
            (member.state, member.layout, member.weight, self.devices.borrow()[index])
        };
        let member = MemberId(index as u8);
        let device = device.filter(|_| state.takes_part());
        let set = |done| ControlRequest::SetMember { member, state, device, layout, weight, done };
        let _ = self.ask_all(set).await;
    }

    pub(super) async fn take_out(&self, member: MemberId, state: MemberState) -> Result<(), ControlError> {
        let index = usize::from(member.0);
        let _outgoing = self.outgoing.begin(&[index]);
        self.change(|config| {
            let epoch = config.epoch;
            let entry = &mut config.members[index];
            if is_told(entry.state) {
                entry.state = state;
                entry.out_epoch = epoch;
            }
            Ok(())
        })
        .await?;
        self.tell_member(index).await;
        Ok(())
    }

    pub(super) fn member(&self, index: usize) -> Result<MemberState, ControlError> {
        self.config.borrow().members.get(index).map(|m| m.state).ok_or(ControlError::NoMember(index))
    }

    /// Waits for the orders about members before this one. Each looks at states, waits, and changes them: a device that
    /// comes back while another takes its place would be one of them with the data of the other.
    pub(super) async fn turn(&self) -> Turn<'_, I> {
        self.order_done.wait(|| (!self.ordered.get()).then_some(())).await;
        self.ordered.set(true);
        Turn(self)
    }

    /// Refuses a device that is a member: its superblock must be neither read as that of a free device nor wiped.
    pub(super) fn refuse_in_use(&self, candidate: &Candidate) -> Result<(), ControlError> {
        let Some(member) = self.member_on(candidate.device) else { return Ok(()) };
        self.io.mark(Mark::MemberRefused);
        Err(ControlError::InUse { path: candidate.path.clone(), member })
    }

    /// The state of all shards, added up.
    ///
    /// # Errors
    /// When a shard is gone.
    pub async fn status(&self) -> Result<ShardStatus, ControlError> {
        let mut total = ShardStatus::default();
        self.ask_for(ControlRequest::Status).await?.iter().for_each(|status| total.add(status));
        Ok(total)
    }

    /// Counts requests of the control's own among those that are waited for.
    pub(super) async fn watched<T>(&self, device: DeviceId, requests: impl Future<Output = T>) -> T {
        let mark = self.io_timeouts.begin(device);
        let result = requests.await;
        self.io_timeouts.end(mark);
        result
    }

    /// The member that a device is, as long as it takes part.
    pub(super) fn member_on(&self, device: DeviceId) -> Option<usize> {
        self.devices_in_use().into_iter().find(|&(_, used)| used == device).map(|(index, _)| index)
    }

    /// How the pool was opened.
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// Refuses what would change something on the members.
    pub(super) fn refuse_read_only(&self) -> Result<(), ControlError> {
        if self.mode.is_read_only() { Err(ControlError::ReadOnly) } else { Ok(()) }
    }

    /// Refuses what only mdadm does.
    pub(super) fn refuse_md(&self) -> Result<(), ControlError> {
        if self.md.is_some() { Err(ControlError::MdMembers) } else { Ok(()) }
    }
}
