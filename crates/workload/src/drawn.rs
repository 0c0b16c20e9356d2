//! Some of several workloads at once, drawn at random: one mix of many alike, as evaluations of shared storage have them.

use serde::{Deserialize, Serialize};

use crate::fitted::LikeSpec;
use crate::random::{below, stream};
use crate::{Error, Result};

/// Most workloads to draw from: there are at most 184,756 choices then.
const FROM_MAX: usize = 20;

/// A choice of workloads. The first one chosen goes to volume 0, the next to volume 1, and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawSpec {
    /// What is drawn from. Their volumes do not count.
    pub from: Vec<LikeSpec>,
    /// How many at a time, all different.
    pub take: usize,
    /// Puts all possible choices in an order.
    pub seed: u64,
    /// Which of them in that order, from 0: different numbers are different choices.
    pub number: usize,
}

impl DrawSpec {
    /// What is chosen, in the order of `from`, each with its volume and random numbers of its own.
    ///
    /// # Errors
    /// When `take` is 0 or more than there are workloads, when there are too many workloads, or when `number` is more than
    /// the last choice.
    pub fn chosen(&self) -> Result<Vec<LikeSpec>> {
        let DrawSpec { from, take, seed, number } = self;
        if from.len() > FROM_MAX || *take == 0 || *take > from.len() {
            let why = format!("{take} of {} workloads; choose 1 or more of at most {FROM_MAX}", from.len());
            return Err(Error::setting("draw.take", why));
        }
        let mut choices = choices(from.len(), *take);
        if *number >= choices.len() {
            let why = format!("there are choices 0 to {}, not {number}", choices.len() - 1);
            return Err(Error::setting("draw.number", why));
        }
        let mut random = stream(*seed, "draw");
        for i in 0..=*number {
            let other = i as u64 + below(&mut random, (choices.len() - i) as u64);
            choices.swap(i, other as usize);
        }
        let chosen = choices[*number].iter().zip(0..).map(|(&index, volume)| {
            let like = &from[index];
            LikeSpec { volume, seed: like.seed.wrapping_add(index as u64), ..like.clone() }
        });
        Ok(chosen.collect())
    }
}

/// Every selection of `take` from `all` items, each in order.
fn choices(all: usize, take: usize) -> Vec<Vec<usize>> {
    let chosen = |set: u32| (0..all).filter(|i| set >> i & 1 == 1).collect();
    (0..1u32 << all).filter(|set| set.count_ones() as usize == take).map(chosen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitted::Like;

    fn draw(number: usize) -> DrawSpec {
        let from = Like::ALL[..8].iter().map(|&like| LikeSpec::new(like, 0, 1 << 30)).collect();
        DrawSpec { from, take: 4, seed: 1, number }
    }

    #[test]
    fn all_choices_are_drawn_once() {
        let names = |number| -> Vec<String> {
            draw(number).chosen().unwrap().iter().map(|like| like.name.name()).collect()
        };
        let mut all: Vec<_> = (0..70).map(names).collect();
        let first = all[..4].to_vec();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 70, "8 things have 70 choices of 4");
        assert!(all.iter().all(|mix| mix.len() == 4));
        assert_ne!(first, all[..4], "not in order");
        let volumes: Vec<u32> = draw(5).chosen().unwrap().iter().map(|like| like.volume).collect();
        assert_eq!(volumes, [0, 1, 2, 3]);
        assert_ne!(DrawSpec { seed: 2, ..draw(0) }.chosen().unwrap(), draw(0).chosen().unwrap());
    }

    #[test]
    fn impossible_draws_are_errors() {
        let error = draw(70).chosen().unwrap_err().to_string();
        assert!(error.contains("choices 0 to 69, not 70"), "{error}");
        for take in [0, 9] {
            let error = DrawSpec { take, ..draw(0) }.chosen().unwrap_err().to_string();
            assert!(error.contains("draw.take"), "{error}");
        }
    }
}
