//! The answer to `events`: what has happened to a pool, as JSON. docs/control-api.md describes the fields.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use sinew_engine::control::events::{Entry, Event};

/// One event. `start` is when the clock of the events was at 0.
pub(crate) fn entry(entry: &Entry, start: SystemTime) -> Value {
    let time = start + Duration::from_nanos(entry.at_ns);
    let mut value = Map::new();
    let mut put = |name: &str, field: Value| drop(value.insert(name.to_owned(), field));
    put("number", json!(entry.number));
    put("time", json!(humantime::format_rfc3339_millis(time).to_string()));
    put("severity", json!(entry.event.severity().name()));
    put("event", json!(entry.event.kind()));
    put("text", json!(entry.event.to_string()));
    match &entry.event {
        Event::Opened { out } => put("out", json!(out)),
        Event::PoolFailed => {}
        Event::Member { member, path, change: _ } => {
            put("member", json!(member));
            put("path", json!(path));
        }
        Event::MemberErrors { member, read_errors, checksum_errors, repaired_blocks } => {
            put("member", json!(member));
            put("read_errors", json!(read_errors));
            put("checksum_errors", json!(checksum_errors));
            put("repaired_blocks", json!(repaired_blocks));
        }
        Event::DamageFound { volume, offset, bytes } | Event::DamageEnded { volume, offset, bytes } => {
            put("volume", json!(volume));
            put("offset", json!(offset));
            put("bytes", json!(bytes));
        }
        Event::BlocksLost { reads, unrepaired } => {
            put("reads", json!(reads));
            put("unrepaired", json!(unrepaired));
        }
        Event::NoSpace { volume, requests } => {
            put("volume", json!(volume));
            put("requests", json!(requests));
        }
        Event::SpaceUsed { percent } => put("percent", json!(percent)),
        Event::WorkBegan(work) | Event::WorkEnded(work) => put("work", json!(work.name())),
        Event::VolumeCreated { volume, bytes } => {
            put("volume", json!(volume));
            put("bytes", json!(bytes));
        }
        Event::VolumeDeleted { volume } => put("volume", json!(volume)),
        Event::VolumeResized { volume, from, bytes } => {
            put("volume", json!(volume));
            put("from", json!(from));
            put("bytes", json!(bytes));
        }
        Event::Clients { volume, connections } => {
            put("volume", json!(volume));
            put("connections", json!(connections));
        }
    }
    Value::Object(value)
}
