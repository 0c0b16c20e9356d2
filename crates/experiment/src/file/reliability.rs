//! The file about reliability by arithmetic alone: the loss of pools, the life of flash, and drives that age together.

use serde::{Deserialize, Serialize};
use sinew_reliability::array::{LatentErrors, Pool, RebuildRate};
use sinew_reliability::ecc::Code;
use sinew_reliability::rber::{PowerLaw, Rber};
use sinew_reliability::wear::{Scheme, SpareOf};
use sinew_workload::ByteSize;

use crate::file::head::experiment_file;
use crate::{Error, Result};

experiment_file! {
    /// A file about reliability.
    pub struct ReliabilityFile {
        /// The subject.
        pub reliability: ReliabilitySpec,
    }
}

/// The subject: one of the tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilitySpec {
    /// The seeds of Monte Carlo and importance sampling; one run for each.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// A pool or array whose members fail.
    #[serde(default)]
    pub pool: Option<PoolLossSpec>,
    /// An SSD that protects its pages by ECC only, eSAP or RAID-5.
    #[serde(default)]
    pub flash: Option<FlashLifeSpec>,
    /// Drives that wear out together.
    #[serde(default)]
    pub ageing: Option<AgeingSpec>,
}

/// A pool or array whose members fail and are rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolLossSpec {
    /// Members of a set.
    pub members: u32,
    /// Columns of a stripe, redundancy included; all members where not given.
    #[serde(default)]
    pub width: Option<u32>,
    /// Lost members of a set that it survives.
    pub survives: u32,
    /// Independent sets, as the mirrored pairs of RAID 10.
    #[serde(default = "one")]
    pub sets: u32,
    /// Mean hours to the failure of a member.
    pub mttf_hours: f64,
    /// The mission for which the probability of a loss is given.
    pub mission_years: f64,
    /// Bytes in use on each member.
    pub used: ByteSize,
    /// Hours of a rebuild; computed from `rebuild_rate` where not given.
    #[serde(default)]
    pub rebuild_hours: Option<f64>,
    /// Bytes per second that rebuild reads or writes on each member.
    #[serde(default)]
    pub rebuild_rate: Option<ByteSize>,
    /// The rate of the rebuild that an experiment has measured, in place of `rebuild_rate`.
    #[serde(default)]
    pub measured: Option<MeasuredRate>,
    /// All members that are left rebuild into their free space; otherwise one replacement receives everything.
    #[serde(default)]
    pub declustered: bool,
    /// Stripes without further redundancy are rebuilt first.
    #[serde(default)]
    pub critical_first: bool,
    /// Latent errors.
    #[serde(default)]
    pub latent: Option<LatentSpec>,
    /// Trials of plain Monte Carlo; 0 for none.
    #[serde(default)]
    pub trials: u64,
    /// The shape of a Weibull distribution of lives in these trials; exponential lives where not given.
    #[serde(default)]
    pub life_shape: Option<f64>,
    /// Cycles of importance sampling; 0 for none.
    #[serde(default)]
    pub cycles: u64,
}

/// A measured rate of a rebuild.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRate {
    /// Bytes of a lost member rebuilt per second, by all members together.
    pub bytes_per_s: ByteSize,
    /// The experiment and the case that measured it.
    pub by: String,
}

/// Latent errors of members.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatentSpec {
    /// New errors per member and day.
    pub per_member_day: f64,
    /// Days between two scrubs of a block.
    pub scrub_days: f64,
    /// Bytes that an error makes unreadable.
    #[serde(default = "block")]
    pub bytes: ByteSize,
}

/// An SSD under uniformly random writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashLifeSpec {
    /// How it protects its pages.
    pub scheme: SchemeName,
    /// Pages of a stripe, parity included; without effect on `ecc`.
    #[serde(default = "eight")]
    pub pages: u32,
    /// eSAP: partial parity pages per host page.
    #[serde(default)]
    pub partial_parity: f64,
    /// RAID-5: parity pages per host page.
    #[serde(default = "each")]
    pub parity_writes: f64,
    /// Spare flash as a fraction of the data, or of data and parity.
    pub spare: f64,
    /// What `spare` is a fraction of.
    pub spare_of: SpareOfName,
    /// The live share of victims, if it is measured; the mean field of random writes predicts it where not given.
    #[serde(default)]
    pub victim_live: Option<f64>,
    /// Bytes written by the host, in multiples of the drive's size.
    pub drive_writes: f64,
    /// P/E cycles at the end of the rated life.
    pub rated_cycles: f64,
    /// The raw bit error rate.
    pub rber: RberSpec,
    /// Hours since the data was written.
    #[serde(default)]
    pub retention_hours: f64,
    /// Reads of an erase block since it was written.
    #[serde(default)]
    pub reads: f64,
    /// Bits that the BCH code of a code word of 1 KiB corrects.
    pub corrects: u64,
    /// Code words of a page.
    #[serde(default = "four")]
    pub words: u32,
    /// The correlation of the errors of a code word's bits; independent where not given.
    #[serde(default)]
    pub correlation: Option<f64>,
}

