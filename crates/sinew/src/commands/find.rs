//! `sinew pool find`: which pools files and devices belong to, and whether those can be served.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use serde::Serialize;
use sinew_core::ids::{Uuid, uuid_text};
use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::host_record::HostRecord;
use sinew_format::superblock::Superblock;
use sinew_uring::Devices;

use crate::daemon::{Listen, serve};
use crate::out::say;
use crate::pool::assembly::Source;
use crate::pool::host::Kind;
use crate::pool::members::{self, Seen};
use crate::pool::this_host;

/// Finds the pools that files and devices belong to, and says whether they can be served. Changes nothing.
#[derive(Args)]
pub(crate) struct FindArgs {
    /// Files, block devices, or directories of them or of links to them; by default /dev/disk/by-id and /dev.
    #[arg(value_name = "MEMBER")]
    members: Vec<PathBuf>,
    /// Serve the pool if it can be, as `sinew serve` does.
    #[arg(long, conflicts_with = "json")]
    serve: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    listen: Listen,
}

/// Everything found.
#[derive(Serialize)]
struct Overview {
    pools: Vec<PoolView>,
    /// Members of no pool.
    others: Vec<OtherView>,
}

#[derive(Serialize)]
struct PoolView {
    pool: String,
    uuid: String,
    protection: String,
    /// Members it has, those that are here and usable, and those it needs at least.
    members: usize,
    usable: usize,
    needed: usize,
    can_be_served: bool,
    served: bool,
    /// The host that has it open for writing, or did not stop it.
    open_on: Option<HostView>,
    volumes: Vec<String>,
    found: Vec<FoundView>,
    missing: Vec<MissingView>,
}

#[derive(Serialize)]
struct HostView {
    host: String,
    since: Option<String>,
    is_this_host: bool,
    #[serde(skip)]
    in_words: String,
}

impl HostView {
    fn new(record: &HostRecord, is_this_host: bool) -> HostView {
        let (host, since) = (record.name.clone(), this_host::since(record));
        HostView { host, since, is_this_host, in_words: this_host::in_words(record) }
    }
}

#[derive(Serialize)]
struct FoundView {
    path: String,
    member: usize,
    state: &'static str,
}

#[derive(Serialize)]
struct MissingView {
    member: usize,
    state: &'static str,
    last_seen: String,
}

#[derive(Serialize)]
struct OtherView {
    path: String,
    what: String,
}

/// A member's superblock, and whether a server has it.
struct Member {
    path: String,
    superblock: Superblock,
    in_use: bool,
}

/// Runs the command.
///
/// # Errors
/// When a path cannot be listed, there is no pool, or with `--serve` the pool cannot be served.
pub(crate) fn run(args: FindArgs) -> Result<()> {
    let named = if args.members.is_empty() { members::places_of_devices() } else { args.members };
    let overview = look(&named)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&overview)?);
    } else {
        print(&overview);
        if overview.pools.is_empty() {
            let named: Vec<_> = named.iter().map(|path| path.display().to_string()).collect();
            bail!("no pool found in {}", named.join(", "));
        }
    }
    if !args.serve {
        return Ok(());
    }
    match overview.pools.as_slice() {
        [one] if one.can_be_served => {}
        [one] => bail!("pool {} cannot be served", one.pool),
        _ => bail!("these are members of several pools; name those of one"),
    }
    serve(Source::Named(named), Kind::Pool, args.listen, |open, ready| {
        for uri in open.control.catalog().names().iter().flat_map(|name| ready.uris(name)) {
            say!("serving {uri}");
        }
    })
}

fn look(named: &[PathBuf]) -> Result<Overview> {
    let devices = Devices::new();
    let mut pools: BTreeMap<Uuid, Vec<Member>> = BTreeMap::new();
    let mut others = Vec::new();
    for path in members::expand(named)? {
        let name = path.display().to_string();
        match members::superblock(&devices, &path) {
            Ok(Seen { superblock, in_use }) => {
                let member = Member { path: name, superblock, in_use };
                pools.entry(member.superblock.config.pool).or_default().push(member);
            }
            Err(error) => others.push(OtherView { path: name, what: error.to_string() }),
        }
    }
    Ok(Overview { pools: pools.into_values().filter_map(|members| view(&members)).collect(), others })
}

