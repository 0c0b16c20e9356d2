//! Finding a pool again on its members.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::ids::uuid_text;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_format::codec::DecodeError;
use sinew_format::model::config::{Config, MemberConfig, MemberState};
use sinew_format::superblock::Superblock;
use sinew_members::full_members::RETRY_NS;
use sinew_members::open_mode::OpenMode;

use crate::pool::candidate::Candidate;
use crate::pool::error::PoolError;
use crate::pool::found::{Found, has_last_resort};
use crate::pool::opener::Opener;
use crate::pool::superblocks::{NextSlots, read_newest, too_small, write_in_time};

/// Attempts to store the configuration while members are full.
const SPACE_ATTEMPTS: u32 = 50;

/// Finds the one pool that the devices belong to and begins a new epoch of it on its active members, which record the
/// opener's host.
///
/// # Errors
/// When there is no pool, or several, another host has it open, a later version of Sinew has written to a member, or too many
/// members are missing; the error names each member concerned.
pub async fn discover<I: Io>(io: &I, devices: &[Candidate], opener: &Opener) -> Result<Found, PoolError> {
    let mut found = find(io, devices, OpenMode::ReadWrite, Some(opener)).await?;
    store(io, Rc::make_mut(&mut found.config), &found.devices, &found.slots).await?;
    Ok(found)
}

/// As [`discover`], to be opened read-only: nothing is written. A mapped pool with checksums is found with more members missing
/// than it survives, too, if any is there.
///
/// # Errors
/// As for [`discover`].
pub async fn discover_read_only<I: Io>(io: &I, devices: &[Candidate]) -> Result<Found, PoolError> {
    find(io, devices, OpenMode::ReadOnly, None).await
}

/// As [`discover_read_only`], to be opened as a last resort, although no member more is missing than the pool survives: its tables
/// or its journal are damaged ([`Found::has_last_resort`]).
///
/// # Errors
/// As for [`discover`].
pub async fn discover_as_last_resort<I: Io>(io: &I, devices: &[Candidate]) -> Result<Found, PoolError> {
    find(io, devices, OpenMode::LastResort, None).await
}

