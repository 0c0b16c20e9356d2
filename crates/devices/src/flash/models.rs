//! Parameter sets and where they come from. Each can be resized with [`Config::sized`].

use super::config::{Cleaning, Config, Drain, Link, Policy, Suspend};
use super::redundancy::Redundancy;
use crate::Ns;

/// The smallest cleaning steps: all spare space is used before anything is cleaned.
const LAZY: Cleaning = Cleaning { low: 2, high: 3, exclusive: false, single_erase: false };

/// No time between host and drive: the sources model none.
const NO_LINK: Link = Link { command_ns: 0, latency_ns: 0, block_ns: 0, duplex: true };

/// The time that 4 KiB take at this rate in MB/s (10^6 bytes).
const fn block_ns(megabytes_per_second: u64) -> Ns {
    4096 * 1000 / megabytes_per_second
}

/// How long flash takes to suspend a program and an erase, in MQSim's `ssdconfig.xml` (which suspends erases only, unless
/// told otherwise). What a given drive suspends is hardly ever published, so no parameter set here does of itself.
pub const SUSPEND: Suspend = Suspend { program_ns: Some(100_000), erase_ns: Some(700_000) };

/// SLC flash of the papers around 2010: 25 us, 200 us, 1.5 ms, pages of 4 KiB, 64 to a block, 100 us to move a page
/// over the bus (N. Agrawal et al., "Design tradeoffs for SSD performance", USENIX ATC 2008, table 1, and the DiskSim
/// extension that came with it), with the eight chips and 5 % of spare space of eSAP's evaluation. No write-back buffer.
/// Queue depth: the 32 of SATA.
pub fn slc() -> Config {
    let config = Config {
        channels: 8,
        chips: 1,
        dies: 1,
        planes: 1,
        page_bytes: 4096,
        pages: 64,
        erase_blocks: 0,
        blocks: 0,
        sense_ns: 25_000,
        program_ns: 200_000,
        erase_ns: 1_500_000,
        suspend: Suspend::NONE,
        channel_block_ns: 100_000,
        link: NO_LINK,
        queue_depth: 32,
        buffer_blocks: 32,
        drain: Drain::Through,
        power_loss_protected: false,
        policy: Policy::Greedy,
        cleaning: LAZY,
        compression: None,
        redundancy: Redundancy::EccOnly,
        rows: false,
        wear_levelling: None,
        mapping_cache: None,
        slc_cache: None,
    };
    config.sized(8 << 18, 0.05)
}

/// The default device of MQSim (A. Tavakkol et al., FAST 2018; `ssdconfig.xml` of its repository): MLC of 75 us, 750 us,
/// 3.8 ms, pages of 8 KiB, 256 to a block, 8 channels of 333 MB/s with 4 chips of 2 dies of 2 planes, 256 MiB of cache,
/// four PCIe lanes of 1 GB/s, spare space of 7 %. Of this size unless resized: 2048 blocks to a plane.
///
/// MQSim starts to clean at 5 % of free pages, preempts cleaning and suspends erases; here cleaning is lazy, and each
/// step ends before the next begins unless [`SUSPEND`] is asked for.
pub fn mqsim() -> Config {
    let planes = 8 * 4 * 2 * 2;
    let physical_blocks = planes * 2048 * 256 * 2;
    Config {
        channels: 8,
        chips: 4,
        dies: 2,
        planes: 2,
        page_bytes: 8192,
        pages: 256,
        erase_blocks: 2048,
        blocks: physical_blocks / 100 * 93,
        sense_ns: 75_000,
        program_ns: 750_000,
        erase_ns: 3_800_000,
        suspend: Suspend::NONE,
        channel_block_ns: block_ns(333),
        link: Link { block_ns: block_ns(4000), ..NO_LINK },
        queue_depth: 65_535,
        buffer_blocks: 256 << 8,
        drain: Drain::Steady,
        power_loss_protected: false,
        policy: Policy::Greedy,
        cleaning: LAZY,
        compression: None,
        redundancy: Redundancy::EccOnly,
        rows: false,
        wear_levelling: None,
        mapping_cache: None,
        slc_cache: None,
    }
}

