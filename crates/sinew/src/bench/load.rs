//! Load for `sinew bench`: clients on every thread that runs shards, each with one request under way at a time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::client::{PoolClient, VolumeHandle};
use sinew_engine::control::Catalog;
use sinew_uring::UringIo;

use crate::pool::host::{Open, Worker};

/// Bytes written at once when the volume is filled, and how many such writes are under way.
const FILL_BYTES: u64 = 1 << 20;
const FILL_DEPTH: usize = 8;
/// How often a thread looks whether the start was given, or all have ended.
const POLL_NS: u64 = 1_000_000;

/// The pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    Randread,
    Randwrite,
    Read,
    Write,
    /// Random, half reads and half writes.
    Mixed,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pattern::Randread => "randread",
            Pattern::Randwrite => "randwrite",
            Pattern::Read => "read",
            Pattern::Write => "write",
            Pattern::Mixed => "mixed",
        }
    }

    /// Whether there are reads, which find nothing in an empty volume.
    pub(crate) fn reads(self) -> bool {
        matches!(self, Pattern::Randread | Pattern::Read | Pattern::Mixed)
    }
}

/// The load that is wanted.
#[derive(Clone)]
pub(crate) struct LoadSpec {
    pub(crate) pattern: Pattern,
    pub(crate) request_bytes: u64,
    /// Requests under way at the same time, over all threads.
    pub(crate) depth: usize,
    pub(crate) seconds: f64,
    /// Requests per second at most; none for as many as there can be.
    pub(crate) rate: Option<u64>,
    pub(crate) volume: &'static str,
}

/// A load, as all threads know it.
#[derive(Clone)]
pub(crate) struct Load {
    spec: LoadSpec,
    shared: Arc<Shared>,
}

struct Shared {
    start: AtomicBool,
    threads: Mutex<usize>,
    results: Mutex<Vec<Result<Histogram<u64>, String>>>,
}

/// The results of all threads.
pub(crate) struct Totals {
    pub(crate) latency_ns: Histogram<u64>,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) threads: usize,
}

impl Worker for Load {
    async fn work(self, thread: usize, io: UringIo, client: PoolClient<UringIo>, catalog: Catalog) {
        while !self.shared.start.load(Ordering::Acquire) {
            io.sleep(POLL_NS).await;
        }
        let result = match catalog.get(self.spec.volume) {
            Some(shared) => self.run(thread, &io, client.volume(shared)).await,
            None => Err("the volume is gone".to_owned()),
        };
        self.shared.results.lock().expect("no panic while held").push(result);
    }
}

impl Load {
    pub(crate) fn new(spec: LoadSpec) -> Load {
        let shared =
            Shared { start: AtomicBool::new(false), threads: Mutex::new(1), results: Mutex::default() };
        Load { spec, shared: Arc::new(shared) }
    }

    /// Puts the load on, from all threads of the pool.
    ///
    /// # Errors
    /// When a request fails.
    pub(crate) async fn run_all(&self, open: &Open, volume: VolumeHandle<UringIo>) -> Result<Totals> {
        *self.shared.threads.lock().expect("no panic while held") = open.threads;
        let (started, cpu_before) = (Instant::now(), cpu_seconds()?);
        self.shared.start.store(true, Ordering::Release);
        let mut results = vec![self.run(0, &open.io, volume).await];
        let (seconds, cpu_after) = (started.elapsed().as_secs_f64(), cpu_seconds()?);
        while results.len() < open.threads {
            open.io.sleep(POLL_NS).await;
            results.append(&mut self.shared.results.lock().expect("no panic while held"));
        }
        let mut latency_ns = histogram();
        for result in results {
            match result {
                Ok(part) => latency_ns.add(part)?,
                Err(what) => bail!("a request failed: {what}"),
            }
        }
        Ok(Totals { latency_ns, seconds, cpu_seconds: cpu_after - cpu_before, threads: open.threads })
    }

