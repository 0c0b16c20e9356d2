//! Workloads by their names: a description, a trace, or a generator.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use sinew_workload::fitted::{Like, LikeSpec};
use sinew_workload::trace::{Counts, Format};
use sinew_workload::{Boxed, Mix, Request, Requests, Source, TraceSource, Workload};

/// How workloads are read.
#[derive(Clone, Copy)]
pub(crate) struct Reading {
    /// The format of traces; found out if not given.
    pub(crate) format: Option<Format>,
    /// Count and skip bad lines of traces.
    pub(crate) skip_bad: bool,
    /// Added to the seeds of generators.
    pub(crate) seed: u64,
}

/// A stream, and what was passed over in the traces behind it.
pub(crate) struct Opened {
    pub(crate) requests: Boxed,
    pub(crate) traces: Vec<(PathBuf, Arc<Counts>)>,
}

/// The format of this name.
///
/// # Errors
/// When there is no format of this name.
pub(crate) fn format(name: &str) -> Result<Format> {
    let names = Format::ALL.map(Format::name).join(", ");
    let found = Format::ALL.into_iter().find(|format| format.name() == name);
    found.with_context(|| format!("{name} is no format of a trace; there are {names}"))
}

/// The generators that have names.
pub(crate) fn names() -> Vec<String> {
    Like::ALL.into_iter().map(Like::name).collect()
}

/// Opens what is named. A generator by its name gets a volume of `volume_bytes`.
///
/// # Errors
/// When there is no such workload, or it cannot be read.
pub(crate) fn open(named: &str, reading: Reading, volume_bytes: u64) -> Result<Opened> {
    let path = Path::new(named);
    let like = Like::ALL.into_iter().find(|like| like.name() == named);
    let (mut workload, base) = match like {
        Some(like) if !path.exists() => {
            (Workload::new(Source::Like(LikeSpec::new(like, 0, volume_bytes))), Path::new(""))
        }
        _ if path.is_dir() || !path.exists() => {
            bail!("{named} is neither a file nor one of the generators: {}", names().join(", "))
        }
        _ if path.extension().is_some_and(|extension| extension == "toml") => {
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {named}"))?;
            let workload =
                Workload::from_toml(&text).with_context(|| format!("{named} describes no workload"))?;
            (workload, path.parent().unwrap_or(Path::new("")))
        }
        _ => {
            let Reading { format, skip_bad, .. } = reading;
            let trace = TraceSource { path: path.to_owned(), format, skip_bad };
            (Workload::new(Source::Trace(trace)), Path::new(""))
        }
    };
    workload.add_to_seeds(reading.seed);
    let opened = workload.open(base)?;
    Ok(Opened { requests: opened.requests, traces: opened.traces })
}

/// Changes to the requests, in this order.
pub(crate) struct Changes {
    /// Factor of speed.
    pub(crate) speed: f64,
    /// Widened to multiples of this.
    pub(crate) align: u64,
    /// Brought into the volume they go to.
    pub(crate) fold: bool,
    /// At most this many requests.
    pub(crate) limit: Option<u64>,
}

/// One stream onto volumes of these sizes. Of several workloads the first goes to the first volume and so on, round and
/// round; the volumes of a single one are taken modulo their number.
///
/// # Errors
/// When a workload cannot be opened.
pub(crate) fn combine(
    named: &[String],
    reading: Reading,
    changes: &Changes,
    volumes: &[u64],
) -> Result<Opened> {
    let count = volumes.len() as u32;
    let mut traces = Vec::new();
    let mut streams: Vec<Boxed> = Vec::new();
    for (i, named_one) in named.iter().enumerate() {
        let volume = i as u32 % count;
        let opened = open(named_one, reading, volumes[volume as usize])?;
        traces.extend(opened.traces);
        streams.push(match named.len() {
            1 => opened.requests,
            _ => Box::new(opened.requests.onto(volume)),
        });
    }
    let mixed: Boxed = if streams.len() == 1 { streams.remove(0) } else { Box::new(Mix::new(streams)) };
    let Changes { speed, align, fold, limit } = *changes;
    let sizes = volumes.to_vec();
    let place = move |request: Request| {
        let volume = request.volume % count;
        let placed = Request { volume, ..request };
        if fold { placed.folded_into(sizes[volume as usize]) } else { placed }
    };
    let changed = mixed.speed(speed).align(align).map(move |next| next.map(&place));
    let requests: Boxed = match limit {
        Some(limit) => Box::new(changed.first(limit)),
        None => Box::new(changed),
    };
    Ok(Opened { requests, traces })
}
