//! Liveness: after faults have stopped, all requests are answered, all members come back, all data is rebuilt, and the
//! engine becomes idle.

use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::volume::Volume;
use sinew_engine::control::ControlError;
use sinew_engine::pool::Candidate;
use sinew_format::model::config::MemberState;
use sinew_members::status::ShardStatus;

use crate::device::CrashPolicy;
use crate::handle::Device;
use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::failure::{Kind, Wrong};
use crate::world::StuckReason;

use super::state::{Run, STEPS_MAX, array_of, is_growing, is_whole, path_of};

/// Steps within which a pool without work becomes idle.
const QUIESCE_STEPS: u64 = 300_000;
/// Flushes after which all resources are released: a release makes work that may release resources in turn.
const QUIESCE_ROUNDS: usize = 16;
/// Chunks that are written though no stripe uses them, at most.
const STRAYS_MAX: u64 = 3;

impl Run {
    /// Stops all faults, attaches all devices, and lets clients send some more requests. Then all requests must be answered,
    /// members come back or are evacuated and replaced, stale chunks are rebuilt, scrubs find no error, every block is right,
    /// and the engine becomes idle without a leak.
    pub(super) fn drain(&mut self) -> Result<(), Wrong> {
        self.heal();
        let pool = self.open_whole()?;
        self.verify()?;
        let requests = self.work.plan.requests.div_ceil(4);
        self.send_clients(&pool, requests);
        self.evacuate_some(&pool)?;
        self.bring_back_all(&pool)?;
        self.grow_at_last(&pool)?;
        let work = Rc::clone(&self.work);
        self.wait_until(&pool, "answering clients", |_| work.at_work.get() == 0)?;
        self.wait_until(&pool, "rebuilding", is_safe)?;
        if self.work.plan.is_elastic() {
            self.order_share(&pool);
        }
        self.grow_array(&pool);
        let grown = |_: &ShardStatus| !array_of(&pool).is_some_and(|array| is_growing(&array));
        let orders = Rc::clone(&self.orders);
        self.wait_until(&pool, "growing", |status| orders.get() == 0 && grown(status))?;
        self.wait_until(&pool, "resyncing new stripes", is_safe)?;
        self.wait_until(&pool, "converting", |status| status.conversions_left == 0)?;
        let moved = |_: &ShardStatus| pool.control.config().moving_volumes().is_empty();
        self.wait_until(&pool, "moving volumes", moved)?;
        self.scrub(&pool, true, 0)?;
        let errors = self.scrub(&pool, false, 0)?;
        if errors > 0 {
            return Err(Kind::ScrubErrors.of(format!("a second scrub still finds {errors} errors")));
        }
        self.verify()?;
        self.check_damage(&pool)?;
        self.quiesce(&pool)?;
        self.check_events(&pool)?;
        self.collect(&pool)?;
        self.close(&pool)?;
        self.check_left(&pool)?;
        let unused = self.check_stripes(&pool)?;
        let strays = self.stray_into(&unused);
        drop(pool);
        self.work.volumes.borrow_mut().clear();
        self.world.crash(CrashPolicy::DropAll);
        self.work.oracle.borrow_mut().process_died();
        let pool = self.open_whole()?;
        if pool.recovery().records_verified > 0 {
            let left = pool.recovery().records_verified;
            return Err(Kind::NotOpened.of(format!("{left} records to verify after a clean close")));
        }
        self.verify()?;
        if strays > 0 {
            // A scrub leaves regions alone that are to be tidied anyway, and of these only the stripes that need it are.
            self.scrub(&pool, false, strays)?;
            self.quiesce(&pool)?;
            self.scrub(&pool, false, strays)?;
        }
        self.quiesce(&pool)?;
        if let Some(what) = pool.unbalanced().first() {
            return Err(Kind::NotDrained.of(format!("members are not in balance: {what}")));
        }
        if strays > 0 {
            self.collect(&pool)?;
            self.close(&pool)?;
            self.check_stripes(&pool)?;
        }
        Ok(())
    }

    /// Puts something into some chunks that no stripe of an elastic array uses, as a discard does that a member has lost, where a
    /// scrub can find it. Returns how many.
    fn stray_into(&self, unused: &[(Device, u64)]) -> u64 {
        if unused.is_empty() || !self.frees() {
            return 0;
        }
        let mut rng = Rng::stream(self.work.plan.seed, "strays", 0);
        let wanted = 1 + rng.below(STRAYS_MAX);
        let chosen: BTreeSet<usize> = (0..wanted).map(|_| rng.below(unused.len() as u64) as usize).collect();
        for &index in &chosen {
            let (device, offset) = &unused[index];
            device.poke(*offset, &[0x5a; BLOCK_BYTES]);
        }
        chosen.len() as u64
    }

    fn open_whole(&mut self) -> Result<Rc<OpenPool>, Wrong> {
        self.open(false)?.ok_or(Kind::NotOpened.of("the pool did not open"))
    }

