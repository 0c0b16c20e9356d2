//! The classes of volumes that differ from the pool's, and the moves between classes that are under way.

use std::collections::{BTreeMap, BTreeSet};

use sinew_core::ids::VolumeId;

/// A move of a volume's blocks to stripes of another class.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassMove {
    /// Blocks that writes under way might store in stripes of the former class when the move began.
    pub(super) under_way: u64,
    /// Writes of this epoch and before may still do so; `None` before it has begun.
    pub(super) since: Option<u64>,
}

/// The volumes that are not in stripes of the pool's class alone.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// Volumes whose stripes stay mirrored.
    pub(super) pinned: BTreeSet<VolumeId>,
    pub(super) moves: BTreeMap<VolumeId, ClassMove>,
}
