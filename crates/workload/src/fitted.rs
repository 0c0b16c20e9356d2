//! Generators whose parameters are published figures.
//!
//! The traces behind the papers' evaluations are mostly not free, but their characteristics are printed. A generator
//! fitted to those is named "-like" and is not the trace: what the figures do not say is an assumption, listed at
//! [`LikeSpec`], and can be set. [`cloudphysics`] fits a generator to a row of a table of 106 measured virtual machines.

pub mod cloudphysics;

use serde::{Deserialize, Serialize};

use crate::generate::{Arrival, GeneratorSpec, Phase, Place, Sizes, StreamSpec};
use crate::{ByteSize, Error, Kind, Result};

/// What the figures are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Like {
    /// YCSB's loading phase on RocksDB.
    #[serde(rename = "ycsb-load-like")]
    YcsbLoad,
    /// YCSB workload A on RocksDB.
    #[serde(rename = "ycsb-a-like")]
    YcsbA,
    /// YCSB workload B on RocksDB.
    #[serde(rename = "ycsb-b-like")]
    YcsbB,
    /// TPC-C on MySQL.
    #[serde(rename = "tpc-c-like")]
    TpcC,
    /// TensorFlow reading training data and writing checkpoints.
    #[serde(rename = "tensorflow-like")]
    TensorFlow,
    /// Virtual desktops.
    #[serde(rename = "virtual-desktop-like")]
    VirtualDesktop,
    /// A Microsoft Exchange server.
    #[serde(rename = "exchange-like")]
    Exchange,
    /// A proxy server.
    #[serde(rename = "proxy-like")]
    Proxy,
    /// eSAP's synthetic sequential workload.
    #[serde(rename = "esap-sequential-like")]
    EsapSequential,
    /// eSAP's synthetic random workload.
    #[serde(rename = "esap-random-like")]
    EsapRandom,
    /// eSAP's Financial: random, write-intensive requests of transactions.
    #[serde(rename = "financial-like")]
    Financial,
}

/// A row of FusionRAID's table of traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Table4 {
    /// Requests per second.
    pub iops: f64,
    /// Writes among all requests.
    pub write_share: f64,
    /// Mean size of a write.
    pub write_kib: f64,
    /// Size of the database, where the text says it (section 2.1).
    pub database_gb: Option<f64>,
}

impl Like {
    /// All of them.
    pub const ALL: [Like; 11] = [
        Like::YcsbLoad,
        Like::YcsbA,
        Like::YcsbB,
        Like::TpcC,
        Like::TensorFlow,
        Like::VirtualDesktop,
        Like::Exchange,
        Like::Proxy,
        Like::EsapSequential,
        Like::EsapRandom,
        Like::Financial,
    ];

    /// Its name in a description.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => name,
            other => unreachable!("a variant without fields is a string: {other:?}"),
        }
    }

    /// The figures of Jiang et al., "FusionRAID: Achieving Consistent Low Latency for Commodity SSD Arrays", FAST'21,
    /// Table 4 (IOPS, write ratio, average write size) and section 2.1 (databases of 40 and 77 GB).
    pub fn table4(self) -> Option<Table4> {
        let (iops, write_percent, write_kib, database_gb) = match self {
            Like::YcsbLoad => (409.0, 99.0, 507.0, Some(40.0)),
            Like::YcsbA => (1353.0, 64.0, 500.4, Some(40.0)),
            Like::YcsbB => (1218.0, 62.0, 500.2, Some(40.0)),
            Like::TpcC => (5764.0, 75.0, 29.6, Some(77.0)),
            Like::TensorFlow => (65.0, 69.0, 80.1, None),
            Like::VirtualDesktop => (811.0, 42.0, 23.8, None),
            Like::Exchange => (846.0, 70.0, 13.1, None),
            Like::Proxy => (307.0, 32.0, 13.8, None),
            Like::EsapSequential | Like::EsapRandom | Like::Financial => return None,
        };
        Some(Table4 { iops, write_share: write_percent / 100.0, write_kib, database_gb })
    }
}

/// The longest gap between requests of eSAP's synthetic workloads (Kim et al., "Improving SSD Reliability with RAID via
/// Elastic Striping and Anywhere Parity", DSN'13, and IEEE ToC 65(4), 2016; evaluation, on P_wait): 75 % of requests come
/// more than 50 ms after the one before, most within 200 ms. Gaps even between 0 and 200 ms have that share.
const ESAP_GAP_MS_MAX: f64 = 200.0;
/// Poisson arrivals of this many requests per second have 999 of 1000 gaps below 300 ms. The text says of the real
/// workloads (same evaluation, on P_wait): essentially all gaps are 300 ms or less, most less than 50 ms, some more than
/// 200 ms; these have 68 % below 50 ms and 1 % above 200 ms.
const FINANCIAL_IOPS: f64 = 23.03;
/// Size of eSAP's requests: an assumption, a page of its simulated flash.
const ESAP_REQUEST_BYTES: u64 = 4096;

