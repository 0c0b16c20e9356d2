//! Generators calibrated by a row of the table of features of CloudPhysics' traces: 106 virtual machines, one week each
//! (traces: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST'15).
//!
//! Of a row are used: numbers of reads and writes, percentiles and means of their sizes and of the gaps between requests,
//! shares of sequential requests, working sets, and how popular the median page and the page of the 99th percentile are.
//! Not reproduced is what the table does not say: correlation in time, and which places are read after being written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::generate::{Arrival, GeneratorSpec, Place, SizeWeight, Sizes, StreamSpec};
use crate::{ByteSize, Error, Generator, Kind, Result};

/// The percentiles that the table has.
const PERCENTILES: [u32; 23] =
    [0, 1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99, 100];
/// The unit of working sets.
const PAGE_BYTES: u64 = 4096;

/// A generator calibrated by one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloudphysicsSpec {
    /// The table, a CSV file with a header.
    pub table: PathBuf,
    /// The machine, its column `workload`: w01 to w106.
    pub machine: String,
    /// Equal seeds give equal streams.
    #[serde(default)]
    pub seed: u64,
    /// How many requests; without it as many as the machine made in its week.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The volume that all requests go to.
    #[serde(default)]
    pub volume: u32,
}

/// A row of the table, by column.
#[derive(Clone, Debug)]
pub struct Row {
    machine: String,
    values: BTreeMap<String, f64>,
}

impl Row {
    /// The row of a machine in a table.
    ///
    /// # Errors
    /// When the table cannot be read or has no row of this machine.
    pub fn find(path: &Path, machine: &str) -> Result<Row> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let header = lines.next().unwrap_or_default();
        let Some(name) = header.iter().position(|column| *column == "workload") else {
            return Err(Error::setting("table", format!("{} has no column workload", path.display())));
        };
        let Some(row) = lines.find(|row| row.get(name) == Some(&machine)) else {
            return Err(Error::setting("machine", format!("{} has no row {machine}", path.display())));
        };
        let number = |(column, field): (&&str, &&str)| Some(((*column).to_owned(), field.parse().ok()?));
        let values = header.iter().zip(&row).filter_map(number).collect();
        Ok(Row { machine: machine.to_owned(), values })
    }

    /// The figure in a column.
    ///
    /// # Errors
    /// When the table has no such column, or the figure is no number.
    pub fn get(&self, column: &str) -> Result<f64> {
        let value = self.values.get(column).copied().filter(|value| value.is_finite());
        value.ok_or_else(|| Error::setting("table", format!("{} has no number {column}", self.machine)))
    }

    fn percentiles(&self, prefix: &str) -> Result<Vec<(f64, f64)>> {
        PERCENTILES.iter().map(|p| Ok((f64::from(*p), self.get(&format!("{prefix}_p{p}"))?))).collect()
    }

    /// A size between two percentiles is one of the two; how often the larger is such that the mean is right.
    fn sizes(&self, kind: &str) -> Result<Sizes> {
        let steps = self.percentiles(&format!("{kind}_size"))?;
        let mean = self.get(&format!("{kind}_size_avg"))?;
        let sum = |end: usize| -> f64 {
            steps.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 100.0 * pair[end].1).sum()
        };
        let (low, high) = (sum(0), sum(1));
        let upper = if high > low { ((mean - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
        let mut weights = BTreeMap::new();
        for pair in steps.windows(2) {
            let weight = pair[1].0 - pair[0].0;
            *weights.entry(pair[0].1 as u64).or_insert(0.0) += weight * (1.0 - upper);
            *weights.entry(pair[1].1 as u64).or_insert(0.0) += weight * upper;
        }
        let weights = weights.into_iter().filter(|(_, weight)| *weight > 0.0);
        Ok(Sizes::Choice(weights.map(|(b, weight)| SizeWeight { bytes: ByteSize(b), weight }).collect()))
    }

    /// With the largest percentiles that leave a tail above them; straight pieces overstate a steep one.
    fn arrival(&self) -> Result<Arrival> {
        let mean_us = self.get("iat_avg")?;
        let mut gaps_us = self.percentiles("iat")?;
        loop {
            gaps_us.pop();
            let arrival = Arrival::Measured { gaps_us: gaps_us.clone(), mean_us };
            match arrival.check() {
                Err(_) if gaps_us.len() > 2 => {}
                result => return result.map(|()| arrival),
            }
        }
    }

    /// Popularity falls with rank to the power of -theta, so between the median and the 99th percentile, whose ranks are
    /// as 50 to 1, it falls by 50^theta.
    fn place(&self, kind: &str) -> Result<Place> {
        let [median, top] = [50, 99].map(|p| self.get(&format!("{kind}_page_popularity_p{p}")));
        let theta = (top? / median?).ln() / 50f64.ln();
        Ok(if theta > 0.0 { Place::Zipf { theta } } else { Place::Uniform })
    }

    fn stream(&self, kind: Kind, name: &str, total: f64) -> Result<StreamSpec> {
        let requests = self.get(&format!("{name}_block_req_count"))?;
        let footprint = (self.get(&format!("{name}_wss"))? as u64).max(PAGE_BYTES);
        let sequential = self.get(&format!("{name}_seq_count"))? / requests.max(1.0);
        // The working set of reads begins at 0 and that of writes ends with that of all.
        let from = match kind {
            Kind::Write => (self.get("wss")? as u64).saturating_sub(footprint),
            _ => 0,
        };
        let mut stream =
            StreamSpec::new(kind, requests / total, self.sizes(name)?, self.place(name)?, footprint);
        stream.from = ByteSize(from / PAGE_BYTES * PAGE_BYTES);
        stream.sequential = sequential;
        Ok(stream)
    }
}

impl CloudphysicsSpec {
    /// The parameters of the generator; `base` is the directory that a relative path begins at.
    ///
    /// # Errors
    /// When the table cannot be read, has no such machine, or its figures are impossible.
    pub fn generator(&self, base: &Path) -> Result<GeneratorSpec> {
        let row = Row::find(&base.join(&self.table), &self.machine)?;
        let total = row.get("read_block_req_count")? + row.get("write_block_req_count")?;
        let streams = vec![row.stream(Kind::Read, "read", total)?, row.stream(Kind::Write, "write", total)?];
        let spec = GeneratorSpec {
            seed: self.seed,
            requests: Some(self.requests.unwrap_or(total as u64)),
            volume: self.volume,
            arrival: row.arrival()?,
            flush_every: None,
            streams,
        };
        Generator::new(&spec)?;
        Ok(spec)
    }
}
