//! A volume as frontends use it: byte-addressed requests whose reply is a return value.

use std::future::Future;

use crate::buf::{Buf, Bufs};

/// A range of a volume, and whether data is stored in it. Unallocated ranges read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub bytes: u64,
    /// Whether the range holds data.
    pub allocated: bool,
}

/// Why a client's request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The range reaches past the volume's end.
    #[error("request reaches past the end of the volume")]
    OutOfRange,
    /// The pool has no room for this write. Reads, flushes, discards and overwrites of stored blocks still succeed.
    #[error("no space left in the pool")]
    NoSpace,
    /// More members failed than the protection covers, or a block has no good copy left.
    #[error("data cannot be read or written: too many failed members or no good copy")]
    Failed,
    /// The pool is served read-only.
    #[error("the pool is served read-only")]
    ReadOnly,
    /// This kind of pool does not support the request.
    #[error("this kind of pool does not support the request")]
    Unsupported,
    /// The volume was deleted or the pool is closing.
    #[error("the volume is gone")]
    Gone,
}

/// A volume as frontends use it. Cheap to clone; every method may run concurrently with any other.
///
/// Any byte offset and length is accepted; whole 4 KiB blocks are the fast path. Each block is read and written
/// atomically, a larger request is not. A write or discard is visible to every request that starts after it returns.
pub trait Volume: Clone + 'static {
    /// Size in bytes, a multiple of 4 KiB. May change while the volume is served.
    fn size_bytes(&self) -> u64;
    /// Reads `len` bytes at `offset`; the parts, in order, add up to `len`.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`] past the end of the volume; [`VolumeError::Failed`] when a block has no good copy left;
    /// [`VolumeError::Gone`] when the volume was deleted or the pool is closing.
    fn read(&self, offset: u64, len: u32) -> impl Future<Output = Result<Bufs, VolumeError>>;
    /// Writes `data` at `offset`; with `fua` it returns only once the data survives power loss.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`] past the end of the volume; [`VolumeError::NoSpace`] when the pool is full;
    /// [`VolumeError::Failed`] when too many members have failed; [`VolumeError::ReadOnly`] in a pool that is served read-only;
    /// [`VolumeError::Gone`] when the volume was deleted or the pool is closing. A block of a failed write holds its
    /// old or its new content.
    fn write(&self, offset: u64, data: Buf, fua: bool) -> impl Future<Output = Result<(), VolumeError>>;
    /// Makes every write that returned before this call survive power loss.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when more members failed than the protection covers; [`VolumeError::Gone`] when the volume was
    /// deleted or the pool is closing. What the flush was to cover may then not be durable.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;
    /// Frees the whole blocks inside the range; they read as zeros. Partial blocks at the edges keep their content.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), VolumeError>>;
    /// Makes the range read as zeros and frees its whole blocks; partial blocks at the edges are overwritten with zeros.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    fn write_zeroes(&self, offset: u64, len: u64, fua: bool)
    -> impl Future<Output = Result<(), VolumeError>>;
    /// The extents of the range, in order; they add up to `len`, and adjacent extents of the same kind are merged.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`] past the end of the volume; [`VolumeError::Gone`] when the volume was deleted or the pool is
    /// closing.
    fn status(&self, offset: u64, len: u64) -> impl Future<Output = Result<Vec<Extent>, VolumeError>>;
}
