//! What the blocks contain: a function of (volume, block, version), so that a reader knows what a writer wrote.
//!
//! Compressible content is made of pieces, each a run of fresh random bytes followed by a copy of earlier bytes of the
//! same block. That is what real data looks like to an LZ compressor, and unlike a block that is half zeros it behaves
//! like real data under parity: the XOR of several compressible blocks hardly compresses, because copies in one meet fresh
//! bytes of another.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::random::{Random, below, mix64};
use crate::tag::{self, Permille};
use crate::{Error, Result};

/// A piece of compressible content: short enough that a block of 4 KiB has dozens.
const PIECE_BYTES: usize = 96;
/// Copies shorter than LZ4's shortest match (4 bytes; LZ4 block format) are not found.
const COPY_BYTES_MIN: usize = 8;

/// The compressor that a ratio is meant for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Codec {
    /// LZ4's block format.
    #[default]
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// What a compressor needs for one sequence, beside its literals. LZ4 (its block format): a token, two bytes of offset,
    /// and a byte each for a run of literals above 14 and a match above 18. Zstandard has codes of bits instead; measured
    /// at level 1 with blocks of 4 KiB, at ratios from 0.2 to 0.9 (the test below).
    fn sequence_bytes(self) -> f64 {
        match self {
            Codec::Lz4 => 5.0,
            Codec::Zstd => 4.0,
        }
    }
}

/// What the blocks contain, as a description says it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ContentSpec {
    /// Random bytes.
    #[default]
    Random,
    /// Blocks that compress to this part of their size: 0.5 is half.
    Compressible {
        /// Compressed size over size, 0.1 to 1.
        ratio: f64,
        /// By which compressor.
        #[serde(default)]
        codec: Codec,
        /// How much of the compression of data the parity of such blocks has, from 0 to 1: (a_pty - 1) / (a_usr - 1), where a
        /// block of a size S compresses to S / a. Elastic RAID (2022), section 5.3, takes 0.25. The end of each block is zeros.
        #[serde(default, skip_serializing_if = "is_zero")]
        parity_gain: f64,
    },
    /// As compressible, by LZ4, and each whole block says its ratio at its beginning: simulated members can take its length
    /// from there, and compress nothing.
    Tagged {
        /// Compressed size over size, 0.1 to 1.
        ratio: f64,
    },
    /// Pieces of a file, each block from a place of its own.
    Corpus {
        /// The file.
        path: PathBuf,
    },
}