fn view(members: &[Member]) -> Option<PoolView> {
    let newest = members.iter().max_by_key(|m| m.superblock.config.age())?;
    let config: &Config = &newest.superblock.config;
    let mut usable = vec![false; config.members.len()];
    let mut found = Vec::new();
    for m in members {
        let uuid = m.superblock.config.members[usize::from(m.superblock.member)].uuid;
        let found_at = config.members.iter().position(|entry| entry.uuid == uuid);
        let index = found_at.unwrap_or(usize::from(m.superblock.member));
        let state = match found_at.map(|i| &config.members[i]) {
            None => "replaced, not used any more",
            Some(_) if !config.has_opening(m.superblock.config.openings.last()) => "diverged from the others",
            Some(_) if usable[index] => "a copy of another member",
            Some(entry) => {
                usable[index] = entry.state.takes_part() || entry.state == MemberState::Missing;
                entry.state.name()
            }
        };
        found.push(FoundView { path: m.path.clone(), member: index, state });
    }
    let wanted = |m: MemberState| m != MemberState::Removed;
    let absent = config
        .members
        .iter()
        .enumerate()
        .filter(|(i, m)| wanted(m.state) && !found.iter().any(|f| f.member == *i));
    let missing: Vec<MissingView> = absent
        .map(|(member, m)| MissingView { member, state: m.state.name(), last_seen: m.path.clone() })
        .collect();
    let places: Vec<usize> = (0..config.members.len()).filter(|&i| config.has_place(i)).collect();
    let lost: Vec<bool> = (0..config.members.len()).map(|i| config.has_place(i) && !usable[i]).collect();
    let survives = config.survives(&lost);
    let count = places.len();
    let usable = count - lost.iter().filter(|l| **l).count();
    let needed = count - config.geometry.failures().min(count);
    let served = members.iter().any(|m| m.in_use);
    let is_this_host = this_host::opener().other_host(config).is_none();
    let open_on = config.open_on.as_ref().map(|record| HostView::new(record, is_this_host));
    let may_open = open_on.as_ref().is_none_or(|host| host.is_this_host);
    let copied = found.iter().any(|f| f.state == "a copy of another member");
    Some(PoolView {
        pool: config.name.clone(),
        uuid: uuid_text(&config.pool),
        protection: config.geometry.name(),
        members: count,
        usable,
        needed,
        can_be_served: survives && !served && !copied && may_open,
        served,
        open_on,
        volumes: config.volumes.iter().filter(|v| !v.deleting).map(|v| v.name.clone()).collect(),
        found,
        missing,
    })
}

fn print(overview: &Overview) {
    for p in &overview.pools {
        let verdict = match p {
            _ if p.served => "is in use by a server".to_owned(),
            _ if p.can_be_served && p.usable == p.members => "can be served".to_owned(),
            _ if p.can_be_served => format!("can be served without {} of its members", p.members - p.usable),
            PoolView { open_on: Some(host), .. } if !host.is_this_host => {
                "cannot be served here: another host has it open, or did not stop it".to_owned()
            }
            _ if p.usable >= p.needed => {
                "cannot be served: two members are copies of one; leave one out".to_owned()
            }
            _ => format!(
                "cannot be served: {} of {} members are usable and it needs {}",
                p.usable, p.members, p.needed
            ),
        };
        say!("pool {} ({}, {} members): {verdict}", p.pool, p.protection, p.members);
        for m in &p.found {
            say!("  member {:<3} {:<9} {}", m.member, m.state, m.path);
        }
        for m in &p.missing {
            say!("  member {:<3} not here  last seen at {}", m.member, m.last_seen);
        }
        if let Some(host) = &p.open_on {
            say!("  open on {}{}", host.in_words, if host.is_this_host { ", which is this one" } else { "" });
        }
        say!("  volumes: {}", if p.volumes.is_empty() { "none".to_owned() } else { p.volumes.join(", ") });
    }
    for other in &overview.others {
        say!("{}: {}", other.path, other.what);
    }
}
