//! Seeded random numbers in streams that do not disturb each other.
//!
//! Arrivals, kinds, sizes and places of one generator draw from their own streams, so that changing the sizes leaves the
//! arrivals as they were.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator of all random numbers here. Not for secrets.
pub(crate) type Random = Xoshiro256PlusPlus;

/// splitmix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of `x`.
pub(crate) fn mix64(x: u64) -> u64 {
    let z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The stream of `seed` for one purpose.
pub(crate) fn stream(seed: u64, purpose: &str) -> Random {
    Random::seed_from_u64(purpose.bytes().fold(mix64(seed), |mixed, byte| mix64(mixed ^ u64::from(byte))))
}

/// A number in `0..bound`; its bias is below bound / 2^64.
pub(crate) fn below(random: &mut Random, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// A number in `0.0..1.0`.
pub(crate) fn unit(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_purpose_and_do_not_change() {
        let first = |seed, purpose| stream(seed, purpose).next_u64();
        assert!(first(1, "a") != first(2, "a") && first(1, "a") != first(1, "b"));
        assert_eq!(first(1, "a"), first(1, "a"));
        let mut random = stream(7, "range");
        assert!((0..1000).all(|_| below(&mut random, 5) < 5 && unit(&mut random) < 1.0));
    }
}
