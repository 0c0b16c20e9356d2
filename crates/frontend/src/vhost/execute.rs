//! Carries a command out on the volume.

use sinew_core::buf::Buf;
use sinew_core::volume::{Volume, VolumeError};

use super::chain::Chain;
use super::memory::Guest;
use super::request::{Command, HEADER_BYTES, Range, Status};
use super::terms::Terms;
use crate::zeroes::store_zeroes;

/// Carries out a command, but for its status. Returns the status, and the bytes of the room that were filled.
pub(super) async fn execute<V: Volume>(
    volume: &V,
    command: Command,
    chain: &Chain,
    memory: &Guest,
    terms: &Terms,
) -> (Status, u32) {
    match command {
        Command::Read { offset, len } => match volume.read(offset, len).await {
            Ok(data) if chain.write_bufs(memory, &data) => (Status::Ok, len),
            Ok(_) | Err(_) => (Status::Failed, 0),
        },
        Command::Write { offset, len } => {
            let mut data = Buf::stale(len as usize);
            if !chain.read(memory, HEADER_BYTES, data.bytes_mut()) {
                return (Status::Failed, 0);
            }
            (status_of(volume.write(offset, data, terms.write_through).await), 0)
        }
        Command::Flush => (status_of(volume.flush().await), 0),
        // Rare, and held on the heap: every request takes the room of the largest.
        Command::Discard(ranges) => (status_of(Box::pin(discard(volume, ranges, terms)).await), 0),
        Command::WriteZeroes(ranges) => (status_of(Box::pin(write_zeroes(volume, ranges, terms)).await), 0),
        Command::Serial => {
            // The buffer of the driver may be shorter: the serial number is cut off.
            let len = terms.serial.len().min(chain.room_bytes as usize);
            let written = chain.write(memory, [&terms.serial[..len]]);
            if written { (Status::Ok, len as u32) } else { (Status::Failed, 0) }
        }
    }
}

async fn discard<V: Volume>(volume: &V, ranges: Vec<Range>, terms: &Terms) -> Result<(), VolumeError> {
    for range in ranges {
        volume.discard(range.offset, range.len).await?;
    }
    if terms.write_through { volume.flush().await } else { Ok(()) }
}

async fn write_zeroes<V: Volume>(volume: &V, ranges: Vec<Range>, terms: &Terms) -> Result<(), VolumeError> {
    for range in ranges {
        if range.offset + range.len > volume.size_bytes() {
            return Err(VolumeError::OutOfRange);
        }
        if range.may_free {
            volume.write_zeroes(range.offset, range.len, terms.write_through).await?;
        } else {
            store_zeroes(volume, range.offset, range.len, terms.write_through).await?;
        }
    }
    Ok(())
}

fn status_of(result: Result<(), VolumeError>) -> Status {
    match result {
        Ok(()) => Status::Ok,
        Err(VolumeError::Unsupported) => Status::Unsupported,
        Err(_) => Status::Failed,
    }
}
