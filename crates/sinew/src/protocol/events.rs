//! The answer to `events`: what has happened to a pool.

use std::time::{Duration, SystemTime};

use sinew_engine::control::events::{Entry, Event};

use super::answer::EventView;

/// One event. `start` is when the clock of the events was at 0.
pub(crate) fn entry(entry: &Entry, start: SystemTime) -> EventView {
    let time = start + Duration::from_nanos(entry.at_ns);
    let view = EventView {
        number: entry.number,
        time: humantime::format_rfc3339_millis(time).to_string(),
        severity: entry.event.severity().name().to_owned(),
        event: entry.event.kind().to_owned(),
        text: entry.event.to_string(),
        ..EventView::default()
    };
    let some = |text: &String| Some(text.clone());
    match &entry.event {
        Event::Opened { out, .. } => EventView { out: Some(out.clone()), ..view },
        Event::PoolFailed
        | Event::Resumed
        | Event::GrowthWaits
        | Event::GrowthGoesOn
        | Event::RebuildWaits
        | Event::RebuildGoesOn => view,
        Event::Suspended { members } => EventView { members: Some(members.clone()), ..view },
        Event::SettingChanged { setting, value } => {
            EventView { setting: Some((*setting).to_owned()), value: some(value), ..view }
        }
        Event::Member { member, path, change: _ } => {
            EventView { member: Some(*member), path: some(path), ..view }
        }
        Event::MemberErrors { member, read_errors, checksum_errors, repaired_blocks } => EventView {
            member: Some(*member),
            read_errors: Some(*read_errors),
            checksum_errors: Some(*checksum_errors),
            repaired_blocks: Some(*repaired_blocks),
            ..view
        },
        Event::DamageFound { volume, offset, bytes } | Event::DamageEnded { volume, offset, bytes } => {
            EventView { volume: some(volume), offset: Some(*offset), bytes: Some(*bytes), ..view }
        }
        Event::NoSpace { volume, requests } => {
            EventView { volume: some(volume), requests: Some(*requests), ..view }
        }
        Event::SpaceUsed { percent } => EventView { percent: Some(*percent), ..view },
        Event::WorkBegan(work) | Event::WorkEnded(work) => {
            EventView { work: Some(work.name().to_owned()), ..view }
        }
        Event::VolumeCreated { volume, bytes } => {
            EventView { volume: some(volume), bytes: Some(*bytes), ..view }
        }
        Event::VolumeDeleted { volume } => EventView { volume: some(volume), ..view },
        Event::VolumeResized { volume, from, bytes } => {
            EventView { volume: some(volume), from: Some(*from), bytes: Some(*bytes), ..view }
        }
        Event::Clients { volume, connections } => {
            EventView { volume: some(volume), connections: Some(*connections as u64), ..view }
        }
        Event::ClientRefused { client, reason, times } => {
            EventView { client: some(client), reason: some(reason), times: Some(*times), ..view }
        }
    }
}
