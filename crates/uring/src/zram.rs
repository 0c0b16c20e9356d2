//! Physical space of zram devices: compressed memory with a limit.
//!
//! A zram at its limit answers writes with EIO. Only its statistics tell that from a failure.

use std::fs;

use libc::dev_t;
use sinew_core::physical::{Domain, Physical, PhysicalSource};

use crate::sysfs::directory_of;

/// A write may have been refused for lack of space while this much was free: the pool of compressed pages grows by whole
/// zspages, of up to 16 pages of 4 KiB for each of its size classes, and other processors may be allocating as well.
pub(crate) const ZRAM_RESERVE: u64 = 1 << 20;

/// The physical space of a zram.
pub(crate) fn zram_space(number: dev_t) -> Option<Physical> {
    space_in(&stat_of(number)?, number)
}

/// The physical space of a zram, which is compacted first if it is half full or more and its allocator's fragmentation is a
/// sixteenth of the limit or more. After discards, as of the copies of stripes that get parity, the allocator keeps pages with
/// few objects each, which count against the limit. Without the right to write to sysfs it is not compacted.
pub(crate) fn compacted_zram_space(number: dev_t) -> Option<Physical> {
    let stat = stat_of(number)?;
    if !is_fragmented(&stat) {
        return space_in(&stat, number);
    }
    let _ = fs::write(format!("{}/compact", directory_of(number)), "1");
    zram_space(number)
}

fn stat_of(number: dev_t) -> Option<String> {
    fs::read_to_string(format!("{}/mm_stat", directory_of(number))).ok()
}

fn is_fragmented(mm_stat: &str) -> bool {
    let (Some(stored), Some(used), Some(limit)) = (field(mm_stat, 1), field(mm_stat, 2), field(mm_stat, 3))
    else {
        return false;
    };
    limit > 0 && used >= limit / 2 && used.saturating_sub(stored) >= limit / 16
}

/// The fields of `mm_stat` are orig_data_size, compr_data_size, mem_used_total, mem_limit and others
/// (Documentation/admin-guide/blockdev/zram.rst of Linux).
fn field(mm_stat: &str, index: usize) -> Option<u64> {
    mm_stat.split_ascii_whitespace().nth(index)?.parse().ok()
}

fn space_in(mm_stat: &str, number: dev_t) -> Option<Physical> {
    let (used, limit) = (field(mm_stat, 2)?, field(mm_stat, 3)?);
    let free = (limit > 0).then(|| limit.saturating_sub(used));
    Some(Physical { used, free, domain: Domain(number), source: PhysicalSource::Zram })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_space_is_the_limit_and_what_is_used_of_it() {
        let space = |stat| space_in(stat, 7).map(|physical| (physical.used, physical.free));
        let stat = "  8388608  8011776  8232960 16777216  8232960        0        0     1955     1955\n";
        assert_eq!(space(stat), Some((8_232_960, Some(8_544_256))));
        assert_eq!(space("4096 74 12288 8192 12288 0 0 0 0"), Some((12_288, Some(0))));
        let unlimited = "4096 74 12288 0 12288 0 0 0 0";
        assert_eq!(space(unlimited), Some((12_288, None)));
        assert_eq!(space(""), None);
    }

    #[test]
    fn a_zram_is_compacted_where_its_fragmentation_is_large() {
        let (full, dense) = ("9 41678911 69644288 100663296 0", "9 65000000 69644288 100663296 0");
        assert!(is_fragmented(full) && !is_fragmented(dense));
        let (half_empty, unlimited) = ("9 4167891 40644288 100663296 0", "9 41678911 69644288 0 0");
        assert!(!is_fragmented(half_empty) && !is_fragmented(unlimited) && !is_fragmented(""));
    }
}
