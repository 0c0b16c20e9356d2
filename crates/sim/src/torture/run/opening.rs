//! Opening the pool, with and without faults.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_engine::pool::Candidate;
use sinew_members::throttle::Limits;

use crate::faults::DeviceFaults;
use crate::host::{OpenError, OpenPool};
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::torture::plan::{Ending, Trouble};

use super::acts::{HANG_NS, IO_TIMEOUT_DISK_NS, IO_TIMEOUT_NS};
use super::state::{Run, path_of};

/// Steps that recovery takes in a small pool; a crash during it comes within these.
const OPENING_STEPS: u64 = 2000;
/// Time that most of it takes.
const OPENING_NS: u64 = 5_000_000;

impl Run {
    /// Every attached device: members, spares, and devices that spares have replaced.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let there = self.world.devices().into_iter().filter(|&id| !self.world.device(id).is_gone());
        there.map(|device| Candidate { device, path: path_of(device) }).collect()
    }

    /// Switches faults on during some openings: members that corrupt data, in half of the cases so often that data which
    /// recovery has verified is bad when recovery reads it again; and lost members whose writes fail, or that hang.
    pub(super) fn trouble_opening(&mut self) {
        let mut rng = Rng::stream(self.work.plan.seed, "trouble opening", self.opening as u64);
        if !rng.chance(0.4) {
            return;
        }
        let worn = self.work.plan.corruption > 0.0 && rng.chance(0.5);
        self.set_faults(if worn { 0.1 } else { self.work.plan.corruption });
        // After a member hung that the pool needed, or one was given up because it is slow, more may count as lost than may be
        // gone at one time.
        if !self.needed.is_empty() || !self.may_be_lost(self.lost.iter()) {
            return;
        }
        let fails = self.work.plan.troubles.contains(&Trouble::Fail);
        let members = self.devices.borrow().len();
        for member in self.lost.iter().copied().filter(|&m| m < members && fails && rng.chance(0.5)) {
            let device = self.device(member);
            device.set_faults(DeviceFaults { write_error: 0.1, flush_error: 0.1, ..device.faults() });
        }
        let hangs = self.work.plan.troubles.contains(&Trouble::HungDevices);
        for member in self.lost.iter().copied().filter(|&m| m < members && hangs) {
            if !rng.chance(0.3) {
                continue;
            }
            let (device, io) = (self.device(member), self.world.io());
            let (after, ns) = (rng.below(OPENING_NS), rng.between(HANG_NS.1 / 2, HANG_NS.1));
            self.world.spawn(async move {
                io.sleep(after).await;
                device.silence(ns);
            });
        }
    }

    /// Applies the plan's settings to the pool that was just opened.
    pub(super) fn order_settings(&self, pool: &Rc<OpenPool>) {
        let plan = &self.work.plan;
        if plan.battery && plan.array.is_none() {
            let config = pool.control.config();
            let shards = config.geometry.shards();
            for (device, member) in self.devices.borrow().iter().zip(&config.members) {
                self.world.device(*device).set_battery_backed(member.layout.metadata(shards).collect());
            }
        }
        let limits = Limits { bytes_per_second: plan.throttle, pause_above_iops: 0 };
        let (control, mode, policy) = (Rc::clone(&pool.control), plan.spike_avoidance, plan.policy());
        let group_form = plan.array.map(|_| plan.group_form);
        let give_up_ns = if plan.has_disks() { IO_TIMEOUT_DISK_NS } else { IO_TIMEOUT_NS };
        // Later openings find it in the configuration, and so the share that was ordered last.
        let elastic = (plan.is_elastic() && self.opening == 0).then(|| plan.elastic_policy());
        self.world.spawn(async move {
            if let Some(policy) = elastic {
                let _ = control.set_elastic_policy(policy).await;
            }
            control.set_io_timeout(Some(give_up_ns)).await;
            control.throttle(limits).await;
            control.set_spike_avoidance(mode).await;
            if let Some(form) = group_form {
                control.set_group_form(form).await;
            }
            if let Some(policy) = policy {
                let _ = control.set_policy(policy).await;
            }
        });
    }

    /// Opens the pool as a server does: if a member fails meanwhile, again without it. `None` when a planned crash ended the
    /// opening.
    pub(super) fn open(&mut self, may_crash: bool) -> Result<Option<Rc<OpenPool>>, Wrong> {
        let mut candidates = self.candidates();
        loop {
            let Some(opened) = self.try_open(may_crash, candidates.clone())? else { return Ok(None) };
            match opened {
                Ok(pool) => return self.opened(pool).map(Some),
                Err(OpenError::Device { path, why }) if self.may_fail(&path) => {
                    self.note(|| format!("{path} fails while the pool is opened: {why}"));
                    self.count("members_left_out");
                    candidates.retain(|candidate| candidate.path != path);
                    self.world.kill_process();
                }
                Err(error) => return Err(Kind::NotOpened.of(error)),
            }
        }
    }

    /// Whether a device may fail. If so, it counts as lost from here on.
    fn may_fail(&mut self, path: &str) -> bool {
        let is_at_fault = |m: &usize| path_of(self.device(*m).id()) == path;
        match self.members().find(is_at_fault) {
            Some(member) if self.lost.contains(&member) || self.impaired.contains(&member) => {
                self.lose(member);
                true
            }
            _ => false,
        }
    }

    /// One attempt to open the pool on these devices.
    fn try_open(
        &mut self,
        may_crash: bool,
        candidates: Vec<Candidate>,
    ) -> Result<Option<Result<OpenPool, OpenError>>, Wrong> {
        let opened = Rc::new(RefCell::new(None));
        let (slot, io) = (Rc::clone(&opened), self.world.io());
        let mut rng = Rng::stream(self.work.plan.seed, "opening", self.opening as u64);
        let crash_after = (may_crash && rng.chance(0.15) && self.work.plan.may_crash())
            .then(|| rng.between(1, OPENING_STEPS));
        let remote = move || rng.chance(0.5);
        // Some openings take all tables into memory.
        let bounded = Rng::stream(self.work.plan.seed, "bounded opening", self.opening as u64).chance(0.8);
        let table_cache = self.work.plan.table_cache_bytes().filter(|_| bounded);
        self.note(|| format!("opening {} with {} devices", self.opening, candidates.len()));
        self.world.spawn(async move {
            let result = OpenPool::open_bounded(io, candidates, table_cache, remote).await;
            *slot.borrow_mut() = Some(result);
        });
        if let Some(steps) = crash_after {
            // The crash comes whether the pool is open by then or not.
            self.world.run_steps(steps);
            self.end_world(Ending::PowerLoss);
            return Ok(None);
        }
        let is_open = {
            let opened = Rc::clone(&opened);
            move || opened.borrow().is_some()
        };
        self.world.run_until(is_open).map_err(|e| Kind::NotOpened.of(e))?;
        Ok(opened.take())
    }

    fn opened(&mut self, pool: OpenPool) -> Result<Rc<OpenPool>, Wrong> {
        let pool = Rc::new(pool);
        self.work.refusals.set(0);
        self.recovered.add(pool.recovery());
        let volumes = 0..self.work.volume_blocks.borrow().len();
        let handles = volumes.filter_map(|i| Some((i, pool.volume(&format!("v{i}"))?))).collect();
        *self.work.volumes.borrow_mut() = handles;
        self.find_devices(&pool);
        self.forget_never_joined();
        self.tenancies.reopened(&self.work, &pool)?;
        if let Ok(limits) = pool.control.volume_limits("v0") {
            self.work.limits.reopened(self.world.now(), limits)?;
        }
        Ok(pool)
    }
}
