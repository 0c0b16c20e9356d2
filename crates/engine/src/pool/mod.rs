//! Making a pool, and finding one again on its members.

pub mod md_arrays;
pub mod preset;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::pool::md_arrays::MdBlocks;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::ids::{Uuid, uuid_text};
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_format::codec::DecodeError;
use sinew_format::model::array_geometry::{ArrayError, ArrayGeometry, ArraySpec};
use sinew_format::model::config::{Config, MemberConfig, MemberState, VolumeConfig};
use sinew_format::model::mapped_capacity::capacity_blocks;
use sinew_format::model::mapped_geometry::{Geometry, GeometryError, MemberLayout, Protection};
use sinew_format::model::pool_geometry::Shape;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use sinew_members::io_timeout::answered;

/// What a pool is to be.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// Which of the two kinds it is.
    pub kind: PoolKind,
    /// Shards; usually the cores that will serve it.
    pub shards: usize,
    /// Blocks of each journal ring; none for a size suited to the members.
    pub journal_blocks: Option<u32>,
    /// Take devices that hold something else.
    pub force: bool,
}

/// What kind of pool it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// A mapped pool.
    Mapped {
        /// Its protection.
        protection: Protection,
        /// k; 0 for the default.
        data_columns: usize,
        /// Keep and check a checksum of every block.
        checksums: bool,
    },
    /// An array, with its one volume.
    Array(ArraySpec),
}

/// A device offered as a member, and its name for messages.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The device.
    pub device: DeviceId,
    /// What the user calls it.
    pub path: String,
}

/// Why a pool cannot be made or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The array is impossible.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A member is too small for the pool's own reserves.
    #[error(
        "the members are too small: nothing would be left to store data in; give larger members or fewer shards"
    )]
    NoCapacity,
    /// A device belongs to a pool.
    #[error("{path} is already a member of pool {pool}; destroy that pool first, or use --force")]
    InUse {
        /// The device.
        path: String,
        /// The pool's name.
        pool: String,
    },
    /// A device holds something else.
    #[error("{path} is not empty and not a Sinew member; use --force to overwrite what is on it")]
    NotEmpty {
        /// The device.
        path: String,
    },
    /// A device cannot be read or written.
    #[error("{path}: {error}")]
    Device {
        /// The device.
        path: String,
        /// What happened.
        error: IoError,
    },
    /// No device holds a usable superblock.
    #[error("no pool found{}", list(.0))]
    NotFound(Vec<String>),
    /// Devices of several pools were given.
    #[error("the given devices belong to several pools; name the members of one: {}", .0.join("; "))]
    SeveralPools(Vec<String>),
    /// Two devices say that they are the same member.
    #[error("{first} and {second} are copies of the same member; remove one of them")]
    Duplicate {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// Too few members are there.
    #[error("pool {pool} cannot be opened: {missing} of its members are not available and it is sure to survive the loss of {failures}{}", list(.members))]
    TooFewMembers {
        /// The pool's name.
        pool: String,
        /// How many are missing.
        missing: usize,
        /// How many it survives.
        failures: usize,
        /// What is known of each.
        members: Vec<String>,
    },
    /// The configuration does not fit a superblock.
    #[error("{0}")]
    Config(DecodeError),
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// A pool found on its members, not yet opened.
#[derive(Clone, Debug)]
pub struct Found {
    /// The configuration to open it with: this epoch's, and already on the active members.
    pub config: Rc<Config>,
    /// The device of each member that is there.
    pub devices: Vec<Option<DeviceId>>,
    /// Members that are back after having been missing: they can be taken in once the pool is open.
    pub returned: Vec<(MemberId, DeviceId)>,
    /// Members of a mapped pool that nothing is left on, and that the end of the pool kept from being cleared.
    pub removed: Vec<(MemberId, DeviceId)>,
    /// What an operator should know about devices that were not used.
    pub warnings: Vec<String>,
    /// md's superblocks, where they take the place of ours.
    pub md: Option<MdBlocks>,
}

fn random_uuid(io: &impl Io) -> Uuid {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&io.random().to_le_bytes());
    uuid[8..].copy_from_slice(&io.random().to_le_bytes());
    uuid
}

