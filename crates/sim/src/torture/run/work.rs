//! The work of one opening: clients send requests while members fail and return, and every block is verified.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::volume::Volume;

use crate::host::OpenPool;
use crate::random::Rng;
use crate::torture::clients::{Lane, READ_BLOCKS, client, read};
use crate::torture::failure::{Kind, Wrong};
use crate::torture::plan::Ending;

use super::ending::draw_ending;
use super::state::{Run, STEPS_MAX, array_of, is_growing};

impl Run {
    /// Reads and checks every block. The content found has been recovered, so it is durable.
    pub(super) fn verify(&mut self) -> Result<(), Wrong> {
        self.find_new_space();
        let work = Rc::clone(&self.work);
        let read_all = async move {
            let volumes: Vec<_> = work.volumes.borrow().iter().map(|(&i, v)| (i, v.size_bytes())).collect();
            for (volume, bytes) in volumes {
                let known = work.volume_blocks.borrow().get(volume).copied();
                // Space that a growth adds meanwhile is verified the next time.
                let size = (bytes / BLOCK_BYTES as u64).min(known.unwrap_or(u64::MAX));
                for start in (0..size).step_by(READ_BLOCKS as usize) {
                    read(&work, volume, start, READ_BLOCKS.min(size - start)).await;
                }
            }
        };
        self.world.block_on(read_all).map_err(|e| Kind::Stuck.of(format!("verifying: {e}")))?;
        self.check_wrong()?;
        self.work.oracle.borrow_mut().verified();
        Ok(())
    }

    /// The new space of an array that has grown has unspecified content until it is written.
    fn find_new_space(&self) {
        for (&volume, handle) in &*self.work.volumes.borrow() {
            let mut known = self.work.volume_blocks.borrow_mut();
            let Some(known) = known.get_mut(volume).filter(|_| self.work.plan.growing_array().is_some())
            else {
                continue;
            };
            let blocks = handle.size_bytes() / BLOCK_BYTES as u64;
            (*known..blocks).for_each(|block| self.work.oracle.borrow_mut().set_unknown((volume, block)));
            *known = blocks.max(*known);
        }
    }

    /// Starts the clients, each with the first `requests` of its requests of this opening.
    pub(super) fn send_clients(&mut self, pool: &Rc<OpenPool>, requests: u64) {
        let plan = &self.work.plan;
        let tenants = usize::from(plan.tenancies > 0);
        self.work.at_work.set(plan.clients * plan.depth + tenants);
        if tenants > 0 {
            let rng = Rng::stream(plan.seed, "tenant", self.opening as u64);
            let tenancies = Rc::clone(&self.tenancies);
            self.world.spawn(tenancies.live(Rc::clone(&self.work), Rc::clone(pool), rng));
        }
        for i in 0..plan.clients {
            let first = (self.opening * plan.clients + i) as u64 * plan.requests;
            let last = Rc::new(Cell::new((usize::MAX, 0)));
            for lane in 0..plan.depth {
                let (first, end, last) = (first + lane as u64, first + requests, Rc::clone(&last));
                let lane = Lane { first, end, step: plan.depth, last };
                self.world.spawn(client(Rc::clone(&self.work), lane));
            }
        }
    }

    /// Lets clients work and causes trouble, until all requests are answered or the opening ends.
    pub(super) fn work(&mut self, pool: &Rc<OpenPool>) -> Result<Ending, Wrong> {
        let plan = &self.work.plan;
        let (seed, requests, clients) = (plan.seed, plan.requests, plan.clients as u64);
        self.order_settings(pool);
        let mut rng = Rng::stream(seed, "ending", self.opening as u64);
        let ending = draw_ending(&plan.endings, &mut rng);
        self.send_clients(pool, requests);
        let end_at =
            (ending != Ending::Close).then(|| self.work.answered.get() + rng.below(requests * clients + 1));
        let started = self.world.steps();
        let mut cut = Rng::stream(seed, "growth cut", self.opening as u64);
        let mut answered = 0;
        while self.work.at_work.get() > 0 {
            let ran = self.world.run_steps(self.rng.between(1, 300));
            self.check_wrong()?;
            if end_at.is_some_and(|at| self.work.answered.get() >= at) {
                break;
            }
            if ran == 0 || self.world.steps() - started > STEPS_MAX {
                let why = self.world.run_until(|| false);
                let status = self.collect_quietly(pool);
                return Err(Kind::Stuck.of(format!("{why:?}; {status:?}")));
            }
            self.unanswered = if self.work.answered.get() == answered { self.unanswered + 1 } else { 0 };
            answered = self.work.answered.get();
            if self.rng.chance(self.work.plan.trouble) {
                self.trouble(pool);
            }
            if self.squeeze_rng.chance(self.work.plan.squeeze) {
                self.squeeze();
            }
            if self.work.plan.growing_array().is_some() && self.rng.chance(0.02) {
                self.grow_array(pool);
            }
            self.grow(pool);
            if self.work.plan.limit > 0 && self.limits_rng.chance(0.01) {
                self.order_limits(pool);
            }
            if self.work.plan.is_elastic() && self.rng.chance(0.05) {
                self.order_share(pool);
            }
            let grows = array_of(pool).is_some_and(|array| is_growing(&array));
            // A clean close comes when no client is at work.
            if grows && ending != Ending::Close && cut.chance(self.work.plan.growth_cut) {
                break;
            }
        }
        if ending == Ending::Blackout {
            self.black_out()?;
        }
        Ok(ending)
    }
}
