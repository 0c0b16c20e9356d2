//! An array of a preset with the layer that the preset puts above it.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::preset::Layer;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_layout::Level;
use sinew_sim::{OpenPool, SimIo, SimVolume, World};

use crate::file::spec::LayerSpec;
use crate::system::layer::log::{Log, SegmentGeometry};
use crate::system::layer::md_software::MdSoftware;
use crate::system::layer::nv_buffer::NvBuffer;
use crate::system::layer::store::Store;
use crate::{Error, Result};

/// The one volume of an array.
pub(crate) struct Array {
    volume: SimVolume,
    io: SimIo,
    /// The time of md's software for each write, if it is to be simulated.
    software: Option<RefCell<MdSoftware>>,
}

impl Store for Array {
    fn bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError> {
        self.volume.read(offset, len as u32).await
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        if let Some(software) = &self.software {
            let ns = software.borrow_mut().draw();
            self.io.sleep(ns).await;
        }
        self.volume.write(offset, data, false).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.volume.flush().await
    }
}

/// An array with the layer above it, if there is one.
pub(crate) enum Layered {
    /// The array alone.
    Plain(Array),
    /// A write buffer of non-volatile memory above the array.
    NvBuffer(Rc<NvBuffer<SimIo, Array>>),
    /// A log above the array.
    Log(Rc<Log<SimIo, Array>>),
}

impl Layered {
    /// Starts the layer above the one volume of a part of a preset.
    ///
    /// # Errors
    /// [`Error::Setting`] if the array is too small or too large for a log.
    pub(crate) fn new(
        world: &World,
        part: &OpenPool,
        array: SimVolume,
        layer: Option<Layer>,
        spec: &LayerSpec,
    ) -> Result<Layered> {
        let software = spec.software.then(|| RefCell::new(MdSoftware::new(world.rng("software").bits())));
        let array = Array { volume: array, io: world.io(), software };
        Ok(match layer {
            None => Layered::Plain(array),
            Some(Layer::NvBuffer) => Layered::NvBuffer(NvBuffer::start(world.io(), array, spec.buffer.0)),
            Some(Layer::Log) => {
                let log = Log::start(world.io(), array, segment_geometry(part), spec.spare);
                Layered::Log(log.ok_or_else(|| Error::setting("layer.spare", LOG_DOES_NOT_FIT))?)
            }
        })
    }
}

const LOG_DOES_NOT_FIT: &str =
    "the array is too small, or too large, for a log that keeps this fraction free; change the members";

/// The geometry of the segments on a part, which is an array.
fn segment_geometry(part: &OpenPool) -> SegmentGeometry {
    let PoolGeometry::Array(array) = part.control.config().geometry else {
        unreachable!("layers are above arrays")
    };
    let groups = match array.layout.level() {
        Level::Raid50 { groups, .. } | Level::Raid60 { groups, .. } => groups,
        _ => 1,
    };
    SegmentGeometry { chunk_blocks: array.chunk_blocks(), columns: array.data_columns() as u32, groups }
}

impl Store for Layered {
    fn bytes(&self) -> u64 {
        match self {
            Layered::Plain(array) => array.bytes(),
            Layered::NvBuffer(buffer) => buffer.bytes(),
            Layered::Log(log) => log.bytes(),
        }
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Bufs, VolumeError> {
        match self {
            Layered::Plain(array) => array.read(offset, len).await,
            Layered::NvBuffer(buffer) => buffer.read(offset, len).await,
            Layered::Log(log) => log.read(offset, len).await,
        }
    }

    async fn write(&self, offset: u64, data: Buf) -> Result<(), VolumeError> {
        match self {
            Layered::Plain(array) => array.write(offset, data).await,
            Layered::NvBuffer(buffer) => buffer.write(offset, data).await,
            Layered::Log(log) => log.write(offset, data).await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        match self {
            Layered::Plain(array) => array.flush().await,
            // The buffer is durable.
            Layered::NvBuffer(_) => Ok(()),
            Layered::Log(log) => log.flush().await,
        }
    }
}
