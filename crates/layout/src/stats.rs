//! Counting: what each member holds, and how even that is.

use crate::geometry::{Home, Role};

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