/// Makes a new pool of the devices: writes their superblocks, nothing else.
///
/// # Errors
/// When the shape is impossible, or a device holds something and `force` is not set. Nothing has been written then.
pub async fn create<I: Io>(io: &I, devices: &[Candidate], spec: &PoolSpec) -> Result<Config, PoolError> {
    let mut sizes = Vec::with_capacity(devices.len());
    for candidate in devices {
        sizes.push(device_bytes(io, candidate)?);
        if !spec.force {
            refuse_used(io, candidate).await?;
        }
    }
    let config = match spec.kind {
        PoolKind::Mapped { protection, data_columns, checksums } => {
            new_mapped(io, devices, &sizes, spec, protection, data_columns, checksums)?
        }
        PoolKind::Array(array) => new_array(io, devices, &sizes, spec, &array)?,
    };
    for (index, candidate) in devices.iter().enumerate() {
        wipe(io, candidate).await?;
        write_in_time(io, candidate.device, &candidate.path, index, &config).await?;
    }
    Ok(config)
}

/// The configuration of a new mapped pool.
fn new_mapped(
    io: &impl Io,
    devices: &[Candidate],
    sizes: &[u64],
    spec: &PoolSpec,
    protection: Protection,
    data_columns: usize,
    checksums: bool,
) -> Result<Config, PoolError> {
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let journal =
        spec.journal_blocks.unwrap_or_else(|| Geometry::journal_blocks_for(smallest, spec.shards.max(1)));
    let geometry = Geometry::new(protection, data_columns, spec.shards, checksums, devices.len(), journal)?;
    let mut members = Vec::with_capacity(devices.len());
    for (candidate, &bytes) in devices.iter().zip(sizes) {
        let layout = geometry.member_layout(bytes, devices.len())?;
        members.push(new_member(io, candidate, bytes, layout));
    }
    let chunks: Vec<u64> = members.iter().map(|m| u64::from(m.layout.chunks)).collect();
    geometry.check_chunks(chunks.iter().sum())?;
    if capacity_blocks(&geometry, &chunks) == 0 {
        return Err(PoolError::NoCapacity);
    }
    Ok(new_config(io, spec, Shape::Mapped(geometry), members))
}

/// The configuration of a new array and its volume, which has the array's name.
fn new_array(
    io: &impl Io,
    devices: &[Candidate],
    sizes: &[u64],
    spec: &PoolSpec,
    array: &ArraySpec,
) -> Result<Config, PoolError> {
    let count = devices.len();
    let (members, spares) = (count.saturating_sub(array.spares), array.spares);
    if members == 0 || count > sinew_layout::MEMBERS_MAX as usize {
        return Err(ArrayError::Spares { members: count, spares }.into());
    }
    // Spares too: any of them may take any place.
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let shape = ArrayGeometry::new(array, members, smallest, spec.shards, spec.journal_blocks)?;
    let geometry = ArrayGeometry { log: random_uuid(io), ..shape };
    let new = |(candidate, &bytes)| new_member(io, candidate, bytes, MemberLayout::default());
    let mut all: Vec<MemberConfig> = devices.iter().zip(sizes).map(new).collect();
    all[members..].iter_mut().for_each(|m| m.state = MemberState::Spare);
    let mut config = new_config(io, spec, Shape::Array(geometry), all);
    let (name, bytes) = (spec.name.clone(), geometry.data_bytes());
    config.volumes.push(VolumeConfig { id: VolumeId(0), name, bytes, deleting: false });
    config.volume_next = 1;
    Ok(config)
}

fn new_config(io: &impl Io, spec: &PoolSpec, shape: Shape, members: Vec<MemberConfig>) -> Config {
    Config {
        pool: random_uuid(io),
        name: spec.name.clone(),
        generation: 1,
        epoch: 0,
        shape,
        members,
        volumes: Vec::new(),
        volume_next: 0,
        openings: Vec::new(),
    }
}

/// The configuration of a device about to join a pool.
pub(crate) fn new_member(
    io: &impl Io,
    candidate: &Candidate,
    bytes: u64,
    layout: MemberLayout,
) -> MemberConfig {
    MemberConfig {
        uuid: random_uuid(io),
        bytes,
        layout,
        state: MemberState::Active,
        out_epoch: 0,
        path: candidate.path.clone(),
    }
}

