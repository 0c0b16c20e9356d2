//! What happens to an open pool, as one stream of typed events: bounded, numbered, in order.
//!
//! The control adds events where it acts, and where it finds that the shards have counted something. It keeps the latest
//! [`KEPT`]; a reader that comes later sees a gap in the numbers. Nothing here waits for a reader.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Signal;
use sinew_format::model::config::{Config, MemberConfig, MemberState, VolumeConfig};
use sinew_members::open_mode::OpenMode;

/// Events kept for readers.
pub const KEPT: usize = 1024;

/// How urgent an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing has to be done.
    Info,
    /// Redundancy, room or speed is less than it should be.
    Warning,
    /// Data or service is lost.
    Error,
}

impl Severity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// What became of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// It joined the pool.
    Added,
    /// It failed requests and is out.
    Failed,
    /// It did not answer for the I/O timeout.
    Hung,
    /// An operator took it offline.
    Offline,
    /// It is not there.
    Missing,
    /// It is back; what it missed is rebuilt.
    Back,
    /// Another device has its number; everything is rebuilt onto it.
    Replaced,
    /// What it held is rebuilt into the free space of the others.
    Evacuating,
    /// It is to leave: what it holds moves to the others.
    Leaving,
    /// It was to leave, and stays.
    Kept,
    /// Nothing is left on it.
    Removed,
    /// It has been slower than its peers for long.
    Slow,
    /// It is as fast as its peers again.
    NotSlow,
    /// It works, but its device node or file is gone.
    Unnamed,
    /// Its device node or file is there again.
    Named,
}

impl MemberChange {
    fn parts(self) -> (&'static str, Severity, &'static str) {
        use MemberChange::*;
        use Severity::*;
        match self {
            Added => ("member-added", Info, "was added"),
            Failed => ("member-failed", Warning, "failed and is out"),
            Hung => ("member-hung", Warning, "does not answer"),
            Offline => ("member-offline", Warning, "was taken offline"),
            Missing => ("member-missing", Warning, "is missing"),
            Back => ("member-back", Info, "is back; what it missed is rebuilt"),
            Replaced => ("member-replaced", Info, "replaces the former one; everything is rebuilt onto it"),
            Evacuating => ("member-evacuating", Info, "is out; what it held is rebuilt into free space"),
            Leaving => ("member-leaving", Info, "is leaving"),
            Kept => ("member-kept", Info, "stays"),
            Removed => ("member-removed", Info, "has left"),
            Slow => ("member-slow", Warning, "has been slower than its peers for long"),
            NotSlow => ("member-not-slow", Info, "is as fast as its peers again"),
            Unnamed => ("member-unnamed", Warning, "works, but its device node or file is gone"),
            Named => ("member-named", Info, "has its device node or file again"),
        }
    }
}

/// Long work in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes what a member lacks.
    Rebuild,
    /// Gives each member its fair share.
    Rebalance,
    /// Reads and compares everything.
    Scrub,
    /// Moves chunks of an array onto more members.
    Growth,
    /// Makes parity match data.
    Resync,
    /// Gives stripes of an elastic array the form that an operator has ordered.
    Conversion,
}

