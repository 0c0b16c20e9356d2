//! The superblocks of one device: read and written.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_core::mutation::{self, Mutation};
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

/// The slot of each device that its next superblock goes to: not the one with its newest intact superblock.
///
/// A device without space writes the first blocks of a superblock and refuses the rest, which damages the slot. Slots that
/// took turns with each generation would both be damaged by two refused writes.
#[derive(Clone, Debug, Default)]
pub struct NextSlots(RefCell<BTreeMap<DeviceId, usize>>);

impl NextSlots {
    /// The slot to be written. A device without superblocks begins with either.
    fn of(&self, device: DeviceId) -> usize {
        self.0.borrow().get(&device).copied().unwrap_or(0)
    }

    /// Notes that this slot has the newest intact superblock of the device.
    fn holds_newest(&self, device: DeviceId, slot: usize) {
        self.0.borrow_mut().insert(device, 1 - slot);
    }
}

/// Writes one member's copy of the configuration, durably.
pub(crate) async fn write_superblock<I: Io>(
    io: &I,
    device: DeviceId,
    slots: &NextSlots,
    member: usize,
    config: &Config,
) -> Result<(), SuperblockError> {
    let superblock = Superblock { member: member as u8, config: config.clone() };
    let data = superblock.encode().map_err(SuperblockError::Encode)?;
    let slot = slots.of(device);
    let written = write_durably(io, device, SLOT_OFFSETS[slot], data).await;
    if written.is_ok() || mutation::on(Mutation::AlternateSlots) {
        slots.holds_newest(device, slot);
    }
    written.map_err(SuperblockError::Io)
}

/// Writes to a device and flushes it, also if it has no space: recovery takes what it reads there for durable, and a process
/// that was killed may have left data in the cache of the device.
pub(crate) async fn write_durably<I: Io>(
    io: &I,
    device: DeviceId,
    offset: u64,
    data: Buf,
) -> Result<(), IoError> {
    let written = io.write(device, offset, Rc::new([data])).await;
    if written.is_ok() || written == Err(IoError::NoSpace) && !mutation::on(Mutation::LeaveFullUnflushed) {
        io.flush(device).await?;
    }
    written
}

/// Like `write_superblock`, with a timeout of its own, for devices that the I/O timeout does not watch.
pub(crate) async fn write_in_time<I: Io>(
    io: &I,
    device: DeviceId,
    path: &str,
    slots: &NextSlots,
    member: usize,
    config: &Config,
) -> Result<(), PoolError> {
    let written = answered(io, device, write_superblock(io, device, slots, member, config)).await;
    written.map_err(|error| error.at(path))
}

/// Reads a device's newest intact superblock.
///
/// # Errors
/// The reason why neither slot has a superblock. [`DecodeError::Version`] if either has an intact one of a version that is not
/// known: a later version may have stored since what this one does not know.
pub async fn read_superblock<I: Io>(io: &I, device: DeviceId) -> Result<Superblock, DecodeError> {
    read_newest(io, device, &NextSlots::default()).await
}

/// As [`read_superblock`], and notes its slot.
pub(crate) async fn read_newest<I: Io>(
    io: &I,
    device: DeviceId,
    slots: &NextSlots,
) -> Result<Superblock, DecodeError> {
    let mut best: Result<(Superblock, usize), DecodeError> = Err(DecodeError::Foreign);
    for (slot, offset) in SLOT_OFFSETS.into_iter().enumerate() {
        let found = answered(io, device, read_slot(io, device, offset)).await.map(|found| (found, slot));
        best = match (best, found) {
            (Err(later @ DecodeError::Version(_)), _) | (_, Err(later @ DecodeError::Version(_))) => {
                Err(later)
            }
            (Ok(a), Ok(b)) => Ok(if b.0.config.age() > a.0.config.age() { b } else { a }),
            (Ok(a), Err(_)) => Ok(a),
            (Err(_), Ok(b)) => Ok(b),
            // The more telling of two errors.
            (Err(DecodeError::Foreign), Err(e)) => Err(e),
            (Err(e), Err(_)) => Err(e),
        };
    }
    let (superblock, slot) = best?;
    slots.holds_newest(device, slot);
    Ok(superblock)
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
