//! The state of a pool for people: is the data safe, what is happening, what should be done.

use std::io::{self, IsTerminal};
use std::time::Duration;

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

/// A state of health, on a terminal in the colour of its urgency unless NO_COLOR is set.
fn painted(health: &str) -> String {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    if is_plain || !io::stdout().is_terminal() {
        return health.to_owned();
    }
    let colour = match health {
        "healthy" => 32,
        "degraded" | "at risk" => 33,
        _ => 31,
    };
    format!("\x1b[1;{colour}m{health}\x1b[0m")
}

/// The state for people.
pub(crate) fn print(value: &Value) {
    let bytes = |key: &str| units::bytes(number(value, key));
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
    say!("health    {}", painted(text(value, "health")));
    match text(value, "access") {
        "read-only" => say!("access    read-only, nothing is written to the members"),
        "last-resort" => say!("access    last resort: read-only, what cannot be read fails"),
        _ => {}
    }
    say!("data safe {}", text(value, "data_safe"));
    print_advice(value);
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
            print_forms(value);
        }
    } else {
        print_space(value);
    }
    print_physical(value);
    print_work(value);
    print_blocked(&value["rebalance_blocked"]);
    print_rates(&value["per_second"]);
    print_members(value);
    print_latencies(value);
    print_volumes(value);
}

/// The forms of an elastic array's stripes, and what the governor goes by.
fn print_forms(value: &Value) {
    let (stripes, governor) = (&value["stripes"], &value["array"]["elastic"]["governor"]);
    let of = |form: &str| number(stripes, form);
    let all = of("mirrored") + of("parity") + of("empty");
    let percent = |form: &str| of(form) as f64 * 100.0 / all.max(1) as f64;
    let hits = match governor["hit_rate"].as_f64() {
        Some(rate) => {
            format!("; {:.0} % of the requests of the last minute used a mirrored stripe", rate * 100.0)
        }
        None => String::new(),
    };
    say!(
        "form      {:.1} % mirrored, {:.1} % parity, {:.1} % empty{hits}",
        percent("mirrored"),
        percent("parity"),
        percent("empty")
    );
    if let Some(data) = governor["data_ratio"].as_f64() {
        let parity = governor["parity_ratio"].as_f64().map(|ratio| format!(", its parity {ratio:.1}"));
        say!("content   data compresses {data:.1}{} (estimated)", parity.unwrap_or_default());
    }
}

