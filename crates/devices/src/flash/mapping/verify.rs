//! Tests call this: all tables of the mapping agree.

use super::{Extent, Mapping, NONE};

impl Mapping {
    /// Panics unless every table agrees with the others.
    pub(in super::super) fn verify(&self) {
        let mut live = vec![0u32; self.buffered_units.len()];
        for lba in 0..self.map.len() as u32 {
            if let Some(Extent { at, count }) = self.locate(lba) {
                assert_eq!(self.owner[at as usize], lba);
                live[self.geometry.row_of(at)] += count;
            }
        }
        let owned = self.owner.iter().filter(|&&owner| owner != NONE).count() as u32;
        assert_eq!(owned, live.iter().sum::<u32>());
        self.space.verify(&live);
    }
}
