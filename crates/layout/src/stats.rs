//! Counting: what each member holds, how even that is, and how much two layouts differ.

use crate::geometry::{Geometry, Home, Role};

/// What each member holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Data chunks of each member, copies included.
    pub data: Vec<u64>,
    /// Parity chunks of each member.
    pub parity: Vec<u64>,
}

impl Counts {
    /// Counts the roles of the first `rows` chunks of each of `members` members.
    pub fn of(members: u32, rows: u64, role: impl Fn(Home) -> Role) -> Counts {
        let mut counts = Counts { data: vec![0; members as usize], parity: vec![0; members as usize] };
        for member in 0..members {
            for chunk in 0..rows {
                match role(Home { member, chunk }) {
                    Role::Data { .. } => counts.data[member as usize] += 1,
                    Role::P { .. } | Role::Q { .. } => counts.parity[member as usize] += 1,
                    Role::Unused => {}
                }
            }
        }
        counts
    }

    /// Counts a whole static array.
    pub fn of_geometry(geometry: &Geometry) -> Counts {
        Counts::of(geometry.members(), geometry.member_chunks(), |home| geometry.role(home))
    }
}

/// How many of `blocks` blocks each of `members` members has, given the member of each.
pub fn blocks_per_member(members: u32, blocks: u64, member: impl Fn(u64) -> u32) -> Vec<u64> {
    let mut counts = vec![0; members as usize];
    for block in 0..blocks {
        counts[member(block) as usize] += 1;
    }
    counts
}

/// The standard deviation (of the whole population) as a fraction of the mean: 0 is perfectly even.
pub fn coefficient_of_variation(counts: &[u64]) -> f64 {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / n;
    if counts.is_empty() || mean == 0.0 {
        return 0.0;
    }
    let variance = counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() / mean
}

/// The fraction of `blocks` blocks that have different places in two layouts.
pub fn fraction_moved<P: PartialEq>(blocks: u64, before: impl Fn(u64) -> P, after: impl Fn(u64) -> P) -> f64 {
    let moved = (0..blocks).filter(|&block| before(block) != after(block)).count();
    if blocks == 0 { 0.0 } else { moved as f64 / blocks as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_of_known_counts() {
        assert_eq!(coefficient_of_variation(&[7, 7, 7]), 0.0);
        assert_eq!(coefficient_of_variation(&[]), 0.0);
        // Mean 2, deviation 1.
        assert_eq!(coefficient_of_variation(&[1, 3]), 0.5);
    }
}
