//! `sinew replay`: a workload against a pool or an NBD server.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sinew_core::io::Io;
use sinew_uring::signal::Signals;
use sinew_uring::{Devices, UringIo};
use sinew_workload::trace::Format;
use sinew_workload::{Codec, Content, ContentSpec, Pace};

use crate::client;
use crate::out::{complain, say};
use crate::pool::host::{self, Idle, Resources};
use crate::replay::drive::{Drive, End, Outcome, Progress, Settings};
use crate::replay::report::{self, Title};
use crate::replay::source::{self, Changes, Reading};
use crate::replay::target::{self, Named, Target};
use crate::units;

/// How often the progress bar moves.
const TICK_NS: u64 = 200_000_000;
/// Spans of time that a run of known length is divided into.
const SPANS: f64 = 100.0;

/// Replay of a workload against a pool or an NBD server.
///
/// Requests are paced and measured; with --verify, all content is checked.
/// The content of the volumes is overwritten. Without --duration and --limit a generator runs until Ctrl-C, which prints the
/// report of what has been done.
#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// An NBD URI (nbd://host:port/export, nbd+unix:///export?socket=PATH), a directory of a pool's members, or a volume of
    /// the running pool. A pool that is served is used over its socket, another one in this process.
    target: String,
    /// A trace, a description (FILE.toml), or the name of a generator such as exchange-like.
    workload: String,
    /// More workloads, all at once: the first one goes to the first volume, the next to the next, round and round.
    #[arg(long, value_name = "WORKLOAD", num_args = 1..)]
    mix: Vec<String>,
    /// The volumes, several times for several; by default all of the pool, or the export of the URI. Requests of a single
    /// workload go to the volume of their device's number, modulo the number of volumes.
    #[arg(long, value_name = "NAME")]
    volume: Vec<String>,
    /// The format of traces; by default told from their content.
    #[arg(long, value_parser = source::format)]
    format: Option<Format>,
    /// Skip and count bad lines of traces.
    #[arg(long)]
    skip_bad: bool,
    /// Factor of speed: 2 plays the workload in half of its time.
    #[arg(long, default_value_t = 1.0, conflicts_with = "closed")]
    speed: f64,
    /// Ignore the times and keep this many requests in flight.
    #[arg(long, value_name = "DEPTH")]
    closed: Option<u32>,
    /// Requests in flight at most when the times are kept; what is due beyond that waits, which its latency shows.
    #[arg(long, default_value_t = 1024, conflicts_with = "closed")]
    in_flight: u32,
    /// Bring addresses into the volume: offset modulo its size.
    #[arg(long)]
    fold: bool,
    /// Widen requests to multiples of this; at least what the target asks for.
    #[arg(long, default_value = "512", value_parser = units::parse_size)]
    align: u64,
    /// At most this many requests.
    #[arg(long, value_name = "REQUESTS")]
    limit: Option<u64>,
    /// At most this many seconds.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Write data that compresses to this part of its size, 0.1 to 1.
    #[arg(long, value_name = "RATIO", conflicts_with = "corpus")]
    compressible: Option<f64>,
    /// By which compressor.
    #[arg(long, value_parser = codec, default_value = "lz4", requires = "compressible")]
    codec: Codec,
    /// Write data from this file.
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Compare what is read with what this replay wrote, and read all of that back at the end. Making and comparing the
    /// data takes time that latencies show.
    #[arg(long)]
    verify: bool,
    /// Added to the seeds of generators, and the seed of what is written; by default a random one for what is written.
    #[arg(long)]
    seed: Option<u64>,
    /// Connections to each export.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Seconds after which a server that does not answer counts as lost.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    patience: f64,
    /// The length of the spans of time that are reported; by default a hundredth of --duration, or a second.
    #[arg(long, value_name = "SECONDS")]
    interval: Option<f64>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    control: client::Target,
}

fn codec(name: &str) -> Result<Codec> {
    match name {
        "lz4" => Ok(Codec::Lz4),
        "zstd" => Ok(Codec::Zstd),
        _ => bail!("{name} is no compressor known here; there are lz4 and zstd"),
    }
}

/// Runs the command.
///
/// # Errors
/// When target or workload cannot be opened, a request failed, or verification found wrong data.
pub(crate) fn run(args: ReplayArgs) -> Result<()> {
    args.check()?;
    let signals = Signals::take_over().context("cannot wait for signals")?;
    let devices = Devices::new();
    match target::find(&args.target, &args.volume, &args.control, &devices)? {
        Named::Served(uris) => host::run_alone(&devices, async |io| {
            let patience = Duration::from_secs_f64(args.patience);
            let target = Target::connect(&io, &uris, args.connections, patience).await?;
            replay(&args, &io, target, signals).await
        })?,
        Named::Members(available) => {
            available.problems.iter().for_each(|problem| complain!("warning: {problem}"));
            host::with_pool(
                devices,
                host::Kind::Pool,
                available.candidates,
                Resources::default(),
                Idle,
                async |open| {
                    open.warnings.iter().for_each(|warning| complain!("warning: {warning}"));
                    let target = Target::in_process(&open, &args.volume)?;
                    let result = replay(&args, &open.io, target, signals).await;
                    open.control.close().await?;
                    result
                },
            )
        }
    }
}

