//! `sinew bench`: load in this process, on a fresh pool of memory members or of files.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::json;
use sinew_engine::buf::{BLOCK_BYTES, Buf};
use sinew_engine::client::{PoolClient, VolumeHandle};
use sinew_engine::control::Catalog;
use sinew_engine::geometry::Protection;
use sinew_engine::io::Io;
use sinew_engine::pool::{self, Candidate, PoolSpec};
use sinew_engine::status::ShardStatus;
use sinew_engine::volume::Volume;
use sinew_uring::{Devices, UringIo};

use crate::host::{self, Open, Worker};
use crate::size;

/// Bytes written at once when the volume is filled.
const FILL_BYTES: u64 = 1 << 20;

/// Measures a fresh pool under load from this process.
#[derive(Args, Clone)]
pub(crate) struct BenchArgs {
    /// Directory for file members; without it, members are memory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Number of members.
    #[arg(long, default_value_t = 8)]
    members: usize,
    /// Size of each member.
    #[arg(long, default_value = "512M")]
    size: String,
    /// Size of the volume; by default half of what the pool can store.
    #[arg(long)]
    volume_size: Option<String>,
    /// What to do.
    #[arg(long, value_enum, default_value = "randwrite")]
    rw: Pattern,
    /// Bytes per request.
    #[arg(long, default_value = "4K")]
    bs: String,
    /// Requests under way at the same time, over all threads.
    #[arg(long, default_value_t = 32)]
    depth: usize,
    /// How long.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Shards, each on a thread of its own.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// mirror, mirror3, parity1 or parity2.
    #[arg(long, default_value = "parity1")]
    protection: String,
    /// Data columns of a stripe; 0 for the default.
    #[arg(long, default_value_t = 0)]
    data_columns: usize,
    /// Keep no checksums.
    #[arg(long)]
    no_checksums: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pattern {
    Randread,
    Randwrite,
    Read,
    Write,
    /// Random, half reads and half writes.
    Mixed,
}

/// What the threads share.
#[derive(Clone)]
struct Load {
    bs: u64,
    rw: Pattern,
    depth: usize,
    threads: usize,
    seconds: f64,
    start: Arc<AtomicBool>,
    result: Arc<Mutex<Totals>>,
}

struct Totals {
    requests: u64,
    latency_ns: Histogram<u64>,
    failed: Option<String>,
    threads_done: usize,
}

impl Worker for Load {
    async fn work(self, thread: usize, io: UringIo, client: PoolClient<UringIo>, catalog: Catalog) {
        while !self.start.load(Ordering::Acquire) {
            io.sleep(1_000_000).await;
        }
        if let Some(shared) = catalog.get("bench") {
            self.run(thread, &io, client.volume(shared)).await;
        }
    }
}

impl Load {
    /// Keeps this thread's share of requests under way until the time is over.
    async fn run(&self, thread: usize, io: &UringIo, volume: VolumeHandle<UringIo>) {
        let share = (self.depth + self.threads - 1 - thread) / self.threads;
        let until = Instant::now() + Duration::from_secs_f64(self.seconds);
        let (done, ended) = async_channel::bounded(share.max(1));
        for i in 0..share {
            let (load, volume, done) = (self.clone(), volume.clone(), done.clone());
            let seed = (thread * 1000 + i) as u64 + 1;
            io.spawn(async move {
                let _ = done.send(load.client(volume, seed, until).await).await;
            });
        }
        for _ in 0..share {
            let Ok(part) = ended.recv().await else { break };
            let mut total = self.result.lock().expect("no panic while held");
            match part {
                Ok((requests, latency)) => {
                    total.requests += requests;
                    total.latency_ns.add(latency).expect("same bounds");
                }
                Err(what) => total.failed = Some(what),
            }
        }
        self.result.lock().expect("no panic while held").threads_done += 1;
    }

