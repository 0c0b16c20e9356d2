//! How well data compresses, block by block, and how well its parity does (Elastic RAID, 2022, section 3.3 and figure 5).
//!
//! Parity hardly compresses, because repeated strings lie at different places of the blocks that it is computed from. So a
//! mirrored stripe takes less space than one with parity where its data compresses better than `n` times as well as its parity.

use std::io::{ErrorKind, Read};

use flate2::{Compress, Compression, FlushCompress};
use lz4_flex::block::{CompressTable, compress_into_with_table};
use serde::Serialize;

/// The block that SSDs with transparent compression compress, and zram.
pub const BLOCK_BYTES: usize = 4096;
/// Lower limits of the ranges of compression ratios that are counted; the last one has no upper limit.
pub const RATIOS: [f64; 8] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0];

/// A compressor, at the level that is usual for blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compressor {
    /// Deflate at level 6, the compressor of figure 5, without the header and the checksum of gzip or zlib.
    #[default]
    Gzip,
    /// LZ4's block format: zram's default.
    Lz4,
    /// Zstandard, level 3: btrfs' default.
    Zstd,
}

impl Compressor {
    /// All of them.
    pub const ALL: [Compressor; 3] = [Compressor::Gzip, Compressor::Lz4, Compressor::Zstd];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Gzip => "gzip",
            Compressor::Lz4 => "lz4",
            Compressor::Zstd => "zstd",
        }
    }

    /// Allocates what it needs to compress blocks.
    pub fn prepare(self) -> BlockCompressor {
        let with = match self {
            Compressor::Gzip => Prepared::Gzip(Compress::new(Compression::new(6), false)),
            Compressor::Lz4 => Prepared::Lz4(CompressTable::small()),
            Compressor::Zstd => Prepared::Zstd(zstd::bulk::Compressor::new(3).expect("level 3 exists")),
        };
        BlockCompressor { with, room: vec![0; ROOM_BYTES] }
    }
}

/// At least what the compressors want for the result: LZ4 a tenth more than the block.
const ROOM_BYTES: usize = BLOCK_BYTES * 5 / 4;

/// A compressor with all that it needs, for any number of blocks of at most [`BLOCK_BYTES`]. What it makes of a block does not
/// depend on those before.
pub struct BlockCompressor {
    with: Prepared,
    room: Vec<u8>,
}

enum Prepared {
    Gzip(Compress),
    Lz4(CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl BlockCompressor {
    /// Bytes that a block takes; all of them where it does not get smaller.
    pub fn stored_bytes(&mut self, block: &[u8]) -> usize {
        let room = self.room.as_mut_slice();
        let compressed = match &mut self.with {
            Prepared::Gzip(deflate) => {
                deflate.reset();
                let ended = deflate.compress(block, room, FlushCompress::Finish);
                ended.expect("memory takes all");
                deflate.total_out() as usize
            }
            Prepared::Lz4(table) => compress_into_with_table(block, room, table).expect("there is room"),
            Prepared::Zstd(zstd) => zstd.compress_to_buffer(block, room).expect("there is room"),
        };
        compressed.min(block.len())
    }
}

/// The sizes of many blocks, compressed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockSizes {
    /// Blocks.
    pub blocks: u64,
    /// Bytes that they take.
    pub stored_bytes: u64,
    /// Blocks in each range of [`RATIOS`].
    pub counts: [u64; RATIOS.len()],
}

impl BlockSizes {
    fn add(&mut self, stored: usize) {
        let ratio = BLOCK_BYTES as f64 / stored.max(1) as f64;
        let range = RATIOS.iter().rposition(|&least| ratio >= least).expect("no block grows");
        self.counts[range] += 1;
        self.blocks += 1;
        self.stored_bytes += stored as u64;
    }

    /// Bytes before compression for each byte after it.
    pub fn ratio(&self) -> f64 {
        ratio(&[self])
    }
}

fn ratio(of: &[&BlockSizes]) -> f64 {
    let sum = |part: fn(&BlockSizes) -> u64| of.iter().map(|sizes| part(sizes)).sum::<u64>();
    (sum(|sizes| sizes.blocks) * BLOCK_BYTES as u64) as f64 / sum(|sizes| sizes.stored_bytes).max(1) as f64
}

/// How well data compresses in a RAID 5.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compressibility {
    /// Stripes of one block on each member.
    pub stripes: u64,
    /// Blocks of data.
    pub data: BlockSizes,
    /// Blocks of parity.
    pub parity: BlockSizes,
    /// Stripes that take less space mirrored than with parity.
    pub smaller_mirrored: u64,
}

