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
    /// Granules of parity programmed for full stripes (PW_WR); of RAID-5, for all stripes.
    pub parity_granules: u64,
    /// Granules of parity programmed for elastic stripes to which no data came for P_wait (PPW).
    pub partial_parity_granules: u64,
    /// Granules of parity programmed because an elastic stripe ended with its row.
    pub row_end_parity_granules: u64,
    /// Granules of parity programmed over data that cleaning moved (PW_GC).
    pub cleaning_parity_granules: u64,
    /// Granules of the mapping table programmed, because pages of it left the memory.
    pub mapping_granules: u64,
    /// Granules of the mapping table read, because their pages were not in memory.
    pub mapping_reads: u64,
    /// Granules of the host's units in the SLC cache.
    pub slc_granules: u64,
    /// Erase blocks or rows of the SLC cache that were folded.
    pub folded_rows: u64,
    /// Erase blocks or rows that were cleaned because they are worn least.
    pub levelled_rows: u64,
    /// Blocks read to compute parities (PR).
    pub parity_reads: u64,
    /// Live granules of the erase blocks or rows that cleaning chose.
    pub victim_granules: u64,
    /// Erase blocks cleaned.
    pub erases: u64,
    /// Pages sensed for the host.
    pub host_senses: u64,
    /// Blocks read from the rest of their stripes, since their die has failed.
    pub combined_blocks: u64,
    /// Blocks of reads that were lost with their die.
    pub unreadable_blocks: u64,
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
    /// Granules programmed: for the host, by cleaning, as padding, as parity, of the mapping table.
    pub fn programmed_granules(&self) -> u64 {
        self.written_granules
            + self.moved_granules
            + self.padded_granules
            + self.parity_granules
            + self.partial_parity_granules
            + self.row_end_parity_granules
            + self.cleaning_parity_granules
            + self.mapping_granules
    }

    /// The same with every number of granules as that of the blocks that they fill.
    pub(super) fn in_blocks(self, granules_per_block: u64) -> Stats {
        let blocks = |granules: u64| granules / granules_per_block;
        Stats {
            written_granules: blocks(self.written_granules),
            moved_granules: blocks(self.moved_granules),
            padded_granules: blocks(self.padded_granules),
            parity_granules: blocks(self.parity_granules),
            partial_parity_granules: blocks(self.partial_parity_granules),
            row_end_parity_granules: blocks(self.row_end_parity_granules),
            cleaning_parity_granules: blocks(self.cleaning_parity_granules),
            mapping_granules: blocks(self.mapping_granules),
            slc_granules: blocks(self.slc_granules),
            victim_granules: blocks(self.victim_granules),
            ..self
        }
    }

    /// Granules programmed per granule written by the host.
    pub fn write_amplification(&self) -> f64 {
        self.programmed_granules() as f64 / self.written_granules.max(1) as f64
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
            parity_granules: self.parity_granules + other.parity_granules,
            partial_parity_granules: self.partial_parity_granules + other.partial_parity_granules,
            row_end_parity_granules: self.row_end_parity_granules + other.row_end_parity_granules,
            cleaning_parity_granules: self.cleaning_parity_granules + other.cleaning_parity_granules,
            mapping_granules: self.mapping_granules + other.mapping_granules,
            mapping_reads: self.mapping_reads + other.mapping_reads,
            slc_granules: self.slc_granules + other.slc_granules,
            folded_rows: self.folded_rows + other.folded_rows,
            levelled_rows: self.levelled_rows + other.levelled_rows,
            parity_reads: self.parity_reads + other.parity_reads,
            victim_granules: self.victim_granules + other.victim_granules,
            erases: self.erases + other.erases,
            host_senses: self.host_senses + other.host_senses,
            combined_blocks: self.combined_blocks + other.combined_blocks,
            unreadable_blocks: self.unreadable_blocks + other.unreadable_blocks,
            suspensions: self.suspensions + other.suspensions,
            stalls: self.stalls + other.stalls,
            stalled_ns: self.stalled_ns + other.stalled_ns,
            die_busy_ns: self.die_busy_ns + other.die_busy_ns,
        }
    }
}