/// A generator fitted to published figures.
///
/// Assumed where the figures are silent: Poisson arrivals (`cv` and `bursts` make them burstier), reads as large as writes
/// (`read_mean`), no sequential requests (`sequential`), all places alike, sizes of the largest entropy, the whole volume
/// or the size of the database as footprint. eSAP's workloads, Financial among them, are writes of 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikeSpec {
    /// What it is like.
    pub name: Like,
    /// Equal seeds give equal streams.
    #[serde(default)]
    pub seed: u64,
    /// How many requests; without it the stream does not end.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The volume that all requests go to.
    #[serde(default)]
    pub volume: u32,
    /// The size of that volume.
    pub volume_bytes: ByteSize,
    /// Standard deviation of the time between requests over its mean, 1 or more.
    #[serde(default)]
    pub cv: Option<f64>,
    /// Phases of many requests and of few, in place of `cv`.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Mean size of a read.
    #[serde(default)]
    pub read_mean: Option<ByteSize>,
    /// The probability that a request is continued by the next.
    #[serde(default)]
    pub sequential: Option<f64>,
}

/// Bursts that last, as those of real traces do: arrivals are Poisson of a high rate and of a low one in turn, and both
/// phases have exponential lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Mean length of a burst.
    pub on_ms: f64,
    /// Mean length of what lies between two.
    pub off_ms: f64,
    /// The rate in a burst over that of all the time: what is left comes between them.
    pub peak: f64,
}

impl Bursts {
    fn arrival(self, iops: f64) -> Result<Arrival> {
        let Bursts { on_ms, off_ms, peak } = self;
        let left = (on_ms + off_ms - peak * on_ms) / off_ms;
        if left.is_nan() || left < 0.0 {
            let why = format!("{peak} times the rate for {on_ms} of {} ms is more than all", on_ms + off_ms);
            return Err(Error::setting("bursts.peak", why));
        }
        let phases =
            vec![Phase { iops: iops * peak, mean_ms: on_ms }, Phase { iops: iops * left, mean_ms: off_ms }];
        Ok(Arrival::Mmpp { phases })
    }
}

impl LikeSpec {
    /// An endless one with all assumptions, on volume 0.
    pub fn new(name: Like, seed: u64, volume_bytes: u64) -> LikeSpec {
        let volume_bytes = ByteSize(volume_bytes);
        LikeSpec {
            name,
            seed,
            requests: None,
            volume: 0,
            volume_bytes,
            cv: None,
            bursts: None,
            read_mean: None,
            sequential: None,
        }
    }

    /// The parameters of the generator.
    ///
    /// # Errors
    /// When the settings contradict each other or the figures are impossible.
    pub fn generator(&self) -> Result<GeneratorSpec> {
        let (arrival, streams) = match self.name.table4() {
            Some(row) => (self.table4_arrival(row.iops)?, self.table4_streams(&row)),
            None => (self.esap_arrival(), vec![self.esap_stream()?]),
        };
        let LikeSpec { seed, requests, volume, .. } = *self;
        Ok(GeneratorSpec { seed, requests, volume, arrival, flush_every: None, streams })
    }

    fn table4_arrival(&self, iops: f64) -> Result<Arrival> {
        match (self.bursts, self.cv) {
            (None, cv) => Ok(Arrival::Bursty { iops, cv: cv.unwrap_or(1.0) }),
            (Some(bursts), None) => bursts.arrival(iops),
            (Some(_), Some(_)) => {
                Err(Error::setting("bursts", "cv is given, too; bursts have one of their own"))
            }
        }
    }

    fn table4_streams(&self, row: &Table4) -> Vec<StreamSpec> {
        let write_mean = (row.write_kib * 1024.0).round() as u64;
        let read_mean = self.read_mean.map_or(write_mean, |bytes| bytes.0);
        let database = row.database_gb.map_or(u64::MAX, |gb| (gb * 1e9) as u64);
        let footprint = self.volume_bytes.0.min(database);
        let stream = |kind, share, mean| StreamSpec {
            sequential: self.sequential.unwrap_or(0.0),
            ..StreamSpec::new(kind, share, Sizes::mean(mean), Place::Uniform, footprint)
        };
        vec![
            stream(Kind::Read, 1.0 - row.write_share, read_mean),
            stream(Kind::Write, row.write_share, write_mean),
        ]
    }

    fn esap_arrival(&self) -> Arrival {
        match self.name {
            Like::Financial => Arrival::Poisson { iops: FINANCIAL_IOPS },
            _ => Arrival::Uniform { gap_ms_max: ESAP_GAP_MS_MAX },
        }
    }

