//! The policy of a mapped pool: the layout of small writes, the conversion of mirrored stripes, and the shares of its volumes. It
//! is not stored on the members, and may be changed at any time.

use std::fmt;

use sinew_layout::named;

/// The layout of small writes in mirrored stripes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// One after the other: 4 KiB take 4 KiB on each of their members.
    #[default]
    Packed,
    /// Each write takes whole chunks for itself, at the same offset within a chunk as within its volume. Large writes take
    /// stripes of full width, padded with zeros (FusionRAID, FAST '21, sections 4.2 and 4.4).
    WholeChunks,
}

named! {
    Packing, "packing":
    Packing::Packed => "packed", "One behind the other";
    Packing::WholeChunks => "whole-chunks", "Each in chunks of its own, as in FusionRAID";
}

/// What volumes get that are active at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shares {
    /// Those that want more than their share keep the members busy, and wait so that the others wait little.
    #[default]
    Balanced,
    /// Those that want more than their share get what leaves the others almost the latency that they have alone.
    Latency,
    /// What their queue depths take.
    Off,
}

named! {
    Shares, "shares":
    Shares::Balanced => "balanced", "Little latency for quiet volumes, and most of the throughput for busy ones";
    Shares::Latency => "latency", "Almost the latency of alone for quiet volumes, at the cost of busy ones";
    Shares::Off => "off", "Requests are served as they come";
}

/// The policy of a mapped pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The layout of small writes in mirrored stripes.
    pub packing: Packing,
    /// Defragment: blocks that are consecutive in a volume but scattered on the members are rewritten together when they are
    /// read in sequence.
    pub gather: bool,
    /// Send discards for free chunks to members that implement them.
    pub discard: bool,
    /// Convert mirrored stripes while less than this percentage of the room for chunks is free,
    pub convert_below_free: u8,
    /// or while mirrored stripes take more than this percentage of it.
    pub convert_above_mirrored: u8,
    /// Pause conversion while clients move more bytes per second than this on any member; 0 is no limit. Clients have priority
    /// in any case, except when the pool runs out of room.
    pub convert_pause_above: u64,
    /// What volumes get that are active at the same time.
    pub shares: Shares,
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "packing {}, defragment {}, discard {}, convert-below-free {}, convert-above-mirrored {}, convert-pause-above {}, \
             shares {}",
            self.packing.name(),
            self.gather,
            self.discard,
            self.convert_below_free,
            self.convert_above_mirrored,
            self.convert_pause_above,
            self.shares.name()
        )
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::DEFAULT
    }
}

impl Policy {
    /// The default.
    pub const DEFAULT: Policy = Policy {
        packing: Packing::Packed,
        gather: true,
        discard: true,
        convert_below_free: 40,
        convert_above_mirrored: 100,
        convert_pause_above: 0,
        shares: Shares::Balanced,
    };

    /// The policy of FusionRAID: whole chunks, and mirrored stripes are converted as soon as no member moves more than 40 MB/s
    /// for clients (section 5.5).
    pub const FUSION_RAID: Policy = Policy {
        packing: Packing::WholeChunks,
        gather: false,
        discard: false,
        convert_below_free: 100,
        convert_above_mirrored: 100,
        convert_pause_above: 40_000_000,
        shares: Shares::Off,
    };
}
