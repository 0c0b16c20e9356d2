//! What a preset puts between its volumes and its array.
//!
//! Layers are for simulations: they stand for hardware, or for a design, that the server does not offer. They keep what
//! they are given, so that tests can hold them to a naive model, but nothing of them survives the end of a run.

use sinew_engine::buf::Buf;
use sinew_engine::client::VolumeHandle;
use sinew_engine::preset::Layer;
use sinew_engine::volume::{Volume, VolumeError};
use sinew_sim::{OpenPool, SimIo, World};

use crate::Result;
use crate::spec::LayerSpec;

/// Bytes at places; whole blocks only.
pub(crate) trait Store: 'static {
    /// How many there are.
    fn bytes(&self) -> u64;
    /// Reads; the parts, in order, add up to the length.
    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError>;
    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError>;
    async fn flush(&self) -> Result<(), VolumeError>;
}

/// The one volume of an array.
pub(crate) struct Array(VolumeHandle<SimIo>);

impl Store for Array {
    fn bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
        self.0.read(offset, len as u32).await
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        self.0.write(offset, data, false).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush().await
    }
}

/// An array, with the layer above it if there is one.
pub(crate) enum Layered {
    Plain(Array),
}

impl Layered {
    pub(crate) fn new(
        _world: &World,
        array: VolumeHandle<SimIo>,
        _layer: Option<Layer>,
        _spec: &LayerSpec,
        _part: &OpenPool,
    ) -> Result<Layered> {
        Ok(Layered::Plain(Array(array)))
    }
}

impl Store for Layered {
    fn bytes(&self) -> u64 {
        match self {
            Layered::Plain(array) => array.bytes(),
        }
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
        match self {
            Layered::Plain(array) => array.read(offset, len).await,
        }
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        match self {
            Layered::Plain(array) => array.write(offset, data).await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        match self {
            Layered::Plain(array) => array.flush().await,
        }
    }
}
