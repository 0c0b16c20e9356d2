//! Liveness: once faults have stopped, everything is answered, comes back, is rebuilt, and comes to rest.

use std::rc::Rc;

use sinew_core::volume::Volume;
use sinew_engine::control::ControlError;
use sinew_engine::pool::Candidate;
use sinew_format::model::config::MemberState;
use sinew_members::status::ShardStatus;

use crate::device::CrashPolicy;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::world::StuckReason;

use super::trouble::{array_of, is_growing};
use super::{Run, STEPS_MAX, path_of};

/// Virtual time that anything may take once faults have stopped.
const DRAIN_NS: u64 = 600_000_000_000;
/// Shortest and longest time between two looks whether it is done.
const LOOK_NS: (u64, u64) = (2_000_000, 1_000_000_000);
/// Steps within which a pool without work comes to rest.
const REST_STEPS: u64 = 300_000;
/// Flushes after which nothing waits for release any more: releasing makes work that may release in turn.
const REST_ROUNDS: usize = 16;

impl Run {
    /// Faults stop, devices return, clients have some more requests. All must be answered, members come back or are
    /// evacuated and replaced, what they missed is rebuilt, scrubs find nothing, every block is right, and the engine
    /// comes to rest holding nothing.
    pub(super) fn drain(&mut self) -> Result<(), Wrong> {
        self.heal();
        let pool = self.open_well()?;
        self.verify()?;
        let requests = self.work.plan.requests.div_ceil(4);
        self.send_clients(&pool, requests);
        self.evacuate_some(&pool)?;
        self.bring_back_all(&pool)?;
        self.grow_at_last(&pool)?;
        let work = Rc::clone(&self.work);
        self.wait_until(&pool, "answering clients", |_| work.at_work.get() == 0)?;
        self.wait_until(&pool, "rebuilding", is_safe)?;
        self.grow_array(&pool);
        let grown = |_: &ShardStatus| !array_of(&pool).is_some_and(|array| is_growing(&array));
        let orders = Rc::clone(&self.orders);
        self.wait_until(&pool, "growing", |status| orders.get() == 0 && grown(status))?;
        self.wait_until(&pool, "resyncing what is new", is_safe)?;
        self.scrub(&pool, true)?;
        let errors = self.scrub(&pool, false)?;
        if errors > 0 {
            return Err(Kind::ScrubErrors.of(format!("a second scrub still finds {errors} errors")));
        }
        self.verify()?;
        self.rest(&pool)?;
        self.collect(&pool)?;
        self.close(&pool)?;
        self.check_left(&pool)?;
        self.check_stripes(&pool)?;
        drop(pool);
        self.work.volumes.borrow_mut().clear();
        self.world.crash(CrashPolicy::DropAll);
        self.work.oracle.borrow_mut().process_died();
        let pool = self.open_well()?;
        if pool.recovery.records_verified > 0 {
            let left = pool.recovery.records_verified;
            return Err(Kind::NotOpened.of(format!("{left} records to verify after a clean close")));
        }
        self.verify()?;
        self.rest(&pool)?;
        match pool.unbalanced().first() {
            Some(what) => Err(Kind::NotDrained.of(format!("members are not in balance: {what}"))),
            None => Ok(()),
        }
    }

    fn open_well(&mut self) -> Result<Rc<OpenPool>, Wrong> {
        self.open(false)?.ok_or(Kind::NotOpened.of("the pool did not open"))
    }

    /// All faults stop; what ran out of space has some.
    fn heal(&mut self) {
        self.note(|| "all faults stop".to_owned());
        self.clear_faults();
        for id in self.world.devices() {
            self.world.device(id).attach();
            self.world.device(id).end_silence();
        }
        for &id in self.short.borrow().iter() {
            self.world.device(id).remove_model();
        }
    }

    fn states(&self, pool: &OpenPool) -> Vec<MemberState> {
        pool.control.config().members.iter().map(|member| member.state).collect()
    }

    /// Whether so many members are active that every chunk of a stripe finds another one, whatever its mirrors lie on.
    fn has_spare_width(&self, pool: &OpenPool) -> bool {
        let g = pool.control.config().mapped();
        let active = self.states(pool).into_iter().filter(|&state| state == MemberState::Active).count();
        active >= g.data_columns + g.parity_columns() + g.failures()
    }

    /// Some members that are out are given up, and their chunks rebuilt on the others, to the end, if there is room.
    fn evacuate_some(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        if self.work.plan.array.is_some() {
            return Ok(());
        }
        let mut rng = Rng::stream(self.work.plan.seed, "evacuate", 0);
        for member in self.members() {
            let state = self.states(pool)[member];
            let is_out = !state.takes_part() && state != MemberState::Removed;
            if !rng.chance(0.4) || !is_out || !self.has_spare_width(pool) {
                continue;
            }
            self.left.borrow_mut().remove(&member);
            let control = Rc::clone(&pool.control);
            let begun = self.world.block_on(async move { control.replace(member, None, false).await });
            match begun.map_err(|e| Kind::Stuck.of(e))? {
                Ok(()) => self.note(|| format!("member {member} is evacuated")),
                Err(ControlError::TooFewLeft { .. }) => continue,
                Err(error) => return Err(Kind::WrongAnswer.of(format!("evacuating: {error}"))),
            }
            // A pool that is nearly full may need the member that is gone, or a new one.
            let control = Rc::clone(&pool.control);
            let gone = |_: &ShardStatus| control.config().members[member].state == MemberState::Removed;
            let fits = |status: &ShardStatus| status.stored_bytes <= status.capacity_bytes / 4 * 3;
            self.wait_until(pool, "evacuating", |status| gone(status) || !fits(status))?;
            if self.states(pool)[member] == MemberState::Removed {
                self.count("members_evacuated_at_last");
            }
        }
        Ok(())
    }

