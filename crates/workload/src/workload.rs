//! The description of a workload, as an experiment file embeds it.
//!
//! ```toml
//! [workload]
//! requests = 100_000
//! align = 4096
//! fold_into = "8G"
//! source.trace = { path = "hm_0.csv.gz", skip_bad = true }
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fitted::LikeSpec;
use crate::fitted::cloudphysics::CloudphysicsSpec;
use crate::trace::{Counts, Format, ReadOptions, TraceReader};
use crate::{Boxed, ByteSize, DrawSpec, Error, Generator, GeneratorSpec, Mix, Problem, Requests, Result};

/// Where requests come from and what is done to them, in this order: window, limit, speed, alignment, folding, volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Where they come from.
    pub source: Source,
    /// Only requests due from then on, in seconds; time counts from then.
    #[serde(default)]
    pub from_s: Option<f64>,
    /// Only requests due before then.
    #[serde(default)]
    pub to_s: Option<f64>,
    /// The number of requests after which the workload ends.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The factor by which the workload is sped up.
    #[serde(default)]
    pub speed: Option<f64>,
    /// Widened to multiples of 512 or 4096, say.
    #[serde(default)]
    pub align: Option<ByteSize>,
    /// Brought into a volume of this size.
    #[serde(default)]
    pub fold_into: Option<ByteSize>,
    /// All to this volume.
    #[serde(default)]
    pub volume: Option<u32>,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// A file.
    Trace(TraceSource),
    /// A generator with its parameters.
    Generator(GeneratorSpec),
    /// A generator fitted to published figures.
    Like(LikeSpec),
    /// A generator calibrated by a row of a table.
    Cloudphysics(CloudphysicsSpec),
    /// Several at once; each says which volume it is for.
    Mix(Vec<Workload>),
    /// Some of several, drawn at random.
    Draw(DrawSpec),
}

/// A trace file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSource {
    /// The file; a relative path begins at the file that describes the workload.
    pub path: PathBuf,
    /// Its format; found out if not given.
    #[serde(default)]
    pub format: Option<Format>,
    /// Count and skip bad lines.
    #[serde(default)]
    pub skip_bad: bool,
}

/// A workload that is ready to run.
pub struct Opened {
    /// The stream.
    pub requests: Boxed,
    /// What was passed over in each trace so far; they count on while the stream is read.
    pub traces: Vec<(PathBuf, Arc<Counts>)>,
}

impl Workload {
    /// A workload that is its source as it is.
    pub fn new(source: Source) -> Workload {
        Workload {
            source,
            from_s: None,
            to_s: None,
            requests: None,
            speed: None,
            align: None,
            fold_into: None,
            volume: None,
        }
    }

    /// Adds to the seed of every generator in it: other requests of the same kind.
    pub fn add_to_seeds(&mut self, seed: u64) {
        match &mut self.source {
            Source::Generator(spec) => spec.seed = spec.seed.wrapping_add(seed),
            Source::Like(like) => like.seed = like.seed.wrapping_add(seed),
            Source::Cloudphysics(row) => row.seed = row.seed.wrapping_add(seed),
            Source::Mix(parts) => parts.iter_mut().for_each(|part| part.add_to_seeds(seed)),
            Source::Draw(draw) => {
                draw.from.iter_mut().for_each(|like| like.seed = like.seed.wrapping_add(seed));
            }
            Source::Trace(_) => {}
        }
    }

    /// What volumes' requests are like, as far as generators with a name make them: volume and name.
    pub fn names(&self) -> Vec<(u32, String)> {
        let named = |like: &LikeSpec| (like.volume, like.name.name());
        let mut names = match &self.source {
            Source::Like(like) => vec![named(like)],
            Source::Mix(parts) => parts.iter().flat_map(Workload::names).collect(),
            Source::Draw(draw) => draw.chosen().unwrap_or_default().iter().map(named).collect(),
            Source::Trace(_) | Source::Generator(_) | Source::Cloudphysics(_) => Vec::new(),
        };
        names.iter_mut().for_each(|(volume, _)| *volume = self.volume.unwrap_or(*volume));
        names
    }

