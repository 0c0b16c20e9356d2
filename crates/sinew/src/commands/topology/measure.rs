//! Reads from sets of drives, several large requests at a time past the page cache, and counts the bytes.
//!
//! Nothing is written, and the drives are opened for reading only. Requests come from threads that wait for them: at 1 MiB each
//! the thread switch is a small part of a request.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sinew_core::buf::Buf;
use sinew_topology::judgement::{Measurement, limits, sets};
use sinew_topology::report::Measured;
use sinew_topology::tree::{Drive, Topology};

use crate::out::complain;

/// Bytes of a request.
const REQUEST_BYTES: usize = 1 << 20;
/// Requests in flight on each drive.
const IN_FLIGHT: u64 = 8;
/// Ticks per second of the times in /proc/stat.
const TICKS_PER_S: f64 = 100.0;

/// Measures all sets of drives. Returns the result, and the topology as it was while all drives were read: power management lowers
/// links that are idle.
///
/// # Errors
/// When a drive cannot be opened or read.
pub(super) fn measure(
    topology: &Topology,
    seconds: f64,
    find: &dyn Fn() -> Result<Topology>,
) -> Result<(Measured, Topology)> {
    let sources: Result<Vec<Source>> = topology.drives.iter().map(Source::open).collect();
    let sources = sources?;
    let sets = sets(topology);
    let (mut measured, mut under_load, mut busy_processors) = (Vec::new(), topology.clone(), None);
    for set in sets {
        let chosen: Vec<&Source> = set.drives.iter().map(|drive| &sources[*drive]).collect();
        let names: Vec<&str> = chosen.iter().map(|source| source.name.as_str()).collect();
        complain!("reading from {} for {seconds} s", names.join(", "));
        let is_all = set.drives.len() == topology.drives.len();
        let before = busy_ticks();
        let start = Instant::now();
        let mut seen = None;
        let bytes_per_s = read_together(&chosen, seconds, || seen = is_all.then(find))?;
        if let Some(seen) = seen {
            under_load = seen?;
            let ticks = before.zip(busy_ticks()).map(|(before, after)| after.saturating_sub(before));
            busy_processors = ticks.map(|ticks| ticks as f64 / TICKS_PER_S / start.elapsed().as_secs_f64());
        }
        measured.push(Measurement { set, bytes_per_s });
    }
    let limits = limits(&measured);
    Ok((Measured { sets: measured, limits, busy_processors }, under_load))
}

/// A drive that is read from.
struct Source {
    name: String,
    file: File,
    requests: u64,
}

impl Source {
    fn open(drive: &Drive) -> Result<Source> {
        let path = format!("/dev/{}", drive.name);
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path);
        let file = file
            .with_context(|| format!("cannot read {path}; --measure needs the right to read all drives"))?;
        let Some(bytes) = drive.bytes.filter(|bytes| *bytes >= REQUEST_BYTES as u64) else {
            bail!("{path} has less than 1 MiB, or an unknown size; name the drives to measure");
        };
        Ok(Source { name: drive.name.clone(), file, requests: bytes / REQUEST_BYTES as u64 })
    }
}

/// Bytes per second of all drives of a set together. `during` runs in the middle of the time.
fn read_together(sources: &[&Source], seconds: f64, during: impl FnOnce()) -> Result<f64> {
    let (bytes, is_over, failure) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    let read = |source: &Source, first: u64| {
        let mut buffer = Buf::zeroed(REQUEST_BYTES);
        let mut request = first;
        while !is_over.load(Ordering::Relaxed) {
            let at = request % source.requests * REQUEST_BYTES as u64;
            match source.file.read_at(buffer.bytes_mut(), at) {
                Ok(read) if read > 0 => bytes.fetch_add(read as u64, Ordering::Relaxed),
                Ok(_) => return fail(&failure, &is_over, format!("{} ends before its size", source.name)),
                Err(error) => {
                    return fail(&failure, &is_over, format!("cannot read {}: {error}", source.name));
                }
            };
            request += IN_FLIGHT;
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        for (source, first) in
            sources.iter().flat_map(|source| (0..IN_FLIGHT).map(move |first| (source, first)))
        {
            let read = &read;
            scope.spawn(move || read(source, first));
        }
        std::thread::sleep(Duration::from_secs_f64(seconds / 2.0));
        during();
        std::thread::sleep(Duration::from_secs_f64(seconds / 2.0));
        is_over.store(true, Ordering::Relaxed);
    });
    match failure.into_inner().expect("no panic while held") {
        Some(why) => bail!("{why}"),
        None => Ok(bytes.into_inner() as f64 / start.elapsed().as_secs_f64()),
    }
}

fn fail(failure: &Mutex<Option<String>>, is_over: &AtomicBool, why: String) {
    failure.lock().expect("no panic while held").get_or_insert(why);
    is_over.store(true, Ordering::Relaxed);
}

/// Ticks of all processors that were not idle, since the start of the machine.
fn busy_ticks() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let times: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).map(|time| time.parse().unwrap_or(0)).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    Some(times.iter().take(8).enumerate().filter(|(i, _)| ![3, 4].contains(i)).map(|(_, time)| time).sum())
}
