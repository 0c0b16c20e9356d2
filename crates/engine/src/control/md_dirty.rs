//! What md's superblocks say of an array that is written, and when: it may be inconsistent from before its first write
//! until a while after its last.

use std::rc::Rc;

use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

/// How often an array that is said to be inconsistent is asked whether it still is. md waits 0.2 s, `safe_mode_delay`.
const REST_NS: u64 = 200_000_000;

impl<I: Io> Control<I> {
    /// Has md's superblocks say that the array is being written; whether they do.
    pub(super) async fn declare_write(&self) -> bool {
        let Some(md) = &self.md else { return false };
        self.write_orders.set(self.write_orders.get() + 1);
        self.begin_change().await;
        let stored = if md.borrow().declared {
            Ok(())
        } else {
            md.borrow_mut().resync_offset = Some(0);
            let stored = self.store(self.config(), None).await;
            md.borrow_mut().declared = stored.is_ok();
            stored
        };
        self.end_change();
        self.md_written.notify();
        stored.is_ok()
    }

    /// Has md's superblocks say that the array is consistent whenever it has come to rest, for ever.
    pub(super) async fn run_rest(self: Rc<Self>) {
        loop {
            self.md_written.wait(|| self.is_in_doubt().then_some(())).await;
            self.io.sleep(REST_NS).await;
            // If a member fails meanwhile, the request that met the failure reports it.
            let _ = self.declare_rest(false).await;
        }
    }

    fn is_in_doubt(&self) -> bool {
        self.md.as_ref().is_some_and(|md| md.borrow().is_writable() && md.borrow().resync_offset.is_some())
    }

    /// Has md's superblocks say that the array is consistent, if it is and they do not.
    pub(super) async fn declare_rest(&self, now: bool) -> Result<(), ControlError> {
        let Some(md) = self.md.as_ref().filter(|_| self.is_in_doubt()) else { return Ok(()) };
        let orders = self.write_orders.get();
        let asks = self.shards.iter().map(|shard| async move {
            let (done, answer) = oneshot::async_channel();
            shard.send(ControlRequest::BecomeClean { now, done }).await.ok()?;
            answer.await.ok()?.ok()
        });
        let all = join_all(asks).await.into_iter().all(|rests| rests == Some(true));
        self.begin_change().await;
        // A shard that has written since has asked again.
        let stored = if all && self.write_orders.get() == orders && self.is_in_doubt() {
            md.borrow_mut().resync_offset = None;
            md.borrow_mut().declared = false;
            self.store(self.config(), None).await
        } else {
            Ok(())
        };
        self.end_change();
        stored
    }
}
