//! Instantaneous complementarity of workloads that share members: how often, millisecond by millisecond, a half of them has
//! most of what is asked for (Jiang et al., FusionRAID, FAST '21, section 2.1).
//!
//! In each slot of time the workloads of a mix are put into a heavier and a lighter half by the bytes they ask for in it; the
//! majority ratio is what the heavier half has of all. Above 0.75 the mix is complementary there: the lighter half has
//! members to lend.

use serde::Serialize;

use crate::{Requests, Result};

/// Length of a slot.
const SLOT_NS: u64 = 1_000_000;
/// A slot is complementary above this majority ratio.
const COMPLEMENTARY: f64 = 0.75;

/// What a workload asks for in each slot of time, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile(Vec<u64>);

/// How often a mix is complementary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Complement {
    /// Slots in which anything was asked for.
    pub busy_slots: u64,
    /// All slots.
    pub slots: u64,
    /// Slots with a majority ratio above 0.75; those in which nothing is asked for have none.
    pub complementary: u64,
}

impl Complement {
    /// Complementary slots, as a part of those in which anything was asked for.
    pub fn of_busy(&self) -> f64 {
        self.complementary as f64 / self.busy_slots.max(1) as f64
    }

    /// The same, as a part of all slots.
    pub fn of_all(&self) -> f64 {
        self.complementary as f64 / self.slots.max(1) as f64
    }
}

impl Profile {
    /// The profile of the first `seconds` seconds of a stream.
    ///
    /// # Errors
    /// When the stream cannot be read.
    pub fn of(requests: impl Requests, seconds: u32) -> Result<Profile> {
        let mut slots = vec![0; seconds as usize * (1_000_000_000 / SLOT_NS) as usize];
        for request in requests {
            let request = request?;
            match slots.get_mut((request.at_ns / SLOT_NS) as usize) {
                Some(slot) => *slot += request.len,
                None => break,
            }
        }
        Ok(Profile(slots))
    }
}

/// How often this mix of an even number of workloads is complementary.
///
/// # Panics
/// When they are not an even number.
pub fn complement(mix: &[&Profile]) -> Complement {
    assert!(!mix.is_empty() && mix.len().is_multiple_of(2), "a mix has two halves");
    let slots = mix.iter().map(|profile| profile.0.len()).min().unwrap_or(0);
    let mut found = Complement { busy_slots: 0, slots: slots as u64, complementary: 0 };
    let mut bytes = vec![0; mix.len()];
    for slot in 0..slots {
        bytes.iter_mut().zip(mix).for_each(|(bytes, profile)| *bytes = profile.0[slot]);
        let all: u64 = bytes.iter().sum();
        if all == 0 {
            continue;
        }
        found.busy_slots += 1;
        bytes.sort_unstable();
        let heavier: u64 = bytes[mix.len() / 2..].iter().sum();
        found.complementary += u64::from(heavier as f64 > COMPLEMENTARY * all as f64);
    }
    found
}

/// All selections of `of` from `count` workloads, as their numbers, in order.
pub fn mixes(count: usize, of: usize) -> Vec<Vec<usize>> {
    if of == 0 {
        return vec![Vec::new()];
    }
    let with_last = |last: usize| {
        mixes(last, of - 1).into_iter().map(move |mut mix| {
            mix.push(last);
            mix
        })
    };
    let mut all: Vec<Vec<usize>> = (0..count).flat_map(with_last).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_by_slot() {
        let (a, b) = (Profile(vec![10, 0, 5, 0, 3]), Profile(vec![2, 0, 5, 9, 1]));
        // 10 of 12, nothing, half, all, and exactly three quarters, which is not above.
        let found = complement(&[&a, &b]);
        assert_eq!(found, Complement { busy_slots: 4, slots: 5, complementary: 2 });
        assert_eq!((found.of_busy(), found.of_all()), (0.5, 0.4));
        // Of four, the two heaviest of the slot are together.
        let all = [&a, &b, &Profile(vec![9, 0, 5, 0, 0]), &Profile(vec![1, 0, 5, 1, 0])];
        assert_eq!(complement(&all).complementary, 3);
    }

    #[test]
    fn every_mix_is_there_once() {
        assert_eq!(mixes(4, 2), [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]);
        assert_eq!((mixes(8, 2).len(), mixes(8, 4).len(), mixes(3, 4).len()), (28, 70, 0));
    }

    #[test]
    fn a_profile_is_of_bytes_by_millisecond() {
        use crate::{Kind, Request};
        let at = |at_ns, len| Ok(Request { at_ns, offset: 0, len, volume: 0, kind: Kind::Read });
        let requests = [at(0, 1), at(999_999, 2), at(1_000_000, 4), at(5_000_000_000, 8)];
        let profile = Profile::of(requests.into_iter(), 1).unwrap();
        assert_eq!((profile.0.len(), &profile.0[..3]), (1000, [3, 4, 0].as_slice()));
    }
}