pub(crate) fn device_bytes(io: &impl Io, candidate: &Candidate) -> Result<u64, PoolError> {
    let space = io.space(candidate.device);
    space.map(|s| s.bytes).map_err(|error| PoolError::Device { path: candidate.path.clone(), error })
}

/// Refuses a device that is a member of a pool or holds anything in its first mebibyte.
pub(crate) async fn refuse_used<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    let path = candidate.path.clone();
    if let Ok(superblock) = read_superblock(io, candidate.device).await {
        return Err(PoolError::InUse { path, pool: superblock.config.name });
    }
    let bytes = device_bytes(io, candidate)?.min(1 << 20);
    let read = io.read(candidate.device, 0, Buf::zeroed(bytes as usize / 4096 * 4096));
    let (buf, read) = answered(io, candidate.device, read).await;
    read.map_err(|error| PoolError::Device { path: path.clone(), error })?;
    if buf.bytes().iter().any(|&b| b != 0) { Err(PoolError::NotEmpty { path }) } else { Ok(()) }
}

/// Removes every trace of a superblock, and of what else may have named the device's content.
pub async fn wipe<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    let bytes = device_bytes(io, candidate)?.min(1 << 20) as usize / 4096 * 4096;
    let path = candidate.path.clone();
    let wiped = async {
        io.write(candidate.device, 0, Rc::new([Buf::zeroed(bytes)])).await?;
        io.flush(candidate.device).await
    };
    let wiped = answered(io, candidate.device, wiped).await;
    wiped.map_err(|error| PoolError::Device { path, error })
}

/// As `wipe`, so that a crash leaves a superblock that can still be read, or none: the heads go first, a block each.
pub(crate) async fn clear<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    let heads = async {
        for offset in SLOT_OFFSETS {
            io.write(candidate.device, offset, Rc::new([Buf::zeroed(BLOCK_BYTES)])).await?;
        }
        io.flush(candidate.device).await
    };
    let heads = answered(io, candidate.device, heads).await;
    heads.map_err(|error| PoolError::Device { path: candidate.path.clone(), error })?;
    wipe(io, candidate).await
}

/// Why a superblock could not be written.
pub(crate) enum SuperblockError {
    Io(IoError),
    Encode(DecodeError),
}

impl SuperblockError {
    fn at(self, path: &str) -> PoolError {
        match self {
            SuperblockError::Io(error) => PoolError::Device { path: path.to_owned(), error },
            SuperblockError::Encode(error) => PoolError::Config(error),
        }
    }
}

/// Writes one member's copy of the configuration, durably.
pub(crate) async fn write_superblock<I: Io>(
    io: &I,
    device: DeviceId,
    member: usize,
    config: &Config,
) -> Result<(), SuperblockError> {
    let superblock = Superblock { member: member as u8, config: config.clone() };
    let data = superblock.encode().map_err(SuperblockError::Encode)?;
    let offset = SLOT_OFFSETS[(config.generation % 2) as usize];
    io.write(device, offset, Rc::new([data])).await.map_err(SuperblockError::Io)?;
    io.flush(device).await.map_err(SuperblockError::Io)
}

/// As `write_superblock`, where nobody else looks whether the device answers.
pub(crate) async fn write_in_time<I: Io>(
    io: &I,
    device: DeviceId,
    path: &str,
    member: usize,
    config: &Config,
) -> Result<(), PoolError> {
    let written = answered(io, device, write_superblock(io, device, member, config)).await;
    written.map_err(|error| error.at(path))
}

/// Reads a device's newest intact superblock, or says why there is none.
pub async fn read_superblock<I: Io>(io: &I, device: DeviceId) -> Result<Superblock, DecodeError> {
    let mut best: Result<Superblock, DecodeError> = Err(DecodeError::Foreign);
    for offset in SLOT_OFFSETS {
        let (buf, read) = answered(io, device, io.read(device, offset, Buf::stale(SLOT_BYTES))).await;
        let found = match read {
            Ok(()) => Superblock::decode(buf.bytes()),
            Err(_) => Err(DecodeError::Invalid("superblock: it cannot be read")),
        };
        best = match (best, found) {
            (Ok(a), Ok(b)) => Ok(if b.config.age() > a.config.age() { b } else { a }),
            (Ok(a), Err(_)) => Ok(a),
            (Err(_), Ok(b)) => Ok(b),
            // The more telling of two errors.
            (Err(DecodeError::Foreign), Err(e)) => Err(e),
            (Err(e), Err(_)) => Err(e),
        };
    }
    best
}