    /// Members that are out come back, or are replaced where the pool wants no more of them.
    fn bring_back_all(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        for member in self.members() {
            let Some(place) = self.place_of(pool, member) else { continue };
            let state = self.states(pool)[place];
            if state.takes_part() || state == MemberState::Spare {
                continue;
            }
            let control = Rc::clone(&pool.control);
            let device = self.device(member).id();
            let candidate = Candidate { device, path: path_of(device) };
            self.note(|| format!("member {member} is brought back"));
            let back = self.world.block_on(async move {
                match control.online(place, candidate.clone()).await {
                    Ok(()) => Ok(()),
                    Err(_) => control.replace(place, Some(candidate), true).await,
                }
            });
            back.map_err(|e| Kind::Stuck.of(e))?
                .map_err(|e| Kind::NotDrained.of(format!("member {member} does not come back: {e}")))?;
        }
        Ok(())
    }

    /// Scrubs the pool and gives the number of errors found. Without corruption there may be none.
    fn scrub(&mut self, pool: &Rc<OpenPool>, first: bool) -> Result<u64, Wrong> {
        let before = self.collect_quietly(pool)?;
        let paths_before: Vec<u64> = self.world.paths_reached().map(|(_, count)| count).collect();
        let control = Rc::clone(&pool.control);
        let begun = self.world.block_on(async move { control.scrub(true).await });
        begun.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::WrongAnswer.of(format!("scrub: {e}")))?;
        self.wait_until(pool, "scrubbing", |status| status.scrub_stripes_left.is_none())?;
        let after = self.collect_quietly(pool)?;
        let errors = after.counters.scrub_errors - before.counters.scrub_errors;
        if errors > 0 && first && self.work.plan.corrupt == 0 {
            let paths =
                self.world.paths_reached().zip(paths_before).filter(|((_, now), before)| now > before);
            let paths: Vec<&str> = paths.map(|((path, _), _)| path.name()).collect();
            let what = format!("a scrub finds {errors} errors although no member corrupts data");
            return Err(Kind::ScrubErrors.of(format!("{what}: {}", paths.join(", "))));
        }
        if after.counters.scrub_unrepaired > 0 {
            let left = after.counters.scrub_unrepaired;
            return Err(Kind::ScrubErrors.of(format!("{left} chunks cannot be repaired")));
        }
        Ok(errors)
    }

    /// Without requests the engine comes to rest: nothing happens any more, and nothing is held.
    fn rest(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let mut held = Vec::new();
        for _ in 0..REST_ROUNDS {
            let handle = self.work.volume(0);
            let flushed = self.world.block_on(async move { handle.flush().await });
            flushed
                .map_err(|e| Kind::Stuck.of(e))?
                .map_err(|e| Kind::WrongAnswer.of(format!("flush: {e}")))?;
            self.world.set_step_limit(REST_STEPS);
            let ended = self.world.run_until(|| false).err();
            self.world.set_step_limit(STEPS_MAX);
            if let Some(stuck) = ended.filter(|stuck| stuck.reason != StuckReason::Deadlock) {
                return Err(Kind::NotDrained.of(format!("the engine does not come to rest: {stuck}")));
            }
            held = pool.held_at_rest();
            if held.is_empty() {
                return Ok(());
            }
        }
        Err(Kind::Leak.of(held.join("; ")))
    }

    pub(super) fn wait_until(
        &self,
        pool: &Rc<OpenPool>,
        what: &str,
        done: impl Fn(&ShardStatus) -> bool,
    ) -> Result<(), Wrong> {
        let deadline = self.world.now() + DRAIN_NS;
        let mut look = LOOK_NS.0;
        loop {
            let status = self.collect_quietly(pool)?;
            self.check_wrong()?;
            if done(&status) {
                return Ok(());
            }
            if self.world.now() > deadline {
                return Err(Kind::NotDrained.of(format!("{what} does not end: {status:?}")));
            }
            self.world.run_for(look).map_err(|e| Kind::NotDrained.of(format!("{what}: {e}")))?;
            look = (look * 5 / 4).min(LOOK_NS.1);
        }
    }
}

/// Whether every stripe and every piece of metadata is where it should be.
pub(super) fn is_whole(status: &ShardStatus) -> bool {
    status.stripes_degraded == 0 && status.metadata_degraded == 0
}

/// As [`is_whole`], and nothing is left to rebuild.
fn is_safe(status: &ShardStatus) -> bool {
    is_whole(status)
        && status.stripes_at_risk == 0
        && status.rebuild_chunks_left + status.resync_stripes_left + status.balance_chunks_left == 0
}
