//! Zeros written as data, for clients that want a range to stay allocated.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::{Volume, VolumeError};

/// Zeros written at once, at most.
pub(crate) const ZEROES_BYTES: u64 = 1 << 20;

/// Writes zeros as data, so that the range stays allocated.
pub(crate) async fn store_zeroes<V: Volume>(
    volume: &V,
    offset: u64,
    len: u64,
    fua: bool,
) -> Result<(), VolumeError> {
    let end = offset + len;
    let zeroes = Buf::zeroed(ZEROES_BYTES.min(len) as usize);
    let block = BLOCK_BYTES as u64;
    let mut at = offset;
    while at < end {
        // Pieces end on a block, so only the first and the last can touch part of one.
        let piece_end = ((at + ZEROES_BYTES) / block * block).min(end);
        volume.write(at, zeroes.slice(0, (piece_end - at) as usize), false).await?;
        at = piece_end;
    }
    if fua { volume.flush().await } else { Ok(()) }
}
