//! The state of a pool for people: is the data safe, what is happening, what should be done.

use serde_json::Value;

use crate::out::say;
use crate::table::{Align, Table};
use crate::units;

/// A request pending for this many seconds is reported.
const HUNG_S: u64 = 5;

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("?")
}

/// The state for people.
pub(crate) fn print(value: &Value) {
    let bytes = |key: &str| units::bytes(number(value, key));
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
    print_hung(value);
    print_faults(value);
    let array = &value["array"];
    if array.is_object() {
        say!(
            "array     chunks of {}, {}; {} of data on {}",
            units::bytes(number(array, "chunk_bytes")),
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
        if array["elastic"].is_object() {
            let stripes = &value["stripes"];
            say!(
                "form      {} stripes mirrored, {} with parity, {} empty",
                number(stripes, "mirrored"),
                number(stripes, "parity"),
                number(stripes, "empty")
            );
        }
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
    let balance = number(value, "rebalance_chunks_left");
    if balance > 0 {
        work.push(format!("rebalance, {balance} chunks left"));
    }
    if resync > 0 {
        work.push(format!("first resync, {resync} stripes left"));
    }
    let conversions = number(value, "conversions_left");
    if conversions > 0 {
        work.push(format!("conversion, {conversions} stripes left"));
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

/// Members that do not answer: out because their requests timed out, or still waited for.
fn print_hung(value: &Value) {
    for m in value["members"].as_array().into_iter().flatten() {
        let (member, seconds) = (number(m, "member"), number(m, "unanswered_s"));
        if m["timed_out"] == true {
            say!(
                "TIMED OUT member {member} did not answer and is out; when it answers again, or was reset, bring it back (`sinew member online {member}`)"
            );
        } else if seconds >= HUNG_S {
            say!("HUNG      member {member} has not answered a request for {seconds} s");
        }
    }
}

/// Injected faults, so that they are not taken for a failing drive and such a pool is not trusted.
fn print_faults(value: &Value) {
    for member in value["members"].as_array().into_iter().flatten() {
        for fault in member["faults"].as_array().into_iter().flatten() {
            say!(
                "INJECTED FAULT  member {}: {}; {} requests so far",
                number(member, "member"),
                text(fault, "fault"),
                number(fault, "requests")
            );
        }
    }
}

/// The space of a mapped pool and its use.
fn print_space(value: &Value) {
    let bytes = |key: &str| units::bytes(number(value, key));
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

/// Rates of the last seconds that are not zero.
fn print_rates(rates: &Value) {
    let rate = |name: &str| rates[name].as_f64().unwrap_or(0.0);
    let mut told = Vec::new();
    for (what, requests, bytes) in [("reads", "reads", "read_bytes"), ("writes", "writes", "written_bytes")] {
        let merges = if what == "writes" { rate("merges") } else { 0.0 };
        if rate(requests) + merges > 0.0 {
            told.push(format!(
                "{:.0} {what} ({})",
                rate(requests) + merges,
                units::bytes(rate(bytes) as u64)
            ));
        }
    }
    for (name, what) in [
        ("stripes_converted", "stripes converted"),
        ("blocks_compacted", "blocks compacted"),
        ("chunks_rebuilt", "chunks rebuilt"),
        ("chunks_balanced", "chunks rebalanced"),
        ("chunks_moved", "chunks moved"),
        ("blocks_drained", "blocks destaged"),
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
    let mut table = Table::new(&[
        ("member", Align::Right),
        ("state", Align::Left),
        ("size", Align::Right),
        ("used", Align::Right),
        ("read errors", Align::Right),
        ("checksum errors", Align::Right),
        ("repaired", Align::Right),
        ("path", Align::Left),
    ]);
    for m in value["members"].as_array().into_iter().flatten() {
        let used = number(m, "chunks_used") * 100 / number(m, "chunks").max(1);
        table.row([
            number(m, "member").to_string(),
            text(m, "state").to_owned(),
            units::bytes(number(m, "bytes")),
            format!("{used} %"),
            number(m, "read_errors").to_string(),
            number(m, "checksum_errors").to_string(),
            number(m, "repaired_blocks").to_string(),
            text(m, "path").to_owned(),
        ]);
    }
    say!("");
    table.print();
}

/// Latencies of members, where they are measured.
fn print_latencies(value: &Value) {
    let members: Vec<&Value> = value["members"].as_array().into_iter().flatten().collect();
    if members.iter().all(|m| m["read_latency_us"].is_null() && m["write_latency_us"].is_null()) {
        return;
    }
    let mut table = Table::new(&[
        ("member", Align::Right),
        ("response", Align::Left),
        ("reads p50, p99, p99.9 us", Align::Left),
        ("writes p50, p99, p99.9 us", Align::Left),
        ("stragglers now / total", Align::Right),
        ("spikes", Align::Right),
        ("redirected", Align::Right),
        ("hedged", Align::Right),
        ("reconstructed", Align::Right),
    ]);
    for m in members {
        let of = |kind: &str| {
            let part = |q: &str| m[kind][q].as_u64().map_or("-".to_owned(), |us| us.to_string());
            format!("{}, {}, {}", part("p50"), part("p99"), part("p99.9"))
        };
        table.row([
            number(m, "member").to_string(),
            text(m, "response").to_owned(),
            of("read_latency_us"),
            of("write_latency_us"),
            format!("{} / {}", number(m, "stragglers"), number(m, "stragglers_total")),
            number(m, "spikes").to_string(),
            number(m, "redirections").to_string(),
            number(m, "hedges").to_string(),
            number(m, "reconstructions").to_string(),
        ]);
    }
    say!("");
    table.print();
}

/// The volumes as a table.
pub(crate) fn print_volumes(value: &Value) {
    let mut table = Table::new(&[("volume", Align::Left), ("size", Align::Right)]);
    for v in value["volumes"].as_array().into_iter().flatten() {
        table.row([text(v, "name").to_owned(), units::bytes(number(v, "bytes"))]);
    }
    say!("");
    table.print();
}
