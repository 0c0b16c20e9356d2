//! The lengths of blocks on members that compress: measured by a compressor, or read from what tagged content says of itself.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::BLOCK_BYTES;
use sinew_sim::Lengths;
use sinew_workload::compressibility::{BlockCompressor, Compressor};
use sinew_workload::tagged_bytes;

use crate::file::names::LengthsName;

/// Blocks whose lengths are remembered: more than clients usually have in flight. They take 16 MiB.
const REMEMBERED: usize = 4096;

/// The lengths that a measure gives. What it needs is allocated once, for all members that share it.
pub(crate) fn measured_by(name: LengthsName) -> Lengths {
    match name {
        LengthsName::Lz4 => Lengths::Lz4,
        LengthsName::Zlib => by_compressor(Compressor::Gzip),
        LengthsName::Zstd => by_compressor(Compressor::Zstd),
        LengthsName::Tagged => Lengths::By(Rc::new(|content| tagged_bytes(content).unwrap_or(BLOCK_BYTES))),
    }
}

fn by_compressor(compressor: Compressor) -> Lengths {
    let measure = RefCell::new(Remembering::new(compressor));
    Lengths::By(Rc::new(move |content| measure.borrow_mut().length_of(content)))
}

/// A compressor with a cache of lengths. One content is measured several times: at admission, when it is stored, when it is
/// announced to the flash model, and for each of its copies in the journal and in the stripe.
struct Remembering {
    compressor: BlockCompressor,
    blocks: Vec<Option<Remembered>>,
}

struct Remembered {
    content: Box<[u8]>,
    length: usize,
}

impl Remembering {
    fn new(compressor: Compressor) -> Remembering {
        Remembering {
            compressor: compressor.prepare(),
            blocks: std::iter::repeat_with(|| None).take(REMEMBERED).collect(),
        }
    }

    fn length_of(&mut self, content: &[u8]) -> usize {
        let place = &mut self.blocks[place_of(content)];
        match place {
            Some(known) if *known.content == *content => known.length,
            Some(old) if old.content.len() == content.len() => {
                old.content.copy_from_slice(content);
                old.length = self.compressor.stored_bytes(content);
                old.length
            }
            _ => {
                let length = self.compressor.stored_bytes(content);
                *place = Some(Remembered { content: content.into(), length });
                length
            }
        }
    }
}

/// Where a block is remembered. Words from all over it decide: blocks that differ elsewhere only take each other's place.
fn place_of(content: &[u8]) -> usize {
    let (words, _) = content.as_chunks::<8>();
    let sampled = words.iter().step_by(words.len().div_ceil(32).max(1));
    let sum = sampled.fold(0u64, |sum, &word| {
        (sum.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    (sum >> 32) as usize % REMEMBERED
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use sinew_workload::{Content, ContentSpec};

    use super::*;

    fn length(lengths: &Lengths, content: &[u8]) -> usize {
        match lengths {
            Lengths::By(function) => function(content),
            Lengths::Whole | Lengths::Lz4 => unreachable!("sim measures these"),
        }
    }

    fn blocks(spec: &ContentSpec, count: u64) -> Vec<Vec<u8>> {
        let content = Content::new(spec, 9, Path::new("")).unwrap();
        let block = |number| {
            let mut block = vec![0; BLOCK_BYTES];
            content.fill(0, number, 1, &mut block);
            block
        };
        (0..count).map(block).collect()
    }

    fn compressible(ratio: f64) -> ContentSpec {
        ContentSpec::compressible(ratio)
    }

    #[test]
    fn compressors_give_shorter_lengths_for_content_that_repeats_more() {
        for name in [LengthsName::Zlib, LengthsName::Zstd] {
            let lengths = measured_by(name);
            let mean = |spec: &ContentSpec| {
                let all = blocks(spec, 50);
                all.iter().map(|block| length(&lengths, block)).sum::<usize>() / all.len()
            };
            let means = [0.2, 0.5, 0.8].map(|ratio| mean(&compressible(ratio)));
            for (mean, ratio) in means.into_iter().zip([0.2, 0.5, 0.8]) {
                let asked = BLOCK_BYTES as f64 * ratio;
                assert!((mean as f64 - asked).abs() < 0.05 * BLOCK_BYTES as f64, "{name:?}: {means:?}");
            }
            assert_eq!(mean(&ContentSpec::Random), BLOCK_BYTES);
        }
    }

    /// Blocks that take each other's place, and some that are asked for again.
    #[test]
    fn what_is_remembered_is_what_is_measured() {
        let all = blocks(&compressible(0.4), 300);
        let mut compressor = Compressor::Zstd.prepare();
        let mut remembering = Remembering::new(Compressor::Zstd);
        for turn in 0..3 {
            for (i, block) in all.iter().enumerate() {
                // The last byte is not among the words that decide the place.
                let mut changed = block.clone();
                *changed.last_mut().unwrap() ^= 1;
                for content in [block, &changed, &all[i / 2]] {
                    let expected = compressor.stored_bytes(content);
                    assert_eq!(remembering.length_of(content), expected, "turn {turn}, block {i}");
                }
            }
        }
        assert_eq!(place_of(&all[0]), place_of(&[&all[0][..BLOCK_BYTES - 1], &[0]].concat()));
    }

    #[test]
    fn tagged_blocks_say_their_length_and_all_others_are_whole() {
        let lengths = measured_by(LengthsName::Tagged);
        let tagged = blocks(&ContentSpec::Tagged { ratio: 0.25 }, 3);
        assert!(tagged.iter().all(|block| length(&lengths, block) == BLOCK_BYTES / 4));
        let add = |sum: Vec<u8>, block: &Vec<u8>| sum.iter().zip(block).map(|(a, b)| a ^ b).collect();
        let parity = tagged.iter().fold(vec![0; BLOCK_BYTES], add);
        assert_eq!(length(&lengths, &parity), BLOCK_BYTES);
        assert_eq!(length(&lengths, &blocks(&compressible(0.25), 1)[0]), BLOCK_BYTES);
    }
}
