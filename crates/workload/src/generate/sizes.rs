//! How large requests are.

use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::{ByteSize, Error, Result};

/// The unit of sizes known only by their mean.
const UNIT_BYTES: u64 = 4096;
/// The largest request where none is given. Of the 106 virtual machines of CloudPhysics (Waldspurger et al., FAST'15)
/// nearly all have a largest request of 1 MiB (and 4 KiB).
const LARGEST_BYTES: u64 = 1 << 20;
/// Sizes that a table may have.
const TABLE_MAX: u64 = 1 << 16;

/// How large requests are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Sizes {
    /// All alike.
    Fixed(ByteSize),
    /// One of a few, by weight.
    Choice(Vec<SizeWeight>),
    /// Where only the mean is known: whole 4 KiB, the distribution of the largest entropy with that mean (a geometric
    /// one that is cut off at the largest), so that nothing is said that is not known.
    Mean {
        /// The mean.
        mean: ByteSize,
        /// The largest; 1 MiB where not given.
        #[serde(default = "largest")]
        max: ByteSize,
    },
}

fn largest() -> ByteSize {
    ByteSize(LARGEST_BYTES)
}

/// A size and how often it is taken, in proportion to the weights of the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeWeight {
    /// The size.
    pub bytes: ByteSize,
    /// The weight.
    pub weight: f64,
}

impl Sizes {
    /// Known only by the mean, at most 1 MiB.
    pub fn mean(bytes: u64) -> Sizes {
        Sizes::Mean { mean: ByteSize(bytes), max: largest() }
    }
}

/// Draws sizes.
#[derive(Debug)]
pub(super) enum Sizer {
    Fixed(u64),
    Table { sizes: Vec<u64>, choice: WeightedAliasIndex<f64> },
}

impl Sizer {
    /// Sizes that all fit into `space` bytes.
    pub(super) fn new(sizes: &Sizes, space: u64) -> Result<Sizer> {
        let table: Vec<(u64, f64)> = match sizes {
            Sizes::Fixed(bytes) => vec![(bytes.0, 1.0)],
            Sizes::Choice(choices) => choices.iter().map(|c| (c.bytes.0, c.weight)).collect(),
            Sizes::Mean { mean, max } => entropic(mean.0, max.0)?,
        };
        if let Some((bytes, _)) = table.iter().find(|(bytes, _)| *bytes == 0 || *bytes > space) {
            let why = format!("requests of {bytes} bytes do not fit into the footprint of {space}");
            return Err(Error::setting("sizes", why));
        }
        if let [(bytes, _)] = table[..] {
            return Ok(Sizer::Fixed(bytes));
        }
        let (sizes, weights): (Vec<u64>, Vec<f64>) = table.into_iter().unzip();
        let choice = WeightedAliasIndex::new(weights);
        Ok(Sizer::Table { sizes, choice: choice.map_err(|e| Error::setting("sizes", e.to_string()))? })
    }

    pub(super) fn sample(&self, random: &mut Random) -> u64 {
        match self {
            Sizer::Fixed(bytes) => *bytes,
            Sizer::Table { sizes, choice } => sizes[choice.sample(random)],
        }
    }
}

/// Whole units up to `max` with weights x^i, x such that the mean is right.
fn entropic(mean: u64, max: u64) -> Result<Vec<(u64, f64)>> {
    let units = max / UNIT_BYTES;
    let target = mean as f64 / UNIT_BYTES as f64;
    if units > TABLE_MAX {
        return Err(Error::setting("max", format!("{max} is above {} bytes", TABLE_MAX * UNIT_BYTES)));
    }
    if target < 1.0 || target > units as f64 {
        return Err(Error::setting("mean", format!("{mean} is not between {UNIT_BYTES} and {max} bytes")));
    }
    // The weight of the largest is 1 when they rise, that of the smallest when they fall, so none overflows.
    let weights = |slope: f64| -> Vec<f64> {
        let top = if slope > 0.0 { units } else { 1 } as f64;
        (1..=units).map(|i| ((i as f64 - top) * slope).exp()).collect()
    };
    let mean_of = |slope: f64| {
        let all = weights(slope);
        let sum: f64 = all.iter().zip(1..).map(|(weight, i)| weight * f64::from(i)).sum();
        sum / all.iter().sum::<f64>()
    };
    // At a slope of 40 all but 10^-17 of the weight is on one size.
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean_of(middle) < target { low = middle } else { high = middle }
    }
    Ok((1..=units).map(|i| i * UNIT_BYTES).zip(weights(low)).collect())
}
