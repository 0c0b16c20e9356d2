//! Reliability and endurance: from bit errors of flash to the loss of a pool.
//!
//! Pure arithmetic: no clock, no threads, no I/O. Every random number comes from a seed, so a result is the same on every
//! machine. Times are hours unless a name says otherwise; a year has 8760 hours.
//!
//! The modules, from the lowest to the highest; each uses only modules above it:
//!
//! ```text
//! error       invalid arguments
//! solve       bisection
//! rber        raw bit error rate against P/E cycles, retention, reads
//! ecc         probability that a code word has more errors than its code corrects
//! page        page errors, and page losses under a stripe with one parity page
//! wear        programs per host page and P/E cycles under ECC only, eSAP and RAID-5 inside an SSD
//! life        TBW, DWPD, P/E cycles and years
//! ageing      how close together drives wear out, and what uneven shares of writes change
//! chain       continuous-time Markov chains with one absorbing state
//! mttdl       closed forms of the mean time to data loss
//! array       the chain of a pool or array: declustering, critical-first rebuild, latent errors
//! confidence  confidence intervals
//! trial       Monte Carlo of lives and repairs of any distribution
//! rare        importance sampling of a chain by balanced failure biasing
//! ```

pub mod ageing;
pub mod array;
pub mod chain;
pub mod confidence;
pub mod ecc;
mod error;
pub mod life;
pub mod mttdl;
pub mod page;
pub mod rare;
pub mod rber;
mod solve;
pub mod trial;
pub mod wear;

pub use error::{Error, Result};

/// Hours of a year of 365 days.
pub const HOURS_PER_YEAR: f64 = 8760.0;