/// Finds a pool. An opener is there where it is to be written.
async fn find<I: Io>(
    io: &I,
    devices: &[Candidate],
    mode: OpenMode,
    opener: Option<&Opener>,
) -> Result<Found, PoolError> {
    let slots = NextSlots::default();
    let (superblocks, mut warnings) = read_all(io, devices, &slots).await?;
    let was_cut_off = |config: &Config| {
        superblocks.iter().any(|(_, other)| config.was_cut_off(&other.config, usize::from(other.member)))
    };
    // What came about goes before what did not, and then what is newer.
    let rank = |s: &&(&Candidate, Superblock)| (!was_cut_off(&s.1.config), s.1.config.age());
    let Some(newest) = superblocks.iter().max_by_key(rank) else {
        return Err(PoolError::NotFound(warnings));
    };
    let mut config = newest.1.config.clone();
    if superblocks.iter().any(|s| s.1.config.pool != config.pool) {
        let name = |s: &(&Candidate, Superblock)| {
            format!("{} is of {} ({})", s.0.path, s.1.config.name, uuid_text(&s.1.config.pool))
        };
        return Err(PoolError::SeveralPools(superblocks.iter().map(name).collect()));
    }
    // What the newest one says counts: a host that has stopped the pool need not have reached all members with that.
    if let Some(opener) = opener {
        opener.refuse_other_host(&config)?;
        config.open_on = opener.host.clone();
    }
    // The next one must be above all that were found.
    config.generation = superblocks.iter().map(|s| s.1.config.generation).max().unwrap_or(config.generation);
    let mut found: Vec<Option<DeviceId>> = vec![None; config.members.len()];
    let mut paths: BTreeMap<usize, String> = BTreeMap::new();
    for (candidate, superblock) in &superblocks {
        // Which member it is says its identity: a spare that took a place may not have heard of that.
        let uuid = superblock.config.members[usize::from(superblock.member)].uuid;
        let Some(index) = config.members.iter().position(|m| m.uuid == uuid) else {
            io.mark(Mark::OpenedWithReplaced);
            warnings.push(format!("{}: has been replaced in this pool and is not used", candidate.path));
            continue;
        };
        if let Some(first) = paths.insert(index, candidate.path.clone()) {
            return Err(PoolError::Duplicate { first, second: candidate.path.clone() });
        }
        let was_cut_off = was_cut_off(&superblock.config);
        if was_cut_off {
            io.mark(Mark::OpenedBesideCutOff);
        }
        if !config.has_opening(superblock.config.last_opening(was_cut_off)) {
            let what = "was used apart from the other members and is not used; replace it to take it back, losing what is on it";
            warnings.push(format!("{}: {what}", candidate.path));
            continue;
        }
        if let Some(why) = too_small(io, candidate.device, &config, index) {
            warnings.push(format!("{}: {why} and is not used", candidate.path));
            continue;
        }
        let member = &mut config.members[index];
        member.path = candidate.path.clone();
        found[index] = Some(candidate.device);
    }
    let mode = match require_enough(&config, &found, &paths, &warnings) {
        Ok(()) if mode == OpenMode::LastResort => {
            warnings.push(last_resort("tables or journal are lost", &config, &found));
            mode
        }
        Ok(()) => mode,
        Err(_) if mode.is_read_only() && has_last_resort(&config) => {
            warnings.push(last_resort("more members are missing than the pool survives", &config, &found));
            OpenMode::LastResort
        }
        Err(error) => return Err(error),
    };
    if mode == OpenMode::LastResort {
        io.mark(Mark::OpenedAsLastResort);
    }
    let epoch = if sinew_core::mutation::on(sinew_core::mutation::Mutation::KeepEpoch) {
        config.epoch.max(1)
    } else {
        config.epoch + 1
    };
    config.epoch = epoch;
    config.push_opening(epoch, io.random());
    // A spare's place may have been taken by a device that is yet to hear of it.
    let is_mapped = config.geometry.mapped().is_some();
    let (mut returned, mut removed) = (Vec::new(), Vec::new());
    for (index, member) in config.members.iter_mut().enumerate() {
        match (member.state, found[index]) {
            (MemberState::Active | MemberState::Leaving, None) => {
                io.mark(Mark::OpenedWithout);
                member.state = MemberState::Missing;
                member.out_epoch = epoch;
            }
            (MemberState::Missing, Some(device)) => returned.push((MemberId(index as u8), device)),
            // The tables know which of its chunks are not up to date.
            (MemberState::Failed | MemberState::Offline, Some(device)) if mode == OpenMode::LastResort => {
                returned.push((MemberId(index as u8), device));
            }
            (MemberState::Removed, Some(device)) if is_mapped && !mode.is_read_only() => {
                removed.push((MemberId(index as u8), device))
            }
            _ => {}
        }
    }
    let devices: Vec<Option<DeviceId>> = config
        .members
        .iter()
        .zip(&found)
        .map(|(m, &d)| d.filter(|_| m.state.takes_part() || m.state == MemberState::Spare))
        .collect();
    Ok(Found {
        config: Rc::new(config),
        devices,
        slots,
        returned,
        removed,
        warnings,
        mode,
        table_cache: None,
        md: None,
    })
}

