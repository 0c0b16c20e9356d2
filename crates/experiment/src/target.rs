//! Where requests go: the volumes of a pool, ranges of arrays with or without a layer above, or one member by itself.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::client::VolumeHandle;
use sinew_sim::SimIo;
use sinew_workload::{Kind, Request};

use crate::layer::{Layered, Store};
use crate::{Error, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The volumes of a run.
#[derive(Clone)]
pub(crate) struct Target {
    volumes: Rc<Vec<Place>>,
    zeros: Rc<RefCell<Buf>>,
}

/// What is a volume to clients.
pub(crate) enum Place {
    Volume(VolumeHandle<SimIo>),
    /// A range of an array, or of a layer above it.
    Layered {
        store: Rc<Layered>,
        from: u64,
        bytes: u64,
    },
    /// A range of a member.
    Range {
        io: SimIo,
        device: DeviceId,
        from: u64,
        bytes: u64,
    },
}

impl Place {
    fn bytes(&self) -> u64 {
        match self {
            Place::Volume(volume) => volume.size_bytes(),
            Place::Layered { bytes, .. } | Place::Range { bytes, .. } => *bytes,
        }
    }
}

/// The whole blocks that a request touches: first byte, bytes.
fn blocks_of(request: &Request) -> (u64, u64) {
    let first = request.offset / BLOCK * BLOCK;
    (first, request.end().next_multiple_of(BLOCK) - first)
}

impl Target {
    pub(crate) fn new(volumes: Vec<Place>) -> Target {
        Target { volumes: Rc::new(volumes), zeros: Rc::new(RefCell::new(Buf::zeroed(1 << 20))) }
    }

    /// Volumes of these sizes one after the other on a device.
    pub(crate) fn member(io: &SimIo, device: DeviceId, sizes: impl Iterator<Item = u64>) -> Target {
        let mut from = 0;
        let range = |bytes| {
            let range = Place::Range { io: io.clone(), device, from, bytes };
            from += bytes;
            range
        };
        Target::new(sizes.map(range).collect())
    }

    /// How many volumes there are.
    pub(crate) fn volumes(&self) -> usize {
        self.volumes.len()
    }

    /// The bytes of a volume.
    pub(crate) fn bytes(&self, volume: u32) -> u64 {
        self.volumes.get(volume as usize).map_or(0, Place::bytes)
    }

    /// Whether a request lies in its volume.
    pub(crate) fn check(&self, request: &Request) -> Result<()> {
        let Request { volume, offset, len, .. } = *request;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.bytes(volume));
        if inside && (volume as usize) < self.volumes.len() {
            return Ok(());
        }
        Err(Error::OutOfRange { volume, offset, len })
    }

    fn zeros(&self, len: u64) -> Buf {
        let mut zeros = self.zeros.borrow_mut();
        if (zeros.len() as u64) < len {
            *zeros = Buf::zeroed(len.next_power_of_two() as usize);
        }
        zeros.slice(0, len as usize)
    }

    /// Carries a request out; writes are of zeros. Gives an error's words.
    pub(crate) async fn perform(&self, request: Request) -> Result<(), String> {
        match &self.volumes[request.volume as usize] {
            // In a box, for it is large, and so would be every task that only goes to a member.
            Place::Volume(volume) => {
                Box::pin(self.on_volume(volume, request)).await.map_err(|e| e.to_string())
            }
            Place::Layered { store, from, .. } => {
                Box::pin(self.on_layer(store, *from, request)).await.map_err(|e| e.to_string())
            }
            Place::Range { io, device, from, .. } => self.on_member(io, *device, *from, request).await,
        }
    }

    async fn on_volume(&self, volume: &VolumeHandle<SimIo>, request: Request) -> Result<(), VolumeError> {
        let Request { offset, len, .. } = request;
        match request.kind {
            Kind::Read => volume.read(offset, len as u32).await.map(drop),
            Kind::Write => volume.write(offset, self.zeros(len), false).await,
            Kind::Discard => volume.discard(offset, len).await,
            Kind::Flush => volume.flush().await,
        }
    }

    /// Like members, layers know whole blocks only. They have nothing to forget a block by.
    async fn on_layer(&self, store: &Layered, from: u64, request: Request) -> Result<(), VolumeError> {
        let (first, bytes) = blocks_of(&request);
        match request.kind {
            Kind::Read => store.read(from + first, bytes).await.map(drop),
            Kind::Write | Kind::Discard => store.write(from + first, self.zeros(bytes)).await,
            Kind::Flush => store.flush().await,
        }
    }

    /// A member knows whole blocks only.
    async fn on_member(
        &self,
        io: &SimIo,
        device: DeviceId,
        from: u64,
        request: Request,
    ) -> Result<(), String> {
        let (first, bytes) = blocks_of(&request);
        let done = match request.kind {
            Kind::Read => io.read(device, from + first, Buf::stale(bytes as usize)).await.1,
            Kind::Write => io.write(device, from + first, Rc::new([self.zeros(bytes)])).await,
            Kind::Discard => io.discard(device, from + first, bytes).await,
            Kind::Flush => io.flush(device).await,
        };
        done.map_err(|error| error.to_string())
    }
}
