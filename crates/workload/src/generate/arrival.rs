//! When requests arrive.

use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

use crate::random::{self, Random};
use crate::{Error, Result};

const S_NS: f64 = 1e9;
const MS_NS: f64 = 1e6;

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// All at time 0: the replay keeps a constant number in flight (see [`crate::Pace::Closed`]).
    Closed,
    /// At equal distances.
    Fixed {
        /// Requests per second.
        iops: f64,
    },
    /// Independently of each other.
    Poisson {
        /// Requests per second.
        iops: f64,
    },
    /// With gaps spread evenly between 0 and a longest one.
    Uniform {
        /// The longest gap.
        gap_ms_max: f64,
    },
    /// Poisson while on, nothing while off; lengths of both are exponential.
    OnOff {
        /// Requests per second over all the time.
        iops: f64,
        /// Mean length of a burst.
        on_ms: f64,
        /// Mean length of the silence between.
        off_ms: f64,
    },
    /// A Markov-modulated Poisson process that goes through its phases in order, again and again.
    Mmpp {
        /// The phases.
        phases: Vec<Phase>,
    },
    /// Gaps of a coefficient of variation of 1 or more: hyperexponential with balanced means (Whitt, "Approximating a
    /// point process by a renewal process", Oper. Res. 30(1), 1982, section 3).
    Bursty {
        /// Requests per second.
        iops: f64,
        /// Standard deviation of the gaps over their mean.
        cv: f64,
    },
    /// Gaps of a measured distribution.
    Measured {
        /// Percentiles of the gaps, rising, with the gap in microseconds: `[[0, 3], [50, 120], [99, 5000]]`. Between two
        /// the logarithm of the gap is a straight line; above the last the tail is exponential.
        gaps_us: Vec<(f64, f64)>,
        /// The mean gap, which decides how long the tail is.
        mean_us: f64,
    },
}

/// A phase of [`Arrival::Mmpp`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Requests per second in it.
    pub iops: f64,
    /// Its mean length; the length is exponential.
    pub mean_ms: f64,
}

impl Arrival {
    /// Whether its figures make sense.
    pub(crate) fn check(&self) -> Result<()> {
        Clock::new(self, 0).map(drop)
    }
}

#[derive(Debug)]
enum Gaps {
    Fixed { gap_ns: f64 },
    Uniform { max_ns: f64 },
    Phases { phases: Vec<Phase>, now: usize, left_ns: f64 },
    Two { first_share: f64, first_ns: f64, second_ns: f64 },
    Measured { points: Vec<(f64, f64)>, tail_ns: f64 },
}

/// The clock of a generator: the time of the next request.
#[derive(Debug)]
pub(super) struct Clock {
    gaps: Gaps,
    random: Random,
    last_ns: u64,
    next_ns: u64,
    /// What rounding to nanoseconds left over.
    carry_ns: f64,
}

impl Clock {
    pub(super) fn new(arrival: &Arrival, seed: u64) -> Result<Clock> {
        let mut random = random::stream(seed, "arrivals");
        let gaps = Gaps::new(arrival, &mut random)?;
        Ok(Clock { gaps, random, last_ns: 0, next_ns: 0, carry_ns: 0.0 })
    }

    /// When the last request came.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Passes the next request's time, and says when the one after it comes.
    pub(super) fn advance(&mut self) -> u64 {
        self.last_ns = self.next_ns;
        let gap_ns = self.gaps.sample(&mut self.random) + self.carry_ns;
        // A cast saturates, which is the end of time.
        let whole = gap_ns as u64;
        self.carry_ns = gap_ns - whole as f64;
        self.next_ns = self.next_ns.saturating_add(whole);
        self.next_ns
    }
}

fn positive(name: &'static str, value: f64) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error::setting(name, format!("{value} is not above 0")))
}

impl Gaps {
    fn new(arrival: &Arrival, random: &mut Random) -> Result<Gaps> {
        Ok(match arrival {
            Arrival::Closed => Gaps::Fixed { gap_ns: 0.0 },
            Arrival::Fixed { iops } => Gaps::Fixed { gap_ns: S_NS / positive("iops", *iops)? },
            Arrival::Poisson { iops } => {
                let gap_ns = S_NS / positive("iops", *iops)?;
                Gaps::Two { first_share: 1.0, first_ns: gap_ns, second_ns: gap_ns }
            }
            Arrival::Uniform { gap_ms_max } => {
                Gaps::Uniform { max_ns: positive("gap_ms_max", *gap_ms_max)? * MS_NS }
            }
            Arrival::OnOff { iops, on_ms, off_ms } => {
                let (on_ms, off_ms) = (positive("on_ms", *on_ms)?, positive("off_ms", *off_ms)?);
                let iops = positive("iops", *iops)? * (on_ms + off_ms) / on_ms;
                let phases = [Phase { iops, mean_ms: on_ms }, Phase { iops: 0.0, mean_ms: off_ms }];
                Gaps::phases(&phases, random)?
            }
            Arrival::Mmpp { phases } => Gaps::phases(phases, random)?,
            Arrival::Bursty { iops, cv } => {
                let mean_ns = S_NS / positive("iops", *iops)?;
                if !(cv.is_finite() && *cv >= 1.0) {
                    return Err(Error::setting("cv", format!("{cv} is not 1 or more")));
                }
                let square = cv * cv;
                let first_share = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
                let mean_of = |share: f64| mean_ns / (2.0 * share);
                Gaps::Two {
                    first_share,
                    first_ns: mean_of(first_share),
                    second_ns: mean_of(1.0 - first_share),
                }
            }
            Arrival::Measured { gaps_us, mean_us } => Gaps::measured(gaps_us, *mean_us)?,
        })
    }

