//! The results of a benchmark, as JSON and for people.

use serde_json::{Value, json};
use sinew_members::member_stats::MemberStats;
use sinew_members::status::ShardStatus;

use super::load::{Pattern, Totals};
use crate::out::say;
use crate::units;

/// The requests that were made, and what the pool did meanwhile.
pub(crate) struct Measured<'a> {
    pub(crate) pattern: Pattern,
    pub(crate) request_bytes: u64,
    pub(crate) depth: usize,
    pub(crate) shards: usize,
    pub(crate) totals: &'a Totals,
    /// The pool's state before and after.
    pub(crate) before: &'a ShardStatus,
    pub(crate) after: &'a ShardStatus,
}

/// The results, as JSON.
pub(crate) fn json(measured: &Measured<'_>) -> Value {
    let Measured { pattern, request_bytes, depth, shards, totals, before, after } = *measured;
    let requests = totals.latency_ns.len().max(1) as f64;
    let sum = |status: &ShardStatus, f: fn(&MemberStats) -> u64| status.members.iter().map(f).sum::<u64>();
    let per_request = |f: fn(&MemberStats) -> u64| (sum(after, f) - sum(before, f)) as f64 / requests;
    let per_byte = |f: fn(&MemberStats) -> u64| per_request(f) / request_bytes as f64;
    let us = |q: f64| totals.latency_ns.value_at_quantile(q) as f64 / 1000.0;
    let iops = requests / totals.seconds;
    json!({
        "rw": pattern.name(), "bs": request_bytes, "depth": depth, "seconds": totals.seconds,
        "members": after.members.len(), "shards": shards, "threads": totals.threads,
        "iops": iops, "mb_per_second": iops * request_bytes as f64 / 1e6, "ns_per_request": 1e9 / iops,
        "cpu": totals.cpu_seconds / totals.seconds, "cpu_ns_per_request": totals.cpu_seconds * 1e9 / requests,
        "latency_us": {
            "min": totals.latency_ns.min() as f64 / 1000.0, "mean": totals.latency_ns.mean() / 1000.0,
            "p50": us(0.5), "p90": us(0.9), "p99": us(0.99), "p99.9": us(0.999), "p99.99": us(0.9999),
            "max": totals.latency_ns.max() as f64 / 1000.0,
        },
        "device_per_request": {
            "reads": per_request(|m| m.reads), "writes": per_request(|m| m.writes), "flushes": per_request(|m| m.flushes),
        },
        "device_bytes_per_byte": { "read": per_byte(|m| m.read_bytes), "written": per_byte(|m| m.written_bytes) },
        "background": {
            "stripes_converted": after.counters.stripes_converted - before.counters.stripes_converted,
            "blocks_compacted": after.counters.blocks_compacted - before.counters.blocks_compacted,
        },
        "stored_bytes": after.stored_bytes, "capacity_bytes": after.capacity_bytes, "table_bytes": after.table_bytes,
    })
}

/// The results for people, from their JSON.
pub(crate) fn print(value: &Value) {
    let number = |path: &str| value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    say!(
        "{} of {} at depth {}, {} members, {} shards on {} threads, {:.1} s",
        value["rw"].as_str().unwrap_or("?"),
        units::bytes(number("/bs") as u64),
        value["depth"],
        value["members"],
        value["shards"],
        value["threads"],
        number("/seconds")
    );
    say!(
        "{:.0} IOPS, {:.0} MB/s, {:.0} ns per request; processor {:.0} %, {:.0} ns per request",
        number("/iops"),
        number("/mb_per_second"),
        number("/ns_per_request"),
        number("/cpu") * 100.0,
        number("/cpu_ns_per_request")
    );
    let quantiles = ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let parts: Vec<_> =
        quantiles.iter().map(|q| format!("{q} {:.1}", number(&format!("/latency_us/{q}")))).collect();
    say!("latency in us: {}", parts.join(", "));
    say!(
        "members, per request: {:.3} reads, {:.3} writes, {:.5} flushes; per byte: {:.2} read, {:.2} written",
        number("/device_per_request/reads"),
        number("/device_per_request/writes"),
        number("/device_per_request/flushes"),
        number("/device_bytes_per_byte/read"),
        number("/device_bytes_per_byte/written")
    );
    say!(
        "background: {} stripes converted, {} blocks compacted; tables {} for {} stored",
        value["background"]["stripes_converted"],
        value["background"]["blocks_compacted"],
        units::bytes(number("/table_bytes") as u64),
        units::bytes(number("/stored_bytes") as u64)
    );
}
