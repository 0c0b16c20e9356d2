//! Monte Carlo of the lives of an array's members: failures and repairs of any distribution, over a mission.
//!
//! The trials are plain: each is a mission, and the estimate is the fraction of missions with a loss. They are for
//! probabilities that are not rare, and for distributions that no chain describes. [`crate::rare`] is for rare losses.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, LogNormal, Normal, Weibull};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::confidence::{Interval, Sample, proportion};
use crate::error::{Error, Result, positive, probability};

/// The distribution of a time in hours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always the same.
    Constant {
        /// The time.
        hours: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean_hours: f64,
    },
    /// Weibull: a shape below 1 is infant mortality, above 1 is wear.
    Weibull {
        /// The shape.
        shape: f64,
        /// The scale, which 63 % of the times do not exceed.
        scale_hours: f64,
    },
    /// Log-normal.
    LogNormal {
        /// The median.
        median_hours: f64,
        /// The standard deviation of the logarithm.
        deviation: f64,
    },
    /// Wear: a drive fails when it has been written a number of bytes, which varies normally between drives.
    Wear {
        /// The mean number of bytes.
        limit_bytes: f64,
        /// The standard deviation divided by the mean.
        variation: f64,
        /// The bytes that are written to the drive per hour.
        bytes_per_hour: f64,
    },
}

/// How several lost members are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repairs {
    /// One after the other, in the order in which they were lost.
    InTurn,
    /// All at once.
    AtOnce,
}

/// An array under trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The life of each member.
    pub lives: Vec<Law>,
    /// The time of a repair; nothing if lost members stay lost.
    pub repair: Option<Law>,
    /// How several lost members are repaired.
    pub repairs: Repairs,
    /// Lost members that the array survives.
    pub survives: usize,
    /// The probability that the end of a repair without further redundancy is a loss (h).
    pub latent_loss: f64,
}

/// The distribution, ready to be drawn from.
#[derive(Clone, Copy, Debug)]
enum Drawn {
    Constant(f64),
    Exponential(f64),
    Weibull(Weibull<f64>),
    LogNormal(LogNormal<f64>),
    Wear { limit: Normal<f64>, bytes_per_hour: f64 },
}

impl Law {
    fn drawn(&self) -> Result<Drawn> {
        Ok(match *self {
            Law::Constant { hours } => {
                positive("hours", hours)?;
                Drawn::Constant(hours)
            }
            Law::Exponential { mean_hours } => {
                positive("mean_hours", mean_hours)?;
                Drawn::Exponential(mean_hours)
            }
            Law::Weibull { shape, scale_hours } => {
                positive("shape", shape)?;
                positive("scale_hours", scale_hours)?;
                let law = Weibull::new(scale_hours, shape);
                Drawn::Weibull(law.map_err(|error| Error::new("shape", error.to_string()))?)
            }
            Law::LogNormal { median_hours, deviation } => {
                positive("median_hours", median_hours)?;
                positive("deviation", deviation)?;
                let law = LogNormal::new(median_hours.ln(), deviation);
                Drawn::LogNormal(law.map_err(|error| Error::new("deviation", error.to_string()))?)
            }
            Law::Wear { limit_bytes, variation, bytes_per_hour } => {
                positive("limit_bytes", limit_bytes)?;
                positive("variation", variation)?;
                positive("bytes_per_hour", bytes_per_hour)?;
                if variation > 0.3 {
                    let why = format!(
                        "{variation} is above 0.3, where a normal distribution has limits below zero"
                    );
                    return Err(Error::new("variation", why));
                }
                let limit = Normal::new(limit_bytes, limit_bytes * variation);
                let limit = limit.map_err(|error| Error::new("variation", error.to_string()))?;
                Drawn::Wear { limit, bytes_per_hour }
            }
        })
    }
}

