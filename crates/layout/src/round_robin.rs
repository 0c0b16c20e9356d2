//! The two addressings that FastScale is measured against: round-robin, and semi-round-robin.

use crate::geometry::Home;
use crate::history::{Addition, History};

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

/// Semi-round-robin: a block moves only if round-robin would put it on a new disk, and then to where it would put it.
///
/// Goel et al., "SCADDAR", ICDE 2002, as FastScale (FAST '11, section 1) defines it. Neither defines the row on the
/// disk; with round-robin's no two blocks share a place, since a disk gets blocks from one addition only. What old disks
/// give up stays empty, so an addition brings no space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SemiRoundRobin {
    history: History,
}

impl SemiRoundRobin {
    /// The addressing of an array with this history.
    pub fn new(history: History) -> SemiRoundRobin {
        SemiRoundRobin { history }
    }

    /// The history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The disk of a block.
    #[inline]
    pub fn disk(&self, block: u64) -> u32 {
        self.home(block).member
    }

    /// Where a block is.
    #[inline]
    pub fn home(&self, block: u64) -> Home {
        let steps = self.history.steps().rev();
        let mut moved = steps.map(|Addition { old, width }| (old, RoundRobin::new(width).home(block)));
        let last = moved.find(|&(old, home)| home.member >= old).map(|(_, home)| home);
        last.unwrap_or_else(|| RoundRobin::new(self.history.base()).home(block))
    }

    /// Which block is at a place, if any of an array of any size is.
    pub fn block_at(&self, home: Home) -> Option<u64> {
        let came = self
            .history
            .steps()
            .find(|added| home.member < added.width && home.member >= self.history.base());
        let width = came.map_or(self.history.base(), |added| added.width);
        let block = RoundRobin::new(width).block_at(home);
        (self.home(block) == home).then_some(block)
    }
}