impl ReplayArgs {
    fn check(&self) -> Result<()> {
        let is_time = |seconds: f64| seconds > 0.0 && seconds < 1e9;
        if !is_time(self.speed) || !is_time(self.patience) {
            bail!("--speed and --patience are above 0");
        }
        if !self.duration.is_none_or(is_time) || !self.interval.is_none_or(|s| is_time(s) && s >= 1e-3) {
            bail!("--duration is above 0, --interval at least 0.001");
        }
        if self.closed == Some(0) || self.in_flight == 0 || self.connections == 0 {
            bail!("--closed, --in-flight and --connections are at least 1");
        }
        if !self.align.is_power_of_two() || self.align > 4096 {
            bail!("--align is a power of two up to 4096");
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        match self.closed {
            Some(depth) => Pace::Closed { depth },
            None => Pace::Timed { in_flight_max: Some(self.in_flight) },
        }
    }

    fn content(&self, seed: u64) -> Result<Content> {
        let spec = match (&self.corpus, self.compressible) {
            (Some(path), _) => ContentSpec::Corpus { path: path.clone() },
            (None, Some(ratio)) => ContentSpec::Compressible { ratio, codec: self.codec, parity_gain: 0.0 },
            (None, None) => ContentSpec::Random,
        };
        Ok(Content::new(&spec, seed, Path::new(""))?)
    }

    fn workloads(&self) -> Vec<String> {
        std::iter::once(&self.workload).chain(&self.mix).cloned().collect()
    }
}

async fn replay(args: &ReplayArgs, io: &UringIo, target: Target, signals: Signals) -> Result<()> {
    let reading = Reading { format: args.format, skip_bad: args.skip_bad, seed: args.seed.unwrap_or(0) };
    let align = args.align.max(target.block_bytes());
    let changes = Changes { speed: args.speed, align, fold: args.fold, limit: args.limit };
    let opened = source::combine(&args.workloads(), reading, &changes, &target.sizes())?;
    // A fresh one each time, or data that an earlier replay left would be taken for this one's.
    let seed = args.seed.unwrap_or_else(|| io.random());
    let interval_s = args.interval.unwrap_or_else(|| args.duration.map_or(1.0, |s| (s / SPANS).max(1e-3)));
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let settings = Settings {
        pace: args.pace(),
        duration_ns: args.duration.map_or(u64::MAX, ns),
        interval_ns: ns(interval_s),
        verify: args.verify,
        content: args.content(seed)?,
    };
    let volumes = target.names.clone();
    let drive = Drive::new(io, target, opened.requests, settings);
    let bar = bar(args);
    io.spawn(heed(signals, io.clone(), Rc::clone(&drive)));
    io.spawn(show(bar.clone(), args.duration.is_some(), io.clone(), Rc::clone(&drive)));
    let outcome = drive.run().await;
    bar.finish_and_clear();
    let counted =
        |of: fn(&sinew_workload::trace::Counts) -> u64| opened.traces.iter().map(|(_, c)| of(c)).sum();
    let title = Title {
        workloads: &args.workloads(),
        volumes: &volumes,
        pace: args.pace(),
        speed: args.speed,
        seed,
        skipped: counted(|counts| counts.skipped()),
        reordered: counted(|counts| counts.reordered()),
    };
    match args.json {
        true => say!("{:#}", report::json(&title, &outcome)),
        false => report::print(&title, &outcome),
    }
    verdict(&outcome)
}

/// Whether all went well.
fn verdict(outcome: &Outcome) -> Result<()> {
    match &outcome.end {
        End::Bad(why) => bail!("{why}"),
        End::Lost(failure) => {
            bail!("the target was lost: {}; the report covers the time before", failure.message)
        }
        End::Done | End::Stopped => {}
    }
    if let Some(verified) =
        outcome.verified.as_ref().filter(|verified| verified.wrong + verified.unreadable > 0)
    {
        bail!(
            "{} places do not hold what was written there, {} cannot be read; the first: {}",
            verified.wrong,
            verified.unreadable,
            verified.shown.first().expect("a difference is described")
        );
    }
    match outcome.errors.values().map(|(count, _)| count).sum::<u64>() {
        0 => Ok(()),
        failed => bail!("{failed} requests failed"),
    }
}

/// Stops at the first Ctrl-C, after which requests under way end and the report comes; ends the process at the second.
async fn heed(signals: Signals, io: UringIo, drive: Rc<Drive>) {
    if signals.next(&io).await.is_ok() {
        complain!("stopping; once more to stop without a report");
        drive.stop(End::Stopped);
        if signals.next(&io).await.is_ok() {
            std::process::exit(130);
        }
    }
}

fn bar(args: &ReplayArgs) -> ProgressBar {
    let total = args.duration.map(|seconds| (seconds * 1000.0) as u64).or(args.limit);
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {percent:>3} %  {elapsed}  {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed}  {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("a valid template"))
}

/// Moves the bar until it is taken away.
async fn show(bar: ProgressBar, by_time: bool, io: UringIo, drive: Rc<Drive>) {
    let mut before = 0;
    while !bar.is_finished() {
        io.sleep(TICK_NS).await;
        let Progress { elapsed_ns, completed } = drive.progress();
        bar.set_position(if by_time { elapsed_ns / 1_000_000 } else { completed });
        let iops = (completed - before) * 1_000_000_000 / TICK_NS;
        bar.set_message(format!("{completed} requests, {iops} per second"));
        before = completed;
    }
}