impl Compressibility {
    /// Reads data to its end as stripes of `columns` chunks of `chunk_blocks` blocks. What does not fill the last stripe is left
    /// out.
    ///
    /// # Errors
    /// When the data cannot be read.
    pub fn of(
        mut data: impl Read,
        compressor: Compressor,
        columns: usize,
        chunk_blocks: usize,
    ) -> std::io::Result<Compressibility> {
        let mut found = Compressibility::default();
        let mut compressor = compressor.prepare();
        let mut row = vec![0; columns * chunk_blocks * BLOCK_BYTES];
        loop {
            match data.read_exact(&mut row) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(found),
                Err(error) => return Err(error),
            }
            for block in 0..chunk_blocks {
                let blocks = row.chunks_exact(BLOCK_BYTES).skip(block).step_by(chunk_blocks);
                found.add_stripe(&mut compressor, blocks);
            }
        }
    }

    /// Bytes of data and parity together before compression for each byte after it: a_exp of the paper's section 3.
    pub fn ratio(&self) -> f64 {
        ratio(&[&self.data, &self.parity])
    }

    fn add_stripe<'a>(&mut self, compressor: &mut BlockCompressor, blocks: impl Iterator<Item = &'a [u8]>) {
        let mut parity = [0; BLOCK_BYTES];
        let mut data_bytes = 0;
        for block in blocks {
            parity.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
            let stored = compressor.stored_bytes(block);
            data_bytes += stored;
            self.data.add(stored);
        }
        let parity_bytes = compressor.stored_bytes(&parity);
        self.parity.add(parity_bytes);
        self.stripes += 1;
        self.smaller_mirrored += u64::from(data_bytes < parity_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Content, ContentSpec};

    fn found(bytes: &[u8], compressor: Compressor, chunk_blocks: usize) -> Compressibility {
        Compressibility::of(bytes, compressor, 3, chunk_blocks).unwrap()
    }

    #[test]
    fn random_data_is_stored_whole_and_zeros_are_not() {
        let random = Content::new(&ContentSpec::Random, 1, Path::new("")).unwrap();
        let mut bytes = vec![0; 6 * BLOCK_BYTES];
        bytes
            .chunks_exact_mut(BLOCK_BYTES)
            .take(3)
            .zip(0..)
            .for_each(|(block, i)| random.fill(0, i, 0, block));
        // The rest of a stripe is left out.
        bytes.extend([1; 100]);
        for compressor in Compressor::ALL {
            let found = found(&bytes, compressor, 1);
            assert_eq!((found.stripes, found.data.blocks, found.parity.blocks), (2, 6, 2));
            assert_eq!((found.data.counts[0], found.data.counts[RATIOS.len() - 1]), (3, 3), "{compressor:?}");
            assert_eq!(found.smaller_mirrored, 0);
        }
        assert_eq!(found(&bytes[..4 * BLOCK_BYTES], Compressor::Lz4, 2).stripes, 0);
    }

    #[test]
    fn parity_of_real_looking_data_compresses_worse_than_the_data() {
        let spec = ContentSpec::compressible(0.25);
        let content = Content::new(&spec, 1, Path::new("")).unwrap();
        let mut bytes = vec![0; 30 * BLOCK_BYTES];
        bytes.chunks_exact_mut(BLOCK_BYTES).zip(0..).for_each(|(block, i)| content.fill(0, i, 0, block));
        let found = found(&bytes, Compressor::Lz4, 2);
        assert_eq!(found.stripes, 10);
        assert!((3.0..5.0).contains(&found.data.ratio()), "{}", found.data.ratio());
        assert!(found.parity.ratio() < 4.0 / 3.0, "{}", found.parity.ratio());
        // Three blocks compress to three quarters of one, and their parity to more.
        assert_eq!(found.smaller_mirrored, found.stripes);
    }

    /// The lengths of pieces of text, of data that repeats and of random bytes, alone and after other blocks.
    #[test]
    fn a_prepared_compressor_measures_each_block_for_itself() {
        let random = Content::new(&ContentSpec::Random, 3, Path::new("")).unwrap();
        let part_random = |bytes: usize| {
            let mut block = vec![b'x'; BLOCK_BYTES];
            random.fill(0, 0, 0, &mut block[..bytes]);
            block
        };
        let text: Vec<u8> = (0..400u32).flat_map(|i| format!("line {i} of a log\n").into_bytes()).collect();
        let blocks =
            [vec![0; BLOCK_BYTES], text[..BLOCK_BYTES].to_vec(), part_random(2048), part_random(4096)];
        let mut by_compressor = Vec::new();
        for compressor in Compressor::ALL {
            let alone = blocks.each_ref().map(|block| compressor.prepare().stored_bytes(block));
            let mut prepared = compressor.prepare();
            for turn in 0..3 {
                let again = blocks.each_ref().map(|block| prepared.stored_bytes(block));
                assert_eq!(again, alone, "{compressor:?}, turn {turn}");
            }
            let [zeros, text, half, whole] = alone;
            assert!(zeros < 40 && zeros < text && text < half && half < whole, "{compressor:?}: {alone:?}");
            assert!((2048..2110).contains(&half) && whole == BLOCK_BYTES, "{compressor:?}: {alone:?}");
            by_compressor.push(text);
        }
        // Deflate and Zstandard code what LZ4 leaves as it is.
        let [gzip, lz4, zstd] = by_compressor[..] else { unreachable!("three compressors") };
        assert!(gzip * 3 < lz4 * 2 && zstd * 3 < lz4 * 2, "{gzip} {lz4} {zstd}");
    }

    #[test]
    fn chunks_say_which_blocks_are_in_a_stripe() {
        // Of chunks of two blocks, blocks 0, 2 and 4 are one stripe, whose sum is zero here.
        let mut bytes = vec![0; 6 * BLOCK_BYTES];
        let random = Content::new(&ContentSpec::Random, 2, Path::new("")).unwrap();
        random.fill(0, 0, 0, &mut bytes[..BLOCK_BYTES]);
        bytes.copy_within(..BLOCK_BYTES, 4 * BLOCK_BYTES);
        let last = RATIOS.len() - 1;
        assert_eq!(found(&bytes, Compressor::Lz4, 2).parity.counts[last], 2);
        assert_eq!(found(&bytes, Compressor::Lz4, 1).parity.counts[last], 0);
    }
}
