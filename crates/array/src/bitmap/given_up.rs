//! Blocks that were given up: their content is lost, and zeros stand in for it, so that other blocks of their stripes can be
//! written. Reads of them fail until they are written or discarded. The list is on the members, in the state groups of the log,
//! before any zeros are written.

use std::collections::BTreeSet;
use std::ops::Range;

use sinew_format::codec::{DecodeError, Reader, Writer};

/// Blocks kept at most. Those beyond it are not given up.
const BLOCKS_MAX: usize = 4096;
/// Runs of consecutive blocks at most, so that they take less than a block of a state group.
const RUNS_MAX: usize = 256;

/// The blocks of a shard that were given up, as the shard numbers them.
#[derive(Default)]
pub(crate) struct GivenUp {
    blocks: BTreeSet<u64>,
    /// Counts changes.
    version: u64,
}

impl GivenUp {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether one of these blocks was given up.
    pub(crate) fn any(&self, blocks: Range<u64>) -> bool {
        !self.blocks.is_empty() && self.blocks.range(blocks).next().is_some()
    }

    /// The blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().copied()
    }

    /// Changes with every change of the list.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Gives up blocks; false if that would be too many, and nothing has changed then.
    pub(super) fn add(&mut self, blocks: &[u64]) -> bool {
        let all: BTreeSet<u64> = self.blocks.iter().chain(blocks).copied().collect();
        if all.len() > BLOCKS_MAX || runs(&all).len() > RUNS_MAX {
            return false;
        }
        self.version += 1;
        self.blocks = all;
        true
    }

    /// These blocks have content again; returns whether one of them was given up.
    pub(super) fn remove(&mut self, blocks: Range<u64>) -> bool {
        let found: Vec<u64> = self.blocks.range(blocks).copied().collect();
        for block in &found {
            self.blocks.remove(block);
        }
        self.version += u64::from(!found.is_empty());
        !found.is_empty()
    }

    pub(super) fn write(&self, w: &mut Writer) {
        let runs = runs(&self.blocks);
        w.u32(runs.len() as u32);
        for (first, count) in runs {
            w.u64(first);
            w.u32(count);
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<GivenUp, DecodeError> {
        let mut blocks = BTreeSet::new();
        for _ in 0..r.u32()? {
            let (first, count) = (r.u64()?, r.u32()?);
            let end = first.checked_add(u64::from(count)).ok_or(DecodeError::Invalid("blocks of a state"))?;
            if count == 0 || count as usize + blocks.len() > BLOCKS_MAX {
                return Err(DecodeError::Invalid("blocks of a state"));
            }
            blocks.extend(first..end);
        }
        Ok(GivenUp { blocks, version: 0 })
    }
}

/// Runs of consecutive blocks: first, count.
fn runs(blocks: &BTreeSet<u64>) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for &block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + u64::from(*count) == block => *count += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_survives_its_encoding() {
        let mut given_up = GivenUp::default();
        assert!(given_up.add(&[7, 9, 8, 100]) && given_up.any(9..10) && !given_up.any(10..100));
        assert!(given_up.remove(8..9) && !given_up.remove(8..9));
        let mut w = Writer::default();
        given_up.write(&mut w);
        let again = GivenUp::read(&mut Reader(&w.0)).unwrap();
        assert!(again.blocks().eq([7, 9, 100]));
        assert!(GivenUp::read(&mut Reader(&w.0[..w.0.len() - 1])).is_err());
    }

    #[test]
    fn it_does_not_grow_without_limit() {
        let mut given_up = GivenUp::default();
        let apart: Vec<u64> = (0..RUNS_MAX as u64).map(|i| 2 * i).collect();
        assert!(given_up.add(&apart) && !given_up.add(&[1 << 20]));
        // Joining runs takes no more room.
        assert!(given_up.add(&[1]));
        let many: Vec<u64> = (0..BLOCKS_MAX as u64 + 1).collect();
        assert!(!GivenUp::default().add(&many));
    }
}
