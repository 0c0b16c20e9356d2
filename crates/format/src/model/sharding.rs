//! Distribution of a volume over the shards of its pool: extents of equal length in turn, and the arithmetic in both
//! directions.

/// Consecutive blocks that one shard holds consecutively.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRange {
    /// The shard.
    pub shard: usize,
    /// The first block, as the shard numbers the volume's blocks.
    pub local: u64,
    /// Number of blocks.
    pub blocks: u64,
}

/// The parts of a range of blocks, in order.
pub fn shard_ranges(
    first: u64,
    blocks: u64,
    extent_blocks: u64,
    shards: usize,
) -> impl Iterator<Item = ShardRange> {
    let (mut at, end) = (first, first + blocks);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let (extent, within) = (at / extent_blocks, at % extent_blocks);
        // With one shard, extents follow one another.
        let room = if shards == 1 { u64::MAX } else { extent_blocks - within };
        let blocks = room.min(end - at);
        at += blocks;
        let local = extent / shards as u64 * extent_blocks + within;
        Some(ShardRange { shard: (extent % shards as u64) as usize, local, blocks })
    })
}

/// How many of the first `count` items belong to shard `index` of `shards`, when runs of `run` items are dealt round robin.
pub fn dealt(count: u64, run: u64, index: usize, shards: usize) -> u64 {
    let (turn, within) = (count / run, count % run);
    let (index, shards) = (index as u64, shards as u64);
    let whole = turn / shards + u64::from(index < turn % shards);
    let part = if turn % shards == index { within } else { 0 };
    whole * run + part
}

/// The number in its volume of the block that shard `shard` numbers `local`.
pub fn volume_block(local: u64, extent_blocks: u64, shard: usize, shards: usize) -> u64 {
    let (turn, within) = (local / extent_blocks, local % extent_blocks);
    (turn * shards as u64 + shard as u64) * extent_blocks + within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_has_one_place_and_counts_add_up() {
        for (shards, extent) in [(1usize, 256u64), (2, 256), (3, 80), (5, 7)] {
            let mut seen = std::collections::BTreeSet::new();
            for block in 0..4 * extent * shards as u64 + 37 {
                let part = shard_ranges(block, 1, extent, shards).next().unwrap();
                assert!(seen.insert((part.shard, part.local)));
                assert_eq!(dealt(block, extent, part.shard, shards), part.local);
                assert_eq!(volume_block(part.local, extent, part.shard, shards), block);
            }
            let all: u64 = (0..shards).map(|s| dealt(777, extent, s, shards)).sum();
            assert_eq!(all, 777);
        }
    }

    #[test]
    fn parts_cover_the_range_in_order() {
        let total: u64 = shard_ranges(100, 5000, 256, 3).map(|p| p.blocks).sum();
        assert_eq!(total, 5000);
        assert_eq!(shard_ranges(0, 5000, 256, 1).count(), 1);
    }
}