/// How an SSD protects its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemeName {
    /// The code of each page alone.
    Ecc,
    /// Elastic striping with anywhere parity.
    Esap,
    /// Stripes at fixed addresses.
    Raid5,
}

/// What spare flash is a fraction of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpareOfName {
    /// Host data: equal flash for every scheme.
    Data,
    /// Host data and its parity: equal spare space for every scheme.
    DataAndParity,
}

/// A model of the raw bit error rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RberSpec {
    /// Always the same.
    Constant(f64),
    /// Exponential growth with P/E cycles.
    Exponential {
        /// The rate of new flash.
        initial: f64,
        /// The rate at the end of the rated life.
        rated: f64,
    },
    /// The power laws of 72-layer TLC.
    Tlc72,
}

/// Drives that wear out together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgeingSpec {
    /// The drives.
    pub drives: u32,
    /// Their mean life.
    pub mean_years: f64,
    /// The standard deviation of a life, divided by the mean.
    pub variation: f64,
    /// Mean lives are equally spaced from 1 - `spread` to 1 + `spread` of the mean.
    #[serde(default)]
    pub spread: f64,
    /// The share of the parity of each member of a RAID 5 array; the same where not given.
    #[serde(default)]
    pub parity_shares: Option<Vec<f64>>,
}

impl ReliabilitySpec {
    /// Checks that there is one subject, and its values.
    pub(crate) fn check(&self) -> Result<()> {
        let subjects = [self.pool.is_some(), self.flash.is_some(), self.ageing.is_some()];
        if subjects.iter().filter(|given| **given).count() != 1 {
            let why = "a run has exactly one of the tables pool, flash and ageing";
            return Err(Error::setting("reliability", why));
        }
        if self.seeds.is_empty() {
            return Err(Error::setting("reliability.seeds", "the list is empty"));
        }
        if let Some(pool) = &self.pool {
            pool.check()?;
        }
        if let Some(flash) = &self.flash {
            flash.check()?;
        }
        Ok(())
    }

    /// Whether a run draws random numbers.
    pub(crate) fn is_random(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.trials > 0 || pool.cycles > 0)
    }
}

/// The error of an invalid value of a table.
pub(crate) fn invalid(table: &str, error: &sinew_reliability::Error) -> Error {
    Error::setting(format!("reliability.{table}.{}", error.argument), error.why.clone())
}

impl PoolLossSpec {
    fn check(&self) -> Result<()> {
        self.pool()?.check().map_err(|error| invalid("pool", &error))?;
        if !(self.mission_years.is_finite() && self.mission_years > 0.0) {
            let why = "the value is a positive number of years";
            return Err(Error::setting("reliability.pool.mission_years", why));
        }
        if self.cycles == 1 {
            let why = "an interval needs two cycles or more";
            return Err(Error::setting("reliability.pool.cycles", why));
        }
        Ok(())
    }

    /// Checks the table of a run that measures the rate of the rebuild.
    pub(crate) fn check_without_rate(&self) -> Result<()> {
        if self.rebuild_hours.is_some() || self.rebuild_rate.is_some() || self.measured.is_some() {
            let why =
                "the rate of the rebuild is measured: leave out rebuild_hours, rebuild_rate and measured";
            return Err(Error::setting("fails.loss", why));
        }
        self.rebuilt_at(1e6).check()
    }

    /// The same with the time that the used bytes take at a measured rate, in bytes of a lost member per second.
    pub(crate) fn rebuilt_at(&self, bytes_per_s: f64) -> PoolLossSpec {
        let hours = self.hours_at(bytes_per_s);
        PoolLossSpec { rebuild_hours: Some(hours), rebuild_rate: None, measured: None, ..self.clone() }
    }