impl Work {
    /// All kinds.
    pub const ALL: [Work; 6] =
        [Work::Rebuild, Work::Rebalance, Work::Scrub, Work::Growth, Work::Resync, Work::Conversion];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Work::Rebuild => "rebuild",
            Work::Rebalance => "rebalance",
            Work::Scrub => "scrub",
            Work::Growth => "growth",
            Work::Resync => "resync",
            Work::Conversion => "conversion",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pool was opened, without these members.
    Opened {
        /// Numbers of the members that are out.
        out: Vec<usize>,
        /// How it was opened.
        mode: OpenMode,
    },
    /// More members failed than the pool survives: it refuses everything until it is opened again.
    PoolFailed,
    /// Writes wait or are refused, since these members have no physical space.
    Suspended {
        /// Their numbers.
        members: Vec<usize>,
    },
    /// Writes go on.
    Resumed,
    /// A growth waits: chunks cannot be read, or cannot be written where they go.
    GrowthWaits,
    /// A growth that waited goes on.
    GrowthGoesOn,
    /// A rebuild waits: other units of the stripes cannot be read.
    RebuildWaits,
    /// No rebuild waits any more.
    RebuildGoesOn,
    /// An operator changed a setting.
    SettingChanged {
        /// Its name.
        setting: &'static str,
        /// What it is now.
        value: String,
    },
    /// A member changed.
    Member {
        /// Its number.
        member: usize,
        /// Where it is.
        path: String,
        /// What became of it.
        change: MemberChange,
    },
    /// A member returned errors or wrong data since the last look.
    MemberErrors {
        /// Its number.
        member: usize,
        /// Reads that failed.
        read_errors: u64,
        /// Blocks whose checksum did not match.
        checksum_errors: u64,
        /// Blocks rewritten from redundancy.
        repaired_blocks: u64,
    },
    /// Blocks of a volume had no good copy when a client or background work read them.
    DamageFound {
        /// The volume.
        volume: String,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Damaged blocks of a volume were overwritten, discarded, or read well.
    DamageEnded {
        /// The volume.
        volume: String,
        /// The first byte.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Writes that were refused for lack of room, since the last look.
    NoSpace {
        /// The volume.
        volume: String,
        /// Requests.
        requests: u64,
    },
    /// The pool stores more than this part of its capacity.
    SpaceUsed {
        /// 80, 90 or 95.
        percent: u64,
    },
    /// Long work has begun.
    WorkBegan(Work),
    /// Long work has ended.
    WorkEnded(Work),
    /// A volume was made.
    VolumeCreated {
        /// Its name.
        volume: String,
        /// Its size.
        bytes: u64,
    },
    /// A volume was deleted.
    VolumeDeleted {
        /// Its name.
        volume: String,
    },
    /// The size of a volume was changed.
    VolumeResized {
        /// Its name.
        volume: String,
        /// Its former size.
        from: u64,
        /// Its size.
        bytes: u64,
    },
    /// Clients came or went since the last look.
    Clients {
        /// The volume.
        volume: String,
        /// Connections to it now.
        connections: usize,
    },
    /// A client was refused since the last look.
    ClientRefused {
        /// Its address, and the names in its certificate.
        client: String,
        /// Why.
        reason: String,
        /// How often.
        times: u64,
    },
}

impl Event {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Opened { .. } => "opened",
            Event::PoolFailed => "pool-failed",
            Event::Suspended { .. } => "pool-suspended",
            Event::Resumed => "pool-resumed",
            Event::GrowthWaits => "growth-waits",
            Event::GrowthGoesOn => "growth-goes-on",
            Event::RebuildWaits => "rebuild-waits",
            Event::RebuildGoesOn => "rebuild-goes-on",
            Event::SettingChanged { .. } => "setting-changed",
            Event::Member { change, .. } => change.parts().0,
            Event::MemberErrors { .. } => "member-errors",
            Event::DamageFound { .. } => "damage-found",
            Event::DamageEnded { .. } => "damage-ended",
            Event::NoSpace { .. } => "no-space",
            Event::SpaceUsed { .. } => "space-used",
            Event::WorkBegan(_) => "work-began",
            Event::WorkEnded(_) => "work-ended",
            Event::VolumeCreated { .. } => "volume-created",
            Event::VolumeDeleted { .. } => "volume-deleted",
            Event::VolumeResized { .. } => "volume-resized",
            Event::Clients { .. } => "clients",
            Event::ClientRefused { .. } => "client-refused",
        }
    }

    /// How urgent it is.
    pub fn severity(&self) -> Severity {
        match self {
            Event::PoolFailed
            | Event::Suspended { .. }
            | Event::DamageFound { .. }
            | Event::NoSpace { .. } => Severity::Error,
            Event::Opened { mode: OpenMode::LastResort, .. } => Severity::Error,
            Event::Opened { out, .. } if !out.is_empty() => Severity::Warning,
            Event::Member { change, .. } => change.parts().1,
            Event::MemberErrors { .. }
            | Event::SpaceUsed { .. }
            | Event::ClientRefused { .. }
            | Event::GrowthWaits
            | Event::RebuildWaits => Severity::Warning,
            _ => Severity::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Opened { out, mode } => {
                f.write_str(match mode {
                    OpenMode::ReadWrite => "the pool is open",
                    OpenMode::ReadOnly => "the pool is open read-only",
                    OpenMode::LastResort => {
                        "the pool is open read-only as a last resort, since more members are missing or damaged than it survives,"
                    }
                })?;
                match out.as_slice() {
                    [] => f.write_str(" with all members"),
                    out => write!(f, " without member {}", list(out)),
                }
            }
            Event::PoolFailed => f.write_str(
                "the pool has failed: more members are out than it survives; it refuses everything until it is served again",
            ),
            Event::Suspended { members } => {
                write!(f, "writes wait or are refused: no physical space on member {}", list(members))
            }
            Event::Resumed => f.write_str("members have physical space again; writes go on"),
            Event::GrowthWaits => {
                f.write_str("the growth waits: chunks cannot be read, or cannot be written where they go")
            }
            Event::GrowthGoesOn => f.write_str("the growth goes on"),
            Event::RebuildWaits => {
                f.write_str("the rebuild waits for stripes with blocks that cannot be read; everything else is rebuilt")
            }
            Event::RebuildGoesOn => f.write_str("the rebuild does not wait any more"),
            Event::SettingChanged { setting, value } => write!(f, "{setting} is now {value}"),
            Event::Member { member, path, change } => write!(f, "member {member} ({path}) {}", change.parts().2),
            Event::MemberErrors { member, read_errors, checksum_errors, repaired_blocks } => write!(
                f,
                "member {member}: {read_errors} read errors, {checksum_errors} checksum errors, \
                 {repaired_blocks} blocks repaired"
            ),
            Event::DamageFound { volume, offset, bytes } => {
                write!(f, "volume {volume}: {bytes} bytes at {offset} have no good copy")
            }
            Event::DamageEnded { volume, offset, bytes } => {
                write!(f, "volume {volume}: {bytes} bytes at {offset} are no longer damaged")
            }
            Event::NoSpace { volume, requests } => {
                write!(f, "volume {volume}: {requests} requests refused, no space is left in the pool")
            }
            Event::SpaceUsed { percent } => write!(f, "more than {percent} % of the capacity is used"),
            Event::WorkBegan(work) => write!(f, "{} began", work.name()),
            Event::WorkEnded(work) => write!(f, "{} ended", work.name()),
            Event::VolumeCreated { volume, bytes } => write!(f, "volume {volume} of {bytes} bytes was made"),
            Event::VolumeDeleted { volume } => write!(f, "volume {volume} was deleted"),
            Event::VolumeResized { volume, from, bytes } => {
                write!(f, "volume {volume} was resized from {from} to {bytes} bytes")
            }
            Event::Clients { volume, connections } => {
                write!(f, "volume {volume} has {connections} client connections")
            }
            Event::ClientRefused { client, reason, times: 1 } => {
                write!(f, "a client {client} was refused: {reason}")
            }
            Event::ClientRefused { client, reason, times } => {
                write!(f, "a client {client} was refused {times} times: {reason}")
            }
        }
    }
}

