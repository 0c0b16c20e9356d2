//! Counts of what a drive has done.

use std::ops::Add;

use crate::Ns;

/// Counts since the drive was made or [`super::Ssd::reset_stats`] was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks the host wrote.
    pub written_blocks: u64,
    /// Granules stored for the host; without compression a granule is a block.
    pub written_granules: u64,
    /// Granules moved by cleaning.
    pub moved_granules: u64,
    /// Granules left empty so that a unit could be programmed early or held no fragment of a block.
    pub padded_granules: u64,
    /// Erase blocks cleaned.
    pub erases: u64,
    /// Pages sensed for the host.
    pub host_senses: u64,
    /// Times that a program or an erase was suspended for reads.
    pub suspensions: u64,
    /// Times that the drive stopped for its host.
    pub stalls: u64,
    /// Time the drive stood still for its host.
    pub stalled_ns: Ns,
    /// Time that dies were at work or waited for their channel, all dies together.
    pub die_busy_ns: Ns,
}

impl Stats {
    /// Granules programmed per granule written by the host.
    pub fn write_amplification(&self) -> f64 {
        let programmed = self.written_granules + self.moved_granules + self.padded_granules;
        programmed as f64 / self.written_granules.max(1) as f64
    }
}

impl Add for Stats {
    type Output = Stats;

    fn add(self, other: Stats) -> Stats {
        Stats {
            written_blocks: self.written_blocks + other.written_blocks,
            written_granules: self.written_granules + other.written_granules,
            moved_granules: self.moved_granules + other.moved_granules,
            padded_granules: self.padded_granules + other.padded_granules,
            erases: self.erases + other.erases,
            host_senses: self.host_senses + other.host_senses,
            suspensions: self.suspensions + other.suspensions,
            stalls: self.stalls + other.stalls,
            stalled_ns: self.stalled_ns + other.stalled_ns,
            die_busy_ns: self.die_busy_ns + other.die_busy_ns,
        }
    }
}
