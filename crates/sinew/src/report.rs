//! The state of a pool, for programs (JSON) and for people: is my data safe, what is happening, what should I do.

use serde_json::{Value, json};
use sinew_core::ids::uuid_text;
use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::policy::Policy;
use sinew_members::latency::{LatencyHistogram, Response};
use sinew_members::status::ShardStatus;

use sinew_format::model::array_geometry::{Access, ArrayGeometry};
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::pool_geometry::Shape;

use crate::out::say;
use crate::size;

/// A request pending for so many seconds is worth a word.
const SILENT_S: u64 = 5;

/// The whole state as JSON; docs/control-api.md describes the fields. `unnamed` are members whose names are not there any more.
pub(crate) fn status(config: &Config, status: &ShardStatus, unnamed: &[usize]) -> Value {
    let members: Vec<Value> = config.members.iter().enumerate().map(|(i, m)| {
        let stats = status.members.get(i).copied().unwrap_or_default();
        let latency = status.member_latency.get(i).cloned().unwrap_or_default();
        json!({
            "member": i, "path": m.path, "uuid": uuid_text(&m.uuid), "state": m.state.name(), "bytes": m.bytes,
            "chunks": member_chunks(config, i),
            "chunks_used": match config.shape {
                Shape::Mapped(_) => status.member_chunks_used.get(i).copied().unwrap_or(0),
                Shape::Array(_) => member_chunks(config, i),
            },
            "chunks_parity": status.member_chunks_parity.get(i).copied().unwrap_or(0),
            "chunks_stale": status.member_chunks_stale.get(i).copied().unwrap_or(0),
            "reads": stats.reads, "read_bytes": stats.read_bytes, "writes": stats.writes,
            "written_bytes": stats.written_bytes, "flushes": stats.flushes, "read_errors": stats.read_errors,
            "checksum_errors": stats.checksum_errors, "repaired_blocks": stats.repaired_blocks,
            "response": latency.response.name(), "read_latency_us": quantiles(&latency.reads),
            "write_latency_us": quantiles(&latency.writes), "late_after_us": latency.late_after_ns / 1000,
            "stragglers": latency.stragglers, "stragglers_seen": latency.stragglers_seen, "spikes": latency.spikes,
            "redirections": latency.redirections, "hedges": latency.hedges,
            "reconstructions": latency.reconstructions, "slower_than_peers_s": latency.slow_for_ns / 1_000_000_000,
            "unanswered_s": latency.unanswered_ns / 1_000_000_000,
        })
    }).collect();
    let volumes: Vec<Value> = config
        .volumes
        .iter()
        .filter(|v| !v.deleting)
        .map(|v| json!({ "name": v.name, "bytes": v.bytes }))
        .collect();
    let counters: serde_json::Map<String, Value> =
        status.counters.named().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let (health, advice) = health(config, status, unnamed);
    let (columns, array) = match &config.shape {
        Shape::Mapped(g) => ((g.data_columns, g.parity_columns()), Value::Null),
        Shape::Array(a) => ((a.data_columns(), a.parity_columns()), array_json(a)),
    };
    json!({
        "pool": config.name, "uuid": uuid_text(&config.pool), "health": health, "advice": advice,
        "protection": config.shape.name(), "data_columns": columns.0, "parity_columns": columns.1,
        "shards": config.shape.shards(), "checksums": config.shape.checksums(), "array": array,
        "stored_bytes": status.stored_bytes, "stored_mirrored_bytes": status.stored_mirrored_bytes,
        "stored_parity_bytes": status.stored_parity_bytes, "capacity_bytes": status.capacity_bytes,
        "raw_bytes": status.raw_bytes, "free_bytes": status.free_bytes,
        "stripes": { "mirrored": status.stripes_mirrored, "parity": status.stripes_parity,
            "degraded": status.stripes_degraded, "at_risk": status.stripes_at_risk },
        "metadata_degraded": status.metadata_degraded > 0,
        "rebuild_chunks_left": status.rebuild_chunks_left, "balance_chunks_left": status.balance_chunks_left, "resync_stripes_left": status.resync_stripes_left, "scrub_stripes_left": status.scrub_stripes_left,
        "growth_chunks_left": status.growth_chunks_left,
        "table_bytes": status.table_bytes,
        "journal": { "blocks_used": status.journal_blocks_used, "blocks_written": status.journal_blocks_written },
        "counters": counters, "members": members, "volumes": volumes,
    })
}

/// How long requests took lately; null when there were none.
fn quantiles(history: &LatencyHistogram) -> Value {
    let us = |share| history.quantile_ns(share).map(|ns| ns / 1000);
    match us(0.5) {
        Some(p50) => json!({ "p50": p50, "p99": us(0.99), "p99.9": us(0.999) }),
        None => Value::Null,
    }
}

