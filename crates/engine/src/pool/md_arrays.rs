//! md's arrays: found by md's own superblocks, which are then the configuration that is kept durable, in place of ours.
//!
//! Opened read-only, nothing at all is written to the members. Otherwise it is done as md does it: before the first write
//! every superblock says, durably, that redundancy may be wrong (`resync_offset` 0), and only after everything is durable
//! again that it is right. Each change counts one event, so that after a crash between the writes of two superblocks no
//! member is more than one event behind, which assembly allows. Taking a member out counts two, one after the other: a
//! member that missed writes is never taken for one that only missed the last count.

use std::rc::Rc;

use sinew_layout::md::{
    Array, LeftOut, MdError as BlockError, SUPERBLOCK_BYTES, Superblock, Version, bitmap_events,
};

use crate::pool::candidate::Candidate;
use crate::pool::found::Found;
use crate::pool::md_superblocks::{Block, MdBlocks};
use crate::pool::superblocks::NextSlots;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::VolumeId;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_format::model::array_geometry::{Access, ArrayError, ArrayGeometry};
use sinew_format::model::config::{Config, MemberConfig, MemberState, VolumeConfig, WEIGHT_FULL};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::name;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::io_timeout::answered;
use sinew_members::open_mode::OpenMode;

/// How an array of md's is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct MdOptions {
    /// Whether it may be written.
    pub access: Access,
    /// Write it even when md would not start it, or a member is only partly recovered.
    pub force: bool,
    /// Shards at most.
    pub shards: usize,
    /// The time, in seconds since 1970, that superblocks are stamped with.
    pub seconds: u64,
}

/// Why an array of md's cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MdError {
    /// A device cannot be read.
    #[error("{path}: {error}")]
    Device {
        /// The device.
        path: String,
        /// What happened.
        error: IoError,
    },
    /// A device has no superblock that can be used.
    #[error("{path}: {error}")]
    Block {
        /// The device.
        path: String,
        /// What is wrong with it.
        error: BlockError,
    },
    /// A device has a superblock at both places.
    #[error(
        "{0} has an md superblock of version 1.0 and one of version 1.2; remove the stale one with mdadm --zero-superblock"
    )]
    TwoBlocks(String),
    /// The members make no array that can be used.
    #[error("{error}{}", numbered(.paths))]
    Array {
        /// Why.
        error: BlockError,
        /// The members in the order in which it counts them.
        paths: Vec<String>,
    },
    /// The array cannot be served.
    #[error("this md array cannot be served: {0}")]
    PoolGeometry(#[from] ArrayError),
    /// Data does not begin at a whole block.
    #[error(
        "{path}: its data begins at byte {origin}, which is not a multiple of 4096; that is not supported"
    )]
    Origin {
        /// The device.
        path: String,
        /// Where its data begins.
        origin: u64,
    },
    /// A member is smaller than its superblock says.
    #[error("{path} has {have} bytes, fewer than the {need} that its superblock speaks of")]
    TooSmall {
        /// The device.
        path: String,
        /// Its size.
        have: u64,
        /// What is used of it.
        need: u64,
    },
    /// Too few members are there.
    #[error("array {name} cannot be served: {missing} of its {members} members are not there or not up to date{}", lines(.notes))]
    TooFewMembers {
        /// The array's name.
        name: String,
        /// Members missing.
        missing: usize,
        /// Members it should have.
        members: usize,
        /// What is known of those given.
        notes: Vec<String>,
    },
    /// It was not closed, a member is missing, and it would be written.
    #[error(
        "array {0} was not stopped cleanly and a member is missing, so blocks of that member may be wrong even if they were not written; \
         serve it read-only, or say --force to go on with what there is"
    )]
    DirtyDegraded(String),
    /// A member is being recovered and the array would be written.
    #[error(
        "{path} is only partly recovered: let md finish that, serve the array read-only, or say --force to go on without it"
    )]
    Recovering {
        /// The device.
        path: String,
    },
}

fn numbered(paths: &[String]) -> String {
    let numbered: Vec<String> = paths.iter().enumerate().map(|(i, path)| format!("{i}: {path}")).collect();
    format!(" ({})", numbered.join(", "))
}

fn lines(notes: &[String]) -> String {
    notes.iter().map(|note| format!("\n  {note}")).collect()
}

