//! Seeded random numbers in streams that do not disturb each other.
//!
//! Every purpose (latency of device 3, faults of device 3, the engine's own numbers) draws from its own stream, so that
//! one more draw in one place does not change what happens everywhere else, and a failing seed stays close to itself
//! while the code around it is changed.

/// xoshiro256** (Blackman, Vigna 2018), seeded through splitmix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of `seed` for one purpose and one index within it (a device's number, for instance).
    pub fn stream(seed: u64, purpose: &str, index: u64) -> Rng {
        let mut mixed = seed;
        for byte in purpose.bytes() {
            mixed = splitmix(&mut mixed) ^ u64::from(byte);
        }
        mixed = splitmix(&mut mixed) ^ index;
        Rng { state: std::array::from_fn(|_| splitmix(&mut mixed)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, or 0 when `bound` is 0. Its bias is below bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `low..=high`; `low` when the range is empty.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability. Draws nothing when it is 0, so switching one fault on leaves others alone.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_index() {
        let first = |seed, purpose, index| Rng::stream(seed, purpose, index).bits();
        let all = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1), first(1, "aa", 0)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(first(1, "a", 0), all[0]);
    }

    #[test]
    fn numbers_stay_in_range() {
        let mut rng = Rng::stream(7, "range", 0);
        let mut seen = [0u32; 5];
        for _ in 0..5000 {
            seen[rng.below(5) as usize] += 1;
            assert!((10..=12).contains(&rng.between(10, 12)));
        }
        assert!(seen.iter().all(|&n| n > 800));
        assert_eq!((rng.below(0), rng.between(9, 3)), (0, 9));
        rng.between(0, u64::MAX);
    }
}