    /// From TOML, where the workload is the whole document, or its table `workload` as in the file of an experiment.
    ///
    /// # Errors
    /// When the text is not TOML or not the description of a workload.
    pub fn from_toml(text: &str) -> Result<Workload> {
        #[derive(Deserialize)]
        struct Document {
            workload: Workload,
        }
        let wrong = |error| Error::from(Problem::Description(error));
        let is_table = toml::from_str::<toml::Table>(text).map_err(wrong)?.contains_key("workload");
        let read = || Ok(toml::from_str::<Document>(text)?.workload);
        if is_table { read() } else { toml::from_str(text) }.map_err(wrong)
    }

    /// Opens its files and makes its stream; relative paths begin at `base`.
    ///
    /// # Errors
    /// When a file cannot be read or the description is impossible.
    pub fn open(&self, base: &Path) -> Result<Opened> {
        let mut traces = Vec::new();
        let requests = self.stream(base, &mut traces)?;
        Ok(Opened { requests, traces })
    }

    fn stream(&self, base: &Path, traces: &mut Vec<(PathBuf, Arc<Counts>)>) -> Result<Boxed> {
        let mut stream = self.source.stream(base, traces)?;
        if self.from_s.is_some() || self.to_s.is_some() {
            let from_ns = self.from_s.map_or(Ok(0), |s| nanoseconds("from_s", s))?;
            let to_ns = self.to_s.map_or(Ok(u64::MAX), |s| nanoseconds("to_s", s))?;
            stream = Box::new(stream.window(from_ns, to_ns));
        }
        if let Some(requests) = self.requests {
            stream = Box::new(stream.first(requests));
        }
        if let Some(speed) = self.speed {
            if !(speed.is_finite() && speed > 0.0) {
                return Err(Error::setting("speed", format!("{speed} is not above 0")));
            }
            stream = Box::new(stream.speed(speed));
        }
        if let Some(align) = self.align {
            stream = Box::new(stream.align(above_zero("align", align)?));
        }
        if let Some(bytes) = self.fold_into {
            let unit = self.align.map_or(1, |align| align.0);
            if bytes.0 % unit != 0 {
                let why = format!("{} bytes are not a multiple of the alignment {unit}", bytes.0);
                return Err(Error::setting("fold_into", why));
            }
            stream = Box::new(stream.fold_into(above_zero("fold_into", bytes)?));
        }
        if let Some(volume) = self.volume {
            stream = Box::new(stream.onto(volume));
        }
        Ok(stream)
    }
}

impl Source {
    fn stream(&self, base: &Path, traces: &mut Vec<(PathBuf, Arc<Counts>)>) -> Result<Boxed> {
        Ok(match self {
            Source::Trace(TraceSource { path, format, skip_bad }) => {
                let path = base.join(path);
                let options = ReadOptions { format: *format, skip_bad: *skip_bad };
                let reader = TraceReader::open(&path, options)?;
                traces.push((path, reader.counts()));
                Box::new(reader)
            }
            Source::Generator(spec) => Box::new(Generator::new(spec)?),
            Source::Like(like) => Box::new(Generator::new(&like.generator()?)?),
            Source::Cloudphysics(row) => Box::new(Generator::new(&row.generator(base)?)?),
            Source::Mix(parts) => {
                let streams: Result<Vec<Boxed>> =
                    parts.iter().map(|part| part.stream(base, traces)).collect();
                Box::new(Mix::new(streams?))
            }
            Source::Draw(draw) => {
                let stream =
                    |like: LikeSpec| -> Result<Boxed> { Ok(Box::new(Generator::new(&like.generator()?)?)) };
                let streams: Result<Vec<Boxed>> = draw.chosen()?.into_iter().map(stream).collect();
                Box::new(Mix::new(streams?))
            }
        })
    }
}

fn nanoseconds(name: &'static str, seconds: f64) -> Result<u64> {
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok((seconds * 1e9).round() as u64);
    }
    Err(Error::setting(name, format!("{seconds} is not 0 or more")))
}

fn above_zero(name: &'static str, bytes: ByteSize) -> Result<u64> {
    if bytes.0 == 0 { Err(Error::setting(name, "0 bytes")) } else { Ok(bytes.0) }
}
