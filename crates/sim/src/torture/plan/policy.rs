//! How the pool of a plan places and converts what is written, and what its members make of discards.

use sinew_format::model::policy::{Packing, Policy};

use crate::device::DiscardReads;
use crate::random::Rng;

use super::Plan;

impl Plan {
    /// Some pools have another policy than by default.
    pub(super) fn draw_policy(&mut self, rng: &mut Rng) {
        if rng.chance(0.7) {
            return;
        }
        if rng.chance(0.5) {
            self.packing = Packing::WholeChunks;
        }
        self.battery = rng.chance(0.3);
        self.gather = rng.chance(0.7);
        self.convert_free = [0, 10, 40, 100][rng.below(4) as usize];
        self.convert_mirrored = [100, 100, 10, 0][rng.below(4) as usize];
        self.convert_pause = [0, 0, 1_000_000, 40_000_000][rng.below(4) as usize];
    }

    /// What discarded blocks read as on all members.
    pub(crate) fn discard_reads(&self) -> DiscardReads {
        let all = [DiscardReads::Kept, DiscardReads::Zeros, DiscardReads::Anything, DiscardReads::Unstable];
        all[Rng::stream(self.seed, "discards", 0).below(4) as usize]
    }

    /// The policy of a mapped pool.
    pub(crate) fn policy(&self) -> Option<Policy> {
        self.array.is_none().then_some(Policy {
            packing: self.packing,
            gather: self.gather,
            discard: true,
            convert_below_free: self.convert_free.min(100) as u8,
            convert_above_mirrored: self.convert_mirrored.min(100) as u8,
            convert_pause_above: self.convert_pause,
        })
    }
}
