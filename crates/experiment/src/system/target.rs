//! Where requests go: the volumes of a pool, ranges of arrays with or without a layer above, or one member alone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::{Volume, VolumeError};
use sinew_sim::{SimIo, SimVolume};
use sinew_workload::{Content, Kind, Request};

use crate::system::layer::{Layered, Store};
use crate::{Error, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The volumes of a run.
#[derive(Clone)]
pub(crate) struct Target {
    volumes: Rc<Vec<TargetVolume>>,
    /// A buffer of zeros, as long as the longest write so far.
    zeros: Rc<RefCell<Buf>>,
    /// What is written instead of zeros, and the number of writes so far.
    content: Option<Rc<(Content, Cell<u64>)>>,
}

/// What clients see as a volume.
pub(crate) enum TargetVolume {
    /// A volume of a pool.
    Volume(SimVolume),
    /// A range of an array, or of the layer above it.
    Layered {
        /// The array or layer.
        store: Rc<Layered>,
        /// The first byte of the range.
        from: u64,
        /// Its length.
        bytes: u64,
    },
    /// A range of a member.
    Member {
        /// The I/O interface of the world.
        io: SimIo,
        /// The member.
        device: DeviceId,
        /// The first byte of the range.
        from: u64,
        /// Its length.
        bytes: u64,
    },
}

impl TargetVolume {
    fn bytes(&self) -> u64 {
        match self {
            TargetVolume::Volume(volume) => volume.size_bytes(),
            TargetVolume::Layered { bytes, .. } | TargetVolume::Member { bytes, .. } => *bytes,
        }
    }
}

/// The whole blocks that a request touches, in bytes.
struct WholeBlocks {
    offset: u64,
    len: u64,
}

impl WholeBlocks {
    fn of(request: &Request) -> WholeBlocks {
        let offset = request.offset / BLOCK * BLOCK;
        WholeBlocks { offset, len: request.end().next_multiple_of(BLOCK) - offset }
    }
}

impl Target {
    /// A target of these volumes.
    pub(crate) fn new(volumes: Vec<TargetVolume>) -> Target {
        let zeros = Rc::new(RefCell::new(Buf::zeroed(1 << 20)));
        Target { volumes: Rc::new(volumes), zeros, content: None }
    }

    /// The same target, to which this content is written.
    pub(crate) fn writing(self, content: Content) -> Target {
        Target { content: Some(Rc::new((content, Cell::new(0)))), ..self }
    }

    /// A target of one member: volumes of these sizes, one after the other.
    pub(crate) fn member(io: &SimIo, device: DeviceId, sizes: impl Iterator<Item = u64>) -> Target {
        let mut from = 0;
        let range = |bytes| {
            let range = TargetVolume::Member { io: io.clone(), device, from, bytes };
            from += bytes;
            range
        };
        Target::new(sizes.map(range).collect())
    }

    /// The number of volumes.
    pub(crate) fn volumes(&self) -> usize {
        self.volumes.len()
    }

    /// The size of a volume; 0 if there is none of this number.
    pub(crate) fn bytes(&self, volume: u32) -> u64 {
        self.volumes.get(volume as usize).map_or(0, TargetVolume::bytes)
    }

    /// Checks that a request lies inside its volume.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it does not.
    pub(crate) fn check(&self, request: &Request) -> Result<()> {
        let Request { volume, offset, len, .. } = *request;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.bytes(volume));
        if inside && (volume as usize) < self.volumes.len() {
            return Ok(());
        }
        Err(Error::OutOfRange { volume, offset, len })
    }

    /// A buffer of `len` zeros.
    fn zeros(&self, len: u64) -> Buf {
        let mut zeros = self.zeros.borrow_mut();
        if (zeros.len() as u64) < len {
            *zeros = Buf::zeroed(len.next_power_of_two() as usize);
        }
        zeros.slice(0, len as usize)
    }

    /// What a write of `len` bytes at `offset` of a volume writes.
    fn data(&self, volume: u32, offset: u64, len: u64) -> Buf {
        let Some(content) = &self.content else { return self.zeros(len) };
        let (content, writes) = (&content.0, &content.1);
        writes.set(writes.get() + 1);
        let mut buf = Buf::stale(len as usize);
        for (block, bytes) in (offset / BLOCK..).zip(buf.bytes_mut().chunks_mut(BLOCK_BYTES)) {
            content.fill(volume, block, writes.get(), bytes);
        }
        buf
    }

    /// Executes a request.
    ///
    /// # Errors
    /// The message of the error of the volume or the member.
    pub(crate) async fn perform(&self, request: Request) -> Result<(), String> {
        match &self.volumes[request.volume as usize] {
            // Boxed, because this future is large and would make every task as large, also those of a member alone.
            TargetVolume::Volume(volume) => {
                Box::pin(self.on_volume(volume, request)).await.map_err(|e| e.to_string())
            }
            TargetVolume::Layered { store, from, .. } => {
                Box::pin(self.on_layer(store, *from, request)).await.map_err(|e| e.to_string())
            }
            TargetVolume::Member { io, device, from, .. } => {
                self.on_member(io, *device, *from, request).await
            }
        }
    }

    async fn on_volume(&self, volume: &SimVolume, request: Request) -> Result<(), VolumeError> {
        let Request { offset, len, .. } = request;
        match request.kind {
            Kind::Read => volume.read(offset, len as u32).await.map(drop),
            Kind::Write => volume.write(offset, self.data(request.volume, offset, len), false).await,
            Kind::Discard => volume.discard(offset, len).await,
            Kind::Flush => volume.flush().await,
        }
    }

    /// Layers take whole blocks only, like members. They cannot discard a block, so a discard writes zeros.
    async fn on_layer(&self, store: &Layered, from: u64, request: Request) -> Result<(), VolumeError> {
        let WholeBlocks { offset, len } = WholeBlocks::of(&request);
        match request.kind {
            Kind::Read => store.read(from + offset, len).await.map(drop),
            Kind::Write | Kind::Discard => store.write(from + offset, self.zeros(len)).await,
            Kind::Flush => store.flush().await,
        }
    }

    /// A member takes whole blocks only.
    async fn on_member(
        &self,
        io: &SimIo,
        device: DeviceId,
        from: u64,
        request: Request,
    ) -> Result<(), String> {
        let WholeBlocks { offset, len } = WholeBlocks::of(&request);
        let done = match request.kind {
            Kind::Read => io.read(device, from + offset, Buf::stale(len as usize)).await.1,
            Kind::Write => {
                let data = self.data(request.volume, offset, len);
                io.write(device, from + offset, Rc::new([data])).await
            }
            Kind::Discard => io.discard(device, from + offset, len).await,
            Kind::Flush => io.flush(device).await,
        };
        done.map_err(|error| error.to_string())
    }
}
