//! What a device holds before it becomes a member, and how that is erased.
//!
//! A device that holds anything at one of its ends is refused, and so is one with a known signature elsewhere. A device that
//! becomes a member, and one that ceases to be one, is erased at the same places, so that no foreign tool finds the former
//! content there.

use std::ops::Range;
use std::rc::Rc;
use std::slice;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_format::foreign::{self, Content, Extent, Image};
use sinew_format::superblock::SLOT_OFFSETS;
use sinew_members::io_timeout::answered;

use crate::pool::candidate::Candidate;
use crate::pool::error::PoolError;
use crate::pool::superblocks::read_superblock;

pub(crate) fn device_bytes(io: &impl Io, candidate: &Candidate) -> Result<u64, PoolError> {
    let space = io.space(candidate.device);
    space.map(|s| s.bytes).map_err(|error| PoolError::Device { path: candidate.path.clone(), error })
}

/// Refuses a device that is a member of a pool or holds anything else.
pub(crate) async fn refuse_used<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    let path = candidate.path.clone();
    if let Ok(superblock) = read_superblock(io, candidate.device).await {
        return Err(PoolError::InUse { path, pool: superblock.config.name });
    }
    let content = answered(io, candidate.device, content(io, candidate)).await;
    let content = content.map_err(|error| PoolError::Device { path: path.clone(), error })?;
    if content.is_empty() { Ok(()) } else { Err(PoolError::NotEmpty { path, content }) }
}

async fn content<I: Io>(io: &I, candidate: &Candidate) -> Result<Content, IoError> {
    let tail = Tail::read(io, candidate).await?;
    let extents = read(io, candidate, &foreign::extents(tail.device_bytes()), &tail).await?;
    Ok(foreign::content(tail.device_bytes(), &extents))
}

/// The last bytes of a device, which make no whole block, and the bytes before them.
struct Tail {
    whole_bytes: u64,
    rest: Vec<u8>,
}

impl Tail {
    async fn read<I: Io>(io: &I, candidate: &Candidate) -> Result<Tail, IoError> {
        let whole_bytes = io.space(candidate.device)?.bytes;
        Ok(Tail { whole_bytes, rest: io.read_rest(candidate.device).await? })
    }

    fn device_bytes(&self) -> u64 {
        self.whole_bytes + self.rest.len() as u64
    }

    /// What `read` and `write` reach of a range.
    fn whole(&self, range: &Range<u64>) -> Range<u64> {
        range.start..range.end.min(self.whole_bytes)
    }
}

/// Reads ranges of a device.
async fn read<I: Io>(
    io: &I,
    candidate: &Candidate,
    ranges: &[Range<u64>],
    tail: &Tail,
) -> Result<Vec<Extent>, IoError> {
    let mut extents = Vec::with_capacity(ranges.len());
    for range in ranges {
        let whole = tail.whole(range);
        let mut bytes = Vec::new();
        if !whole.is_empty() {
            let buf = Buf::stale((whole.end - whole.start) as usize);
            let (buf, done) = io.read(candidate.device, whole.start, buf).await;
            done?;
            bytes.extend_from_slice(buf.bytes());
        }
        if range.end > tail.whole_bytes {
            bytes.extend_from_slice(&tail.rest);
        }
        extents.push(Extent { offset: range.start, bytes });
    }
    Ok(extents)
}

/// Erases a device: its superblocks, then all of both ends, and each known signature elsewhere. After a crash it is the member
/// that it was, with all that it held, or none: a device that was written over in part must not come back as that member.
///
/// # Errors
/// When the device cannot be read or written.
pub async fn wipe<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    if !mutation::on(Mutation::WipeTogether) {
        let wiped = answered(io, candidate.device, wipe_superblocks(io, candidate.device)).await;
        wiped.map_err(|error| PoolError::Device { path: candidate.path.clone(), error })?;
    }
    wipe_unused(io, candidate).await
}

/// As `wipe`, of a device that has no superblock, as `refuse_used` has found.
pub(crate) async fn wipe_unused<I: Io>(io: &I, candidate: &Candidate) -> Result<(), PoolError> {
    let wiped = answered(io, candidate.device, wipe_all(io, candidate)).await;
    wiped.map_err(|error| PoolError::Device { path: candidate.path.clone(), error })
}

/// Makes the superblocks of a device invalid: a block of each, which no power loss leaves in part.
async fn wipe_superblocks<I: Io>(io: &I, device: DeviceId) -> Result<(), IoError> {
    for offset in SLOT_OFFSETS {
        io.write(device, offset, Rc::new([Buf::zeroed(BLOCK_BYTES)])).await?;
    }
    io.flush(device).await
}

async fn wipe_all<I: Io>(io: &I, candidate: &Candidate) -> Result<(), IoError> {
    let tail = Tail::read(io, candidate).await?;
    let bytes = tail.device_bytes();
    let mut ranges = foreign::ends(bytes);
    for place in foreign::places_between(bytes) {
        let is_used = match read(io, candidate, slice::from_ref(&place), &tail).await {
            Ok(extents) => !foreign::find(&Image::new(bytes, &extents)).is_empty(),
            // What cannot be read now may be readable later, unless it is overwritten.
            Err(IoError::Failed(_)) => true,
            Err(error) => return Err(error),
        };
        if is_used {
            ranges.push(place);
        }
    }
    for range in ranges {
        let whole = tail.whole(&range);
        if !whole.is_empty() {
            let zeros = Buf::zeroed((whole.end - whole.start) as usize);
            io.write(candidate.device, whole.start, Rc::new([zeros])).await?;
        }
    }
    io.clear_rest(candidate.device).await?;
    io.flush(candidate.device).await
}
