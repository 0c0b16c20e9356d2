//! The state of a pool, for programs (JSON) and for people: is my data safe, what is happening, what should I do.

use serde_json::{Value, json};
use sinew_engine::disk::superblock::{Config, MemberConfig, MemberState};
use sinew_engine::disk::uuid_text;
use sinew_engine::status::ShardStatus;

use crate::out::say;
use crate::size;

/// The whole state as JSON; docs/control-api.md describes the fields.
pub(crate) fn status(config: &Config, status: &ShardStatus) -> Value {
    let members: Vec<Value> = config.members.iter().enumerate().map(|(i, m)| {
        let stats = status.members.get(i).copied().unwrap_or_default();
        json!({
            "member": i, "path": m.path, "uuid": uuid_text(&m.uuid), "state": m.state.name(), "bytes": m.bytes,
            "chunks": u64::from(m.layout.chunks) * config.geometry.shards as u64,
            "chunks_used": status.member_chunks_used.get(i).copied().unwrap_or(0),
            "reads": stats.reads, "read_bytes": stats.read_bytes, "writes": stats.writes,
            "written_bytes": stats.written_bytes, "flushes": stats.flushes, "read_errors": stats.read_errors,
            "checksum_errors": stats.checksum_errors, "repaired_blocks": stats.repaired_blocks,
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
    let (health, advice) = health(config, status);
    json!({
        "pool": config.name, "uuid": uuid_text(&config.pool), "health": health, "advice": advice,
        "protection": config.geometry.protection.to_string(), "data_columns": config.geometry.data_columns,
        "parity_columns": config.geometry.parity_columns(), "shards": config.geometry.shards,
        "checksums": config.geometry.checksums,
        "stored_bytes": status.stored_bytes, "capacity_bytes": status.capacity_bytes,
        "raw_bytes": status.raw_bytes, "free_bytes": status.free_bytes,
        "stripes": { "mirrored": status.stripes_mirrored, "parity": status.stripes_parity,
            "degraded": status.stripes_degraded, "at_risk": status.stripes_at_risk },
        "metadata_degraded": status.metadata_degraded > 0,
        "rebuild_chunks_left": status.rebuild_chunks_left, "scrub_stripes_left": status.scrub_stripes_left,
        "table_bytes": status.table_bytes,
        "journal": { "blocks_used": status.journal_blocks_used, "blocks_written": status.journal_blocks_written },
        "counters": counters, "members": members, "volumes": volumes,
    })
}

/// One word, and what to do.
fn health(config: &Config, status: &ShardStatus) -> (&'static str, String) {
    let out: Vec<usize> = config
        .members
        .iter()
        .enumerate()
        .filter(|(_, m)| !matches!(m.state, MemberState::Active | MemberState::Removed))
        .map(|(i, _)| i)
        .collect();
    let evacuating = config.members.iter().any(|m| m.state == MemberState::Evacuating);
    if status.counters.scrub_unrepaired > 0 || status.counters.failed_reads > 0 {
        let advice =
            "since the pool was opened, some blocks had no good copy left: restore them from a backup";
        return ("damaged", advice.to_owned());
    }
    if status.rebuild_chunks_left > 0 || evacuating {
        let at_risk = status.stripes_at_risk > 0;
        let health = if at_risk { "at risk" } else { "degraded" };
        return (health, "a rebuild is under way: wait for it".to_owned());
    }
    if !out.is_empty() {
        let advice = format!(
            "member {} out: bring it back (`sinew member online {1}`) or replace it (`sinew member replace {1} DEVICE`; without a device, what it held is rebuilt into the free space of the others)",
            out.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
            out[0]
        );
        return (if status.stripes_at_risk > 0 { "at risk" } else { "degraded" }, advice);
    }
    if status.stripes_degraded > 0 || status.metadata_degraded > 0 {
        return ("degraded", "redundancy is being restored: wait for it".to_owned());
    }
    if let Some((i, m)) = config.members.iter().enumerate().find(|(_, m)| is_gone(m)) {
        let advice = format!(
            "{} is not there any more; member {i} works until the pool is stopped: replace it before (`sinew member \
             offline {i}`, then `sinew member replace {i} DEVICE`)",
            m.path
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
    if status.stored_bytes * 100 > status.capacity_bytes * 95 {
        return (
            "healthy",
            "the pool is almost full: delete or discard data, or make a larger pool".to_owned(),
        );
    }
    ("healthy", "nothing".to_owned())
}

/// Whether a file was deleted, or a device pulled, that is still open as a member.
fn is_gone(member: &MemberConfig) -> bool {
    member.state == MemberState::Active && !std::path::Path::new(&member.path).exists()
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
    say!(
        "space     {} stored of {}; {} of {} raw free",
        bytes("stored_bytes"),
        bytes("capacity_bytes"),
        bytes("free_bytes"),
        bytes("raw_bytes")
    );
    let stripes = &value["stripes"];
    say!(
        "stripes   {} mirrored, {} parity, {} degraded",
        number(stripes, "mirrored"),
        number(stripes, "parity"),
        number(stripes, "degraded")
    );
    let rebuild = number(value, "rebuild_chunks_left");
    let scrub = value["scrub_stripes_left"].as_u64();
    let work = match (rebuild, scrub) {
        (0, None) => "nothing".to_owned(),
        (0, Some(left)) => format!("scrub, {left} stripes left"),
        (left, None) => format!("rebuild, {left} chunks left"),
        (chunks, Some(stripes)) => format!("rebuild, {chunks} chunks left; scrub, {stripes} stripes left"),
    };
    say!("working   {work}");
    print_members(value);
    print_volumes(value);
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

/// The volumes as a table.
pub(crate) fn print_volumes(value: &Value) {
    say!("\nvolume            size");
    for v in value["volumes"].as_array().into_iter().flatten() {
        say!("{:<16}  {}", text(v, "name"), size::show(number(v, "bytes")));
    }
}
