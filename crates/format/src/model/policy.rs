//! How a mapped pool lays out small writes and when it converts what it mirrors. Nothing of this is on the members, so it may
//! be changed at any time.

/// How small writes lie in mirrored stripes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// One behind the other: 4 KiB take 4 KiB on each of their members.
    #[default]
    Packed,
    /// Each takes the chunks it touches, alone, at the place within a chunk that it has within its volume; large ones
    /// take stripes of full width, padded with zeros (FusionRAID, FAST '21, sections 4.2 and 4.4).
    WholeChunks,
}

impl Packing {
    /// All of them.
    pub const ALL: [Packing; 2] = [Packing::Packed, Packing::WholeChunks];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Packed => "packed",
            Packing::WholeChunks => "whole-chunks",
        }
    }
}

/// What a pool goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How small writes lie in mirrored stripes.
    pub packing: Packing,
    /// Blocks that lie together in a volume are brought together when they are read in sequence.
    pub gather: bool,
    /// Members that make use of it are told what is free.
    pub discard: bool,
    /// Mirrored stripes are converted while less than so much of the room for chunks is free, in percent.
    pub convert_below_free: u8,
    /// And while they take more than so much of it, in percent.
    pub convert_above_mirrored: u8,
    /// Conversion pauses while clients move more bytes per second than this on any member; 0 is never. It steps back
    /// for them in any case, but not where room runs out.
    pub convert_pause_above: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::DEFAULT
    }
}

impl Policy {
    /// Sinew's own.
    pub const DEFAULT: Policy = Policy {
        packing: Packing::Packed,
        gather: true,
        discard: true,
        convert_below_free: 40,
        convert_above_mirrored: 100,
        convert_pause_above: 0,
    };

    /// FusionRAID's: whole chunks, and whatever is mirrored is converted as soon as no member moves more than 40 MB/s for
    /// clients (section 5.5).
    pub const FUSION_RAID: Policy = Policy {
        packing: Packing::WholeChunks,
        gather: false,
        discard: false,
        convert_below_free: 100,
        convert_above_mirrored: 100,
        convert_pause_above: 40_000_000,
    };
}
