//! Operators add, remove and weigh members, while clients work and after all faults have stopped.

use std::rc::Rc;

use sinew_core::io::{DeviceId, Io};
use sinew_engine::pool::{self, Candidate};
use sinew_format::codec::DecodeError;
use sinew_format::model::config::MemberState;
use sinew_members::status::ShardStatus;

use crate::device::CrashPolicy;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::torture::plan::Growth;

use super::state::{Run, path_of};

/// Time in which a device that is being added may be lost.
const JOINING_NS: u64 = 20_000_000;

impl Run {
    /// With some chance, adds, removes or weighs a member. Draws from a stream of its own, so that growth changes no other draw.
    pub(super) fn grow(&mut self, pool: &Rc<OpenPool>) {
        let plan = &self.work.plan;
        if self.growths >= plan.growths || plan.growth.is_empty() || !self.growth_rng.chance(plan.grow) {
            return;
        }
        let mut rng = Rng::stream(plan.seed, "growth of", self.growths);
        self.growths += 1;
        let growth = plan.growth[rng.below(plan.growth.len() as u64) as usize];
        let members = &pool.control.config().members;
        let in_state = |state| (0..members.len()).filter(move |&i| members[i].state == state);
        match growth {
            Growth::Add => self.add(pool, &mut rng),
            Growth::Remove => {
                let active: Vec<usize> = in_state(MemberState::Active).collect();
                if let Some(&place) = active.get(rng.below(active.len() as u64) as usize) {
                    self.remove(pool, place);
                }
            }
            Growth::Keep => {
                if let Some(place) = in_state(MemberState::Leaving).next() {
                    self.note(|| format!("growth: member {place} is told to stay"));
                    self.count("members_kept");
                    let control = Rc::clone(&pool.control);
                    self.order(async move { drop(control.keep(place).await) });
                }
            }
            Growth::Weigh => {
                let (place, weight) = (rng.below(members.len() as u64) as usize, rng.between(1, 100) as u8);
                self.note(|| format!("growth: member {place} has weight {weight}"));
                self.count("members_weighed");
                let control = Rc::clone(&pool.control);
                self.order(async move { drop(control.set_weight(place, weight).await) });
            }
        }
    }

    fn next_device(&mut self) -> Option<DeviceId> {
        let kind = self.work.plan.added.get(self.added)?.clone();
        self.added += 1;
        Some(self.add_device(&kind))
    }

    fn add(&mut self, pool: &Rc<OpenPool>, rng: &mut Rng) {
        let Some(device) = self.next_device() else { return };
        if rng.chance(0.2) && self.may_lose_next(pool) {
            let next = self.devices.borrow().len();
            self.lose(next);
            let (io, joining, after) = (self.world.io(), self.world.device(device), rng.below(JOINING_NS));
            self.world.spawn(async move {
                io.sleep(after).await;
                joining.detach(CrashPolicy::Random);
            });
            self.count("members_lost_joining");
        }
        self.note(|| format!("growth: {} is added", path_of(device)));
        self.count("members_added");
        let (control, devices, left) =
            (Rc::clone(&pool.control), Rc::clone(&self.devices), Rc::clone(&self.left));
        self.order(async move {
            let candidate = Candidate { device, path: path_of(device) };
            let Ok(place) = control.add(candidate, false).await else { return };
            left.borrow_mut().remove(&place);
            let mut devices = devices.borrow_mut();
            match devices.get_mut(place) {
                Some(before) => *before = device,
                None => devices.push(device),
            }
        });
    }

    /// Whether a device added now would be the next member, and may be lost. No member may be about to leave, either: the device
    /// could take its place.
    fn may_lose_next(&self, pool: &OpenPool) -> bool {
        let next = self.devices.borrow().len();
        let members = pool.control.config().members;
        let is_next = members.len() == next && members.iter().all(|m| m.state == MemberState::Active);
        is_next && self.orders.get() == 0 && self.opening < self.work.plan.openings && self.may_lose(next)
    }

    fn remove(&mut self, pool: &Rc<OpenPool>, place: usize) {
        self.note(|| format!("growth: member {place} is removed"));
        self.count("members_removed");
        self.left.borrow_mut().insert(place);
        let control = Rc::clone(&pool.control);
        self.order(async move { drop(control.remove(place).await) });
    }

    /// After all faults have stopped: adds another member, removes another; and waits until leaving members have left, if
    /// there is room.
    pub(super) fn grow_at_last(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let plan = &self.work.plan;
        // `grow_array` is for arrays.
        if plan.array.is_some() {
            return Ok(());
        }
        let seed = plan.seed;
        let mut rng = Rng::stream(seed, "growth at last", 0);
        if plan.growth.contains(&Growth::Add) && rng.chance(0.5) {
            self.add(pool, &mut Rng::stream(seed, "growth at last, added", 0));
        }
        if self.work.plan.growth.contains(&Growth::Remove) && rng.chance(0.5) {
            let place = rng.below(self.devices.borrow().len() as u64) as usize;
            if pool.control.config().members[place].state == MemberState::Active {
                self.remove(pool, place);
            }
        }
        let orders = Rc::clone(&self.orders);
        self.wait_until(pool, "growing", |_| orders.get() == 0)?;
        let leaving = |i: &usize| pool.control.config().members[*i].state == MemberState::Leaving;
        for place in self.members().filter(leaving) {
            // A pool that is nearly full may need the member.
            let fits = |status: &ShardStatus| status.stored_bytes <= status.capacity_bytes / 4 * 3;
            self.wait_until(pool, "leaving", |status| !leaving(&place) || !fits(status))?;
            if leaving(&place) {
                let control = Rc::clone(&pool.control);
                let kept = self.world.block_on(async move { control.keep(place).await });
                // It may have left just now.
                drop(kept.map_err(|e| Kind::Stuck.of(e))?);
            }
        }
        Ok(())
    }

    /// Checks that the superblock of members that have left is gone, and blanks them: the pool must not need them.
    pub(super) fn check_left(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let config = pool.control.config();
        for place in self.members().filter(|&place| self.has_left(&config, place)) {
            let (device, io) = (self.device(place), self.world.io());
            let id = device.id();
            let found = self.world.block_on(async move { pool::read_superblock(&io, id).await });
            let found = found.map_err(|e| Kind::Stuck.of(e))?;
            // A member that corrupts data may have lost the write.
            if found != Err(DecodeError::Foreign) && !self.impaired.contains(&place) {
                let name = found.map(|superblock| superblock.config.name);
                return Err(Kind::WrongAnswer.of(format!("member {place} has left and is still {name:?}")));
            }
            self.note(|| format!("member {place} has left and is blanked"));
            device.replace_by_blank();
        }
        Ok(())
    }
}
