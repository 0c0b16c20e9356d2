//! Compressibility: the space that data and parity of a stripe take on members that compress, estimated from their content.
//!
//! A member that compresses does not tell the length of a block, so a fast compression of some blocks stands for it. Mirrored, a
//! stripe takes the space of its data once more for each parity column that it gives up. Parity compresses worse than the data
//! that it is of: where n columns compress more than n times as well as their parity, the mirrored form takes less (Elastic
//! RAID, 2022, section 3.3).

use std::cell::Cell;

use lz4_flex::block::{compress_into, get_maximum_output_size};
use sinew_core::buf::{BLOCK_BYTES, Buf};

/// Of the blocks of a column, one in this many is compressed.
const SAMPLED_ONE_IN: usize = 8;
/// A block that saves less than a fifth of its space is stored as it is, as zram does.
const STORED_WHOLE_ABOVE: usize = BLOCK_BYTES * 4 / 5;
/// Samples after which an older one counts half.
const MEMORY: u64 = 1 << 14;

/// Bytes of some blocks of a stripe, and the space that they are estimated to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    pub(crate) data: u64,
    pub(crate) data_stored: u64,
    pub(crate) parity: u64,
    pub(crate) parity_stored: u64,
}

impl Estimate {
    /// The estimate for whole columns and the parity of them.
    pub(crate) fn of(columns: &[Buf], parity: &[Buf]) -> Estimate {
        let mut estimate = Estimate::default();
        let sampled = |buf: &Buf| (0..buf.len()).step_by(BLOCK_BYTES * SAMPLED_ONE_IN);
        let mut room = vec![0; get_maximum_output_size(BLOCK_BYTES)];
        let mut add = |bytes: &mut u64, stored: &mut u64, buf: &Buf| {
            for at in sampled(buf) {
                *bytes += BLOCK_BYTES as u64;
                *stored += stored_length(&buf.bytes()[at..at + BLOCK_BYTES], &mut room);
            }
        };
        columns.iter().for_each(|buf| add(&mut estimate.data, &mut estimate.data_stored, buf));
        parity.iter().for_each(|buf| add(&mut estimate.parity, &mut estimate.parity_stored, buf));
        estimate
    }

    /// The ratio of compression of the data, in thousandths; `None` if it takes no space.
    pub(crate) fn ratio_permille(&self) -> Option<u64> {
        (self.data_stored > 0).then(|| self.data * 1000 / self.data_stored)
    }

    /// Whether parity in place of copies frees space. The copies take `copies` times the space of the data.
    pub(crate) fn parity_frees_space(&self, copies: usize) -> bool {
        self.parity_stored < copies as u64 * self.data_stored || self.data_stored == 0
    }

    /// Whether copies in place of parity free space, by more than a tenth: an estimate is not exact.
    pub(crate) fn copies_free_space(&self, copies: usize) -> bool {
        self.data_stored > 0 && copies as u64 * self.data_stored * 10 < self.parity_stored * 9
    }
}

/// The space that a block takes.
fn stored_length(block: &[u8], room: &mut [u8]) -> u64 {
    if block.iter().all(|&byte| byte == 0) {
        return 0;
    }
    match compress_into(block, room) {
        Ok(length) if length <= STORED_WHOLE_ABOVE => length as u64,
        _ => BLOCK_BYTES as u64,
    }
}

/// The compressibility of what a shard has looked at lately.
#[derive(Default)]
pub(crate) struct MeanCompressibility {
    sum: Cell<Estimate>,
}

impl MeanCompressibility {
    /// Adds an estimate.
    pub(crate) fn add(&self, new: Estimate) {
        let mut sum = self.sum.get();
        if sum.data > MEMORY * BLOCK_BYTES as u64 {
            let half = |value: u64| value / 2;
            sum = Estimate {
                data: half(sum.data),
                data_stored: half(sum.data_stored),
                parity: half(sum.parity),
                parity_stored: half(sum.parity_stored),
            };
        }
        self.sum.set(Estimate {
            data: sum.data + new.data,
            data_stored: sum.data_stored + new.data_stored,
            parity: sum.parity + new.parity,
            parity_stored: sum.parity_stored + new.parity_stored,
        });
    }

    /// The sums of the estimates so far, of which older ones count less.
    pub(crate) fn sum(&self) -> Estimate {
        self.sum.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stripe::form::parity_of;

    /// A block whose first bytes are random and whose others repeat.
    fn block(random_bytes: usize, seed: u64) -> Buf {
        let mut buf = Buf::zeroed(BLOCK_BYTES);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for (i, byte) in buf.bytes_mut().iter_mut().enumerate() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = if i % BLOCK_BYTES < random_bytes { (state >> 32) as u8 } else { 7 };
        }
        buf
    }

    #[test]
    fn parity_of_blocks_that_are_random_elsewhere_takes_more_than_their_copies() {
        let quarters: Vec<Buf> = (0..3)
            .map(|column| {
                let mut buf = block(0, 1);
                let from = column * 1100;
                buf.bytes_mut()[from..from + 1000]
                    .copy_from_slice(&block(1000, column as u64 + 3).bytes()[..1000]);
                buf
            })
            .collect();
        let estimate = Estimate::of(&quarters, &parity_of(&quarters, 1));
        assert_eq!((estimate.data, estimate.parity), (3 * BLOCK_BYTES as u64, BLOCK_BYTES as u64));
        assert!((3000..3300).contains(&estimate.data_stored), "{estimate:?}");
        assert!((3000..=4096).contains(&estimate.parity_stored), "{estimate:?}");
        let ratio = estimate.ratio_permille();
        assert!(ratio.is_some_and(|ratio| (3700..4100).contains(&ratio)), "{ratio:?}");
    }

    #[test]
    fn forms_are_compared_by_what_they_store() {
        let of =
            |data_stored, parity_stored| Estimate { data: 12288, data_stored, parity: 4096, parity_stored };
        assert!(of(3000, 2900).parity_frees_space(1) && !of(3000, 3000).parity_frees_space(1));
        assert!(of(2000, 3900).parity_frees_space(2), "two copies of each column");
        assert!(of(3000, 4000).copies_free_space(1) && !of(3000, 3100).copies_free_space(1));
        assert!(!of(2000, 3900).copies_free_space(2));
        assert!(of(0, 0).parity_frees_space(1) && !of(0, 0).copies_free_space(1));
    }

    #[test]
    fn random_blocks_and_zeros_are_known() {
        let mut room = vec![0; get_maximum_output_size(BLOCK_BYTES)];
        assert_eq!(stored_length(block(BLOCK_BYTES, 9).bytes(), &mut room), BLOCK_BYTES as u64);
        assert_eq!(stored_length(Buf::zeroed(BLOCK_BYTES).bytes(), &mut room), 0);
        assert!(stored_length(block(1000, 9).bytes(), &mut room) < 1200);
    }

    #[test]
    fn older_estimates_count_less() {
        let mean = MeanCompressibility::default();
        let block = BLOCK_BYTES as u64;
        let new = |data_stored| Estimate { data: MEMORY * block, data_stored, parity: 0, parity_stored: 0 };
        for _ in 0..4 {
            mean.add(new(MEMORY * block));
        }
        for _ in 0..12 {
            mean.add(new(0));
        }
        assert!(mean.sum().data_stored * 100 < mean.sum().data, "{:?}", mean.sum());
    }
}
