//! Scrub: reads every unit of every stripe, mends what cannot be read, compares copies and parity, and puts right what
//! differs.
//!
//! Without checksums nobody knows which side of a difference is wrong: as in md, the first copy and the data are taken to
//! be right. It keeps its place in the log, so it goes on after a restart.

use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::ArrayShard;
use crate::stripe::parity_plan::UnitRun;

/// Stripes between records of how far it has come.
const STRIPES_PER_RECORD: u64 = 256;

impl<I: Io> ArrayShard<I> {
    /// Scrubs whenever told to, or where the last opening of the array left off, for ever.
    pub(crate) async fn run_scrubber(self: Rc<Self>) {
        loop {
            self.scrub_to_end().await;
            self.scrubber.kicked().await;
        }
    }

    /// Starts a scrub from the first stripe, or stops the one under way.
    pub(crate) async fn set_scrub(&self, run: bool) -> Result<(), VolumeError> {
        self.scrub_orders.set(self.scrub_orders.get() + 1);
        self.set_place(run.then_some(0));
        self.scrubber.kick();
        self.flush().await
    }

    fn set_place(&self, next: Option<u64>) {
        self.scrub_next.set(next);
        self.regions.borrow_mut().touch();
    }

    async fn scrub_to_end(&self) {
        let Some(mut stripe) = self.scrub_next.get() else { return };
        let order = self.scrub_orders.get();
        if stripe > 0 {
            self.io.mark(Mark::ArrayScrubResumed);
        }
        while stripe < self.slice().stripes {
            self.scrub_stripe(stripe).await;
            if self.scrub_orders.get() != order || self.closing.get() {
                self.io.mark(Mark::ArrayScrubStopped);
                return;
            }
            stripe += 1;
            self.scrub_next.set(Some(stripe));
            if stripe.is_multiple_of(STRIPES_PER_RECORD) {
                self.regions.borrow_mut().touch();
                if self.flush().await.is_err() {
                    return;
                }
            }
        }
        self.counters.scrubs_done.add(1);
        self.set_place(None);
        let _ = self.flush().await;
    }

    async fn scrub_stripe(&self, stripe: u64) {
        let bytes = u64::from(self.slice().chunk_blocks) * BLOCK_BYTES as u64;
        self.throttle.pay(&self.io, bytes * self.slice().w as u64).await;
        let _held = self.locks.alone(stripe).await;
        let readable = self.health(stripe, &[]).readable;
        for unit in (0..readable.len()).filter(|&unit| readable[unit]) {
            self.scrub_unit(stripe, unit).await;
        }
        let even = !self.regions.borrow().uneven().get(self.slice().region(stripe));
        let note = |_| {
            if even {
                self.counters.scrub_errors.add(1);
            }
        };
        self.compare(stripe, note).await;
        self.counters.stripes_scrubbed.add(1);
    }

    /// Reads a unit, and mends it if it cannot be read.
    async fn scrub_unit(&self, stripe: u64, unit: usize) {
        let whole = UnitRun { unit, offset: 0, blocks: self.slice().chunk_blocks };
        if self.read_unit(stripe, whole).await.is_ok()
            || !self.members.is_active(self.slice().member(stripe, unit))
        {
            return;
        }
        self.io.mark(Mark::ArrayScrubUnreadable);
        self.counters.scrub_errors.add(1);
        let mended = match self.reconstruct(stripe, whole, &[unit]).await {
            Ok(right) => self.slice().geometry.is_read_only() || self.mend(stripe, whole, &right).await,
            Err(_) => false,
        };
        if !mended {
            self.counters.scrub_unrepaired.add(1);
        }
    }
}