/// All that should be done, the most urgent first.
fn print_advice(value: &Value) {
    let advice: Vec<&str> =
        value["advice"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if advice.is_empty() {
        say!("to do     nothing");
    }
    for (i, advice) in advice.into_iter().enumerate() {
        say!("{:10}{advice}", if i == 0 { "to do" } else { "" });
    }
}

/// Long work: how far it is, and when it will end.
fn print_work(value: &Value) {
    let mut told = Vec::new();
    for work in value["work"].as_array().into_iter().flatten() {
        let name = match text(work, "work") {
            "growth" => format!("growth by {}", text(&value["array"], "growing")),
            name => name.to_owned(),
        };
        let rate = match (work["per_second"].as_f64(), work["seconds_left"].as_u64()) {
            (Some(rate), Some(seconds)) => {
                let left = humantime::format_duration(Duration::from_secs(seconds));
                format!(", {rate:.0} a second, {left} left")
            }
            _ => String::new(),
        };
        told.push(format!(
            "{name}, {} % done, {} {} left{rate}",
            number(work, "percent"),
            number(work, "left"),
            text(work, "unit")
        ));
    }
    let conversions = number(value, "conversions_left");
    let is_told = told.iter().any(|work| work.starts_with("conversion"));
    if conversions > 0 && !is_told {
        told.push(format!("conversion, {conversions} stripes left"));
    }
    say!("working   {}", if told.is_empty() { "nothing".to_owned() } else { told.join("; ") });
}

/// Why members have unequal shares although nothing moves.
fn print_blocked(blocked: &Value) {
    if !blocked.is_object() {
        return;
    }
    let reasons = [
        ("together", "in stripes that have a chunk on each member with less than its share"),
        ("no_room", "for which members with less than their shares have no free chunk"),
        ("degraded", "in stripes that lack a chunk"),
        ("open", "in stripes that are being filled"),
        ("unmovable", "that could not be read or written"),
    ];
    let given = reasons.map(|(key, reason)| (number(blocked, key), reason));
    let told: Vec<String> =
        given.iter().filter(|(n, _)| *n > 0).map(|(n, reason)| format!("{n} {reason}")).collect();
    let chunks = number(blocked, "chunks");
    say!("shares    uneven by {chunks} chunks, and no chunk may move: {}", told.join("; "));
}

/// Members that do not answer: out because their requests timed out, or still waited for.
fn print_hung(value: &Value) {
    for m in value["members"].as_array().into_iter().flatten() {
        let (member, seconds) = (number(m, "member"), number(m, "unanswered_s"));
        if m["timed_out"] == true {
            say!(
                "TIMED OUT member {member} did not answer and is out; bring it back when it answers again, or was reset"
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
    let after = match value["rebuild_after_s"].as_f64() {
        Some(seconds) => {
            format!("after {}", humantime::format_duration(Duration::from_secs(seconds as u64)))
        }
        None => "on request".to_owned(),
    };
    match value["rebuild_room"].as_bool() {
        Some(true) => say!("spare     room to rebuild any one member into free space ({after})"),
        Some(false) => say!("spare     no room to rebuild a lost member without a new device"),
        None => {}
    }
    say!(
        "volumes   {} in all{}",
        bytes("provisioned_bytes"),
        if value["overprovisioned"] == true {
            ", more than the capacity: writes can be refused before they are full"
        } else {
            ""
        }
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

/// Physical space that may end before the addresses of its members do.
fn print_physical(value: &Value) {
    for space in value["physical"].as_array().into_iter().flatten() {
        let Some(free) = space["free"].as_u64().filter(|_| space["overcommitted"] == true) else { continue };
        let total = number(space, "used") + free;
        let members: Vec<String> =
            space["members"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let until = match space["full_in_s"].as_u64() {
            Some(seconds) => format!(
                "; full in {} at the rate of the last minute",
                humantime::format_duration(Duration::from_secs(seconds))
            ),
            None => String::new(),
        };
        say!(
            "physical  {} of {} ({} %) on member {}{until}",
            units::bytes(number(space, "used")),
            units::bytes(total),
            number(space, "used") * 100 / total.max(1),
            members.join(", ")
        );
    }
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

/// Limits of a volume for people; `None` without any.
pub(crate) fn limits(value: &Value) -> Option<String> {
    let (iops, rate) = (number(value, "iops"), number(value, "bytes_per_second"));
    if (iops, rate) == (0, 0) {
        return None;
    }
    let requests = (iops > 0).then(|| format!("{iops} requests/s"));
    let bytes = (rate > 0).then(|| format!("{}/s", units::bytes(rate)));
    let burst = humantime::format_duration(Duration::from_millis(number(value, "burst_ms")));
    let all: Vec<String> = requests.into_iter().chain(bytes).chain([format!("bursts of {burst}")]).collect();
    Some(all.join(", "))
}

/// The volumes as a table.
pub(crate) fn print_volumes(value: &Value) {
    let columns = [
        ("volume", Align::Left),
        ("size", Align::Right),
        ("used", Align::Right),
        ("protection", Align::Left),
        ("limits", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for v in value["volumes"].as_array().into_iter().flatten() {
        let used = v["used_bytes"].as_u64().map_or("-".to_owned(), units::bytes);
        let limits = limits(&v["limits"]).unwrap_or("-".to_owned());
        let mut protection = v["protection"].as_str().unwrap_or("-").to_owned();
        if let Some(left) = v["misplaced_bytes"].as_u64() {
            protection += &format!(", {} to be moved", units::bytes(left));
        }
        let (name, size) = (text(v, "name").to_owned(), units::bytes(number(v, "bytes")));
        table.row([name, size, used, protection, limits]);
    }
    say!("");
    table.print();
}