impl ContentSpec {
    /// Blocks that LZ4 leaves this part of, and their parity whole.
    pub fn compressible(ratio: f64) -> ContentSpec {
        ContentSpec::Compressible { ratio, codec: Codec::Lz4, parity_gain: 0.0 }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(gain: &f64) -> bool {
    *gain == 0.0
}

/// Makes the content of blocks.
#[derive(Clone, Debug)]
pub struct Content {
    seed: u64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Random,
    /// The mean number of fresh bytes in a piece.
    Pieces {
        fresh: f64,
    },
    /// Blocks of another source after a tag.
    Tagged(Permille, Box<Source>),
    /// Blocks of which another source fills this part, and zeros the rest.
    Padded(f64, Box<Source>),
    Corpus(Arc<[u8]>),
}

impl Content {
    /// The content of a description; a corpus is read into memory. `base` is the directory that relative paths begin at.
    ///
    /// # Errors
    /// When the description is impossible or its corpus cannot be read.
    pub fn new(spec: &ContentSpec, seed: u64, base: &Path) -> Result<Content> {
        let source = match spec {
            ContentSpec::Random => Source::Random,
            ContentSpec::Compressible { ratio, codec, parity_gain } => {
                Source::padded(*ratio, *codec, *parity_gain)?
            }
            ContentSpec::Tagged { ratio } => {
                let pieces = Source::compressible(*ratio, Codec::Lz4)?;
                Source::Tagged(Permille((ratio * 1000.0).round() as u64), Box::new(pieces))
            }
            ContentSpec::Corpus { path } => {
                let path = base.join(path);
                let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
                if bytes.is_empty() {
                    let empty = io::Error::new(io::ErrorKind::UnexpectedEof, "the corpus is empty");
                    return Err(Error::io(&path, empty));
                }
                Source::Corpus(bytes.into())
            }
        };
        Ok(Content { seed, source })
    }

    /// Fills `block`, of any size, with the content of a version of a block of a volume.
    pub fn fill(&self, volume: u32, block: u64, version: u64, bytes: &mut [u8]) {
        let key = mix64(mix64(mix64(self.seed ^ u64::from(volume)) ^ block) ^ version);
        self.source.fill(key, &mut Random::seed_from_u64(key), bytes);
    }
}

impl Source {
    /// Blocks that a compressor leaves this part of.
    fn compressible(ratio: f64, codec: Codec) -> Result<Source> {
        if !(0.1..=1.0).contains(&ratio) {
            return Err(Error::setting("ratio", format!("{ratio} is not between 0.1 and 1")));
        }
        let fresh = ratio * PIECE_BYTES as f64 - codec.sequence_bytes();
        // A copy too short to be found makes all the piece fresh.
        let all = (PIECE_BYTES - COPY_BYTES_MIN) as f64;
        Ok(if fresh > all { Source::Random } else { Source::Pieces { fresh } })
    }

    /// Blocks that a compressor leaves this part of, and whose parity gains as much of that.
    fn padded(ratio: f64, codec: Codec, parity_gain: f64) -> Result<Source> {
        if !(0.0..=1.0).contains(&parity_gain) {
            return Err(Error::setting("parity_gain", format!("{parity_gain} is not between 0 and 1")));
        }
        let pieces = Source::compressible(ratio, codec)?;
        let parity_ratio = 1.0 / (1.0 + (1.0 / ratio - 1.0) * parity_gain);
        if parity_ratio == 1.0 {
            return Ok(pieces);
        }
        Ok(Source::Padded(parity_ratio, Box::new(Source::compressible(ratio / parity_ratio, codec)?)))
    }

    /// Fills a block, whose number of its own is `key`.
    fn fill(&self, key: u64, random: &mut Random, bytes: &mut [u8]) {
        match self {
            Source::Random => random.fill_bytes(bytes),
            Source::Pieces { fresh } => fill_pieces(*fresh, random, bytes),
            Source::Tagged(permille, rest) => {
                let tagged = tag::put(key, *permille, bytes);
                rest.fill(key, random, &mut bytes[tagged..]);
            }
            Source::Padded(part, rest) => {
                let (begun, zeros) = bytes.split_at_mut((bytes.len() as f64 * part).round() as usize);
                rest.fill(key, random, begun);
                zeros.fill(0);
            }
            Source::Corpus(corpus) => fill_from(corpus, random, bytes),
        }
    }
}

fn fill_pieces(fresh: f64, random: &mut Random, bytes: &mut [u8]) {
    let mut at = 0;
    // What is owed to the mean when a piece has a whole number of bytes.
    let mut owed = 0.0;
    while at < bytes.len() {
        let piece = PIECE_BYTES.min(bytes.len() - at);
        owed += fresh.max(0.0) * piece as f64 / PIECE_BYTES as f64;
        // The first piece has nothing to copy but its own beginning.
        let new = (owed as usize).clamp(usize::from(at == 0), piece);
        owed -= new as f64;
        random.fill_bytes(&mut bytes[at..at + new]);
        // From the beginning of a piece: fast compressors look up only places that they did not skip, and they skip
        // what is a copy itself.
        let from = below(random, (at / PIECE_BYTES + 1) as u64) as usize * PIECE_BYTES;
        for i in 0..piece - new {
            bytes[at + new + i] = bytes[from + i];
        }
        at += piece;
    }
}

/// From a random place of the corpus, and from its start again where it ends.
fn fill_from(corpus: &[u8], random: &mut Random, bytes: &mut [u8]) {
    let mut from = below(random, corpus.len() as u64) as usize;
    let mut rest = bytes;
    while !rest.is_empty() {
        let some = rest.len().min(corpus.len() - from);
        let (now, later) = rest.split_at_mut(some);
        now.copy_from_slice(&corpus[from..from + some]);
        (rest, from) = (later, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::tagged_bytes;

    const BLOCK: usize = 4096;
    const BLOCKS: u64 = 200;

    fn made(spec: &ContentSpec) -> Content {
        Content::new(spec, 5, Path::new("")).expect("a good spec")
    }

    fn block(content: &Content, volume: u32, number: u64, version: u64) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        content.fill(volume, number, version, &mut bytes);
        bytes
    }

    fn compressed(codec: Codec, bytes: &[u8]) -> usize {
        match codec {
            Codec::Lz4 => lz4_flex::block::compress(bytes).len(),
            Codec::Zstd => zstd::bulk::compress(bytes, 1).expect("compresses").len(),
        }
    }

    fn ratio_of(codec: Codec, blocks: impl Iterator<Item = Vec<u8>>) -> f64 {
        let (part, whole) =
            blocks.fold((0, 0), |sum, b| (sum.0 + compressed(codec, &b).min(BLOCK), sum.1 + BLOCK));
        part as f64 / whole as f64
    }

    /// The parity of stripes of four blocks.
    fn parity_of(content: &Content) -> impl Iterator<Item = Vec<u8>> {
        (0..BLOCKS).map(|i| {
            (0..4).fold(vec![0; BLOCK], |mut sum, column| {
                let data = block(content, 0, i * 4 + column, 0);
                sum.iter_mut().zip(data).for_each(|(a, b)| *a ^= b);
                sum
            })
        })
    }

    #[test]
    fn content_is_a_function_of_volume_block_and_version() {
        for spec in [ContentSpec::Random, ContentSpec::compressible(0.5)] {
            let content = made(&spec);
            assert_eq!(block(&content, 1, 2, 3), block(&content, 1, 2, 3));
            for other in [(2, 2, 3), (1, 3, 3), (1, 2, 4)] {
                assert_ne!(block(&content, 1, 2, 3), block(&content, other.0, other.1, other.2));
            }
        }
    }

    /// Within 0.02 of the ratio asked for, for both compressors.
    #[test]
    fn blocks_compress_as_asked() {
        for codec in [Codec::Lz4, Codec::Zstd] {
            for ratio in [0.2, 0.3, 0.5, 0.7, 0.9, 1.0] {
                let content = made(&ContentSpec::Compressible { ratio, codec, parity_gain: 0.0 });
                let found = ratio_of(codec, (0..BLOCKS).map(|i| block(&content, 0, i, 0)));
                assert!((found - ratio).abs() < 0.02, "{codec:?}: {found} instead of {ratio}");
            }
        }
    }

    /// Real files' parity over four blocks: LZ4 1.00 where their blocks are 0.6 to 0.8.
    #[test]
    fn parity_of_compressible_blocks_hardly_compresses() {
        let content = made(&ContentSpec::compressible(0.5));
        assert!(ratio_of(Codec::Lz4, parity_of(&content)) > 0.95);
    }

    /// Data within 0.02 of its ratio, parity within 0.05.
    #[test]
    fn parity_compresses_as_asked() {
        // With the paper's 0.25, parity compresses 1.25 times where data compresses 2 times, and 1.5 times where it is 3 times.
        for (ratio, parity_gain, parity_ratio) in
            [(0.5, 0.25, 0.8), (1.0 / 3.0, 0.25, 2.0 / 3.0), (0.5, 1.0, 0.5), (0.9, 0.5, 18.0 / 19.0)]
        {
            for codec in [Codec::Lz4, Codec::Zstd] {
                let content = made(&ContentSpec::Compressible { ratio, codec, parity_gain });
                let found = ratio_of(codec, (0..BLOCKS).map(|i| block(&content, 0, i, 0)));
                assert!((found - ratio).abs() < 0.02, "{codec:?}: {found} instead of {ratio}");
                let found = ratio_of(codec, parity_of(&content));
                assert!(
                    (found - parity_ratio).abs() < 0.05,
                    "{codec:?}: parity {found} instead of {parity_ratio}"
                );
            }
        }
    }

    /// What reads the tags and what compresses agree about blocks, and about their parity.
    #[test]
    fn tagged_blocks_compress_as_they_say() {
        for ratio in [0.2, 0.5, 0.8, 1.0] {
            let content = made(&ContentSpec::Tagged { ratio });
            let blocks: Vec<_> = (0..BLOCKS).map(|i| block(&content, 0, i, 0)).collect();
            let found = ratio_of(Codec::Lz4, blocks.iter().cloned());
            assert!((found - ratio).abs() < 0.02, "{found} instead of {ratio}");
            let said = (BLOCK as f64 * ratio).ceil() as usize;
            assert!(blocks.iter().all(|block| tagged_bytes(block) == Some(said)));
            let parity: Vec<_> = parity_of(&content).collect();
            assert!(parity.iter().all(|block| tagged_bytes(block).is_none()));
            assert!(ratio < 0.5 || ratio_of(Codec::Lz4, parity.into_iter()) > 0.95);
        }
    }

    #[test]
    fn a_corpus_gives_its_own_bytes() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text: Vec<u8> = (0..3000u32).flat_map(|i| (i as u16).to_le_bytes()).collect();
        fs::write(file.path(), &text).expect("written");
        let content = made(&ContentSpec::Corpus { path: file.path().to_owned() });
        let around: Vec<u8> = text.iter().chain(&text).copied().collect();
        for i in 0..20 {
            let bytes = block(&content, 0, i, 0);
            assert!(around.windows(BLOCK).any(|window| window == bytes));
        }
        fs::write(file.path(), b"").expect("written");
        assert!(
            Content::new(&ContentSpec::Corpus { path: file.path().to_owned() }, 0, Path::new("")).is_err()
        );
    }

    #[test]
    fn impossible_ratios_are_refused() {
        for ratio in [0.0, 1.1, f64::NAN] {
            assert!(Content::new(&ContentSpec::compressible(ratio), 0, Path::new("")).is_err());
        }
        for parity_gain in [-0.1, 1.1, f64::NAN] {
            let spec = ContentSpec::Compressible { ratio: 0.5, codec: Codec::Lz4, parity_gain };
            assert!(Content::new(&spec, 0, Path::new("")).is_err());
        }
    }
}
