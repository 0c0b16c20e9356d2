//! The bound of the table cache of mapped pools: memory for the slots of stripes and for the block map.

use anyhow::Result;

use crate::units;

/// The part of the machine's memory that the table cache gets if no bound is given.
const MEMORY_PART: u64 = 8;

/// A bound of the table cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableCache {
    Bytes(u64),
    Unbounded,
}

impl TableCache {
    /// Reads a size, or `none`.
    ///
    /// # Errors
    /// When the text is neither.
    pub(crate) fn parse(text: &str) -> Result<TableCache> {
        if text == "none" {
            Ok(TableCache::Unbounded)
        } else {
            units::parse_size(text).map(TableCache::Bytes)
        }
    }

    /// In bytes; `None` is no bound.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            TableCache::Bytes(bytes) => Some(bytes),
            TableCache::Unbounded => None,
        }
    }
}

/// An eighth of the machine's memory. No bound where the kernel does not tell how much there is.
impl Default for TableCache {
    fn default() -> TableCache {
        let told = std::fs::read_to_string("/proc/meminfo").ok();
        let total = told.and_then(|told| memory_bytes(&told));
        total.map_or(TableCache::Unbounded, |bytes| TableCache::Bytes(bytes / MEMORY_PART))
    }
}

/// The memory of a machine by /proc/meminfo.
fn memory_bytes(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_size_or_none() {
        assert_eq!(TableCache::parse("1.5G").unwrap().bytes(), Some(3 << 29));
        assert_eq!(TableCache::parse("0").unwrap().bytes(), Some(0));
        assert_eq!(TableCache::parse("none").unwrap().bytes(), None);
        assert!(TableCache::parse("much").unwrap_err().to_string().contains("much is not a size"));
    }

    #[test]
    fn the_memory_of_the_machine_is_found() {
        let told = "MemFree:  12 kB\nMemTotal:       24683476 kB\nMemAvailable: 1 kB\n";
        assert_eq!(memory_bytes(told), Some(24_683_476 << 10));
        assert_eq!(memory_bytes("MemTotal: much"), None);
    }
}
