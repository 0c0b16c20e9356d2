//! Growing and shrinking, as plans of mapped pools have it.

use super::setting::choices;
use super::{Plan, Trait};
use crate::random::Rng;

choices! {
    /// What operators do to the number of members while clients work.
    Growth {
        /// A device is added.
        Add = "add",
        /// A member is removed.
        Remove = "remove",
        /// A member that is leaving is told to stay.
        Keep = "keep",
    }
}

/// Devices added in a run at most.
const ADDED_MAX: u64 = 4;

impl Plan {
    /// Half of all mapped pools grow or shrink, by devices like their members, of other sizes too.
    pub(super) fn draw_growth(&mut self, rng: &mut Rng) {
        if !rng.chance(0.5) {
            return;
        }
        let least = 5 * self.shards as u64;
        for _ in 0..rng.between(1, ADDED_MAX) {
            let mut member = self.members[rng.below(self.members.len() as u64) as usize].clone();
            member.traits.retain(|t| *t != Trait::Short);
            if rng.chance(0.4) {
                member.mebibytes = (member.mebibytes * rng.between(60, 250) / 100).max(least);
            }
            self.added.push(member);
        }
        self.growth = match rng.below(4) {
            0 => vec![Growth::Add],
            1 => vec![Growth::Remove, Growth::Keep],
            _ => Growth::ALL.to_vec(),
        };
        self.growths = rng.between(1, 12);
        self.grow = [0.005, 0.02, 0.1][rng.below(3) as usize];
    }
}