/// Finds the one pool that the devices belong to and begins a new epoch of it on its active members.
///
/// # Errors
/// When there is no pool, or several, or too many members are missing; the error names each member concerned.
pub async fn discover<I: Io>(io: &I, devices: &[Candidate]) -> Result<Found, PoolError> {
    let (superblocks, mut warnings) = read_all(io, devices).await;
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
    config.generation = generation_before(newest.1.config.generation, &superblocks);
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
    require_enough(&config, &found, &paths, &warnings)?;
    let epoch = if sinew_core::mutation::on(sinew_core::mutation::Mutation::KeepEpoch) {
        config.epoch.max(1)
    } else {
        config.epoch + 1
    };
    config.epoch = epoch;
    config.push_opening(epoch, io.random());
    // A spare's place may have been taken by a device that is yet to hear of it.
    let is_mapped = config.shape.mapped().is_some();
    let (mut returned, mut removed) = (Vec::new(), Vec::new());
    for (index, member) in config.members.iter_mut().enumerate() {
        match (member.state, found[index]) {
            (MemberState::Active | MemberState::Leaving, None) => {
                io.mark(Mark::OpenedWithout);
                member.state = MemberState::Missing;
                member.out_epoch = epoch;
            }
            (MemberState::Missing, Some(device)) => returned.push((MemberId(index as u8), device)),
            (MemberState::Removed, Some(device)) if is_mapped => {
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
    store(io, &mut config, &devices).await?;
    Ok(Found { config: Rc::new(config), devices, returned, removed, warnings, md: None })
}

/// The generation after which the next one is above all that were found, and goes to the other slot than the newest is in:
/// a torn write must not take that away.
fn generation_before(newest: u64, superblocks: &[(&Candidate, Superblock)]) -> u64 {
    let highest = superblocks.iter().map(|s| s.1.config.generation).max().unwrap_or(newest);
    highest + (highest - newest) % 2
}

/// Whether, and how, a device falls short of what its member is said to hold: somebody has cut it.
pub(crate) fn too_small(io: &impl Io, device: DeviceId, config: &Config, index: usize) -> Option<String> {
    let need = config.end_bytes(index);
    match io.space(device) {
        Ok(space) if space.bytes >= need => None,
        Ok(space) => Some(format!("has {} bytes, fewer than the {need} in use on this member,", space.bytes)),
        Err(error) => Some(error.to_string()),
    }
}

async fn read_all<'a, I: Io>(
    io: &I,
    devices: &'a [Candidate],
) -> (Vec<(&'a Candidate, Superblock)>, Vec<String>) {
    let (mut superblocks, mut warnings) = (Vec::new(), Vec::new());
    for candidate in devices {
        match read_superblock(io, candidate.device).await {
            Ok(superblock) => superblocks.push((candidate, superblock)),
            Err(error) => warnings.push(format!("{}: {error}", candidate.path)),
        }
    }
    (superblocks, warnings)
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
    let failures = config.shape.failures();
    if config.survives(&lost) {
        return Ok(());
    }
    let line = |&(i, m): &(usize, &MemberConfig)| {
        let state = if found[i].is_some() { m.state.name() } else { "not found" };
        format!("member {i}, last seen at {}: {state}", paths.get(&i).unwrap_or(&m.path))
    };
    let members = missing.iter().map(line).chain(warnings.iter().cloned()).collect();
    Err(PoolError::TooFewMembers { pool: config.name.clone(), missing: missing.len(), failures, members })
}

/// Stores the next generation of the configuration on the given members.
async fn store<I: Io>(io: &I, config: &mut Config, devices: &[Option<DeviceId>]) -> Result<(), PoolError> {
    config.generation += 1;
    for (index, device) in devices.iter().enumerate() {
        if let Some(device) = device {
            write_in_time(io, *device, &config.members[index].path, index, config).await?;
        }
    }
    Ok(())
}
