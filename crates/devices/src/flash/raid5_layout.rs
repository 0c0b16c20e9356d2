//! Addresses, columns and dies of RAID-5 stripes.
//!
//! A stripe has one block of each of its columns. Columns are chunks of as many blocks as a unit has, so that writes in
//! order fill units.

/// Addresses and dies of stripes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    blocks: u32,
    unit_blocks: u32,
    data: u32,
    dies: u32,
    /// Dies from the first of a stripe to the first of the next.
    step: u32,
}

impl Layout {
    /// Stripes of `units` elements, the parity included.
    pub(super) fn new(blocks: u32, unit_blocks: u32, units: u32, dies: u32) -> Layout {
        let step = (units..).find(|&step| gcd(step, dies) == 1).expect("one of any `dies` successive ones");
        Layout { blocks, unit_blocks, data: units - 1, dies, step }
    }

    /// Stripes of single blocks.
    pub(super) fn stripes(&self) -> u32 {
        self.blocks.div_ceil(self.unit_blocks * self.data) * self.unit_blocks
    }

    fn stripe_of(&self, lba: u32) -> (u32, u32) {
        let (chunk, offset) = (lba / self.unit_blocks, lba % self.unit_blocks);
        (chunk / self.data * self.unit_blocks + offset, chunk % self.data)
    }

    /// The block in a column of a stripe.
    pub(super) fn block(&self, stripe: u32, column: u32) -> Option<u32> {
        let (row, offset) = (stripe / self.unit_blocks, stripe % self.unit_blocks);
        let lba = (row * self.data + column) * self.unit_blocks + offset;
        (column < self.data && lba < self.blocks).then_some(lba)
    }

    /// The blocks of a stripe.
    pub(super) fn stripe_blocks(&self, stripe: u32) -> impl Iterator<Item = u32> {
        let layout = *self;
        (0..self.data).filter_map(move |column| layout.block(stripe, column))
    }

    /// The address of the parity of a stripe.
    pub(super) fn parity_address(&self, stripe: u32) -> u32 {
        self.blocks + stripe
    }

    /// The die of a block of the host, or of a parity by its address.
    pub(super) fn die_of(&self, address: u32) -> u32 {
        let (stripe, column) = match address.checked_sub(self.blocks) {
            Some(stripe) => (stripe, self.data),
            None => self.stripe_of(address),
        };
        let first = u64::from(stripe / self.unit_blocks) * u64::from(self.step);
        ((first + u64::from(column)) % u64::from(self.dies)) as u32
    }

    /// The stripe that is complete once `lba` is written, if all blocks are written in order.
    pub(super) fn completed_by(&self, lba: u32) -> Option<u32> {
        let (stripe, column) = self.stripe_of(lba);
        self.block(stripe, column + 1).is_none().then_some(stripe)
    }

    /// The stripe of a block.
    pub(super) fn stripe(&self, lba: u32) -> u32 {
        self.stripe_of(lba).0
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_stripe_are_on_different_dies_and_all_dies_hold_alike() {
        for (dies, unit_blocks) in (2..20).flat_map(|dies| [(dies, 1), (dies, 3)]) {
            for units in 2..=dies {
                let layout = Layout::new(dies * (units - 1) * unit_blocks, unit_blocks, units, dies);
                let mut held = vec![0; dies as usize];
                for stripe in 0..layout.stripes() {
                    let parity = layout.die_of(layout.parity_address(stripe));
                    let mut on: Vec<u32> =
                        layout.stripe_blocks(stripe).map(|lba| layout.die_of(lba)).collect();
                    assert!(layout.stripe_blocks(stripe).all(|lba| layout.stripe(lba) == stripe));
                    on.push(parity);
                    on.iter().for_each(|&die| held[die as usize] += 1);
                    on.sort_unstable();
                    on.dedup();
                    assert_eq!(on.len(), units as usize, "{dies} dies, stripe {stripe} of {units}");
                }
                assert!(held.iter().all(|&count| count == held[0]), "{held:?}");
            }
        }
    }
}
