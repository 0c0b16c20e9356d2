//! The superblocks of one device: read, written and wiped.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_format::codec::DecodeError;
use sinew_format::model::config::Config;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use sinew_members::io_timeout::answered;

use crate::pool::candidate::Candidate;
use crate::pool::error::PoolError;

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
    pub(super) fn at(self, path: &str) -> PoolError {
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

/// Whether, and how, a device falls short of what its member is said to hold: somebody has cut it.
pub(crate) fn too_small(io: &impl Io, device: DeviceId, config: &Config, index: usize) -> Option<String> {
    let need = config.end_bytes(index);
    match io.space(device) {
        Ok(space) if space.bytes >= need => None,
        Ok(space) => Some(format!("has {} bytes, fewer than the {need} in use on this member,", space.bytes)),
        Err(error) => Some(error.to_string()),
    }
}
