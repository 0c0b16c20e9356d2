//! Making a pool.

use std::rc::Rc;

use sinew_core::ids::Uuid;
use sinew_core::ids::VolumeId;
use sinew_core::io::{DeviceId, Discards, Io, IoError};
use sinew_core::physical::Physical;
use sinew_format::model::array_geometry::{ArrayError, ArrayGeometry, ArraySpec};
use sinew_format::model::config::{Config, MemberConfig, MemberState, VolumeConfig, WEIGHT_FULL};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_capacity::capacity_blocks;
use sinew_format::model::mapped_geometry::{MappedGeometry, MemberLayout, Protection};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_format::page_reach::{PageReach, REACH_SLOTS};
use sinew_members::io_timeout::answered;

use crate::pool::candidate::Candidate;
use crate::pool::content::{device_bytes, refuse_used, wipe, wipe_unused};
use crate::pool::error::PoolError;
use crate::pool::superblocks::{NextSlots, write_in_time};

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
    /// Physical bytes that the pool may use of each device; none for as many as the devices tell.
    pub physical: Option<u64>,
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
    make(io, devices, spec, true).await
}

/// As [`create`], a pool as earlier versions made it: its members do not state how far table pages reach. For tests of such pools.
///
/// # Errors
/// As for [`create`].
pub async fn create_earlier<I: Io>(
    io: &I,
    devices: &[Candidate],
    spec: &PoolSpec,
) -> Result<Config, PoolError> {
    make(io, devices, spec, false).await
}

async fn make<I: Io>(
    io: &I,
    devices: &[Candidate],
    spec: &PoolSpec,
    states_reach: bool,
) -> Result<Config, PoolError> {
    let mut sizes = Vec::with_capacity(devices.len());
    for candidate in devices {
        sizes.push(device_bytes(io, candidate)?);
        if !spec.force {
            refuse_used(io, candidate).await?;
        }
    }
    let mut config = match spec.kind {
        PoolKind::Mapped { protection, data_columns, checksums } => {
            new_mapped(io, devices, &sizes, spec, protection, data_columns, checksums)?
        }
        PoolKind::Array(mut array) => {
            if let Some(elastic) = &mut array.elastic
                && elastic.expect_milli > 1000
                && elastic.physical == 0
            {
                elastic.physical = told_space(io, devices).await?;
            }
            new_array(io, devices, &sizes, spec, &array)?
        }
    };
    config.states_reach &= states_reach;
    if let Some(physical) = spec.physical {
        for (member, candidate) in config.members.iter_mut().zip(devices) {
            require_known_use(io, candidate).await?;
            member.physical = physical;
        }
    }
    let slots = NextSlots::default();
    for (index, candidate) in devices.iter().enumerate() {
        if spec.force {
            wipe(io, candidate).await?
        } else {
            wipe_unused(io, candidate).await?
        }
        if config.states_reach {
            let stated =
                answered(io, candidate.device, state_reaches(io, candidate.device, index, &config)).await;
            stated.map_err(|error| PoolError::Device { path: candidate.path.clone(), error })?;
        }
        write_in_time(io, candidate.device, &candidate.path, &slots, index, &config).await?;
    }
    Ok(config)
}

/// States in the page area of each shard that it holds no page yet. It is durable when the superblock is.
async fn state_reaches<I: Io>(
    io: &I,
    device: DeviceId,
    index: usize,
    config: &Config,
) -> Result<(), IoError> {
    let layout = &config.members[index].layout;
    for shard in 0..config.mapped().shards {
        let reach = PageReach { pool: config.pool, shard: shard as u16, slots: REACH_SLOTS };
        io.write(device, layout.page_offset(shard, 0), Rc::new([reach.encode()])).await?;
    }
    Ok(())
}

/// Refuses a limit of physical space for a device whose use of it cannot be known: one that does not tell it, and does not take
/// back what is freed.
pub(crate) async fn require_known_use(io: &impl Io, candidate: &Candidate) -> Result<(), PoolError> {
    let device = candidate.device;
    if io.discards(device) != Discards::Ignored || io.physical(device).await.is_some() {
        return Ok(());
    }
    Err(PoolError::UnknownUse { path: candidate.path.clone() })
}

/// The least physical space of a device, as the devices tell it; 0 if none has a limit. Those that share space have equal parts
/// of what is free.
async fn told_space(io: &impl Io, devices: &[Candidate]) -> Result<u64, PoolError> {
    let mut told = Vec::with_capacity(devices.len());
    for candidate in devices {
        let unknown = || PoolError::UnknownSpace { path: candidate.path.clone() };
        told.push(io.physical(candidate.device).await.ok_or_else(unknown)?);
    }
    let sharing = |domain| told.iter().filter(|other| other.domain == domain).count() as u64;
    let space = |device: &Physical| Some(device.used + device.free? / sharing(device.domain));
    Ok(told.iter().filter_map(space).min().unwrap_or(0))
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
    let journal_blocks = spec
        .journal_blocks
        .unwrap_or_else(|| MappedGeometry::journal_blocks_for(smallest, spec.shards.max(1)));
    let geometry =
        MappedGeometry { protection, data_columns, shards: spec.shards, checksums, journal_blocks };
    let geometry = geometry.checked_for(devices.len())?;
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
    Ok(new_config(io, spec, PoolGeometry::Mapped(geometry), members))
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
    let mut config = new_config(io, spec, PoolGeometry::Array(geometry), all);
    let (name, bytes) = (spec.name.clone(), geometry.data_bytes());
    config.volumes.push(VolumeConfig::new(VolumeId(0), name, bytes));
    config.volume_next = 1;
    Ok(config)
}

fn new_config(io: &impl Io, spec: &PoolSpec, shape: PoolGeometry, members: Vec<MemberConfig>) -> Config {
    Config {
        pool: random_uuid(io),
        name: spec.name.clone(),
        generation: 1,
        epoch: 0,
        states_reach: shape.mapped().is_some(),
        geometry: shape,
        members,
        volumes: Vec::new(),
        volume_next: 0,
        openings: Vec::new(),
        damage: Vec::new(),
        elastic_policy: ElasticPolicy::DEFAULT,
        open_on: None,
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
        physical: 0,
        weight: WEIGHT_FULL,
    }
}
