//! Scatter hints: places of volumes that clients read in sequence although their blocks are stored apart.
//! Defragmentation works on them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;

use crate::store::volumes::Stretch;
use sinew_core::ids::VolumeId;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;

/// A read of fewer blocks is not a sequential one.
const SEQUENTIAL_BLOCKS: u64 = 16;

/// Blocks in stretches shorter than this, on average, are scattered: a read of them costs more in requests than in
/// bytes.
const TOGETHER_BLOCKS: usize = 4;

/// Defragmented blocks fill the chunks they take, except for at most one block in this many.
const HOLES: u32 = CHUNK_BLOCKS;

/// Places remembered; what does not fit is found again by the next read.
const PLACES_MAX: usize = 64;

/// What is to be defragmented: volumes, and blocks there, at multiples of a stripe's length.
#[derive(Default)]
pub(crate) struct ScatterHints {
    places: RefCell<VecDeque<(VolumeId, u64)>>,
}

impl ScatterHints {
    /// Notes that a client reads these blocks, which consist of these stretches, in places of `unit` blocks; whether a place
    /// was added.
    pub(super) fn note(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
        stretches: &[Stretch],
        unit: u64,
    ) -> bool {
        if blocks.end - blocks.start < SEQUENTIAL_BLOCKS || !is_scattered(stretches) {
            return false;
        }
        let mut places = self.places.borrow_mut();
        let before = places.len();
        for first in (blocks.start / unit..blocks.end.div_ceil(unit)).map(|n| n * unit) {
            if places.len() < PLACES_MAX && !places.contains(&(volume, first)) {
                places.push_back((volume, first));
            }
        }
        places.len() > before
    }

    pub(super) fn next(&self) -> Option<(VolumeId, u64)> {
        self.places.borrow_mut().pop_front()
    }
}

/// Whether stored stretches are worth bringing together: they are short, and fill the chunks they would take.
pub(crate) fn is_scattered(stretches: &[Stretch]) -> bool {
    let stored = stretches.iter().filter(|stretch| stretch.slot.is_some());
    let blocks: u32 = stored.clone().map(|stretch| stretch.count).sum();
    let is_full = blocks * (HOLES + 1) >= blocks.next_multiple_of(CHUNK_BLOCKS) * HOLES;
    is_full && (blocks as usize) < stored.count() * TOGETHER_BLOCKS
}