    fn phases(phases: &[Phase], random: &mut Random) -> Result<Gaps> {
        if !phases.iter().any(|phase| phase.iops > 0.0) {
            return Err(Error::setting("phases", "no phase has requests"));
        }
        for phase in phases {
            positive("mean_ms", phase.mean_ms)?;
            if !(phase.iops.is_finite() && phase.iops >= 0.0) {
                return Err(Error::setting("iops", format!("{} is not 0 or more", phase.iops)));
            }
        }
        let left_ns = exponential(random) * phases[0].mean_ms * MS_NS;
        Ok(Gaps::Phases { phases: phases.to_vec(), now: 0, left_ns })
    }

    fn measured(gaps_us: &[(f64, f64)], mean_us: f64) -> Result<Gaps> {
        let rising = gaps_us.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let bounds = gaps_us.first().is_some_and(|first| first.0 == 0.0 && first.1 >= 0.0)
            && gaps_us.last().is_some_and(|last| last.0 > 0.0 && last.0 < 100.0 && last.1.is_finite());
        if !(rising && bounds) {
            let why = "percentiles and gaps must rise, the percentiles from 0 to one below 100";
            return Err(Error::setting("gaps_us", why));
        }
        let points: Vec<(f64, f64)> = gaps_us.iter().map(|(p, us)| (p / 100.0, us * 1000.0)).collect();
        let below: f64 = points.windows(2).map(|w| (w[1].0 - w[0].0) * mean_between(w[0].1, w[1].1)).sum();
        let (last_share, last_ns) = points[points.len() - 1];
        let tail_ns = (positive("mean_us", mean_us)? * 1000.0 - below) / (1.0 - last_share) - last_ns;
        if tail_ns < 0.0 {
            return Err(Error::setting("mean_us", format!("{mean_us} is less than the percentiles say")));
        }
        Ok(Gaps::Measured { points, tail_ns })
    }

    fn sample(&mut self, random: &mut Random) -> f64 {
        match self {
            Gaps::Fixed { gap_ns } => *gap_ns,
            Gaps::Uniform { max_ns } => random::unit(random) * *max_ns,
            Gaps::Two { first_share, first_ns, second_ns } => {
                let first = *first_share >= 1.0 || random::unit(random) < *first_share;
                exponential(random) * if first { *first_ns } else { *second_ns }
            }
            Gaps::Phases { phases, now, left_ns } => modulated(phases, now, left_ns, random),
            Gaps::Measured { points, tail_ns } => {
                let share = random::unit(random);
                let above = points.partition_point(|point| point.0 <= share);
                let Some(&(high, high_ns)) = points.get(above) else {
                    return points[above - 1].1 + exponential(random) * *tail_ns;
                };
                let (low, low_ns) = points[above - 1];
                between(low_ns, high_ns, (share - low) / (high - low))
            }
        }
    }
}

/// The gap to the next arrival through as many phases as it takes. Poisson arrivals have no memory, so a gap that
/// reaches beyond its phase is drawn anew in the next.
fn modulated(phases: &[Phase], now: &mut usize, left_ns: &mut f64, random: &mut Random) -> f64 {
    let mut gap_ns = 0.0;
    loop {
        let iops = phases[*now].iops;
        let next_ns = if iops > 0.0 { exponential(random) * S_NS / iops } else { f64::INFINITY };
        if next_ns <= *left_ns {
            *left_ns -= next_ns;
            return gap_ns + next_ns;
        }
        gap_ns += *left_ns;
        *now = (*now + 1) % phases.len();
        *left_ns = exponential(random) * phases[*now].mean_ms * MS_NS;
    }
}

/// Exponential with mean 1.
fn exponential(random: &mut Random) -> f64 {
    Exp1.sample(random)
}

/// A gap between two percentiles. Where the lower is 0 there is no logarithm, and the line is straight in the gap itself.
fn between(low_ns: f64, high_ns: f64, part: f64) -> f64 {
    if low_ns > 0.0 { low_ns * (high_ns / low_ns).powf(part) } else { high_ns * part }
}

/// The mean of [`between`] over all parts.
fn mean_between(low_ns: f64, high_ns: f64) -> f64 {
    match high_ns / low_ns {
        growth if growth.is_finite() && growth > 1.0 => (high_ns - low_ns) / growth.ln(),
        _ => (low_ns + high_ns) / 2.0,
    }
}