/// The default black-box drive of FEMU (H. Li et al., FAST 2018; `femu.c` and `run-blackbox.sh` of its repository):
/// 40 us, 200 us, 2 ms, pages of 4 KiB, 256 to a block, 256 blocks to a plane, 8 channels of 8 dies, no time for
/// transfers, 12 GiB of the 16 GiB offered. FEMU has no write buffer and no queue limit of its own; 1024 is what its
/// NVMe queues hold.
///
/// FEMU cleans one block of every die together; here each die cleans for itself.
pub fn femu() -> Config {
    Config {
        channels: 8,
        chips: 8,
        dies: 1,
        planes: 1,
        page_bytes: 4096,
        pages: 256,
        erase_blocks: 256,
        blocks: 12 << 18,
        sense_ns: 40_000,
        program_ns: 200_000,
        erase_ns: 2_000_000,
        suspend: Suspend::NONE,
        channel_block_ns: 0,
        link: NO_LINK,
        queue_depth: 1024,
        buffer_blocks: 1024,
        drain: Drain::Through,
        power_loss_protected: false,
        policy: Policy::Greedy,
        cleaning: LAZY,
        compression: None,
        redundancy: Redundancy::EccOnly,
        rows: false,
        wear_levelling: None,
        mapping_cache: None,
        slc_cache: None,
    }
}

/// Controller time of a command: the 72,000 random reads per second of the Intel SSD DC S4500's product specification.
const SATA_COMMAND_NS: Ns = 13_900;

/// A datacenter SATA drive like FusionRAID's SSD-E (Intel D3-S4510, 240 GB; FAST '21, table 3: 36/37 us, 560/280 MB/s).
///
/// 240 GB of 256 GiB of flash. Eight dies of 32 KiB programmed at once, so that MQSim's 750 us give the 280 MB/s.
/// The buffer is written out steadily and each die cleans for itself, which is what the paper supposes of such drives.
/// Size of the buffer: 16 MiB, as in the Intel X25-M (xbitlabs' review); that of the S4510 is not published.
pub fn datacenter() -> Config {
    let config = Config {
        channels: 8,
        chips: 1,
        dies: 1,
        planes: 2,
        page_bytes: 16_384,
        pages: 256,
        erase_blocks: 0,
        blocks: 0,
        link: Link {
            command_ns: SATA_COMMAND_NS,
            latency_ns: 37_000 - SATA_COMMAND_NS - block_ns(560),
            block_ns: block_ns(560),
            duplex: false,
        },
        queue_depth: 32,
        buffer_blocks: 16 << 8,
        drain: Drain::Steady,
        power_loss_protected: true,
        ..mqsim()
    };
    config.sized(58_593_750, (1u64 << 38) as f64 / 240e9 - 1.0)
}

/// A consumer SATA drive like FusionRAID's SSD-A (Intel 545s, 240 GB; FAST '21, table 3: 50/60 us, 550/500 MB/s).
///
/// Sixteen dies like those of [`datacenter`]. Configured after section 2.3 of the paper: that everything, reads
/// included, stops while the buffer is written out and while the drive cleans; the size of a batch, so that such a stop
/// is within the 3 to 12 ms. Assumed, because it explains both how long cleaning takes and how often it comes: that the
/// drive erases one block at a time.
pub fn consumer() -> Config {
    let config = Config {
        chips: 2,
        link: Link {
            latency_ns: 60_000 - SATA_COMMAND_NS - block_ns(550),
            block_ns: block_ns(550),
            ..datacenter().link
        },
        drain: Drain::Batch { blocks: 3 << 8 },
        power_loss_protected: false,
        cleaning: Cleaning { low: 2, high: 4, exclusive: true, single_erase: true },
        ..datacenter()
    };
    config.sized(58_593_750, (1u64 << 38) as f64 / 240e9 - 1.0)
}

/// A drive like the single SSD of N. Jeremic et al., "The pitfalls of deploying solid-state drive RAIDs" (SYSTOR 2011),
/// which names neither the drive nor its spare space: ten channels, as the Intel X25-M of that time, MQSim's MLC times,
/// pages of 4 KiB. One die on each channel is chosen so that 3 % of spare space give the study's 600 random writes per
/// second.
pub fn pitfalls() -> Config {
    let config = Config {
        channels: 10,
        chips: 1,
        dies: 1,
        planes: 1,
        page_bytes: 4096,
        pages: 128,
        channel_block_ns: 4096 * 25,
        queue_depth: 32,
        buffer_blocks: 4096,
        drain: Drain::Steady,
        ..mqsim()
    };
    config.sized(1 << 19, 0.03)
}