/// Chunks of a member that may be used.
fn member_chunks(config: &Config, member: usize) -> u64 {
    match &config.shape {
        Shape::Mapped(geometry) => u64::from(config.members[member].layout.chunks) * geometry.shards as u64,
        Shape::Array(array) => {
            if config.has_place(member) {
                array.layout.member_chunks()
            } else {
                0
            }
        }
    }
}

fn array_json(array: &ArrayGeometry) -> Value {
    let level = array.layout.level();
    json!({
        "level": level.number(), "layout": level.rotation().map(|r| r.to_string()),
        "copies": array.layout.copies(), "groups": array.groups(), "members": array.members(),
        "chunk_bytes": array.layout.chunk_bytes(), "journal": array.journal, "data_offset": array.data_offset(),
        "md": array.md.map(access_name),
        "growing": array.grown.and_then(|grown| grown.method()).map(GrowMethod::name),
        "sets": array.grown.map(|grown| grown.disks().to_vec()),
    })
}

/// A policy as `status --json` has it.
pub(crate) fn policy(policy: &Policy) -> Value {
    json!({
        "packing": policy.packing.name(),
        "gather": policy.gather,
        "discard": policy.discard,
        "convert_below_free": policy.convert_below_free,
        "convert_above_mirrored": policy.convert_above_mirrored,
        "convert_pause_above": policy.convert_pause_above,
    })
}

/// How an array of md's is served.
pub(crate) fn access_name(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
    }
}

/// How an array is safe from torn stripes, in a few words.
pub(crate) fn journal_text(array: &ArrayGeometry) -> &'static str {
    match (array.parity_columns(), array.journal) {
        (0, _) => "no parity",
        (_, true) => "with journal",
        (_, false) => "no journal, write hole open",
    }
}

/// One word, and what to do.
pub(crate) fn health(config: &Config, status: &ShardStatus, unnamed: &[usize]) -> (&'static str, String) {
    let out: Vec<usize> = config
        .members
        .iter()
        .enumerate()
        .filter(|(i, m)| config.has_place(*i) && !m.state.takes_part())
        .map(|(i, _)| i)
        .collect();
    let evacuating = config.members.iter().any(|m| m.state == MemberState::Evacuating);
    if status.growth_stuck > 0 {
        let advice = "growth waits: chunks cannot be read, or not be written where they go; see the errors of members, \
                      and bring back or replace those that are out";
        return ("degraded", advice.to_owned());
    }
    if status.counters.scrub_unrepaired > 0 || status.counters.failed_reads > 0 {
        let advice =
            "since the pool was opened, some blocks had no good copy left: restore them from a backup";
        return ("damaged", advice.to_owned());
    }
    // What moves off a member that is leaving is there all the time.
    if status.rebuild_chunks_left > 0 && status.stripes_degraded > 0 || evacuating {
        let at_risk = status.stripes_at_risk > 0;
        let health = if at_risk { "at risk" } else { "degraded" };
        return (health, "a rebuild is under way: wait for it".to_owned());
    }
    let md = matches!(config.shape, Shape::Array(array) if array.md.is_some());
    if !out.is_empty() && md {
        let members = out.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let advice = format!("member {members} out: stop this server and add it again with mdadm");
        return (if status.stripes_at_risk > 0 { "at risk" } else { "degraded" }, advice);
    }
    if !out.is_empty() {
        let elsewhere = match config.shape {
            Shape::Mapped(_) => {
                "; without a device, what it held is rebuilt into the free space of the others"
            }
            Shape::Array(_) => "",
        };
        let advice = format!(
            "member {} out: bring it back (`sinew member online {1}`) or replace it (`sinew member replace {1} DEVICE`{elsewhere})",
            out.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            out[0]
        );
        return (if status.stripes_at_risk > 0 { "at risk" } else { "degraded" }, advice);
    }
    if let Some(i) = config.members.iter().position(|m| m.state == MemberState::Leaving) {
        let advice = format!(
            "member {i} is leaving: wait until what it holds is on the others, or let it stay (`sinew member remove {i} \
             --cancel`)"
        );
        return ("healthy", advice);
    }
    if status.stripes_degraded > 0 || status.metadata_degraded > 0 {
        return ("degraded", "redundancy is being restored: wait for it".to_owned());
    }
    if let Some(&i) = unnamed.first() {
        let advice = format!(
            "{} is not there any more; member {i} works until the pool is stopped: replace it before (`sinew member \
             offline {i}`, then `sinew member replace {i} DEVICE`)",
            config.members[i].path
        );
        return ("healthy", advice);
    }
    if let Some(i) = status.members.iter().position(|m| m.checksum_errors > 0 || m.read_errors > 0) {
        let advice = format!(
            "member {i} gave wrong data or errors, all made good from the others: run `sinew scrub`, and replace it if \
             that happens again"
        );
        return ("healthy", advice);
    }
    if let Some(i) = status.member_latency.iter().position(|m| m.response == Response::Suspect) {
        return ("healthy", suspect_advice(config, status, i));
    }
    if matches!(config.shape, Shape::Mapped(_)) && status.stored_bytes * 100 > status.capacity_bytes * 95 {
        return (
            "healthy",
            "the pool is almost full: delete or discard data, or add members (`sinew member add DEVICE`)"
                .to_owned(),
        );
    }
    ("healthy", "nothing".to_owned())
}