    /// Stops all faults; devices that ran out of space get some.
    fn heal(&mut self) {
        self.note(|| "all faults stop".to_owned());
        self.clear_faults();
        for id in self.world.devices() {
            self.world.device(id).attach();
            self.world.device(id).end_silence();
            if self.work.plan.physical > 0 {
                // More than the engine can write.
                let device = self.world.device(id);
                device.set_physical(4 * device.bytes());
            }
            if self.world.device(id).has_lost_die() {
                self.world.device(id).remove_model();
            }
        }
        for &id in self.short.borrow().iter() {
            self.world.device(id).remove_model();
        }
    }

    /// Whether enough members are active that every chunk of a stripe can be placed, wherever its mirrors are.
    fn has_spare_width(&self, pool: &OpenPool) -> bool {
        let g = pool.control.config().mapped();
        let active = self.states(pool).into_iter().filter(|&state| state == MemberState::Active).count();
        active >= g.data_columns + g.parity_columns() + g.failures()
    }

    /// Evacuates some members that are out, and waits until their chunks are rebuilt on the others, if there is room.
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
                // An evacuation that was under way has ended meanwhile.
                Err(ControlError::MemberState { .. })
                    if self.states(pool)[member] == MemberState::Removed =>
                {
                    continue;
                }
                Err(error) => return Err(Kind::WrongAnswer.of(format!("evacuating: {error}"))),
            }
            // A pool that is nearly full may need the lost member, or a new one.
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

    /// Brings members that are out online, or replaces them by their own devices where the pool refuses that.
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

    /// No damage is recorded once every block was read well.
    fn check_damage(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let control = Rc::clone(&pool.control);
        let looked = self.world.block_on(async move { control.observe().await });
        looked.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::WrongAnswer.of(format!("a look: {e}")))?;
        match pool.control.config().damage.as_slice() {
            [] => Ok(()),
            damage => {
                let what = format!("every block was read well, and this is recorded as damaged: {damage:?}");
                Err(Kind::WrongAnswer.of(what))
            }
        }
    }

    /// Scrubs the pool, and returns the number of errors found. Without corruption there must be none, and no more unused units
    /// of elastic stripes that hold something than there are strays: the governor may have overwritten some.
    fn scrub(&mut self, pool: &Rc<OpenPool>, first: bool, strays: u64) -> Result<u64, Wrong> {
        let before = self.collect_quietly(pool)?;
        let marks_before = self.world.marks_reached();
        let control = Rc::clone(&pool.control);
        let begun = self.world.block_on(async move { control.scrub(true).await });
        begun.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::WrongAnswer.of(format!("scrub: {e}")))?;
        self.wait_until(pool, "scrubbing", |status| status.scrub_stripes_left.is_none())?;
        let after = self.collect_quietly(pool)?;
        let errors = after.counters.scrub_errors - before.counters.scrub_errors;
        if errors > 0 && first && self.work.plan.corrupt == 0 {
            let now = self.world.marks_reached();
            let reached = now.iter().filter(|(mark, count)| marks_before.get(mark) < Some(count));
            let marks: Vec<&str> = reached.map(|(mark, _)| mark.text()).collect();
            let what = format!("a scrub finds {errors} errors although no member corrupts data");
            return Err(Kind::ScrubErrors.of(format!("{what}: {}", marks.join(", "))));
        }
        let untidy = after.counters.untidy_found - before.counters.untidy_found;
        if untidy > strays && self.work.plan.corrupt == 0 {
            let what = format!(
                "a scrub finds {untidy} units that are not used and take physical space, not {strays}"
            );
            return Err(Kind::ScrubErrors.of(what));
        }
        if after.counters.scrub_unrepaired > 0 {
            let left = after.counters.scrub_unrepaired;
            return Err(Kind::ScrubErrors.of(format!("{left} chunks cannot be repaired")));
        }
        Ok(errors)
    }

    /// Without requests the engine must become idle, without a leak.
    fn quiesce(&mut self, pool: &Rc<OpenPool>) -> Result<(), Wrong> {
        let mut held = Vec::new();
        for _ in 0..QUIESCE_ROUNDS {
            let handle = self.work.volume(0);
            let flushed = self.world.block_on(async move { handle.flush().await });
            flushed
                .map_err(|e| Kind::Stuck.of(e))?
                .map_err(|e| Kind::WrongAnswer.of(format!("flush: {e}")))?;
            self.world.set_step_limit(QUIESCE_STEPS);
            let ended = self.world.run_until(|| false).err();
            self.world.set_step_limit(STEPS_MAX);
            if let Some(stuck) = ended.filter(|stuck| stuck.reason != StuckReason::Deadlock) {
                return Err(Kind::NotDrained.of(format!("the engine does not become idle: {stuck}")));
            }
            held = pool.leaks();
            if held.is_empty() {
                return Ok(());
            }
        }
        Err(Kind::Leak.of(held.join("; ")))
    }
}

/// As [`is_whole`], and nothing is left to rebuild.
fn is_safe(status: &ShardStatus) -> bool {
    is_whole(status)
        && status.stripes_at_risk == 0
        && status.rebuild_chunks_left + status.resync_stripes_left + status.balance_chunks_left == 0
}