/// Why a pool is opened as a last resort, what is there of it, and of which age that is.
fn last_resort(why: &str, config: &Config, found: &[Option<DeviceId>]) -> String {
    let line = |(i, m): (usize, &MemberConfig)| match (m.state, found[i]) {
        (MemberState::Removed | MemberState::Spare, _)
        | (MemberState::Active | MemberState::Leaving, Some(_)) => None,
        (state, Some(_)) => Some(format!("member {i} is here and was {}", state.name())),
        (_, None) => Some(format!("member {i}, last seen at {}: not found", m.path)),
    };
    let lines: Vec<String> = config.members.iter().enumerate().filter_map(line).collect();
    format!(
        "{why}; the pool is opened as a last resort: what can be read is read, all else \
         fails, and blocks may have an older content than the last one where the newest tables are lost; the members that \
         are there know of opening {} and change {} of the configuration; {}",
        config.epoch,
        config.generation,
        lines.join("; ")
    )
}

async fn read_all<'a, I: Io>(
    io: &I,
    devices: &'a [Candidate],
    slots: &NextSlots,
) -> Result<(Vec<(&'a Candidate, Superblock)>, Vec<String>), PoolError> {
    let (mut superblocks, mut warnings) = (Vec::new(), Vec::new());
    for candidate in devices {
        match read_newest(io, candidate.device, slots).await {
            Ok(superblock) => superblocks.push((candidate, superblock)),
            // It is not as if it were missing: the others may be older than it.
            Err(error @ DecodeError::Version(_)) => {
                return Err(PoolError::OtherVersion { path: candidate.path.clone(), error });
            }
            Err(error) => warnings.push(format!("{}: {error}", candidate.path)),
        }
    }
    Ok((superblocks, warnings))
}

fn require_enough(
    config: &Config,
    found: &[Option<DeviceId>],
    paths: &BTreeMap<usize, String>,
    warnings: &[String],
) -> Result<(), PoolError> {
    let out = |(i, m): &(usize, &MemberConfig)| match m.state {
        MemberState::Removed | MemberState::Spare => false,
        MemberState::Active | MemberState::Leaving | MemberState::Missing => found[*i].is_none(),
        _ => true,
    };
    let missing: Vec<(usize, &MemberConfig)> = config.members.iter().enumerate().filter(out).collect();
    let mut lost = vec![false; config.members.len()];
    missing.iter().for_each(|(i, _)| lost[*i] = true);
    let failures = config.geometry.failures();
    if config.survives(&lost) {
        return Ok(());
    }
    let line = |&(i, m): &(usize, &MemberConfig)| {
        let state = if found[i].is_some() { m.state.name() } else { "not found" };
        format!("member {i}, last seen at {}: {state}", paths.get(&i).unwrap_or(&m.path))
    };
    let members = missing.iter().map(line).chain(warnings.iter().cloned()).collect();
    Err(PoolError::TooFewMembers {
        pool: config.name.clone(),
        missing: missing.len(),
        failures,
        last_resort: has_last_resort(config),
        members,
    })
}

/// Stores the next generation of the configuration on the given members. Members that are full keep an older one, if more
/// have the new one than the pool survives the loss of; otherwise this waits for space, for a second.
async fn store<I: Io>(
    io: &I,
    config: &mut Config,
    devices: &[Option<DeviceId>],
    slots: &NextSlots,
) -> Result<(), PoolError> {
    config.generation += 1;
    let mut left: Vec<(usize, DeviceId)> =
        devices.iter().enumerate().filter_map(|(index, device)| Some((index, (*device)?))).collect();
    let needed = left.len().min(config.geometry.failures() + 1);
    let (mut stored, mut attempts) = (0, 0);
    loop {
        let mut full = Vec::new();
        let mut refused = None;
        for (index, device) in left {
            match write_in_time(io, device, &config.members[index].path, slots, index, config).await {
                Ok(()) => stored += 1,
                Err(error @ PoolError::Device { error: IoError::NoSpace, .. }) => {
                    io.mark(Mark::ConfigNoSpace);
                    full.push((index, device));
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        attempts += 1;
        match refused {
            Some(error) if stored < needed && attempts == SPACE_ATTEMPTS => return Err(error),
            Some(_) if stored < needed => io.sleep(RETRY_NS).await,
            _ => return Ok(()),
        }
        left = full;
    }
}