/// An array of md's as its members describe it.
#[derive(Clone, Debug)]
pub struct MdArray {
    /// What the superblocks say together.
    pub array: Array,
    /// Their freshest name, without the host.
    pub name: String,
    /// The identity of the array.
    pub uuid: [u8; 16],
    /// What an operator should know about devices that were not used.
    pub warnings: Vec<String>,
    blocks: Vec<Block>,
}

/// Reads the superblocks of an array's members and puts them together.
///
/// # Errors
/// When they are not of one array, or of one that cannot be served; the text says why.
pub async fn examine<I: Io>(io: &I, devices: &[Candidate]) -> Result<MdArray, MdError> {
    let mut blocks = Vec::with_capacity(devices.len());
    for candidate in devices {
        blocks.push(read_block(io, candidate).await?);
    }
    let superblocks: Vec<Superblock> = blocks.iter().map(|block| block.superblock.clone()).collect();
    let paths = || devices.iter().map(|candidate| candidate.path.clone()).collect();
    let mut array =
        Array::assemble(&superblocks).map_err(|error| MdError::Array { error, paths: paths() })?;
    let mut warnings: Vec<String> =
        array.left_out.iter().map(|(index, why)| left_out(&devices[*index].path, *why)).collect();
    for seat in &mut array.seats {
        if let Some(partly) = seat.take_if(|seat| seat.recovered.is_some()) {
            let path = &devices[partly.index].path;
            warnings.push(format!("{path}: only partly recovered, so it is not used"));
        }
    }
    let newest = superblocks.iter().max_by_key(|block| block.events());
    let first = newest.ok_or(MdError::Array { error: BlockError::Empty, paths: Vec::new() })?;
    Ok(MdArray { name: name_of(first), uuid: first.set_uuid(), array, warnings, blocks })
}

fn left_out(path: &str, why: LeftOut) -> String {
    match why {
        LeftOut::Spare => format!("{path}: a spare; it is left alone"),
        why => format!("{path}: {why}, so it is not used"),
    }
}

/// The array's name without its host, fit for a file's name.
fn name_of(block: &Superblock) -> String {
    let name = block.set_name();
    let name = name.rsplit(':').next().unwrap_or_default();
    name::fitting(name, "md")
}

async fn read_block<I: Io>(io: &I, candidate: &Candidate) -> Result<Block, MdError> {
    let path = &candidate.path;
    let failed = |error| MdError::Device { path: path.clone(), error };
    let bytes = io.space(candidate.device).map_err(failed)?.bytes;
    let mut found: Option<Result<Block, BlockError>> = None;
    for version in [Version::V1_2, Version::V1_0] {
        let Some(offset) = version.offset(bytes) else { continue };
        let read = io.read(candidate.device, offset, Buf::stale(SUPERBLOCK_BYTES));
        let (buf, read) = answered(io, candidate.device, read).await;
        read.map_err(failed)?;
        let parsed = Superblock::parse(buf.bytes(), offset).map(|superblock| Block { superblock, offset });
        found = Some(match (found, parsed) {
            (Some(Ok(_)), Ok(_)) => return Err(MdError::TwoBlocks(path.clone())),
            (Some(Ok(block)), Err(_)) | (_, Ok(block)) => Ok(block),
            // The more telling of two errors.
            (Some(Err(first)), Err(BlockError::Magic(_))) => Err(first),
            (_, Err(error)) => Err(error),
        });
    }
    let found = found.unwrap_or(Err(BlockError::Short(bytes as usize)));
    found.map_err(|error| MdError::Block { path: path.clone(), error })
}

/// The events that a member's write-intent bitmap counts; 0 if it has none. Superblocks that are written count more, so that md
/// finds the bitmap out of date.
async fn bitmap_events_of<I: Io>(io: &I, device: DeviceId, block: &Block) -> Result<u64, IoError> {
    let Some(sectors) = block.superblock.bitmap_offset() else { return Ok(0) };
    let at = block.offset.saturating_add_signed(i64::from(sectors) * 512);
    let within = at % BLOCK_BYTES as u64;
    let (buf, read) = answered(io, device, io.read(device, at - within, Buf::stale(BLOCK_BYTES))).await;
    read?;
    Ok(bitmap_events(&buf.bytes()[within as usize..]).unwrap_or(0))
}

