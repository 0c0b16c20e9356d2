//! Admission of writes to thin members: only while there is physical space for them.

use sinew_core::io::Io;
use sinew_core::volume::VolumeError;

use crate::full_members::RETRY_NS;
use crate::marks::Mark;
use crate::members::Members;
use crate::message::ShardEvent;
use crate::space_credit::{SpaceClaim, SpaceNeed};

/// The time that a write waits for space to be freed before it is refused, since blocks last left the journal for their
/// places. Later ones are refused at once until there is some.
const WAIT_NS: u64 = 1_000_000_000;

impl<I: Io> Members<I> {
    /// Admits a client's write of some blocks, once there is physical space for it beside what `need` says. The result is kept
    /// until the request has ended. As long as there is none, `lacks` is called, again and again.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] when for a second no space is freed, and no block that was admitted before gets to its place.
    pub async fn admit(
        &self,
        blocks: u64,
        need: impl Fn() -> SpaceNeed,
        lacks: impl Fn(),
    ) -> Result<SpaceClaim<'_>, VolumeError> {
        if blocks == 0 || !self.space.is_limited() {
            return Ok(self.space.claim(blocks));
        }
        // On the heap: no request of a pool with space for all its addresses carries the size of this future.
        Box::pin(self.admit_limited(blocks, need, lacks)).await
    }

    /// Admits a client's write to members whose space is limited.
    async fn admit_limited(
        &self,
        blocks: u64,
        need: impl Fn() -> SpaceNeed,
        lacks: impl Fn(),
    ) -> Result<SpaceClaim<'_>, VolumeError> {
        // A request that waits claims nothing: it may fit when those under way have ended.
        let fits = || !self.space.is_short_for(blocks, need());
        if fits() {
            self.space.set_starved_at(None);
            return Ok(self.space.claim(blocks));
        }
        let (mut advanced, mut least_pending) = (self.io.now(), need().pending_blocks);
        loop {
            lacks();
            let pending = need().pending_blocks;
            if pending < least_pending {
                (advanced, least_pending) = (self.io.now(), pending);
            }
            let is_known = self.space.starved_at().is_some_and(|at| self.io.now() < at + RETRY_NS);
            if !is_known {
                self.sample_space().await;
            }
            if fits() {
                self.space.set_starved_at(None);
                return Ok(self.space.claim(blocks));
            }
            // Requests under way may take less than they claim, so only a shortage without them is one that lasts.
            let lasts = self.space.is_short_without_claims(blocks, need());
            let was_starved = self.space.starved_at().is_some();
            if lasts && was_starved || self.io.now() - advanced >= WAIT_NS {
                self.io.mark(Mark::SpaceRefused);
                if lasts && !is_known {
                    self.space.set_starved_at(Some(self.io.now()));
                }
                return Err(VolumeError::NoSpace);
            }
            self.io.mark(Mark::SpaceAwaited);
            self.io.sleep(RETRY_NS).await;
        }
    }

    /// Whether there is physical space for what a background task needs, by new figures if the last ones have too little.
    pub async fn has_credit(&self, need: impl Fn() -> SpaceNeed) -> bool {
        if !self.space.is_short(need()) {
            return true;
        }
        self.sample_space().await;
        !self.space.is_short(need())
    }

    /// Has the control ask the members for their physical space.
    pub async fn sample_space(&self) {
        let (done, answer) = oneshot::async_channel();
        self.report(ShardEvent::SpaceWanted { done }).await;
        // Control only goes away with the whole pool.
        let _ = answer.await;
    }
}