    /// Hours that the used bytes take at a rate in bytes of a lost member per second.
    fn hours_at(&self, bytes_per_s: f64) -> f64 {
        self.used.0 as f64 / bytes_per_s / 3600.0
    }

    /// The pool of the arithmetic.
    pub(crate) fn pool(&self) -> Result<Pool> {
        let width = self.width.unwrap_or(self.members);
        let data = width.saturating_sub(self.survives);
        let stored = self.used.0 as f64 * f64::from(self.members) * f64::from(data) / f64::from(width.max(1));
        Ok(Pool {
            members: self.members,
            width,
            survives: self.survives,
            sets: self.sets,
            mttf_hours: self.mttf_hours,
            rebuild_hours: self.hours_of_rebuild(data)?,
            critical_first: self.critical_first,
            latent: self.latent.map(|latent| LatentErrors {
                per_member_hour: latent.per_member_day / 24.0,
                scrub_hours: latent.scrub_days * 24.0,
                bytes: latent.bytes.0 as f64,
            }),
            stored_bytes: stored,
        })
    }

    fn hours_of_rebuild(&self, data: u32) -> Result<f64> {
        match (self.rebuild_hours, self.rebuild_rate, &self.measured) {
            (Some(hours), None, None) => Ok(hours),
            (None, None, Some(measured)) => Ok(self.hours_at(measured.bytes_per_s.0.max(1) as f64)),
            (None, Some(rate), None) => {
                let left = self.members.saturating_sub(1);
                let rate = RebuildRate {
                    used_bytes: self.used.0 as f64,
                    bytes_per_s: rate.0 as f64,
                    reads: data,
                    spread_over: self.declustered.then_some(left),
                };
                rate.hours().map_err(|error| invalid("pool", &error))
            }
            _ => Err(Error::setting(
                "reliability.pool",
                "give one of rebuild_hours, rebuild_rate and measured",
            )),
        }
    }
}

impl FlashLifeSpec {
    /// The scheme of the arithmetic.
    pub(crate) fn scheme(&self) -> Scheme {
        match self.scheme {
            SchemeName::Ecc => Scheme::EccOnly,
            SchemeName::Esap => Scheme::Elastic { pages: self.pages, partial_parity: self.partial_parity },
            SchemeName::Raid5 => Scheme::Raid5 { pages: self.pages, parity_writes: self.parity_writes },
        }
    }

    /// Pages of flash for each page of host data.
    pub(crate) fn flash_per_data(&self) -> Result<f64> {
        let of = match self.spare_of {
            SpareOfName::Data => SpareOf::Data,
            SpareOfName::DataAndParity => SpareOf::DataAndParity,
        };
        self.scheme().flash_per_data(self.spare, of).map_err(|error| invalid("flash", &error))
    }

    /// The model of the raw bit error rate.
    pub(crate) fn rber(&self) -> Rber {
        match self.rber {
            RberSpec::Constant(rate) => Rber::Constant(rate),
            RberSpec::Exponential { initial, rated } => {
                Rber::Exponential { initial, growth_per_cycle: (rated / initial).ln() / self.rated_cycles }
            }
            RberSpec::Tlc72 => Rber::PowerLaw(PowerLaw::TLC_72_LAYERS),
        }
    }

    /// The code of a code word.
    pub(crate) fn code(&self) -> Result<Code> {
        Code::bch_of_1_kib(self.corrects).map_err(|error| invalid("flash", &error))
    }

    fn check(&self) -> Result<()> {
        for (name, value) in [
            ("drive_writes", self.drive_writes),
            ("retention_hours", self.retention_hours),
            ("reads", self.reads),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Error::setting(
                    format!("reliability.flash.{name}"),
                    format!("{value} is not a number from 0 on"),
                ));
            }
        }
        if !(self.rated_cycles.is_finite() && self.rated_cycles > 0.0) {
            return Err(Error::setting("reliability.flash.rated_cycles", "the value is a positive number"));
        }
        if self.words == 0 {
            return Err(Error::setting("reliability.flash.words", "a page has at least one code word"));
        }
        self.rber().check().map_err(|error| invalid("flash", &error))?;
        self.code()?;
        self.flash_per_data().map(drop)
    }
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn one() -> u32 {
    1
}

fn four() -> u32 {
    4
}

fn eight() -> u32 {
    8
}

fn each() -> f64 {
    1.0
}

fn block() -> ByteSize {
    ByteSize(4096)
}
