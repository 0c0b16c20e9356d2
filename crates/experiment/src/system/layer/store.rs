//! The interface of arrays and layers: bytes that are read and written in whole blocks.

use sinew_core::buf::{Buf, Bufs};
use sinew_core::volume::VolumeError;

/// An array, or a layer above one. Offsets and lengths are multiples of a block.
pub(crate) trait Store: 'static {
    /// The size in bytes.
    fn bytes(&self) -> u64;

    /// Reads `len` bytes. The lengths of the returned parts, which are in order, add up to `len`.
    ///
    /// # Errors
    /// The error of the volume below.
    async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError>;

    /// Writes the data at an offset.
    ///
    /// # Errors
    /// The error of the volume below. A layer that acknowledges writes before it writes them below returns it for a later
    /// write.
    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError>;

    /// Makes all acknowledged writes durable.
    ///
    /// # Errors
    /// The error of the volume below.
    async fn flush(&self) -> Result<(), VolumeError>;
}
