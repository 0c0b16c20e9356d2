//! Parameter sets and where they come from.

use super::{Config, Geometry, Schedule, Seek};

/// IBM Ultrastar 36Z15, the disk of FastScale's simulations (FAST '11, section 4.1): 15,000 rpm, mean seek 4.2 ms.
///
/// Six platters and 11 zones: heise online, 2001-02-01, on its announcement. 55 MB/s on the outer tracks: the transfer
/// rate that simulations of energy use give it (Y. Deng, "What is the future of disk drives", ACM CSUR 2011, and
/// others). Not found for this disk, so taken from relatives: inner to outer rate as 21 to 36 MB/s (Ultrastar 36LZX),
/// full stroke to mean seek as 10.5 to 4.7 ms and 0.6 ms more for a write (Ultrastar 146Z10 specification), next track
/// to mean seek as 0.2 to 4.0 ms (Seagate Savvio manual), a buffer of 4 MiB in 8 segments, 160 MB/s of its SCSI bus.
pub fn ultrastar_36z15() -> Config {
    Config {
        geometry: Geometry {
            blocks: (36_000_000_000u64 / 4096) as u32,
            rpm: 15_000,
            heads: 12,
            zones: 11,
            outer_rate: 55_000_000,
            inner_rate: 55_000_000 * 21 / 36,
            seek: Seek { single_ns: 210_000, average_ns: 4_200_000, full_ns: 9_383_000, write_ns: 600_000 },
        },
        command_ns: 200_000,
        link_block_ns: 25_600,
        cache_segments: 8,
        cache_segment_blocks: 128,
        queue_depth: 64,
        schedule: Schedule::Fcfs,
    }
}

/// Seagate Constellation.2 ST91000640SS, 1 TB, 7,200 rpm (product manual, rev. H, sections 5.1 and 5.2): 8 heads,
/// 84 to 163 MB/s, seeks of 0.23, 7.5 and 17.06 ms and 1 ms more for a mean write, 0.2 ms of controller overhead.
///
/// A newer disk whose manual gives the whole seek curve; later ones often do not. Not from the manual: 11 zones, and a
/// buffer of 64 MiB in 32 segments. 600 MB/s of its SAS link.
pub fn constellation2() -> Config {
    Config {
        geometry: Geometry {
            blocks: (1_000_000_000_000u64 / 4096) as u32,
            rpm: 7_200,
            heads: 8,
            zones: 11,
            outer_rate: 163_000_000,
            inner_rate: 84_000_000,
            seek: Seek {
                single_ns: 230_000,
                average_ns: 7_500_000,
                full_ns: 17_060_000,
                write_ns: 1_000_000,
            },
        },
        command_ns: 200_000,
        link_block_ns: 6_827,
        cache_segments: 32,
        cache_segment_blocks: 512,
        queue_depth: 64,
        schedule: Schedule::ShortestPositioning,
    }
}
