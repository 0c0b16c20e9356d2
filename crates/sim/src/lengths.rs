//! The space that blocks take on a device that counts it.
//!
//! A block of zeros takes none. The space of any other block depends on its content alone, so that a run stays a function of its
//! seed. Measures that need a compressor of another crate, or none at all, are handed in as functions.

use std::cell::RefCell;
use std::rc::Rc;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use sinew_core::buf::BLOCK_BYTES;

/// Bytes that a block of this content takes.
pub type LengthOf = Rc<dyn Fn(&[u8]) -> usize>;

/// The space that blocks take on a thin device. A block of zeros takes none.
#[derive(Clone, Default)]
pub enum Lengths {
    /// As much as they have bytes.
    #[default]
    Whole,
    /// As much as LZ4 leaves of their content, like zram: what saves less than a fifth is stored as it is.
    Lz4,
    /// As many bytes as this function gives for their content, but at least one and at most the block. It must give the same for
    /// the same content.
    By(LengthOf),
}

/// A block that LZ4 leaves more of is stored as it is.
const STORED_WHOLE_ABOVE: usize = BLOCK_BYTES * 4 / 5;

/// Measures the space of blocks. What LZ4 needs for that is allocated once.
pub(crate) struct Measure {
    lengths: Lengths,
    /// Space is given out in multiples of this many bytes, which divide a block.
    granule: u32,
    lz4: Option<RefCell<(CompressTable, Vec<u8>)>>,
}

impl Measure {
    /// Measures to the byte.
    pub(crate) fn new(lengths: Lengths) -> Measure {
        let room = || (CompressTable::small(), vec![0; get_maximum_output_size(BLOCK_BYTES)]);
        let lz4 = matches!(lengths, Lengths::Lz4).then(|| RefCell::new(room()));
        Measure { lengths, granule: 1, lz4 }
    }

    /// The same in multiples of `granule` bytes.
    pub(crate) fn in_granules(self, granule: u32) -> Measure {
        Measure { granule, ..self }
    }

    /// How it measures.
    pub(crate) fn lengths(&self) -> Lengths {
        self.lengths.clone()
    }

    /// Bytes that a block of this content takes.
    pub(crate) fn length_of(&self, content: &[u8]) -> u32 {
        if is_zero(content) {
            return 0;
        }
        let length = match (&self.lengths, &self.lz4) {
            (Lengths::By(function), _) => function(content).clamp(1, BLOCK_BYTES),
            (Lengths::Lz4, Some(lz4)) => {
                let (table, room) = &mut *lz4.borrow_mut();
                match compress_into_with_table(content, room, table) {
                    Ok(length) if length <= STORED_WHOLE_ABOVE => length,
                    _ => BLOCK_BYTES,
                }
            }
            (Lengths::Whole | Lengths::Lz4, _) => BLOCK_BYTES,
        };
        (length as u32).next_multiple_of(self.granule)
    }
}

/// Whether a block is all zeros.
pub(crate) fn is_zero(block: &[u8]) -> bool {
    // Comparing with zeros is many times as fast as looking at each byte.
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    block == ZEROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// A block of which the first bytes are random.
    fn block(random: usize) -> Vec<u8> {
        let mut rng = Rng::stream(5, "block", random as u64);
        (0..BLOCK_BYTES).map(|at| if at < random { rng.bits() as u8 } else { 7 }).collect()
    }

    #[test]
    fn zeros_take_nothing_and_random_bytes_all() {
        let half = || Lengths::By(Rc::new(|_| BLOCK_BYTES / 2));
        for lengths in [Lengths::Whole, Lengths::Lz4, half()] {
            assert_eq!(Measure::new(lengths).length_of(&[0; BLOCK_BYTES]), 0);
        }
        let all = BLOCK_BYTES as u32;
        assert_eq!(Measure::new(Lengths::Whole).length_of(&block(10)), all);
        assert_eq!(Measure::new(Lengths::Lz4).length_of(&block(BLOCK_BYTES)), all);
        assert_eq!(Measure::new(half()).length_of(&block(10)), all / 2);
    }

    /// A table that is used again must leave nothing of the block before.
    #[test]
    fn lz4_measures_each_block_for_itself() {
        let measure = Measure::new(Lengths::Lz4);
        let mut before = 0;
        for random in [100, 1000, 2000, 3000] {
            let content = block(random);
            let length = measure.length_of(&content);
            assert_eq!(length as usize, lz4_flex::block::compress(&content).len());
            assert_eq!(measure.length_of(&content), length);
            assert!(length > before && (random..random + 64).contains(&(length as usize)), "{length}");
            before = length;
        }
        assert_eq!(measure.length_of(&block(3300)), BLOCK_BYTES as u32, "it saves less than a fifth");
    }

    #[test]
    fn lengths_of_functions_are_bounded_and_rounded_to_granules() {
        let by = |length| Measure::new(Lengths::By(Rc::new(move |_| length)));
        let content = block(50);
        assert_eq!((by(0).length_of(&content), by(9999).length_of(&content)), (1, BLOCK_BYTES as u32));
        assert_eq!(by(513).in_granules(512).length_of(&content), 1024);
        assert_eq!(by(512).in_granules(512).length_of(&content), 512);
    }
}