impl Drawn {
    fn hours(&self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Drawn::Constant(hours) => *hours,
            Drawn::Exponential(mean) => mean * random.sample::<f64, _>(Exp1),
            Drawn::Weibull(law) => law.sample(random),
            Drawn::LogNormal(law) => law.sample(random),
            // Fewer than one drive in a thousand is below zero at the largest variation; it fails at once.
            Drawn::Wear { limit, bytes_per_hour } => limit.sample(random).max(0.0) / bytes_per_hour,
        }
    }
}

impl Trial {
    /// The probability of a loss within a mission, from a number of trials, with its interval of 95 %.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn loss_within(&self, mission_hours: f64, trials: u64, seed: u64) -> Result<Interval> {
        positive("mission_hours", mission_hours)?;
        let run = self.prepared()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let lost = (0..trials).filter(|_| run.hours_to_loss(mission_hours, &mut random).is_some()).count();
        Ok(proportion(lost as u64, trials, 0.95))
    }

    /// The mean hours to the loss, with its interval of 95 %: each trial runs until the loss, so losses must not be rare.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn mean_hours_to_loss(&self, trials: u64, seed: u64) -> Result<Interval> {
        let run = self.prepared()?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut sample = Sample::default();
        for _ in 0..trials {
            sample.add(
                run.hours_to_loss(f64::INFINITY, &mut random)
                    .expect("a mission without end ends with a loss"),
            );
        }
        Ok(sample.interval(0.95))
    }

    fn prepared(&self) -> Result<Prepared<'_>> {
        probability("latent_loss", self.latent_loss)?;
        if self.survives >= self.lives.len() {
            let why = format!("{} members cannot survive {} losses", self.lives.len(), self.survives);
            return Err(Error::new("survives", why));
        }
        let lives: Result<Vec<_>> = self.lives.iter().map(Law::drawn).collect();
        Ok(Prepared { trial: self, lives: lives?, repair: self.repair.map(|law| law.drawn()).transpose()? })
    }
}

/// An array whose distributions are ready to be drawn from.
struct Prepared<'a> {
    trial: &'a Trial,
    lives: Vec<Drawn>,
    repair: Option<Drawn>,
}

/// A lost member, and when its repair ends; not known while it waits for its turn.
struct Lost {
    member: usize,
    repaired_at: f64,
}

impl Prepared<'_> {
    /// The hours until the loss, if that is within the mission.
    fn hours_to_loss(&self, mission_hours: f64, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let mut fails_at: Vec<f64> = self.lives.iter().map(|life| life.hours(random)).collect();
        let mut lost: Vec<Lost> = Vec::new();
        loop {
            let next_failure = earliest(fails_at.iter().copied());
            let next_repair = earliest(lost.iter().map(|lost| lost.repaired_at));
            let (failing, at) = next_failure;
            if at.min(next_repair.1) > mission_hours {
                return None;
            }
            if at <= next_repair.1 {
                if lost.len() == self.trial.survives {
                    return Some(at);
                }
                fails_at[failing] = f64::INFINITY;
                let begins = self.trial.repairs == Repairs::AtOnce || lost.is_empty();
                let repaired_at = if begins { self.repaired_at(at, random) } else { f64::INFINITY };
                lost.push(Lost { member: failing, repaired_at });
            } else {
                let (repaired, at) = next_repair;
                let is_critical = lost.len() == self.trial.survives;
                if is_critical
                    && self.trial.latent_loss > 0.0
                    && random.random::<f64>() < self.trial.latent_loss
                {
                    return Some(at);
                }
                let member = lost.remove(repaired).member;
                fails_at[member] = at + self.lives[member].hours(random);
                if self.trial.repairs == Repairs::InTurn && !lost.is_empty() {
                    lost[0].repaired_at = self.repaired_at(at, random);
                }
            }
        }
    }

    fn repaired_at(&self, from: f64, random: &mut Xoshiro256PlusPlus) -> f64 {
        self.repair.map_or(f64::INFINITY, |repair| from + repair.hours(random))
    }
}

/// The place and the value of the smallest time; infinite if there is none.
fn earliest(times: impl Iterator<Item = f64>) -> (usize, f64) {
    times.enumerate().fold((0, f64::INFINITY), |best, next| if next.1 < best.1 { next } else { best })
}
