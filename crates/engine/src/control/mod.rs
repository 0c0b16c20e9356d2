//! The pool's control: the only writer of the configuration.
//!
//! It runs on one thread and talks to the shards through their mailboxes. A change of the configuration is durable on
//! every active member before anybody acts on it; a member that fails is recorded as out before any write that skipped
//! it is acknowledged.

mod error;
mod hung_members;
mod md_dirty;
mod membership;
mod replace;
mod reshape;
mod volumes;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use async_channel::{Receiver, Sender};

pub use self::membership::MembershipError;
use crate::client::VolumeShared;
pub use crate::client::directory::Catalog;
use crate::pool::md_arrays::{self as md_blocks, MdBlocks};
use crate::pool::{self, Candidate, Found, SuperblockError};
pub use error::ControlError;
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::sync::{Signal, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::{Config, MemberConfig, MemberState};
use sinew_format::model::policy::Policy;
use sinew_members::io_timeout::IoTimeouts;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::message::ShardEvent;
use sinew_members::message::{Answer, ControlRequest};
use sinew_members::status::{CounterValues, ShardStatus};
use sinew_members::throttle::Bounds;

/// Whether a member in this state gets every change of the configuration.
fn is_told(state: MemberState) -> bool {
    state.takes_part() || state == MemberState::Spare
}

/// The control of an open pool.
pub struct Control<I> {
    io: I,
    config: RefCell<Config>,
    devices: RefCell<Vec<Option<DeviceId>>>,
    shards: Vec<Sender<ControlRequest>>,
    catalog: Catalog,
    /// Where the configuration is kept, of an array of md's.
    md: Option<RefCell<MdBlocks>>,
    /// Counts the times a shard was about to write to an array of md's that it had not declared as written.
    write_orders: Cell<u64>,
    md_written: Signal,
    /// Of each shard, the key below which everything has moved in the growth under way.
    moved: RefCell<Vec<u64>>,
    /// No member took the configuration.
    failed: Cell<bool>,
    stepping_around: Cell<SpikeAvoidance>,
    policy: Cell<Policy>,
    changing: Cell<bool>,
    changed: Signal,
    /// Who waits for an answer to a request of the control's own, and after how long members are given up.
    vigil: Rc<IoTimeouts>,
    giving_up: Cell<bool>,
    /// Members' devices that were given up.
    given_up: RefCell<BTreeSet<DeviceId>>,
    /// All shards are recovered.
    is_open: Cell<bool>,
    /// An order about members is under way.
    ordered: Cell<bool>,
    order_done: Signal,
}

/// The turn of one order about members, until it is dropped.
struct Turn<'a, I>(&'a Control<I>);

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
        let read_only = found.md.as_ref().is_some_and(|md| !md.is_writable());
        for volume in found.config.volumes.iter().filter(|v| !v.deleting) {
            catalog
                .lock()
                .insert(volume.name.clone(), Arc::new(VolumeShared::new(volume.id, volume.bytes, read_only)));
        }
        Rc::new(Control {
            io,
            config: RefCell::new((*found.config).clone()),
            devices: RefCell::new(found.devices.clone()),
            shards,
            catalog,
            md: found.md.clone().map(RefCell::new),
            write_orders: Cell::new(0),
            md_written: Signal::default(),
            moved: RefCell::default(),
            failed: Cell::new(false),
            stepping_around: Cell::default(),
            policy: Cell::default(),
            changing: Cell::new(false),
            changed: Signal::default(),
            vigil: Rc::default(),
            giving_up: Cell::new(false),
            given_up: RefCell::default(),
            is_open: Cell::new(false),
            ordered: Cell::new(false),
            order_done: Signal::default(),
        })
    }

    /// Answers the shards' events until every shard is gone. To be spawned before the shards are opened.
    pub async fn run(self: Rc<Self>, events: Receiver<ShardEvent>) {
        self.keep_vigil();
        while let Ok(event) = events.recv().await {
            let control = Rc::clone(&self);
            self.io.spawn(async move { control.take_event(event).await });
        }
    }

    /// What is left to do once all shards are open: take back members that have returned, finish deleting volumes.
    pub async fn resume(self: &Rc<Self>, found: &Found) {
        self.is_open.set(true);
        for &(member, device) in &found.returned {
            self.io.mark(Mark::OpenedWithReturned);
            let path = self.config.borrow().members[usize::from(member.0)].path.clone();
            // A member that cannot be taken back stays missing, and the status says so.
            let _ = self.online(usize::from(member.0), Candidate { device, path }).await;
        }
        for &(member, device) in &found.removed {
            self.io.mark(Mark::OpenedWithRemoved);
            self.clear(usize::from(member.0), device).await;
        }
        let deleting: Vec<VolumeId> =
            self.config.borrow().volumes.iter().filter(|v| v.deleting).map(|v| v.id).collect();
        for id in deleting {
            self.io.mark(Mark::DeleteResumed);
            let _ = self.finish_delete(id).await;
        }
        self.use_spares().await;
        if self.md.is_some() {
            self.io.spawn(Rc::clone(self).run_rest());
        }
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

    async fn take_event(self: Rc<Self>, event: ShardEvent) {
        match event {
            ShardEvent::MemberFailed { member, done, .. } => {
                // Without redundancy nothing is gained by doing without it: its requests fail, others may not.
                if self.config.borrow().shape.failures() > 0 {
                    // When nothing is left to store the failure on, the pool as a whole has failed.
                    let _ = self.take_out(member, MemberState::Failed).await;
                }
                let _ = done.send(());
                self.use_spares().await;
            }
            ShardEvent::Write { done } => {
                let _ = done.send(self.declare_write().await);
            }
            ShardEvent::Moved { shard, to, key } => self.note_moved(shard, to, key).await,
            ShardEvent::Emptied => {
                let _ = self.finish_leaving().await;
            }
            ShardEvent::Hung(silence) => self.hear_silence(&silence).await,
        }
    }

    /// Changes the configuration: on every active member durably, then in memory. One change at a time.
    async fn change(
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

    async fn begin_change(&self) {
        self.changed.wait(|| (!self.changing.get()).then_some(())).await;
        self.changing.set(true);
    }

    fn end_change(&self) {
        self.changing.set(false);
        self.changed.notify();
    }

    /// Writes the configuration to members; the results are in their order.
    async fn write_config(
        &self,
        next: &Config,
        targets: &[(usize, DeviceId)],
    ) -> Vec<Result<(), SuperblockError>> {
        if let Some(blocks) = &self.md {
            let stored = md_blocks::store(blocks, &self.io, targets).await;
            return stored.into_iter().map(|result| result.map_err(SuperblockError::Io)).collect();
        }
        let write = |&(i, device)| self.watched(device, pool::write_superblock(&self.io, device, i, next));
        join_all(targets.iter().map(write)).await
    }

    /// Stores a configuration on its active members; one that fails meanwhile is out in the next attempt, and no member
    /// at all if it was `joining`: nothing is on it yet.
    async fn store(&self, mut next: Config, joining: Option<usize>) -> Result<(), ControlError> {
        if self.failed.get() {
            return Err(ControlError::Failed);
        }
        let mut failed = Vec::new();
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
            let results = self.write_config(&next, &targets).await;
            let mut again = false;
            let mut out = Vec::new();
            for (&(i, _), result) in targets.iter().zip(results) {
                match result {
                    Ok(()) => {}
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
            if !again {
                break;
            }
        }
        *self.config.borrow_mut() = next;
        for i in failed {
            self.tell_member(i).await;
        }
        Ok(())
    }

    /// More members have failed than the pool survives. What the members say of each other stays as it was, so that the
    /// pool can be opened again when they are back; until then nothing is acknowledged, since the shards find all out.
    async fn fail_pool(&self) {
        self.io.mark(Mark::PoolFailed);
        self.failed.set(true);
        for (index, _) in self.devices_in_use() {
            self.config.borrow_mut().members[index].state = MemberState::Failed;
            self.tell_member(index).await;
        }
    }

    /// Asks every shard and waits for all.
    async fn ask_all(
        &self,
        order: impl Fn(Answer<Result<(), VolumeError>>) -> ControlRequest,
    ) -> Result<(), VolumeError> {
        self.ask_each(order).await.map(drop)
    }

    /// As `ask_all`; gives the answers.
    async fn ask_each<T>(
        &self,
        order: impl Fn(Answer<Result<T, VolumeError>>) -> ControlRequest,
    ) -> Result<Vec<T>, VolumeError> {
        let asks = self.shards.iter().map(|shard| {
            let (done, answer) = oneshot::async_channel();
            let order = order(done);
            async move {
                shard.send(order).await.map_err(|_| VolumeError::Gone)?;
                answer.await.unwrap_or(Err(VolumeError::Gone))
            }
        });
        join_all(asks).await.into_iter().collect()
    }

    async fn tell_member(&self, index: usize) {
        let (state, layout, device) = {
            let config = self.config.borrow();
            let member = &config.members[index];
            (member.state, member.layout, self.devices.borrow()[index])
        };
        let member = MemberId(index as u8);
        let device = device.filter(|_| state.takes_part());
        let _ = self.ask_all(|done| ControlRequest::SetMember { member, state, device, layout, done }).await;
    }

    async fn take_out(&self, member: MemberId, state: MemberState) -> Result<(), ControlError> {
        let index = usize::from(member.0);
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

    fn member(&self, index: usize) -> Result<MemberState, ControlError> {
        self.config.borrow().members.get(index).map(|m| m.state).ok_or(ControlError::NoMember(index))
    }

    /// Waits for the orders about members before this one. Each looks at states, waits, and changes them: a device that
    /// comes back while another takes its place would be one of them with the data of the other.
    async fn turn(&self) -> Turn<'_, I> {
        self.order_done.wait(|| (!self.ordered.get()).then_some(())).await;
        self.ordered.set(true);
        Turn(self)
    }

    /// Takes a member offline.
    ///
    /// # Errors
    /// When the pool cannot do without it.
    pub async fn offline(&self, index: usize) -> Result<(), ControlError> {
        let _turn = self.turn().await;
        let state = self.member(index)?;
        if state != MemberState::Active {
            let hint = "only an active member can be taken offline";
            return Err(ControlError::MemberState { member: index, state: state.name(), hint });
        }
        self.take_out_unless_needed(index, MemberState::Offline).await
    }

    /// Takes out a member that the world says is broken, though it still answers.
    ///
    /// # Errors
    /// When the pool cannot do without it: it may still be good for something.
    pub async fn fail(&self, index: usize) -> Result<(), ControlError> {
        let turn = self.turn().await;
        match self.member(index)? {
            state if state.takes_part() => self.take_out_unless_needed(index, MemberState::Failed).await?,
            MemberState::Spare => self.take_out(MemberId(index as u8), MemberState::Failed).await?,
            _ => {}
        }
        drop(turn);
        self.use_spares().await;
        Ok(())
    }

    async fn take_out_unless_needed(&self, index: usize, state: MemberState) -> Result<(), ControlError> {
        if !self.can_spare(&[index]).await? {
            self.io.mark(Mark::MemberNeeded);
            return Err(ControlError::Needed(index));
        }
        self.take_out(MemberId(index as u8), state).await
    }

    /// Brings a member back; what it missed is rebuilt.
    ///
    /// # Errors
    /// When the device is not that member, or the member is not out.
    pub async fn online(&self, index: usize, candidate: Candidate) -> Result<(), ControlError> {
        self.refuse_md()?;
        let turn = self.turn().await;
        let state = self.member(index)?;
        if !matches!(state, MemberState::Failed | MemberState::Offline | MemberState::Missing) {
            let hint = "only a failed, offline or missing member can be brought back";
            return Err(ControlError::MemberState { member: index, state: state.name(), hint });
        }
        self.refuse_in_use(&candidate)?;
        self.check_identity(index, &candidate).await?;
        // What was marked as missed must be known durably before the member counts again.
        self.ask_all(|done| ControlRequest::Flush { done }).await?;
        self.io.mark(Mark::MemberBack);
        self.activate(index, candidate.device, |member| member.path.clone_from(&candidate.path)).await?;
        drop(turn);
        self.use_spares().await;
        Ok(())
    }

    /// Refuses a device that is a member: it is not to be looked at as if nobody used it, and still less to be wiped.
    fn refuse_in_use(&self, candidate: &Candidate) -> Result<(), ControlError> {
        let Some(member) = self.member_on(candidate.device) else { return Ok(()) };
        self.io.mark(Mark::MemberRefused);
        Err(ControlError::InUse { path: candidate.path.clone(), member })
    }

    async fn check_identity(&self, index: usize, candidate: &Candidate) -> Result<(), ControlError> {
        let wrong = |why: String| {
            self.io.mark(Mark::MemberRefused);
            ControlError::WrongDevice { path: candidate.path.clone(), member: index, why }
        };
        let superblock = pool::read_superblock(&self.io, candidate.device)
            .await
            .map_err(|error| wrong(error.to_string()))?;
        let config = self.config.borrow();
        let theirs = &superblock.config;
        if theirs.pool != config.pool {
            return Err(wrong(format!("it belongs to pool {}", theirs.name)));
        }
        if theirs.members[usize::from(superblock.member)].uuid != config.members[index].uuid {
            return Err(wrong(format!("it is, or was, member {}", superblock.member)));
        }
        let mut active = (0..config.members.len()).filter(|&i| config.members[i].state.takes_part());
        let was_cut_off = active.any(|i| theirs.was_cut_off(&config, i));
        if !config.has_opening(theirs.last_opening(was_cut_off)) {
            return Err(wrong("it was used apart from the other members; replace it instead".to_owned()));
        }
        pool::too_small(&self.io, candidate.device, &config, index)
            .map_or(Ok(()), |why| Err(wrong(format!("it {why}"))))
    }

    /// Takes a device in as a member that is out.
    async fn activate(
        &self,
        index: usize,
        device: DeviceId,
        edit: impl FnOnce(&mut MemberConfig),
    ) -> Result<(), ControlError> {
        self.change(|config| {
            let is_spare = config.shape.members_placed().is_some_and(|places| index >= places);
            let member = &mut config.members[index];
            edit(member);
            member.state = if is_spare { MemberState::Spare } else { MemberState::Active };
            member.out_epoch = 0;
            self.devices.borrow_mut()[index] = Some(device);
            Ok(())
        })
        .await?;
        self.tell_member(index).await;
        Ok(())
    }

    /// Starts or stops a scrub.
    ///
    /// # Errors
    /// When a shard cannot record it.
    pub async fn scrub(&self, run: bool) -> Result<(), ControlError> {
        Ok(self.ask_all(|done| ControlRequest::Scrub { run, done }).await?)
    }

    /// Bounds background work of the whole pool.
    pub async fn throttle(&self, bounds: Bounds) {
        let shards = self.shards.len() as u64;
        let share = Bounds {
            bytes_per_second: bounds.bytes_per_second.div_ceil(shards),
            rest_above: bounds.rest_above.div_ceil(shards),
        };
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::Throttle(share)).await;
        }
    }

    /// Looks for latency spikes in another way, or not at all.
    pub async fn step_around(&self, mode: SpikeAvoidance) {
        self.stepping_around.set(mode);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::SpikeAvoidance(mode)).await;
        }
    }

    /// Lays out small writes and converts them in another way from now on. Arrays have no such choice.
    ///
    /// # Errors
    /// When the pool is an array.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), ControlError> {
        if self.config().shape.mapped().is_none() {
            return Err(ControlError::ArrayPolicy);
        }
        self.policy.set(policy);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::Policy(policy)).await;
        }
        Ok(())
    }

    /// How small writes are laid out and converted.
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// How latency spikes are looked for.
    pub fn stepping_around(&self) -> SpikeAvoidance {
        self.stepping_around.get()
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

    /// The counters of all shards, added up.
    ///
    /// # Errors
    /// When a shard is gone.
    pub async fn counters(&self) -> Result<CounterValues, ControlError> {
        let mut total = CounterValues::default();
        self.ask_for(ControlRequest::Counters).await?.iter().for_each(|counters| total.add(counters));
        Ok(total)
    }

    /// What every shard tells.
    async fn ask_for<T>(&self, order: impl Fn(Answer<T>) -> ControlRequest) -> Result<Vec<T>, ControlError> {
        let order = &order;
        let asks = self.shards.iter().map(|shard| async move {
            let (reply, answer) = oneshot::async_channel();
            shard.send(order(reply)).await.ok()?;
            answer.await.ok()
        });
        let told: Option<Vec<T>> = join_all(asks).await.into_iter().collect();
        told.ok_or(ControlError::Volume(VolumeError::Gone))
    }

    /// Writes everything out, so that the next opening is quick. Frontends should have stopped.
    ///
    /// # Errors
    /// When a shard cannot.
    pub async fn close(&self) -> Result<(), ControlError> {
        self.ask_all(|done| ControlRequest::Close { done }).await?;
        self.declare_rest(true).await
    }
}
