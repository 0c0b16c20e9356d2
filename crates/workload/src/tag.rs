//! Tags: blocks that say at their beginning what part of them a compressor would leave, so that nothing has to be compressed to
//! know it.
//!
//! A tag is a number of its own for each block, the part in thousandths, and a check of both that XOR does not preserve. So the
//! parity of several tagged blocks has no tag. The parity of one such block and zeros is the block, and has its tag.

use crate::random::mix64;

/// Bytes of a tag.
const TAG_BYTES: usize = 24;

/// The part of a block that a compressor would leave, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permille(pub(crate) u64);

/// Tags a block, whose number of its own is `key`, and returns the length of the tag. A piece that is too short for one gets none.
pub(crate) fn put(key: u64, permille: Permille, block: &mut [u8]) -> usize {
    let words = [key, permille.0, check(key, permille.0)];
    let Some(tag) = block.first_chunk_mut::<TAG_BYTES>() else { return 0 };
    tag.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    TAG_BYTES
}

/// The bytes that a block says a compressor would leave of it; `None` if it has no tag.
pub fn tagged_bytes(block: &[u8]) -> Option<usize> {
    let (words, _) = block.first_chunk::<TAG_BYTES>()?.as_chunks::<8>();
    let [key, permille, found] = [0, 1, 2].map(|i| u64::from_le_bytes(words[i]));
    let is_tag = permille <= 1000 && found == check(key, permille);
    is_tag.then(|| (block.len() * permille as usize).div_ceil(1000))
}

/// Products spread bits with carries, so the check of a sum is not the sum of the checks.
fn check(key: u64, permille: u64) -> u64 {
    mix64(mix64(key) ^ permille)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 4096;

    fn tagged(key: u64, permille: u64) -> Vec<u8> {
        let mut block = vec![key as u8; BLOCK];
        put(key, Permille(permille), &mut block);
        block
    }

    fn parity(blocks: &[Vec<u8>]) -> Vec<u8> {
        let mut sum = vec![0; BLOCK];
        blocks.iter().for_each(|block| sum.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte));
        sum
    }

    #[test]
    fn a_block_says_its_length() {
        for (permille, bytes) in [(0, 0), (1, 5), (250, 1024), (500, 2048), (1000, BLOCK)] {
            assert_eq!(tagged_bytes(&tagged(7, permille)), Some(bytes));
        }
        for other in [vec![0; BLOCK], vec![0xff; BLOCK], vec![1; 3], tagged(7, 1001)] {
            assert_eq!(tagged_bytes(&other), None);
        }
        let mut changed = tagged(7, 500);
        changed[8] ^= 1;
        assert_eq!(tagged_bytes(&changed), None);
    }

    /// An odd number of equal tags would have its own tag, if the check were linear.
    #[test]
    fn parity_has_no_tag_unless_it_is_a_tagged_block() {
        for columns in 2..9 {
            for first in 0..200 {
                let blocks: Vec<_> = (0..columns).map(|i| tagged(mix64(first * 9 + i), 500)).collect();
                assert_eq!(tagged_bytes(&parity(&blocks)), None);
            }
        }
        let (zeros, one, other) = (vec![0; BLOCK], tagged(1, 300), tagged(2, 300));
        assert_eq!(parity(&[one.clone(), zeros.clone(), zeros]), one);
        assert_eq!(tagged_bytes(&parity(&[one.clone(), other.clone(), other])), tagged_bytes(&one));
        assert_eq!(parity(&[one.clone(), one]), vec![0; BLOCK]);
    }
}