    fn esap_stream(&self) -> Result<StreamSpec> {
        if self.cv.is_some() || self.bursts.is_some() || self.read_mean.is_some() || self.sequential.is_some()
        {
            return Err(Error::setting(
                "name",
                "eSAP's workloads take no cv, bursts, read_mean or sequential",
            ));
        }
        let place = if self.name == Like::EsapSequential { Place::Sequential } else { Place::Uniform };
        let sizes = Sizes::Fixed(ByteSize(ESAP_REQUEST_BYTES));
        Ok(StreamSpec::new(Kind::Write, 1.0, sizes, place, self.volume_bytes.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Features, Generator};

    const REQUESTS: u64 = 100_000;

    fn features(spec: &LikeSpec) -> Features {
        let spec = LikeSpec { requests: Some(REQUESTS), ..spec.clone() };
        let spec = spec.generator().expect("good figures");
        Features::of(Generator::new(&spec).expect("a good spec")).expect("generators do not fail")
    }

    /// Tolerances: of IOPS 2 %, of the write share 0.5 points, of the mean size 1 %.
    #[test]
    fn the_figures_of_table_4_come_out_again() {
        for name in Like::ALL {
            let Some(row) = name.table4() else { continue };
            let found = features(&LikeSpec::new(name, 7, 100 << 30));
            let write = found.write.expect("all of them write");
            assert!((found.iops / row.iops - 1.0).abs() < 0.02, "{name:?}: {} IOPS", found.iops);
            let write_share = 1.0 - found.read_share;
            assert!((write_share - row.write_share).abs() < 0.005, "{name:?}: {write_share}");
            let size = write.size_mean / 1024.0;
            assert!((size / row.write_kib - 1.0).abs() < 0.01, "{name:?}: {size} KiB");
            assert!(found.span <= row.database_gb.map_or(100 << 30, |gb| (gb * 1e9) as u64));
            assert!((found.gap_cv - 1.0).abs() < 0.02 && found.sequential_share < 0.001);
        }
    }

    #[test]
    fn bursts_have_the_rate_of_the_table_and_last() {
        let bursts = Bursts { on_ms: 100.0, off_ms: 300.0, peak: 3.7 };
        let found = features(&LikeSpec { bursts: Some(bursts), ..LikeSpec::new(Like::Exchange, 1, 1 << 30) });
        let [short, middle, long] = found.dispersion.map(|index| index.expect("it lasts two minutes"));
        assert!((found.iops / 846.0 - 1.0).abs() < 0.15, "{} IOPS", found.iops);
        // Most of the time at a tenth of the rate: variance of the gaps 2 h (0.25 / 3.7 + 0.75 / 0.1) - 1.
        assert!((found.gap_cv - 3.76).abs() < 0.3, "{}", found.gap_cv);
        assert!(short > 5.0 && middle > 4.0 * short && long > 1.5 * middle, "{short} {middle} {long}");
        let with = |cv, peak| {
            let bursts = Some(Bursts { peak, ..bursts });
            LikeSpec { cv, bursts, ..LikeSpec::new(Like::Exchange, 1, 1 << 30) }.generator()
        };
        assert!(with(None, 4.0).is_ok() && with(None, 4.1).is_err() && with(Some(4.0), 3.7).is_err());
    }

    #[test]
    fn assumptions_can_be_replaced() {
        let mut spec = LikeSpec::new(Like::Exchange, 1, 1 << 30);
        spec.cv = Some(3.0);
        spec.read_mean = Some(ByteSize(32768));
        spec.sequential = Some(0.5);
        let found = features(&spec);
        assert!((found.gap_cv - 3.0).abs() < 0.2 && (found.sequential_share - 0.5).abs() < 0.02);
        assert!((found.read.expect("reads").size_mean / 32768.0 - 1.0).abs() < 0.02);
        assert!((found.read_share - 0.3).abs() < 0.01);
    }

    #[test]
    fn names_are_those_of_descriptions() {
        assert_eq!(Like::Exchange.name(), "exchange-like");
        for like in Like::ALL {
            let spec = format!("name = \"{}\"\nvolume_bytes = \"8G\"", like.name());
            assert_eq!(toml::from_str::<LikeSpec>(&spec).map(|spec| spec.name), Ok(like));
        }
    }

    /// Shares of gaps above 50, 200 and 300 ms.
    #[test]
    fn gaps_of_esap_are_as_its_text_says() {
        let synthetic = [0.75, 0.0, 0.0];
        for (name, shares, sequential) in [
            (Like::EsapSequential, synthetic, 1.0),
            (Like::EsapRandom, synthetic, 0.0),
            (Like::Financial, [0.316, 0.01, 0.001], 0.0),
        ] {
            let spec = LikeSpec { requests: Some(REQUESTS), ..LikeSpec::new(name, 3, 8 << 30) };
            let generator = Generator::new(&spec.generator().expect("good figures")).expect("a good spec");
            let times: Vec<u64> = generator.map(|r| r.expect("generators do not fail").at_ns).collect();
            let share_above = |ms: u64| {
                let above = times.windows(2).filter(|pair| pair[1] - pair[0] > ms * 1_000_000).count();
                above as f64 / (times.len() - 1) as f64
            };
            for (ms, share) in [50, 200, 300].into_iter().zip(shares) {
                let (found, slack) = (share_above(ms), if share > 0.0 { 0.01 * share + 0.0005 } else { 0.0 });
                assert!((found - share).abs() <= slack, "{name:?}: {found} above {ms} ms");
            }
            assert!((features(&spec).sequential_share - sequential).abs() < 0.001, "{name:?}");
        }
        let spec = LikeSpec { cv: Some(2.0), ..LikeSpec::new(Like::EsapRandom, 3, 8 << 30) };
        assert!(spec.generator().is_err());
    }
}
