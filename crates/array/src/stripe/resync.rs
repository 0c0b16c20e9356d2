//! Resync: making the redundancy of whole regions match their data.

use sinew_core::io::Io;
use sinew_core::sync::join_all;

use crate::stripe::Stripes;

/// Stripes resynced at the same time.
const STRIPES_AT_ONCE: usize = 8;

impl<I: Io> Stripes<I> {
    /// Makes parity match data, or copies match each other, in a whole region; false when too few units can be read.
    pub(crate) async fn resync_region(&self, region: usize) -> bool {
        let stripes: Vec<u64> = self.state.layout().region_stripes(region).collect();
        let mut whole = true;
        for stripes in stripes.chunks(STRIPES_AT_ONCE) {
            let resynced = join_all(stripes.iter().map(|&stripe| self.resync_stripe(stripe))).await;
            whole &= !resynced.contains(&false);
        }
        whole
    }

    async fn resync_stripe(&self, stripe: u64) -> bool {
        let bytes = self.state.layout().chunk_bytes();
        self.state.throttle().pay(self.state.io(), bytes * self.state.layout().w as u64).await;
        self.state.yield_stripe_to_clients(stripe).await;
        let _lock = self.locks.exclusive(stripe).await;
        self.state.counters().stripes_resynced.add(1);
        self.compare(stripe, |_| ()).await
    }
}