    /// Keeps this thread's share of the requests under way until the time is over.
    async fn run(
        &self,
        thread: usize,
        io: &UringIo,
        volume: VolumeHandle<UringIo>,
    ) -> Result<Histogram<u64>, String> {
        let threads = *self.shared.threads.lock().expect("no panic while held");
        let until = Instant::now() + Duration::from_secs_f64(self.spec.seconds);
        let (done, ended) = async_channel::bounded(self.spec.depth);
        let mine = (0..self.spec.depth).filter(|client| client % threads == thread);
        let share = mine.clone().count();
        for client in mine {
            let (load, io_of, volume, done) = (self.clone(), io.clone(), volume.clone(), done.clone());
            io.spawn(async move {
                let _ = done.send(load.client(io_of, volume, client, until).await).await;
            });
        }
        let mut latency = histogram();
        for _ in 0..share {
            let part = ended.recv().await.map_err(|_| "a client ended without a result".to_owned())??;
            latency.add(part).map_err(|error| error.to_string())?;
        }
        Ok(latency)
    }

    async fn client(
        self,
        io: UringIo,
        volume: VolumeHandle<UringIo>,
        client: usize,
        until: Instant,
    ) -> Result<Histogram<u64>, String> {
        let slots = volume.size_bytes() / self.spec.request_bytes;
        let mut random = (client as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut sequential = slots * client as u64 / self.spec.depth as u64;
        let mut latency = histogram();
        let mut data = Buf::zeroed(self.spec.request_bytes as usize);
        data.bytes_mut().iter_mut().enumerate().for_each(|(i, b)| *b = (i * (client + 1)) as u8);
        let mut before = Instant::now();
        let pause = self.spec.rate.map(|rate| Duration::from_secs_f64(self.spec.depth as f64 / rate as f64));
        // Clients in turn, not all at once.
        before += pause.unwrap_or_default().mul_f64(client as f64 / self.spec.depth as f64);
        while before < until {
            if let Some(ahead) = before.checked_duration_since(Instant::now()) {
                io.sleep(ahead.as_nanos() as u64).await;
            }
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            sequential = (sequential + 1) % slots;
            let in_order = matches!(self.spec.pattern, Pattern::Read | Pattern::Write);
            let slot = if in_order { sequential } else { (random >> 16) % slots };
            let reads = match self.spec.pattern {
                Pattern::Mixed => random >> 63 == 0,
                rw => rw.reads(),
            };
            let result = if reads {
                volume.read(slot * self.spec.request_bytes, self.spec.request_bytes as u32).await.map(drop)
            } else {
                volume.write(slot * self.spec.request_bytes, data.clone(), false).await
            };
            result.map_err(|error| error.to_string())?;
            let now = Instant::now();
            latency.saturating_record((now - before).as_nanos() as u64);
            before = pause.map_or(now, |pause| before + pause);
        }
        Ok(latency)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("valid bounds")
}

/// Processor time of this process so far, all threads.
fn cpu_seconds() -> Result<f64> {
    /// The unit of these fields; the same on every architecture Linux tells user space of.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name, in brackets, may hold spaces; user and system time are fields 14 and 15 counted from 1.
    let after_name = stat.rsplit_once(')').context("/proc/self/stat")?.1;
    let ticks =
        after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap_or(0.0));
    Ok(ticks.sum::<f64>() / TICKS_PER_SECOND)
}

/// Writes the whole volume, several requests at a time.
///
/// # Errors
/// When a write or the flush fails.
pub(crate) async fn fill(io: &UringIo, volume: &VolumeHandle<UringIo>) -> Result<()> {
    let data = Buf::copy_of(&(0..FILL_BYTES).map(|i| ((i * 31) >> 3) as u8).collect::<Vec<_>>());
    let (done, ended) = async_channel::bounded(FILL_DEPTH);
    let next = Rc::new(Cell::new(0));
    for _ in 0..FILL_DEPTH {
        let (volume, data, next, done) = (volume.clone(), data.clone(), Rc::clone(&next), done.clone());
        io.spawn(async move {
            let mut result = Ok(());
            while next.get() < volume.size_bytes() && result.is_ok() {
                let at = next.replace(next.get() + FILL_BYTES);
                let bytes = FILL_BYTES.min(volume.size_bytes() - at);
                result = volume.write(at, data.slice(0, bytes as usize), false).await;
            }
            let _ = done.send(result).await;
        });
    }
    for _ in 0..FILL_DEPTH {
        ended.recv().await?.context("the volume cannot be filled")?;
    }
    Ok(volume.flush().await?)
}
