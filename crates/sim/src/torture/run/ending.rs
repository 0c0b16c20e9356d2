//! The end of an opening: power loss, process death, a blackout or a clean close, and the members after it.

use std::rc::Rc;

use sinew_layout::Level;

use crate::device::CrashPolicy;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::torture::plan::Ending;

use super::state::Run;

/// The longest time for which a program goes on after it has closed the pool.
const LINGER_NS_MAX: u64 = 50_000_000;

impl Run {
    pub(super) fn end(&mut self, pool: Rc<OpenPool>, ending: Ending) -> Result<(), Wrong> {
        self.collect(&pool)?;
        if ending == Ending::Close {
            self.close(&pool)?;
        }
        drop(pool);
        self.end_world(ending);
        Ok(())
    }

    /// All members vanish at once. Every request must still be answered.
    pub(super) fn black_out(&mut self) -> Result<(), Wrong> {
        self.note(|| "all members vanish".to_owned());
        self.count("blackouts");
        self.work.blackout.set(true);
        // All devices, because spares may be about to become members.
        let devices = self.world.devices().into_iter().map(|id| self.world.device(id));
        devices.for_each(|device| device.detach(CrashPolicy::Random));
        let (work, orders) = (Rc::clone(&self.work), Rc::clone(&self.orders));
        let done = move || work.at_work.get() == 0 && orders.get() == 0;
        self.world.run_until(done).map_err(|why| {
            let left = self.work.at_work.get();
            Kind::Stuck.of(format!("{left} clients wait though all members are gone: {why}"))
        })?;
        self.check_wrong()
    }

    pub(super) fn close(&self, pool: &OpenPool) -> Result<(), Wrong> {
        let control = Rc::clone(&pool.control);
        let closed = self.world.block_on(async move { control.close().await });
        let not_closed = |e: &dyn std::fmt::Display| Kind::NotOpened.of(format!("closing: {e}"));
        closed.map_err(|e| not_closed(&e))?.map_err(|e| not_closed(&e))?;
        self.linger(pool)
    }

    /// Lets the program go on for a while once it has closed the pool: it must not write any more, since another host may open the
    /// pool.
    fn linger(&self, pool: &OpenPool) -> Result<(), Wrong> {
        let mut rng = Rng::stream(self.work.plan.seed, "linger", self.world.incarnation().into());
        if !rng.chance(0.25) {
            return Ok(());
        }
        let config = pool.control.config();
        let takes_part = |&member: &usize| config.members.get(member).is_some_and(|m| m.state.takes_part());
        let members: Vec<usize> = self.members().filter(takes_part).collect();
        let changes = |&member: &usize| {
            let stats = self.device(member).stats();
            stats.writes + stats.discards
        };
        let before: Vec<u64> = members.iter().map(changes).collect();
        self.world.run_for(rng.between(0, LINGER_NS_MAX)).map_err(|e| Kind::Stuck.of(e))?;
        let written = members.iter().zip(before).find(|(member, before)| changes(member) > *before);
        match written {
            Some((member, _)) => {
                Err(Kind::WrongAnswer.of(format!("member {member} was written after the end")))
            }
            None => Ok(()),
        }
    }

    pub(super) fn end_world(&mut self, ending: Ending) {
        self.note(|| format!("end: {}", ending.name()));
        self.clear_faults();
        self.orders = Rc::default();
        self.work.volumes.borrow_mut().clear();
        match ending {
            Ending::PowerLoss => {
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
            Ending::ProcessDeath => self.world.kill_process(),
            // Power loss follows a clean close: nothing may depend on unflushed writes.
            Ending::Close => {
                self.work.oracle.borrow_mut().process_died();
                self.work.oracle.borrow_mut().verified();
                self.world.crash(CrashPolicy::Random);
                self.work.oracle.borrow_mut().power_failed();
            }
            Ending::Blackout => {
                self.world.kill_process();
                self.work.oracle.borrow_mut().power_failed();
                self.work.blackout.set(false);
                // Members that were gone before the blackout come back as well.
                let devices = self.world.devices().into_iter().map(|id| self.world.device(id));
                devices.for_each(|device| device.attach());
                self.troubled_at = self.world.now();
            }
        }
        self.end_needed_hangs();
        self.change_members();
        self.fill_before_opening();
        if ending == Ending::ProcessDeath {
            self.process_died();
        }
    }

    /// Without checksums and a log, the stale copy of a mirror cannot be told from the new one: data may be older, as after a
    /// power loss.
    fn process_died(&mut self) {
        let is_mirror = matches!(self.work.plan.array, Some(spec) if matches!(spec.level, Level::Raid1 | Level::Raid10 { .. }));
        let oracle = &mut self.work.oracle.borrow_mut();
        match is_mirror && self.members().any(|member| self.device(member).is_gone()) {
            true => oracle.power_failed(),
            false => oracle.process_died(),
        }
    }

    /// Ends the hang of members without which the pool cannot be opened.
    fn end_needed_hangs(&self) {
        let is_needed = |member: &usize| !self.lost.contains(member) || self.needed.contains(member);
        for member in self.members().filter(is_needed) {
            self.device(member).end_silence();
        }
    }

    /// Some members that were gone come back with the power; others stay away, or go now.
    fn change_members(&mut self) {
        // By incarnation, so that each aborted attempt to open the pool draws differently.
        let mut rng = Rng::stream(self.work.plan.seed, "change", self.world.incarnation().into());
        for member in self.members() {
            let device = self.device(member);
            let (back, goes) = (rng.chance(0.5), rng.chance(0.1));
            if device.is_gone() && back {
                self.note(|| format!("member {member} is back"));
                device.attach();
                self.troubled_at = self.world.now();
            } else if !device.is_gone() && goes && self.may_lose(member) {
                self.note(|| format!("member {member} goes"));
                self.lose(member);
                device.detach(CrashPolicy::Random);
            }
        }
    }
}

/// Draws the end of an opening: power loss as often as the others together; a blackout rarely, because little work is left to
/// check after it.
pub(super) fn draw_ending(endings: &[Ending], rng: &mut Rng) -> Ending {
    let weight = |ending: &Ending| match ending {
        Ending::PowerLoss => 8,
        Ending::ProcessDeath | Ending::Close => 4,
        Ending::Blackout => 1,
    };
    let mut left = rng.below(endings.iter().map(weight).sum());
    let chosen = endings.iter().find(|ending| {
        let found = left < weight(ending);
        left = left.saturating_sub(weight(ending));
        found
    });
    chosen.copied().unwrap_or(Ending::PowerLoss)
}