fn list(members: &[usize]) -> String {
    members.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An event, its number, and when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts from 1 since the pool was opened.
    pub number: u64,
    /// By the clock of `Io`.
    pub at_ns: u64,
    /// What happened.
    pub event: Event,
}

/// The latest events of a pool.
#[derive(Default)]
pub struct Events {
    entries: RefCell<VecDeque<Entry>>,
    last: Cell<u64>,
    added: Signal,
    /// How many there were of each kind and severity.
    counts: RefCell<BTreeMap<(&'static str, Severity), u64>>,
}

impl Events {
    /// How many there were since the pool was opened, by kind and severity.
    pub fn counts(&self) -> Vec<(&'static str, Severity, u64)> {
        self.counts.borrow().iter().map(|(&(kind, severity), &count)| (kind, severity, count)).collect()
    }

    /// Adds an event.
    pub(super) fn add(&self, at_ns: u64, event: Event) {
        if mutation::on(Mutation::LoseEvents)
            && matches!(event, Event::Member { change: MemberChange::Failed, .. })
        {
            return;
        }
        if mutation::on(Mutation::InventEvents) && matches!(event, Event::MemberErrors { .. }) {
            self.keep(at_ns, event.clone());
        }
        self.keep(at_ns, event);
    }

    fn keep(&self, at_ns: u64, event: Event) {
        *self.counts.borrow_mut().entry((event.kind(), event.severity())).or_default() += 1;
        let number = self.last.get() + 1;
        self.last.set(number);
        let mut entries = self.entries.borrow_mut();
        if entries.len() == KEPT {
            entries.pop_front();
        }
        entries.push_back(Entry { number, at_ns, event });
        drop(entries);
        self.added.notify();
    }

    /// The number of the latest event; 0 before the first.
    pub fn last(&self) -> u64 {
        self.last.get()
    }

    /// Those kept with higher numbers than this one, in order.
    pub fn after(&self, number: u64) -> Vec<Entry> {
        self.entries.borrow().iter().filter(|entry| entry.number > number).cloned().collect()
    }

    /// Resolves once there is an event with a higher number.
    pub async fn wait_for_more(&self, number: u64) {
        self.added.wait(|| (self.last.get() > number).then_some(())).await;
    }
}

/// The events that lead from one configuration to the next.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<Event> {
    let members = new.members.iter().enumerate().flat_map(|(member, now)| {
        let changes = match old.members.get(member) {
            Some(before) => member_change(before, now).into_iter().collect(),
            // A new member may have failed in the same step.
            None if now.state == MemberState::Failed => vec![MemberChange::Added, MemberChange::Failed],
            None => vec![MemberChange::Added],
        };
        changes.into_iter().map(move |change| Event::Member { member, path: now.path.clone(), change })
    });
    members.chain(volume_changes(&old.volumes, &new.volumes)).collect()
}

