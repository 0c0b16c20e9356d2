//! Draws the places of one stream's requests.

use rand_distr::{Distribution, Zipf};

use super::place::Place;
use super::stream::StreamSpec;
use crate::random::{self, Random, mix64};
use crate::{Error, Result};

#[derive(Debug)]
enum Choice {
    Uniform,
    Sequential { next: u64 },
    Zipf(Zipf<f64>, Permutation),
    HotCold { hot: u64, requests: f64, order: Permutation },
}

/// Draws the places of one stream's requests.
#[derive(Debug)]
pub(super) struct Placer {
    choice: Choice,
    from: u64,
    end: u64,
    align: u64,
    units: u64,
}

impl Placer {
    pub(super) fn new(spec: &StreamSpec, seed: u64) -> Result<Placer> {
        let align = spec.align.0;
        let units = spec.footprint.0 / align;
        let choice = match spec.place {
            Place::Uniform => Choice::Uniform,
            Place::Sequential => Choice::Sequential { next: spec.from.0 },
            Place::Zipf { theta } => {
                let ranks = Zipf::new(units as f64, theta)
                    .map_err(|e| Error::setting("theta", format!("{theta}: {e}")))?;
                Choice::Zipf(ranks, Permutation::new(units, seed))
            }
            Place::HotCold { places, requests } => {
                for (name, share) in [("places", places), ("requests", requests)] {
                    if !(share > 0.0 && share < 1.0) {
                        return Err(Error::setting(name, format!("{share} is not between 0 and 1")));
                    }
                }
                let hot = ((units as f64 * places).round() as u64).clamp(1, units);
                Choice::HotCold { hot, requests, order: Permutation::new(units, seed) }
            }
        };
        Ok(Placer { choice, from: spec.from.0, end: spec.from.0 + units * align, align, units })
    }

    /// Whether a request may lie there.
    pub(super) fn fits(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.end)
    }

    /// A place for a request, which is not larger than the footprint.
    pub(super) fn sample(&mut self, len: u64, random: &mut Random) -> u64 {
        // Beyond this a request would not fit.
        let last = (self.end - len - self.from) / self.align;
        let unit = match &mut self.choice {
            Choice::Uniform => random::below(random, last + 1),
            Choice::Sequential { next } => {
                let offset = if *next + len <= self.end { *next } else { self.from };
                *next = offset + len;
                return offset;
            }
            Choice::Zipf(ranks, order) => order.of(ranks.sample(random) as u64 - 1).min(last),
            Choice::HotCold { hot, requests, order } => {
                let cold = self.units - *hot;
                let is_hot = cold == 0 || random::unit(random) < *requests;
                let rank =
                    if is_hot { random::below(random, *hot) } else { *hot + random::below(random, cold) };
                order.of(rank).min(last)
            }
        };
        self.from + unit * self.align
    }
}

/// A random-looking order of `0..n` in no memory: a Feistel network over the next even number of bits, walked until it
/// comes back into the range (Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002).
#[derive(Debug)]
struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    fn new(n: u64, seed: u64) -> Permutation {
        let half_bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
        Permutation { n, half_bits, keys: std::array::from_fn(|i| mix64(seed ^ mix64(i as u64))) }
    }

    fn of(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mask = (1u64 << self.half_bits) - 1;
        let mut x = index;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix64(right ^ key) & mask));
            }
            x = left << self.half_bits | right;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_reaches_everything_once() {
        for n in [1, 2, 3, 17, 1000, 4096] {
            let order = Permutation::new(n, 42);
            let mut seen: Vec<u64> = (0..n).map(|i| order.of(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "{n}");
        }
        let scattered = Permutation::new(1 << 20, 1);
        assert!((0..100).filter(|&i| scattered.of(i).abs_diff(scattered.of(i + 1)) < 1024).count() < 5);
    }
}
