//! Striping of a group: its data dealt over the members of one stripe of the array, with parity (Elastic RAID, section 4).
//!
//! The data blocks are dealt in runs of `rows` blocks, a run for each data column; the last columns may be shorter, or
//! empty. Each parity column has `rows` blocks. Every member has its column right behind the place of the head, whether it has
//! the head or not.

use std::ops::Range;

/// Parity columns of a stripe at most.
pub const PARITY_MAX: usize = 2;

/// How the data of a group is dealt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupStriping {
    /// The members of the columns, those of parity last.
    members: Vec<u8>,
    parities: usize,
    /// Data blocks.
    blocks: u32,
}

impl GroupStriping {
    /// Deals `blocks` data blocks over members, the last `parities` of which get parity; `None` if that is impossible.
    pub fn new(members: Vec<u8>, parities: usize, blocks: u32) -> Option<GroupStriping> {
        let mut distinct = members.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let possible = (1..=PARITY_MAX).contains(&parities)
            && members.len() > parities
            && distinct.len() == members.len()
            && blocks > 0;
        possible.then_some(GroupStriping { members, parities, blocks })
    }

    /// The members of the columns, those of parity last.
    pub fn members(&self) -> &[u8] {
        &self.members
    }

    /// Data columns.
    pub fn columns(&self) -> usize {
        self.members.len() - self.parities
    }

    /// Parity columns.
    pub fn parities(&self) -> usize {
        self.parities
    }

    /// Blocks of a column at most.
    pub fn rows(&self) -> u32 {
        self.blocks.div_ceil(self.columns() as u32)
    }

    /// Blocks of parity.
    pub fn parity_blocks(&self) -> u32 {
        self.parities as u32 * self.rows()
    }

    /// The blocks that a unit has: of a data column, counted among the data of the group; of a parity column, counted among the
    /// parity, column by column.
    pub fn unit(&self, unit: usize) -> Range<u32> {
        let first = |column: usize| column as u32 * self.rows();
        match unit.checked_sub(self.columns()) {
            None => first(unit).min(self.blocks)..first(unit + 1).min(self.blocks),
            Some(parity) => first(parity)..first(parity + 1),
        }
    }

    /// The data block in a row of a data column; `None` where the column is shorter.
    pub fn data_block(&self, column: usize, row: u32) -> Option<u32> {
        let range = self.unit(column);
        (row < range.end - range.start).then(|| range.start + row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_stripings_are_refused() {
        assert!(GroupStriping::new(vec![1, 2, 1], 1, 8).is_none());
        assert!(GroupStriping::new(vec![1], 1, 8).is_none());
        assert!(GroupStriping::new(vec![1, 2], 0, 8).is_none());
        assert!(GroupStriping::new(vec![1, 2, 3], 1, 0).is_none());
    }

    proptest! {
        #[test]
        fn every_data_block_is_in_one_place(columns in 1usize..12, parities in 1usize..=2, blocks in 1u32..300) {
            let members = (0..(columns + parities) as u8).collect();
            let striping = GroupStriping::new(members, parities, blocks).unwrap();
            let mut dealt = Vec::new();
            for column in 0..columns {
                let of_rows: Vec<u32> =
                    (0..striping.rows()).map_while(|row| striping.data_block(column, row)).collect();
                prop_assert_eq!(&of_rows, &striping.unit(column).collect::<Vec<u32>>());
                dealt.extend(of_rows);
            }
            prop_assert_eq!(dealt, (0..blocks).collect::<Vec<u32>>());
            let parity: Vec<u32> = (columns..columns + parities).flat_map(|unit| striping.unit(unit)).collect();
            prop_assert_eq!(parity, (0..striping.parity_blocks()).collect::<Vec<u32>>());
        }
    }
}
