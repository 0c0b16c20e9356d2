//! What a preset puts between its volumes and its array.
//!
//! Layers are for simulations: they stand for hardware, or for a design, that the server does not offer. They keep what
//! they are given, so that tests can hold them to a naive model, but nothing of them survives the end of a run.

mod log;
mod nv;
mod software;

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::client::VolumeHandle;
use sinew_engine::pool::preset::Layer;
use sinew_format::model::pool_geometry::Shape;
use sinew_layout::Level;
use sinew_sim::{OpenPool, SimIo, World};

use crate::spec::LayerSpec;
use crate::{Error, Result};

use log::{Cut, Log};
use nv::NvBuffer;
use software::Software;

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
pub(crate) struct Array {
    volume: VolumeHandle<SimIo>,
    io: SimIo,
    /// How long its software takes for each write, if that is to count.
    software: Option<RefCell<Software>>,
}

impl Store for Array {
    fn bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
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

/// An array, with the layer above it if there is one.
pub(crate) enum Layered {
    Plain(Array),
    NvBuffer(Rc<NvBuffer<SimIo, Array>>),
    Log(Rc<Log<SimIo, Array>>),
}

impl Layered {
    /// The layer above the one volume of a part.
    pub(crate) fn new(
        world: &World,
        part: &OpenPool,
        array: VolumeHandle<SimIo>,
        layer: Option<Layer>,
        spec: &LayerSpec,
    ) -> Result<Layered> {
        let software = spec.software.then(|| RefCell::new(Software::new(world.rng("software").bits())));
        let array = Array { volume: array, io: world.io(), software };
        Ok(match layer {
            None => Layered::Plain(array),
            Some(Layer::NvBuffer) => Layered::NvBuffer(NvBuffer::start(world.io(), array, spec.buffer.0)),
            Some(Layer::Log) => {
                let log = Log::start(world.io(), array, cut(part), spec.spare);
                Layered::Log(log.ok_or_else(|| Error::setting("layer.spare", TOO_SMALL))?)
            }
        })
    }
}

const TOO_SMALL: &str =
    "the array is too small, or too large, for a log that keeps so much of it; change the members";

/// Segments of a part, which is an array.
fn cut(part: &OpenPool) -> Cut {
    let Shape::Array(array) = part.control.config().shape else { unreachable!("layers are above arrays") };
    let groups = match array.layout.level() {
        Level::Raid50 { groups, .. } | Level::Raid60 { groups, .. } => groups,
        _ => 1,
    };
    Cut { chunk_blocks: array.chunk_blocks(), columns: array.data_columns() as u32, groups }
}

impl Store for Layered {
    fn bytes(&self) -> u64 {
        match self {
            Layered::Plain(array) => array.bytes(),
            Layered::NvBuffer(buffer) => buffer.bytes(),
            Layered::Log(log) => log.bytes(),
        }
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Vec<Buf>, VolumeError> {
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
            // What it has is durable.
            Layered::NvBuffer(_) => Ok(()),
            Layered::Log(log) => log.flush().await,
        }
    }
}

#[cfg(test)]
mod tests;