    async fn client(
        self,
        volume: VolumeHandle<UringIo>,
        seed: u64,
        until: Instant,
    ) -> Result<(u64, Histogram<u64>), String> {
        let slots = volume.size_bytes() / self.bs;
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut latency = histogram();
        let mut data = Buf::zeroed(self.bs as usize);
        data.bytes_mut().iter_mut().enumerate().for_each(|(i, b)| *b = (i as u64 * seed) as u8);
        let mut requests = 0;
        let mut sequential = slots / self.depth.max(1) as u64 * (seed % 1000);
        let mut before = Instant::now();
        while before < until {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            sequential = (sequential + 1) % slots;
            let slot = if matches!(self.rw, Pattern::Read | Pattern::Write) {
                sequential
            } else {
                (random >> 20) % slots
            };
            let reads = match self.rw {
                Pattern::Randread | Pattern::Read => true,
                Pattern::Randwrite | Pattern::Write => false,
                Pattern::Mixed => random >> 63 == 0,
            };
            let result = if reads {
                volume.read(slot * self.bs, self.bs as u32).await.map(drop)
            } else {
                volume.write(slot * self.bs, data.clone(), false).await
            };
            result.map_err(|error| error.to_string())?;
            let now = Instant::now();
            latency.saturating_record((now - before).as_nanos() as u64);
            before = now;
            requests += 1;
        }
        Ok((requests, latency))
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("valid bounds")
}

/// Runs the command.
pub(crate) fn run(args: BenchArgs) -> Result<()> {
    let devices = Devices::new();
    let bytes = size::parse(&args.size)?;
    let mut files = Vec::new();
    let candidates = match &args.dir {
        None => memory_members(&devices, args.members, bytes)?,
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            for i in 0..args.members {
                let path = dir.join(format!("bench{i}"));
                let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
                let file = file.with_context(|| format!("{} must not exist", path.display()))?;
                file.set_len(bytes)?;
                files.push(path);
            }
            crate::members::open_all(&devices, &files)?
        }
    };
    let result = measure(&args, devices, candidates);
    for path in files {
        let _ = std::fs::remove_file(path);
    }
    result
}

fn memory_members(devices: &Devices, count: usize, bytes: u64) -> Result<Vec<Candidate>> {
    let member = |i| Ok(Candidate { device: devices.memory(bytes)?, path: format!("memory{i}") });
    (0..count).map(member).collect()
}

fn measure(args: &BenchArgs, devices: Devices, candidates: Vec<Candidate>) -> Result<()> {
    let protection = match args.protection.as_str() {
        "mirror" => Protection::Mirror { copies: 2 },
        "mirror3" => Protection::Mirror { copies: 3 },
        "parity1" => Protection::Parity1,
        "parity2" => Protection::Parity2,
        other => bail!("{other} is not a protection"),
    };
    let spec = PoolSpec {
        name: "bench".to_owned(),
        protection,
        data_columns: args.data_columns,
        shards: args.shards,
        checksums: !args.no_checksums,
        journal_blocks: None,
        force: true,
    };
    host::run_alone(&devices, async |io| pool::create(&io, &candidates, &spec).await)??;
    let load = Load {
        bs: size::parse(&args.bs)?,
        rw: args.rw,
        depth: args.depth,
        threads: args.shards,
        seconds: args.seconds,
        start: Arc::default(),
        result: Arc::new(Mutex::new(Totals {
            requests: 0,
            latency_ns: histogram(),
            failed: None,
            threads_done: 0,
        })),
    };
    if load.bs == 0 || !load.bs.is_multiple_of(BLOCK_BYTES as u64) {
        bail!("the request size is a multiple of 4096 bytes");
    }
    let worker = load.clone();
    host::with_pool(devices, candidates, None, worker, async |open| {
        let volume_bytes = match &args.volume_size {
            Some(text) => size::parse(text)?,
            None => open.control.status().await?.capacity_bytes / 2,
        };
        let volume_bytes = volume_bytes / FILL_BYTES * FILL_BYTES;
        open.control.create_volume("bench", volume_bytes).await?;
        let shared = open.control.catalog().get("bench").context("just made")?;
        let volume = open.client.volume(shared);
        fill(&open, &volume).await?;
        let before = open.control.status().await?;
        let started = Instant::now();
        load.start.store(true, Ordering::Release);
        load.run(0, &open.io, volume).await;
        while load.result.lock().expect("no panic while held").threads_done < open.threads {
            open.io.sleep(1_000_000).await;
        }
        let elapsed = started.elapsed().as_secs_f64();
        let after = open.control.status().await?;
        report(args, &load, elapsed, &before, &after)
    })
}

/// Writes the whole volume, several requests at a time.
async fn fill(open: &Open, volume: &VolumeHandle<UringIo>) -> Result<()> {
    let data = Buf::copy_of(&(0..FILL_BYTES).map(|i| (i * 31 >> 3) as u8).collect::<Vec<_>>());
    let (done, ended) = async_channel::bounded(8);
    let parts = volume.size_bytes() / FILL_BYTES;
    let next = Rc::new(std::cell::Cell::new(0));
    for _ in 0..8 {
        let (volume, data, next, done) = (volume.clone(), data.clone(), Rc::clone(&next), done.clone());
        open.io.spawn(async move {
            let mut result = Ok(());
            while next.get() < parts && result.is_ok() {
                let part = next.replace(next.get() + 1);
                result = volume.write(part * FILL_BYTES, data.clone(), false).await;
            }
            let _ = done.send(result).await;
        });
    }
    for _ in 0..8 {
        ended.recv().await?.context("filling the volume")?;
    }
    Ok(volume.flush().await?)
}

fn report(
    args: &BenchArgs,
    load: &Load,
    elapsed: f64,
    before: &ShardStatus,
    after: &ShardStatus,
) -> Result<()> {
    let total = load.result.lock().expect("no panic while held");
    if let Some(what) = &total.failed {
        bail!("a request failed: {what}");
    }
    let requests = total.requests.max(1) as f64;
    let sum = |f: fn(&sinew_engine::MemberStats) -> u64| {
        (after.members.iter().map(f).sum::<u64>() - before.members.iter().map(f).sum::<u64>()) as f64
            / requests
    };
    let quantile = |q: f64| total.latency_ns.value_at_quantile(q) as f64 / 1000.0;
    let iops = requests / elapsed;
    let value = json!({
        "iops": iops, "mb_per_second": iops * load.bs as f64 / 1e6, "ns_per_request": 1e9 / iops,
        "latency_us": { "p50": quantile(0.5), "p99": quantile(0.99), "p99.9": quantile(0.999), "max": total.latency_ns.max() as f64 / 1000.0 },
        "device_reads_per_request": sum(|m| m.reads), "device_writes_per_request": sum(|m| m.writes),
        "device_bytes_written_per_byte": sum(|m| m.written_bytes) / load.bs as f64,
        "device_flushes_per_request": sum(|m| m.flushes),
        "stripes_converted": after.counters.stripes_converted - before.counters.stripes_converted,
        "blocks_compacted": after.counters.blocks_compacted - before.counters.blocks_compacted,
        "table_bytes": after.table_bytes, "stored_bytes": after.stored_bytes,
    });
    if args.json {
        println!("{value:#}");
        return Ok(());
    }
    println!("{:.0} IOPS, {:.0} MB/s, {:.0} ns per request", iops, iops * load.bs as f64 / 1e6, 1e9 / iops);
    println!(
        "latency p50 {:.1} us, p99 {:.1}, p99.9 {:.1}, max {:.0}",
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        total.latency_ns.max() as f64 / 1000.0
    );
    println!(
        "device I/Os per request: {:.2} reads, {:.2} writes; {:.2} bytes written per byte",
        sum(|m| m.reads),
        sum(|m| m.writes),
        sum(|m| m.written_bytes) / load.bs as f64
    );
    println!(
        "background: {} stripes converted, {} blocks compacted; tables {}",
        after.counters.stripes_converted - before.counters.stripes_converted,
        after.counters.blocks_compacted - before.counters.blocks_compacted,
        size::show(after.table_bytes)
    );
    Ok(())
}