/// What to do about a member that is slow for good, with the evidence.
fn suspect_advice(config: &Config, status: &ShardStatus, suspect: usize) -> String {
    let medians = |of: fn(&sinew_members::latency::MemberLatency) -> &LatencyHistogram| {
        let mut others: Vec<u64> = status
            .member_latency
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != suspect)
            .filter_map(|(_, m)| of(m).quantile_ns(0.5))
            .collect();
        others.sort_unstable();
        let own = of(&status.member_latency[suspect]).quantile_ns(0.5);
        let us = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| (ns / 1000).to_string());
        format!("{} us (others {})", us(own), us(others.get(others.len().saturating_sub(1) / 2).copied()))
    };
    let what = match config.shape {
        Shape::Mapped(_) => format!("have it leave (`sinew member remove {suspect}`), or replace it"),
        Shape::Array(_) => "replace it".to_owned(),
    };
    format!(
        "member {suspect} has been slow for {} s: half of its reads take {}, of its writes {}: {what}",
        status.member_latency[suspect].slow_for_ns / 1_000_000_000,
        medians(|m| &m.reads),
        medians(|m| &m.writes)
    )
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}

/// The state for people.
pub(crate) fn print(value: &Value) {
    let bytes = |key: &str| size::show(number(value, key));
    let safe = match text(value, "health") {
        "healthy" => "yes",
        "degraded" => "yes, but with less redundancy than it should have",
        "at risk" => "yes, but the loss of one more member may lose data",
        _ => "no",
    };
    say!(
        "pool      {} ({}, {}+{}, {} shard{}, checksums {})",
        text(value, "pool"),
        text(value, "protection"),
        number(value, "data_columns"),
        number(value, "parity_columns"),
        number(value, "shards"),
        if number(value, "shards") == 1 { "" } else { "s" },
        if value["checksums"].as_bool() == Some(true) { "on" } else { "off" }
    );
    say!("health    {}", text(value, "health"));
    say!("data safe {safe}");
    say!("to do     {}", text(value, "advice"));
    print_silent(value);
    print_faults(value);
    let array = &value["array"];
    if array.is_object() {
        say!(
            "array     chunks of {}, {}; {} of data on {}",
            size::show(number(array, "chunk_bytes")),
            match (number(value, "parity_columns"), array["journal"].as_bool()) {
                _ if array["md"] == "read-only" => "md's, read-only",
                _ if array["md"].is_string() => "md's, read-write",
                (0, _) => "no parity",
                (_, Some(true)) => "writes go through a journal",
                _ => "no journal: the write hole is open",
            },
            bytes("capacity_bytes"),
            bytes("raw_bytes")
        );
    } else {
        print_space(value);
    }
    let rebuild = number(value, "rebuild_chunks_left");
    let resync = number(value, "resync_stripes_left");
    let scrub = value["scrub_stripes_left"].as_u64();
    let mut work = Vec::new();
    if rebuild > 0 {
        work.push(format!("rebuild, {rebuild} chunks left"));
    }
    let balance = number(value, "balance_chunks_left");
    if balance > 0 {
        work.push(format!("balance, {balance} chunks left"));
    }
    if resync > 0 {
        work.push(format!("first resync, {resync} stripes left"));
    }
    if let Some(left) = value["growth_chunks_left"].as_u64() {
        work.push(format!("growth by {}, {left} chunks left", text(array, "growing")));
    }
    if let Some(left) = scrub {
        work.push(format!("scrub, {left} stripes left"));
    }
    say!("working   {}", if work.is_empty() { "nothing".to_owned() } else { work.join("; ") });
    print_rates(&value["per_second"]);
    print_members(value);
    print_latencies(value);
    print_volumes(value);
}

/// Members from which nothing is heard: whether they are out for that, or waited for.
fn print_silent(value: &Value) {
    for m in value["members"].as_array().into_iter().flatten() {
        let (member, seconds) = (number(m, "member"), number(m, "unanswered_s"));
        if m["given_up"] == true {
            say!(
                "GIVEN UP  member {member} did not answer; once it does, or is reset, bring it back (`sinew member online {member}`)"
            );
        } else if seconds >= SILENT_S {
            say!("SILENT    member {member} has not answered a request for {seconds} s");
        }
    }
}

