//! The figures of reliability. Years have 365 days.

use serde::{Deserialize, Serialize};

use crate::results::spread::Spread;

/// The figures of one subject; the others are null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReliabilityFigures {
    /// Of a pool or array.
    pub pool: Option<PoolLossFigures>,
    /// Of an SSD.
    pub flash: Option<FlashLifeFigures>,
    /// Of drives that age together.
    pub ageing: Option<AgeingFigures>,
}

/// How probable losses of a pool are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolLossFigures {
    /// Hours until the redundancy of a lost member is restored.
    pub rebuild_hours: f64,
    /// The probability that a rebuild without further redundancy meets a latent error (h).
    pub latent_loss: f64,
    /// Mean years until a pool is lost, by the chain.
    pub mttdl_years: f64,
    /// The probability that a pool is lost within the mission, by the chain.
    pub loss: f64,
    /// Mean years until any data is lost, by the chain: a latent error that is met counts too.
    pub any_mttdl_years: f64,
    /// The closed form of `any_mttdl_years`; nothing where there is none, as with declustered stripes.
    pub any_closed_form_years: Option<f64>,
    /// The probability that any data is lost within the mission, by the chain.
    pub any_loss: f64,
    /// Bytes lost per year with lost pools.
    pub pool_bytes_per_year: f64,
    /// Bytes lost per year to latent errors.
    pub latent_bytes_per_year: f64,
    /// Importance sampling of `any_loss`, with its interval of 95 %.
    pub sampled_any_loss: Option<Spread>,
    /// Plain Monte Carlo of `any_loss`, with its interval of 95 %.
    pub trials_any_loss: Option<Spread>,
}

/// How an SSD wears, and how probable it is that a page cannot be read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlashLifeFigures {
    /// Pages of flash for each page of host data.
    pub flash_per_data: f64,
    /// Pages programmed per host page.
    pub programs: f64,
    /// The live share of victims of cleaning.
    pub victim_live: f64,
    /// Pages moved by cleaning, per host page.
    pub moved: f64,
    /// Parity pages per host page, of all kinds.
    pub parity: f64,
    /// P/E cycles of each erase block after the writes of the run.
    pub cycles: f64,
    /// Writes, in multiples of the drive's size, until the rated cycles are used up.
    pub drive_writes_rated: f64,
    /// The writes of the run as a part of those.
    pub life_used: f64,
    /// The part of the rated cycles after which pages without stripes are lost as often as these are now: the age of ECC only
    /// with the same reliability. 0 if even new pages without stripes are lost more often.
    pub ecc_age: f64,
    /// The condition after the writes of the run.
    pub now: ErrorFigures,
    /// The condition at the end of the rated life.
    pub rated: ErrorFigures,
}

/// The probability of errors in a condition of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// The raw bit error rate.
    pub rber: f64,
    /// The probability that a code word cannot be corrected.
    pub word: f64,
    /// The probability that a page cannot be corrected.
    pub page: f64,
    /// The probability that a page is lost: not corrected, and not rebuilt from its stripe.
    pub page_loss: f64,
}

/// How close together drives wear out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgeingFigures {
    /// The probability that a second drive wears out within a day of the first.
    pub second_within_day: f64,
    /// Within 7 days.
    pub second_within_week: f64,
    /// Within 30 days.
    pub second_within_month: f64,
    /// Writes of each member per random write of a block, with the shares of parity of the run.
    pub writes: Option<Vec<f64>>,
    /// The most of these divided by the least.
    pub writes_ratio: Option<f64>,
}