fn member_change(before: &MemberConfig, now: &MemberConfig) -> Option<MemberChange> {
    use MemberState as State;
    let is_other = before.uuid != now.uuid;
    if before.state == now.state && !is_other {
        return None;
    }
    Some(match (before.state, now.state) {
        (State::Removed, State::Removed) => return None,
        (_, State::Removed) => MemberChange::Removed,
        (_, State::Failed) => MemberChange::Failed,
        (_, State::Offline) => MemberChange::Offline,
        (_, State::Missing) => MemberChange::Missing,
        (_, State::Evacuating) => MemberChange::Evacuating,
        (_, State::Leaving) => MemberChange::Leaving,
        (State::Removed, _) => MemberChange::Added,
        _ if is_other => MemberChange::Replaced,
        (State::Leaving, _) => MemberChange::Kept,
        _ => MemberChange::Back,
    })
}

fn volume_changes<'a>(old: &'a [VolumeConfig], new: &'a [VolumeConfig]) -> impl Iterator<Item = Event> + 'a {
    let served = |volumes: &'a [VolumeConfig]| volumes.iter().filter(|v| !v.deleting);
    let find =
        move |volumes: &'a [VolumeConfig], wanted: &VolumeConfig| served(volumes).find(|v| v.id == wanted.id);
    let gone = served(old).filter(move |v| find(new, v).is_none());
    let gone = gone.map(|v| Event::VolumeDeleted { volume: v.name.clone() });
    let kept = served(new).filter_map(move |v| {
        let volume = v.name.clone();
        match find(old, v) {
            None => Some(Event::VolumeCreated { volume, bytes: v.bytes }),
            Some(before) if before.bytes == v.bytes => None,
            Some(before) => Some(Event::VolumeResized { volume, from: before.bytes, bytes: v.bytes }),
        }
    });
    gone.chain(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sinew_format::model::config::WEIGHT_FULL;

    #[test]
    fn the_latest_events_are_kept_and_numbered() {
        let events = Events::default();
        for percent in 0..KEPT as u64 + 10 {
            events.add(percent, Event::SpaceUsed { percent });
        }
        let all = events.after(0);
        assert_eq!((all.len(), all[0].number, events.last()), (KEPT, 11, KEPT as u64 + 10));
        let latest = events.after(events.last() - 1);
        assert_eq!(latest[0].event, Event::SpaceUsed { percent: KEPT as u64 + 9 });
        assert!(events.after(events.last()).is_empty());
    }

    fn member(uuid: u8, state: MemberState) -> MemberConfig {
        let path = format!("d{uuid}");
        MemberConfig {
            uuid: [uuid; 16],
            bytes: 1,
            layout: Default::default(),
            state,
            out_epoch: 0,
            path,
            physical: 0,
            weight: WEIGHT_FULL,
        }
    }

    #[test]
    fn every_change_of_a_member_has_its_event() {
        use MemberState::*;
        let change = |from, to| member_change(&member(1, from), &member(1, to));
        assert_eq!(change(Active, Active), None);
        assert_eq!(change(Active, Failed), Some(MemberChange::Failed));
        assert_eq!(change(Spare, Failed), Some(MemberChange::Failed));
        assert_eq!(change(Active, Offline), Some(MemberChange::Offline));
        assert_eq!(change(Missing, Active), Some(MemberChange::Back));
        assert_eq!(change(Failed, Evacuating), Some(MemberChange::Evacuating));
        assert_eq!(change(Evacuating, Removed), Some(MemberChange::Removed));
        assert_eq!(change(Active, Leaving), Some(MemberChange::Leaving));
        assert_eq!(change(Leaving, Active), Some(MemberChange::Kept));
        let replaced = |from, to| member_change(&member(1, from), &member(2, to));
        assert_eq!(replaced(Failed, Active), Some(MemberChange::Replaced));
        assert_eq!(replaced(Removed, Active), Some(MemberChange::Added));
        // A spare takes the place of a member, whose entry goes to the number of the spare.
        assert_eq!(replaced(Spare, Removed), Some(MemberChange::Removed));
    }

    #[test]
    fn volumes_come_change_and_go() {
        use sinew_core::ids::VolumeId;
        let volume = |id, bytes, deleting| VolumeConfig {
            deleting,
            ..VolumeConfig::new(VolumeId(id), format!("v{id}"), bytes)
        };
        let old = [volume(0, 4096, false), volume(1, 4096, false), volume(2, 4096, true)];
        let new = [volume(0, 8192, false), volume(1, 4096, true), volume(3, 4096, false)];
        let events: Vec<Event> = volume_changes(&old, &new).collect();
        assert_eq!(
            events,
            [
                Event::VolumeDeleted { volume: "v1".to_owned() },
                Event::VolumeResized { volume: "v0".to_owned(), from: 4096, bytes: 8192 },
                Event::VolumeCreated { volume: "v3".to_owned(), bytes: 4096 },
            ]
        );
    }
}
