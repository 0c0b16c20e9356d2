//! The superblocks of one device: read and written.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_format::codec::DecodeError;
use sinew_format::model::config::Config;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use sinew_members::io_timeout::answered;

use crate::pool::error::PoolError;

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

/// Like `write_superblock`, with a timeout of its own, for devices that the I/O timeout does not watch.
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

/// Reads a device's newest intact superblock.
///
/// # Errors
/// The reason why neither slot has a superblock.
pub async fn read_superblock<I: Io>(io: &I, device: DeviceId) -> Result<Superblock, DecodeError> {
    let mut best: Result<Superblock, DecodeError> = Err(DecodeError::Foreign);
    for offset in SLOT_OFFSETS {
        let found = answered(io, device, read_slot(io, device, offset)).await;
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

async fn read_slot<I: Io>(io: &I, device: DeviceId, offset: u64) -> Result<Superblock, DecodeError> {
    let (buf, read) = io.read(device, offset, Buf::stale(SLOT_BYTES)).await;
    match read {
        Ok(()) => Superblock::decode(buf.bytes()),
        Err(_) => Err(DecodeError::Invalid("superblock: it cannot be read")),
    }
}

/// Returns why a device is too small for the member that the configuration records on it; `None` if it is large enough.
pub(crate) fn too_small(io: &impl Io, device: DeviceId, config: &Config, index: usize) -> Option<String> {
    let need = config.end_bytes(index);
    match io.space(device) {
        Ok(space) if space.bytes >= need => None,
        Ok(space) => Some(format!("has {} bytes, fewer than the {need} in use on this member,", space.bytes)),
        Err(error) => Some(error.to_string()),
    }
}
