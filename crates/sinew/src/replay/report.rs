//! The outcome of a replay, for programs (JSON) and for people. docs/workloads.md describes the fields.

use serde_json::{Value, json};
use sinew_workload::{BucketReport, Distribution, Kind, Pace, Report};

use super::drive::{End, Outcome, Verified};
use crate::out::say;
use crate::table::Table;
use crate::units;

/// Rows of the table over time.
const ROWS_MAX: usize = 12;

/// The workload, its target and its settings.
pub(crate) struct Title<'a> {
    pub(crate) workloads: &'a [String],
    pub(crate) volumes: &'a [String],
    pub(crate) pace: Pace,
    pub(crate) speed: f64,
    pub(crate) seed: u64,
    /// Bad lines skipped, and requests whose times went back, in all traces.
    pub(crate) skipped: u64,
    pub(crate) reordered: u64,
}

/// Everything, as JSON.
pub(crate) fn json(title: &Title<'_>, outcome: &Outcome) -> Value {
    let ended = match &outcome.end {
        End::Done => "done".to_owned(),
        End::Stopped => "stopped".to_owned(),
        End::Lost(failure) => format!("lost: {}", failure.message),
        End::Bad(why) => format!("bad workload: {why}"),
    };
    let errors: Vec<Value> = outcome
        .errors
        .iter()
        .map(|((kind, reason), (count, first))| {
            json!({ "kind": kind, "reason": reason, "requests": count, "first": first })
        })
        .collect();
    let verified = outcome.verified.as_ref().map(|v| {
        json!({ "bytes": v.bytes, "bytes_read_back": v.bytes_read_back, "complete": v.complete,
            "unreadable": v.unreadable, "wrong": v.wrong,
            "first": v.shown })
    });
    json!({
        "workloads": title.workloads, "volumes": title.volumes, "pace": title.pace, "speed": title.speed,
        "seed": title.seed, "lines_skipped": title.skipped, "times_reordered": title.reordered,
        "ended": ended, "report": outcome.report, "errors": errors, "verified": verified,
    })
}

/// Everything, for people.
pub(crate) fn print(title: &Title<'_>, outcome: &Outcome) {
    let report = &outcome.report;
    let seconds = (report.end_ns - report.start_ns) as f64 / 1e9;
    let pace = match title.pace {
        Pace::Timed { .. } => format!("open loop at {} times its speed", title.speed),
        Pace::Closed { depth } => format!("closed loop at depth {depth}"),
    };
    say!("{} on {}: {seconds:.1} s, {pace}", title.workloads.join(" + "), title.volumes.join(", "));
    if title.skipped + title.reordered > 0 {
        say!(
            "{} bad lines were skipped, {} requests had times that went back",
            title.skipped,
            title.reordered
        );
    }
    if report.kinds.is_empty() {
        say!("nothing was requested");
        return;
    }
    let heads = ["", "requests", "errors", "IOPS", "MB/s", "p50 ms", "p90", "p99", "p99.9", "p99.99", "max"];
    let mut table = Table::of_numbers(&heads);
    for (kind, of) in &report.kinds {
        let [p50, p90, p99, p999, p9999, max] = percentiles(&of.latency);
        let (iops, mb) = (format!("{:.0}", of.iops), format!("{:.1}", of.bytes_per_s / 1e6));
        let (requests, errors) = (of.requests.to_string(), of.errors.to_string());
        table.row([name_of(*kind), requests, errors, iops, mb, p50, p90, p99, p999, p9999, max]);
    }
    table.print();
    if matches!(title.pace, Pace::Timed { .. }) {
        let [p50, _, p99, _, _, max] = percentiles(&report.late);
        say!("issued late by: p50 {p50} ms, p99 {p99} ms, max {max} ms");
    }
    over_time(report);
    for ((kind, reason), (count, first)) in &outcome.errors {
        say!("{count} {} requests failed: {reason} ({first})", name_of(*kind));
    }
    if let Some(verified) = &outcome.verified {
        print_verified(verified);
    }
}

fn print_verified(verified: &Verified) {
    let Verified { bytes, bytes_read_back, complete, unreadable, wrong, shown } = verified;
    let back = if *complete { "all of them" } else { "not all of them" };
    say!(
        "verified: {} in reads of the workload; {} written, {back}, read back at the end",
        units::bytes(*bytes),
        units::bytes(*bytes_read_back)
    );
    say!("  {wrong} places are wrong, {unreadable} cannot be read");
    shown.iter().for_each(|line| say!("  {line}"));
}

fn name_of(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

fn percentiles(d: &Distribution) -> [String; 6] {
    [d.p50_ns, d.p90_ns, d.p99_ns, d.p99_9_ns, d.p99_99_ns, d.max_ns].map(|ns| units::ms(ns as f64))
}

/// IOPS, throughput and latency over time, in few enough rows to see at once.
fn over_time(report: &Report) {
    let Report { buckets, bucket_ns, .. } = report;
    let Some(last) = buckets.last().filter(|last| last.from_ns > 0) else { return };
    let each = (last.from_ns / bucket_ns + 1).div_ceil(ROWS_MAX as u64) * bucket_ns;
    say!("");
    let heads = ["from s", "requests", "errors", "IOPS", "MB/s", "mean ms", "max"];
    let mut table = Table::of_numbers(&heads);
    for from in (0..=last.from_ns).step_by(each as usize) {
        let within: Vec<_> = buckets.iter().filter(|b| (from..from + each).contains(&b.from_ns)).collect();
        let sum = |of: fn(&BucketReport) -> u64| within.iter().map(|b| of(b)).sum::<u64>();
        // The last row ends with the run.
        let seconds = each.min(report.end_ns - report.start_ns - from) as f64 / 1e9;
        let requests = sum(|b| b.requests);
        let all: f64 = within.iter().map(|b| b.latency_mean_ns * b.requests as f64).sum();
        let max = within.iter().map(|b| b.latency_max_ns).max().unwrap_or(0);
        table.row([
            format!("{:.1}", from as f64 / 1e9),
            requests.to_string(),
            sum(|b| b.errors).to_string(),
            format!("{:.0}", requests as f64 / seconds),
            format!("{:.1}", sum(|b| b.bytes) as f64 / 1e6 / seconds),
            units::ms(all / requests.max(1) as f64),
            units::ms(max as f64),
        ]);
    }
    table.print();
}
