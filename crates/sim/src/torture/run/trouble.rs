//! What befalls members, and what operators do, while clients work.

use std::cell::Cell;
use std::rc::Rc;

use sinew_engine::disk::superblock::MemberState;
use sinew_engine::pool::Candidate;

use crate::device::CrashPolicy;
use crate::faults::DeviceFaults;
use crate::host::OpenPool;

use super::{QUIET_NS, Run, is_whole};

impl Run {
    /// Something happens to a member, or an operator does something.
    pub(super) fn trouble(&mut self, pool: &Rc<OpenPool>) {
        let member = self.rng.below(self.devices.len() as u64) as usize;
        let device = self.world.device(self.devices[member]);
        let control = Rc::clone(&pool.control);
        let candidate = Candidate { device: self.devices[member], path: format!("m{member}") };
        let is_lost = self.lost.contains(&member);
        let may_lose = is_lost || self.lost.len() < self.work.plan.lost && !self.corrupt.contains(&member);
        // A device that went away and came back is another to the kernel: the pool has seen the old one fail by then.
        let is_out = control.config().members[member].state != MemberState::Active;
        let is_mendable = is_lost && (!device.is_gone() || is_out);
        match self.rng.below(13) {
            0 | 1 if may_lose => {
                self.lose(member);
                self.note("members_detached");
                device.detach(CrashPolicy::Random);
            }
            2 if may_lose => {
                self.lose(member);
                self.note("members_taken_offline");
                self.order(async move { drop(control.offline(member).await) });
            }
            3 if may_lose => {
                self.lose(member);
                self.note("members_made_to_fail");
                device.set_faults(DeviceFaults { write_error: 0.2, flush_error: 0.2, ..device.faults() });
            }
            4 | 5 if is_mendable => {
                self.mend(member);
                self.note("members_brought_back");
                self.order(async move { drop(control.online(member, candidate).await) });
            }
            11 | 12 if is_lost && is_out => {
                self.note("members_evacuated");
                self.order(async move { drop(control.replace(member, None, false).await) });
            }
            6 | 10 if is_lost && is_out => {
                self.mend(member);
                self.note("members_replaced");
                if self.rng.chance(0.5) {
                    device.replace_by_blank();
                }
                self.order(async move { drop(control.replace(member, Some(candidate), true).await) });
            }
            7 => {
                let run = self.rng.chance(0.8);
                self.order(async move { drop(control.scrub(run).await) });
            }
            8 => {
                self.note("members_slowed");
                device.slow_down(self.rng.between(2, 200), self.rng.between(1_000_000, 100_000_000));
            }
            _ => self.forgive(pool),
        }
    }

    pub(super) fn lose(&mut self, member: usize) {
        self.lost.insert(member);
        self.troubled_at = self.world.now();
    }

    /// The device works again; what it did until now may still have consequences.
    fn mend(&mut self, member: usize) {
        let device = self.world.device(self.devices[member]);
        device.attach();
        device.set_faults(DeviceFaults { write_error: 0.0, flush_error: 0.0, ..device.faults() });
        self.troubled_at = self.world.now();
    }

    fn order(&self, order: impl Future<Output = ()> + 'static) {
        let orders = Rc::clone(&self.orders);
        orders.set(orders.get() + 1);
        self.world.spawn(async move {
            order.await;
            orders.set(orders.get() - 1);
        });
    }

    /// Members count as whole again once the pool says that nothing is missing, and all that befell them is long over.
    fn forgive(&mut self, pool: &Rc<OpenPool>) {
        let is_bad = |&m: &usize| {
            let device = self.world.device(self.devices[m]);
            device.is_gone() || device.faults().write_error > 0.0
        };
        let settled = self.world.now() > self.troubled_at + QUIET_NS && self.orders.get() == 0;
        if self.lost.is_empty() || self.lost.iter().any(is_bad) || !settled {
            return;
        }
        let control = Rc::clone(&pool.control);
        let answer = Rc::new(Cell::new(None));
        let slot = Rc::clone(&answer);
        self.world.spawn(async move { slot.set(control.status().await.ok()) });
        self.world.run_steps(50);
        let all_active = pool.control.config().members.iter().all(|m| m.state == MemberState::Active);
        if all_active && answer.take().is_some_and(|status| is_whole(&status)) {
            self.lost.clear();
        }
    }
}
