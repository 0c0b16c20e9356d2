//! Scrub: reads every unit of every stripe, repairs units that cannot be read, compares copies and parity, and corrects what
//! differs. Units that take physical space though the form of their stripe does not use them are counted and discarded, where
//! discarded blocks read as zeros.
//!
//! Without checksums it is unknown which side of a difference is wrong: as in md, the first copy and the data are taken to be
//! right. The log holds the progress, so a scrub goes on after a restart.

use std::cell::Cell;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Kick;
use sinew_core::volume::VolumeError;

use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::journal::Journal;
use crate::state::ShardState;
use crate::stripe::Stripes;
use crate::stripe::part::UnitRun;

/// Stripes between records of the progress.
const STRIPES_PER_RECORD: u64 = 256;

/// Scrubs a shard.
pub(crate) struct Scrub<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
    wake: Kick,
    /// Counts the scrubs begun and stopped.
    orders: Cell<u64>,
}

impl<I: Io> Scrub<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        forms: &Rc<Forms<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Scrub<I> {
        Scrub {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            forms: Rc::clone(forms),
            journal: Rc::clone(journal),
            stripes: Rc::clone(stripes),
            wake: Kick::default(),
            orders: Cell::new(0),
        }
    }

    /// Scrubs from where the last opening of the array left off, and then on request, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            self.scrub_to_end().await;
            self.wake.kicked().await;
        }
    }

    /// Starts a scrub from the first stripe, or stops the one under way; durable on return.
    ///
    /// # Errors
    /// As for [`Journal::flush`], and for [`Journal::wait_for_state_room`].
    pub(crate) async fn set_scrub(&self, run: bool) -> Result<(), VolumeError> {
        if !mutation::on(Mutation::OrderWithoutRoom) {
            self.journal.wait_for_state_room().await?;
        }
        self.orders.set(self.orders.get() + 1);
        self.set_next(run.then_some(0));
        self.wake.kick();
        self.journal.flush().await
    }

    fn set_next(&self, next: Option<u64>) {
        self.journal.progress().set_scrub_next(next);
        self.bitmap.touch();
    }

    async fn scrub_to_end(&self) {
        let Some(mut stripe) = self.journal.progress().scrub_next() else { return };
        let order = self.orders.get();
        if stripe > 0 {
            self.state.mark(Mark::ArrayScrubResumed);
        }
        while stripe < self.state.layout().stripes {
            self.scrub_stripe(stripe).await;
            if self.is_stopped(order) {
                return;
            }
            stripe += 1;
            self.journal.progress().set_scrub_next(Some(stripe));
            if stripe.is_multiple_of(STRIPES_PER_RECORD) && self.journal.has_room_for_states() {
                self.bitmap.touch();
                if self.journal.flush().await.is_err() {
                    return;
                }
            }
        }
        // The end of this scrub would be taken for that of one ordered meanwhile.
        if !self.is_stopped(order) {
            self.state.counters().scrubs_done.add(1);
            self.set_next(None);
            let _ = self.journal.flush().await;
        }
    }

    /// Whether the scrub that began after this order is to stop, since there is a newer one or the array is being closed.
    fn is_stopped(&self, order: u64) -> bool {
        let is_stopped = self.orders.get() != order || self.state.is_closing();
        if is_stopped {
            self.state.mark(Mark::ArrayScrubStopped);
        }
        is_stopped
    }

    async fn scrub_stripe(&self, stripe: u64) {
        let bytes = self.state.layout().chunk_bytes();
        self.state.throttle().pay(self.state.io(), bytes * self.state.layout().w as u64).await;
        self.state.yield_stripe_to_clients(stripe).await;
        let _lock = self.stripes.lock_exclusive(stripe).await;
        let units = self.state.layout().units(stripe, self.stripes.form(stripe));
        let readable: Vec<usize> =
            units.into_iter().filter(|&unit| self.stripes.is_readable(stripe, unit)).collect();
        for unit in readable {
            self.scrub_unit(stripe, unit).await;
        }
        let in_sync = self.stripes.is_in_sync(stripe);
        let note = |_| {
            if in_sync {
                self.state.counters().scrub_errors.add(1);
            }
        };
        self.stripes.compare(stripe, note).await;
        self.scrub_unused(stripe).await;
        self.state.counters().stripes_scrubbed.add(1);
    }

    /// Has a stripe tidied whose unused units hold data. Those in a region that is untidy are not counted: a change of the form may
    /// have left the data there. The caller holds the stripe's lock, without which no unit of it is discarded.
    async fn scrub_unused(&self, stripe: u64) {
        if !self.state.layout().is_elastic() {
            return;
        }
        let found = self.stripes.unused_in_use(stripe).await;
        if found == 0 {
            return;
        }
        let (region, may_tidy) = (self.state.layout().region(stripe), !self.state.is_read_only());
        if !self.bitmap.regions().untidy().get(region) {
            self.state.mark(Mark::ArrayScrubUntidy);
            self.state.counters().untidy_found.add(found);
            if may_tidy {
                self.bitmap.mark_untidy_with_next_flush(&[region]);
            }
        }
        if may_tidy {
            self.forms.note_untidy([stripe]);
        }
    }

    /// Reads a unit, and repairs it if it cannot be read.
    async fn scrub_unit(&self, stripe: u64, unit: usize) {
        let whole = UnitRun { unit, offset: 0, blocks: self.state.layout().chunk_blocks };
        if self.stripes.read_unit(stripe, whole).await.is_ok()
            || !self.state.members().is_active(self.state.layout().member(stripe, unit))
        {
            return;
        }
        self.state.mark(Mark::ArrayScrubUnreadable);
        self.state.counters().scrub_errors.add(1);
        let repaired = match self.stripes.reconstruct(stripe, whole, &[unit]).await {
            Ok(right) => self.state.is_read_only() || self.stripes.repair(stripe, whole, &right).await,
            Err(_) => false,
        };
        // A member that failed meanwhile is rebuilt, or replaced.
        let is_active = self.state.members().is_active(self.state.layout().member(stripe, unit));
        if !repaired && is_active {
            self.state.counters().scrub_unrepaired.add(1);
        }
    }
}
