//! Playing a plan.
//!
//! ```text
//! parts     what the parts of SSDs have done
//! state     the world, the members, the counts
//! acts      names of acts
//! places    which place of the pool a member has
//! event_check  whether events tell what happened, and nothing else
//! ending    how an opening ends
//! opening   opening the pool
//! inspection  read-only openings of copies of the devices
//! trouble   failures of members, orders of operators
//! growth    members added and removed
//! work      clients at work during one opening
//! drain     liveness after all faults have stopped
//! ```
//!
//! A file uses those above it only.

mod acts;
mod drain;
mod ending;
mod event_check;
mod growth;
mod inspection;
mod opening;
mod parts;
mod places;
mod state;
mod trouble;
mod work;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_engine::control::{ControlError, VolumeOptions};
use sinew_engine::pool::{self, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;

use crate::torture::failure::{Failure, Kind, Log, Wrong};
use crate::torture::plan::Plan;

use self::state::Run;

pub use self::state::Outcome;

/// Memory kept from one run for the next, of each size: about what the members of a run hold.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Runs a plan to its end.
///
/// # Errors
/// The first wrong behaviour of the engine, a panic included.
pub fn run(plan: &Plan) -> Result<Outcome, Failure> {
    run_logged(plan, 0)
}

/// As [`run`]; a failure carries the last `lines_max` lines of the log.
///
/// # Errors
/// The first wrong behaviour of the engine, a panic included.
pub fn run_logged(plan: &Plan, lines_max: usize) -> Result<Outcome, Failure> {
    let log = Rc::new(Log::of(lines_max));
    let failure = |wrong: Wrong, opening, troubles, steps| Failure {
        plan: Box::new(plan.clone()),
        kind: wrong.kind,
        what: wrong.what,
        opening,
        troubles,
        steps,
        log: log.lines(),
    };
    if let Err(why) = plan.check() {
        return Err(failure(Kind::Impossible.of(why), 0, 0, 0));
    }
    // The progress of the run, in case it panics.
    let (opening, troubles) = (Cell::new(0), Cell::new(0));
    sinew_core::buf::keep(KEPT_BYTES_MAX);
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(plan, Rc::clone(&log));
        let played = run.play(&|run| {
            opening.set(run.opening);
            troubles.set(run.troubles);
        });
        match played {
            Ok(()) => Ok(run.outcome()),
            Err(wrong) => Err(failure(wrong, run.opening, run.troubles, run.world.steps())),
        }
    }));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words");
        Err(failure(Kind::Panic.of(text), opening.get(), troubles.get(), 0))
    })
}

impl Run {
    fn play(&mut self, progress: &impl Fn(&Run)) -> Result<(), Wrong> {
        self.create()?;
        for opening in 0..self.work.plan.openings {
            self.opening = opening;
            progress(self);
            self.inspect()?;
            self.trouble_opening();
            let Some(pool) = self.open(true)? else { continue };
            self.set_faults(self.work.plan.corruption);
            self.verify()?;
            let ending = self.work(&pool)?;
            progress(self);
            self.check_credit()?;
            self.check_events(&pool)?;
            self.end(pool, ending)?;
        }
        self.opening = self.work.plan.openings;
        progress(self);
        self.drain()
    }

    fn create(&mut self) -> Result<(), Wrong> {
        let plan = &self.work.plan;
        let (protection, data_columns, checksums) = (plan.protection, plan.data_columns, plan.checksums);
        let kind = match plan.array {
            Some(array) => {
                PoolKind::Array(ArraySpec { elastic: plan.expected(&array).or(array.elastic), ..array })
            }
            None => PoolKind::Mapped { protection, data_columns, checksums },
        };
        let spec = PoolSpec {
            // An array's volume has its name.
            name: if plan.array.is_some() { "v0" } else { "tortured" }.to_owned(),
            kind,
            shards: plan.shards,
            journal_blocks: Some(plan.journal_blocks),
            force: false,
            physical: None,
        };
        let (io, mut candidates) = (self.world.io(), self.candidates());
        let option =
            |volume| VolumeOptions { protection: plan.volume_protection(volume), ..VolumeOptions::default() };
        let volumes: Vec<_> =
            plan.volumes.iter().enumerate().map(|(i, &blocks)| (i, blocks, option(i))).collect();
        candidates.truncate(plan.first_members());
        let states_reach = plan.states_reach;
        let made = self.world.block_on(async move {
            match states_reach {
                true => pool::create(&io, &candidates, &spec).await,
                false => pool::create_earlier(&io, &candidates, &spec).await,
            }
        });
        made.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::Impossible.of(format!("create: {e}")))?;
        let pool = self.open(false)?.ok_or(Kind::NotOpened.of("the pool did not open"))?;
        let control = Rc::clone(&pool.control);
        let made = self.world.block_on(async move {
            // An array has its one volume already.
            let made = control.config().volumes.len();
            for (i, blocks, options) in volumes.into_iter().filter(|_| made == 0) {
                let (name, bytes) = (format!("v{i}"), blocks * BLOCK_BYTES as u64);
                match control.create_volume_with(&name, bytes, options).await {
                    // The pool is small.
                    Err(ControlError::NoRoomForMirrors) => control.create_volume(&name, bytes).await?,
                    made => made?,
                };
            }
            control.close().await
        });
        made.map_err(|e| Kind::Stuck.of(e))?.map_err(|e| Kind::Impossible.of(format!("volumes: {e}")))?;
        drop(pool);
        self.world.kill_process();
        Ok(())
    }
}
