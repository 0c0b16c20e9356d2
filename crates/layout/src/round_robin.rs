//! The two addressings that FastScale is measured against: round-robin, and semi-round-robin.

use crate::geometry::Home;
use crate::history::History;

/// Plain striping: block x is on disk x mod n, in row x / n. An addition moves nearly everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundRobin {
    disks: u32,
}

impl RoundRobin {
    /// Striping over `disks` disks, at least one.
    pub fn new(disks: u32) -> RoundRobin {
        assert!(disks > 0, "striping over no disks");
        RoundRobin { disks }
    }

    /// Where a block is.
    #[inline]
    pub fn home(self, block: u64) -> Home {
        Home { member: (block % u64::from(self.disks)) as u32, chunk: block / u64::from(self.disks) }
    }

    /// Which block is at a place.
    pub fn block_at(self, home: Home) -> u64 {
        home.chunk * u64::from(self.disks) + u64::from(home.member)
    }
}

/// Semi-round-robin: a block moves only if round-robin would put it on a new disk.
///
/// Goel et al., "SCADDAR", ICDE 2002, as FastScale (FAST '11, section 1) defines it. Neither defines the row on the
/// disk, and disks fill unevenly, so there is no inverse: this is for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemiRoundRobin {
    history: History,
}

impl SemiRoundRobin {
    /// The addressing of an array with this history.
    pub fn new(history: History) -> SemiRoundRobin {
        SemiRoundRobin { history }
    }

    /// The disk of a block.
    #[inline]
    pub fn disk(&self, block: u64) -> u32 {
        let steps = self.history.steps().rev();
        let mut moved = steps.map(|(old, width)| (old, (block % u64::from(width)) as u32));
        let last = moved.find(|&(old, disk)| disk >= old);
        last.map_or_else(|| (block % u64::from(self.history.base())) as u32, |(_, disk)| disk)
    }
}