/// Finds the array that the devices are members of, to be opened as `options` say. Nothing is written.
///
/// # Errors
/// When there is none, or it cannot be served, or must not be written.
pub async fn discover<I: Io>(io: &I, devices: &[Candidate], options: &MdOptions) -> Result<Found, MdError> {
    let MdArray { array, name, uuid, mut warnings, blocks } = examine(io, devices).await?;
    let even = array.resync_offset.is_none() || array.geometry.tolerates() == 0;
    let geometry = ArrayGeometry::of_md(array.geometry, options.shards, even, options.access)?;
    let mut members = Vec::new();
    let mut used = Vec::new();
    for (role, seat) in array.seats.iter().enumerate() {
        let Some(seat) = seat else {
            members.push(MemberConfig {
                uuid: [0; 16],
                bytes: geometry.end_bytes(),
                layout: MemberLayout::default(),
                state: MemberState::Missing,
                out_epoch: 0,
                path: format!("(role {role} of the array)"),
                physical: 0,
                weight: WEIGHT_FULL,
            });
            used.push((None, None));
            continue;
        };
        let (candidate, block) = (&devices[seat.index], &blocks[seat.index]);
        members.push(member(io, candidate, &block.superblock, seat.data_offset, &geometry)?);
        used.push((Some(candidate.device), Some(block.clone())));
    }
    let lost: Vec<bool> = used.iter().map(|(device, _)| device.is_none()).collect();
    let missing = lost.iter().filter(|&&lost| lost).count();
    if !geometry.survives(&lost) {
        let members = members.len();
        return Err(MdError::TooFewMembers { name, missing, members, notes: warnings });
    }
    let in_doubt = !even && missing > 0 && geometry.parity_columns() > 0;
    if options.access == Access::ReadWrite {
        if in_doubt && !options.force {
            return Err(MdError::DirtyDegraded(name));
        }
        let partly = blocks.iter().position(|block| block.superblock.recovery_offset().is_some());
        if let Some(index) = partly.filter(|_| !options.force) {
            return Err(MdError::Recovering { path: devices[index].path.clone() });
        }
    }
    if in_doubt {
        warnings.push(format!(
            "array {name} was not stopped cleanly and a member is missing: blocks of that member may be wrong"
        ));
    }
    let mut events = array.events;
    for ((device, block), member) in used.iter().zip(&members) {
        if let (Some(device), Some(block)) = (device, block) {
            let counted = bitmap_events_of(io, *device, block).await;
            let failed = |error| MdError::Device { path: member.path.clone(), error };
            events = events.max(counted.map_err(failed)?);
        }
    }
    let (devices, blocks) = used.into_iter().unzip();
    let md = MdBlocks {
        access: options.access,
        blocks,
        events,
        resync_offset: array.resync_offset,
        declared: false,
        epoch_seconds: options.seconds.saturating_sub(io.now() / 1_000_000_000),
    };
    let volume = VolumeConfig::new(VolumeId(0), name.clone(), geometry.data_bytes());
    let config = Config {
        pool: uuid,
        name,
        generation: 1,
        epoch: 1,
        geometry: PoolGeometry::Array(geometry),
        members,
        volumes: vec![volume],
        volume_next: 1,
        openings: Vec::new(),
        damage: Vec::new(),
        elastic_policy: ElasticPolicy::DEFAULT,
        open_on: None,
        states_reach: false,
    };
    Ok(Found {
        config: Rc::new(config),
        devices,
        slots: NextSlots::default(),
        returned: Vec::new(),
        removed: Vec::new(),
        warnings,
        mode: OpenMode::ReadWrite,
        table_cache: None,
        md: Some(md),
    })
}

fn member(
    io: &impl Io,
    candidate: &Candidate,
    superblock: &Superblock,
    origin: u64,
    geometry: &ArrayGeometry,
) -> Result<MemberConfig, MdError> {
    let path = candidate.path.clone();
    if !origin.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(MdError::Origin { path, origin });
    }
    let space = io.space(candidate.device);
    let have = space.map_err(|error| MdError::Device { path: path.clone(), error })?.bytes;
    let need = origin.saturating_add(geometry.end_bytes());
    if have < need {
        return Err(MdError::TooSmall { path, have, need });
    }
    Ok(MemberConfig {
        uuid: superblock.device_uuid(),
        bytes: have,
        layout: MemberLayout { origin, ..MemberLayout::default() },
        state: MemberState::Active,
        out_epoch: 0,
        path,
        physical: 0,
        weight: WEIGHT_FULL,
    })
}