/// What is wrong on purpose: nobody is to take it for a failing drive, or trust such a pool.
fn print_faults(value: &Value) {
    for member in value["members"].as_array().into_iter().flatten() {
        for fault in member["faults"].as_array().into_iter().flatten() {
            say!(
                "FAULTS    ON PURPOSE, member {}: {}; {} requests so far",
                number(member, "member"),
                text(fault, "fault"),
                number(fault, "requests")
            );
        }
    }
}

/// What a mapped pool holds.
fn print_space(value: &Value) {
    let bytes = |key: &str| size::show(number(value, key));
    say!(
        "space     {} stored of {}; {} of {} raw free",
        bytes("stored_bytes"),
        bytes("capacity_bytes"),
        bytes("free_bytes"),
        bytes("raw_bytes")
    );
    let stripes = &value["stripes"];
    let mirrored = number(value, "stored_mirrored_bytes");
    say!(
        "form      {} % of what is stored is mirrored, {} of it has parity",
        mirrored * 100 / number(value, "stored_bytes").max(1),
        bytes("stored_parity_bytes")
    );
    say!(
        "stripes   {} mirrored, {} parity, {} degraded",
        number(stripes, "mirrored"),
        number(stripes, "parity"),
        number(stripes, "degraded")
    );
}

/// What was done per second lately, as far as anything was.
fn print_rates(rates: &Value) {
    let rate = |name: &str| rates[name].as_f64().unwrap_or(0.0);
    let mut told = Vec::new();
    for (what, requests, bytes) in [("reads", "reads", "read_bytes"), ("writes", "writes", "written_bytes")] {
        let merges = if what == "writes" { rate("merges") } else { 0.0 };
        if rate(requests) + merges > 0.0 {
            told.push(format!("{:.0} {what} ({})", rate(requests) + merges, size::show(rate(bytes) as u64)));
        }
    }
    for (name, what) in [
        ("stripes_converted", "stripes converted"),
        ("blocks_compacted", "blocks compacted"),
        ("chunks_rebuilt", "chunks rebuilt"),
        ("chunks_balanced", "chunks balanced"),
        ("chunks_moved", "chunks moved"),
        ("blocks_drained", "blocks drained"),
        ("stripes_resynced", "stripes resynced"),
        ("stripes_scrubbed", "stripes scrubbed"),
    ] {
        if rate(name) > 0.0 {
            told.push(format!("{:.0} {what}", rate(name)));
        }
    }
    if !told.is_empty() {
        say!("a second  {}", told.join(", "));
    }
}

/// The members as a table.
pub(crate) fn print_members(value: &Value) {
    say!("\nmember  state       size        used  errors (read, checksum)  repaired  path");
    for m in value["members"].as_array().into_iter().flatten() {
        let used = number(m, "chunks_used") * 100 / number(m, "chunks").max(1);
        say!(
            "{:>6}  {:<10}  {:>9}  {used:>4} %  {:>6}, {:<15}  {:>8}  {}",
            number(m, "member"),
            text(m, "state"),
            size::show(number(m, "bytes")),
            number(m, "read_errors"),
            number(m, "checksum_errors"),
            number(m, "repaired_blocks"),
            text(m, "path")
        );
    }
}

/// How members answer, where any request could be late.
fn print_latencies(value: &Value) {
    let members: Vec<&Value> = value["members"].as_array().into_iter().flatten().collect();
    if members.iter().all(|m| m["read_latency_us"].is_null() && m["write_latency_us"].is_null()) {
        return;
    }
    say!(
        "\nmember  response    reads p50, p99, p99.9 us    writes p50, p99, p99.9 us   late now, ever  spikes  redirected  hedged  rebuilt"
    );
    for m in members {
        let of = |kind: &str| {
            let part = |q: &str| m[kind][q].as_u64().map_or("-".to_owned(), |us| us.to_string());
            format!("{}, {}, {}", part("p50"), part("p99"), part("p99.9"))
        };
        say!(
            "{:>6}  {:<10}  {:<26}  {:<26}  {:>8}, {:<5}  {:>6}  {:>10}  {:>6}  {:>7}",
            number(m, "member"),
            text(m, "response"),
            of("read_latency_us"),
            of("write_latency_us"),
            number(m, "stragglers"),
            number(m, "stragglers_seen"),
            number(m, "spikes"),
            number(m, "redirections"),
            number(m, "hedges"),
            number(m, "reconstructions")
        );
    }
}

/// The volumes as a table.
pub(crate) fn print_volumes(value: &Value) {
    say!("\nvolume            size");
    for v in value["volumes"].as_array().into_iter().flatten() {
        say!("{:<16}  {}", text(v, "name"), size::show(number(v, "bytes")));
    }
}
