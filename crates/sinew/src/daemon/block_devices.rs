//! Block devices of the kernel whose requests a server answers: each a volume (`ublk_drv`).
//!
//! Queue i of a device is served by thread i mod threads of the pool. All of them together are one connection of the volume. A
//! device is known by its pool and volume, so the next server takes over what this one leaves: after a crash always, at a
//! stop if the device is in use.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use async_channel::Sender;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{Uuid, VolumeId};
use sinew_core::io::Io;
use sinew_engine::client::{Connection, VolumeShared};
use sinew_engine::control::Catalog;
use sinew_frontend::ublk::{Command, Progress, Queue, Request, serve_queue};
use sinew_uring::ublk::{self, Control, ControlError, Device, DeviceState, Geometry, Op, Opened, QueueStart};
use sinew_uring::{UringIo, aside};

use super::pool_thread::{Handed, PoolThread};
use crate::out::complain;
use crate::protocol::state::BlockDevicePlace;

/// How often a server that stops looks whether the last request has been answered.
const STOP_POLL_NS: u64 = 5_000_000;
/// How often the sizes of volumes are looked at.
const SIZE_POLL_NS: u64 = 1_000_000_000;

/// A volume, and the block device by which it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockDevice {
    pub(crate) volume: String,
    /// N of /dev/ublkbN; any if none is given.
    pub(crate) number: Option<u32>,
}

impl BlockDevice {
    /// From `VOLUME` or `VOLUME=NUMBER`.
    ///
    /// # Errors
    /// When there is no volume, or the number is none.
    pub(crate) fn parse(text: &str) -> Result<BlockDevice> {
        let (volume, number) = match text.split_once('=') {
            Some((volume, number)) => (volume, Some(number.parse().ok())),
            None => (text, None),
        };
        ensure!(
            !volume.is_empty() && number != Some(None),
            "{text} does not name a volume, or a number of its block device: write VOLUME or VOLUME=NUMBER, for example vm1=0 for /dev/ublkb0"
        );
        Ok(BlockDevice { volume: volume.to_owned(), number: number.flatten() })
    }
}

/// What the kernel knows a device of a volume by. The identity of a pool is random.
fn owner_of(pool: Uuid, volume: VolumeId) -> u64 {
    let pool = u128::from_be_bytes(pool);
    (pool >> 64) as u64 ^ pool as u64 ^ u64::from(volume.0)
}

/// A queue on the thread that serves it.
struct KernelQueue(ublk::Queue);

impl Queue for KernelQueue {
    fn depth(&self) -> u16 {
        self.0.depth()
    }

    async fn next(&self, tag: u16, answer: Option<i32>) -> Option<Request> {
        let ublk::Descriptor { op, offset, len, fua, keeps } = match self.0.next(tag, answer).await {
            Ok(descriptor) => descriptor,
            Err(error) => {
                if error.raw_os_error() != Some(libc::ENODEV) {
                    complain!("a block device takes no more requests with tag {tag}: {error}");
                }
                return None;
            }
        };
        let command = match op {
            Op::Read => Command::Read,
            Op::Write => Command::Write { fua },
            Op::Flush => Command::Flush,
            Op::Discard => Command::Discard,
            Op::WriteZeroes => Command::WriteZeroes { fua, may_free: !keeps },
            Op::Unknown => Command::Unknown,
        };
        Some(Request { command, offset, len })
    }

    fn copy_from(&self, tag: u16, data: &mut [u8]) -> bool {
        self.0.copy_from(tag, data).is_ok()
    }

    fn copy_to(&self, tag: u16, data: &[Buf]) -> bool {
        self.0.copy_to(tag, data).is_ok()
    }
}

/// Begins to serve a queue on its thread.
fn begin(thread: &PoolThread, connection: &Connection, queue: QueueStart, progress: &Progress) {
    let index = queue.index();
    match queue.begin(&thread.io) {
        Ok(queue) => serve_queue(&thread.io, &thread.volume(connection), KernelQueue(queue), progress),
        Err(error) => complain!("queue {index} of a block device cannot be served: {error}"),
    }
}

/// A device, and how far its queues are.
struct Served {
    volume: Arc<VolumeShared>,
    place: BlockDevicePlace,
    device: Device,
    queues: Vec<Progress>,
    /// The size that the kernel knows.
    bytes: Cell<u64>,
}

/// The block devices of a server. Lives on the first thread.
pub(super) struct BlockDevices {
    io: UringIo,
    threads: Vec<Sender<Handed>>,
    devices: RefCell<Vec<Served>>,
}

impl BlockDevices {
    /// Starts the devices that are wanted; `threads` are the ways to the threads of the pool.
    ///
    /// # Errors
    /// When the kernel has no driver for them, or refuses one, or there is no such volume. Then there are none.
    pub(super) async fn start(
        io: UringIo,
        threads: Vec<Sender<Handed>>,
        pool: Uuid,
        catalog: &Catalog,
        wanted: &[BlockDevice],
    ) -> Result<Rc<BlockDevices>> {
        let devices = Rc::new(BlockDevices { io, threads, devices: RefCell::default() });
        for device in wanted {
            let started = devices.add(pool, catalog, device).await;
            let started = started.with_context(|| format!("volume {} has no block device", device.volume));
            if let Err(error) = started {
                devices.stop().await;
                return Err(error);
            }
        }
        devices.tell_of_waiting(pool, catalog).await;
        if !wanted.is_empty() {
            devices.io.spawn(Rc::clone(&devices).watch_sizes());
        }
        Ok(devices)
    }

    /// Where they are.
    pub(super) fn places(&self) -> Vec<BlockDevicePlace> {
        self.devices.borrow().iter().map(|served| served.place.clone()).collect()
    }

    async fn add(&self, pool: Uuid, catalog: &Catalog, wanted: &BlockDevice) -> Result<()> {
        let BlockDevice { volume, number } = wanted.clone();
        let Some(shared) = catalog.get(&volume) else {
            bail!("the pool has no such volume; make it first: `sinew volume create {volume} SIZE`")
        };
        let owner = owner_of(pool, shared.id);
        let geometry =
            Geometry { bytes: shared.bytes(), block_bytes: BLOCK_BYTES as u32, read_only: shared.read_only };
        let queues = self.threads.len() as u16;
        let opened = aside::run(move || open(number, owner, queues, geometry)).await?;
        let Opened { device, queues, bytes, is_taken_over } = opened;
        let connection = Connection::new(Arc::clone(&shared));
        let progress: Vec<Progress> = queues.iter().map(|_| Progress::default()).collect();
        for (queue, progress) in queues.into_iter().zip(progress.clone()) {
            let thread = &self.threads[usize::from(queue.index()) % self.threads.len()];
            let connection = connection.clone();
            let begin: Handed = Box::new(move |thread| begin(thread, &connection, queue, &progress));
            // It fails when the thread has ended, and the process with it.
            let _ = thread.send(begin).await;
        }
        let place = BlockDevicePlace { volume, device: device.path().display().to_string() };
        let served = Served { volume: shared, place, device, queues: progress, bytes: Cell::new(bytes) };
        self.devices.borrow_mut().push(served);
        aside::run(move || Control::open()?.start(&device, is_taken_over)).await?;
        Ok(())
    }

    /// Tells of devices of the pool that wait for a server, and are not to have one.
    async fn tell_of_waiting(&self, pool: Uuid, catalog: &Catalog) {
        let waiting = aside::run(|| Control::open()?.devices()).await.unwrap_or_default();
        let waiting = waiting.into_iter().filter(|device| device.state == DeviceState::Waiting);
        for device in waiting {
            let is_of =
                |name: &String| catalog.get(name).is_some_and(|v| owner_of(pool, v.id) == device.owner);
            if let Some(name) = catalog.names().into_iter().find(is_of) {
                complain!(
                    "warning: requests to {} wait: it is of volume {name}, which is served without a block device; serve with \
                     --ublk {name}, and stop that server when nothing uses the device",
                    device.path().display()
                );
            }
        }
    }

    /// Tells the kernel when a volume has another size.
    async fn watch_sizes(self: Rc<Self>) {
        loop {
            self.io.sleep(SIZE_POLL_NS).await;
            let changed: Vec<(Device, u64, String)> = self
                .devices
                .borrow()
                .iter()
                .filter_map(|served| {
                    let bytes = served.volume.bytes();
                    let has_changed = bytes > 0 && served.bytes.replace(bytes) != bytes;
                    has_changed.then(|| (served.device, bytes, served.place.device.clone()))
                })
                .collect();
            for (device, bytes, path) in changed {
                match aside::run(move || Control::open()?.resize(&device, bytes)).await {
                    Ok(true) => {}
                    Ok(false) => complain!(
                        "warning: {path} keeps its size until it is made again, since this kernel's ublk_drv takes no other (Linux 6.16 does)"
                    ),
                    Err(error) => complain!("warning: {path} keeps its size: {error}"),
                }
            }
        }
    }

    /// Removes the devices, but for those in use: their requests wait for the next server.
    pub(super) async fn stop(&self) {
        for served in self.devices.take() {
            if let Err(error) = self.end(&served).await {
                complain!("{}: {error}", served.place.device);
            }
        }
    }

    /// Removes a device, or leaves it to the next server.
    async fn end(&self, served: &Served) -> Result<(), ControlError> {
        let Served { place, queues, .. } = served;
        let device = served.device;
        let stopped = aside::run(move || Control::open()?.stop_unused(&device)).await;
        if matches!(stopped, Ok(true)) {
            while !queues.iter().all(Progress::has_ended) {
                self.io.sleep(STOP_POLL_NS).await;
            }
            return aside::run(move || Control::open()?.remove(&device)).await;
        }
        if stopped.is_ok() {
            complain!(
                "{} is in use, or may be: its requests wait until volume {} is served with it again",
                place.device,
                place.volume
            );
        }
        self.leave(queues).await;
        stopped.map(|_| ())
    }

    /// Waits until what is under way has been answered; takes nothing more.
    async fn leave(&self, queues: &[Progress]) {
        queues.iter().for_each(Progress::leave);
        while !queues.iter().all(Progress::is_idle) {
            self.io.sleep(STOP_POLL_NS).await;
        }
    }
}

/// Finds the device of a volume that waits for a server, or makes one.
fn open(number: Option<u32>, owner: u64, queues: u16, geometry: Geometry) -> Result<Opened> {
    let mut control = Control::open()?;
    let found = control.devices()?.into_iter().find(|device| device.owner == owner);
    let Some(found) = found else {
        let taken = number.and_then(|number| control.device(number));
        if let Some(device) = taken {
            bail!(
                "{} is there already and is not of this volume; give another number, or none",
                device.path().display()
            );
        }
        return Ok(control.create(number, owner, queues, geometry)?);
    };
    let path = found.path();
    let path = path.display();
    if let Some(number) = number.filter(|&number| number != found.number) {
        bail!(
            "it has {path}, with requests that may wait: {number} can be its number when that is gone; give {}",
            found.number
        );
    }
    match control.settle(&found)?.state {
        DeviceState::Waiting => Ok(control.take_over(found)?),
        DeviceState::Live => bail!("{path} is served by process {}; stop that first", found.server),
        DeviceState::New | DeviceState::Failing => {
            // Its server ended before it was of use.
            control.stop(&found)?;
            control.remove(&found)?;
            Ok(control.create(number, owner, queues, geometry)?)
        }
    }
}

/// Whether there is a driver for block devices.
///
/// # Errors
/// When there is none, it is too old, or this process may not use it.
pub(super) fn check() -> Result<(), ControlError> {
    Control::open().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_a_volume_and_maybe_a_number() {
        let device = |volume: &str, number| BlockDevice { volume: volume.into(), number };
        assert_eq!(BlockDevice::parse("vm").expect("right"), device("vm", None));
        assert_eq!(BlockDevice::parse("vm=3").expect("right"), device("vm", Some(3)));
        for wrong in ["", "=3", "vm=", "vm=x", "vm=-1"] {
            assert!(BlockDevice::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_have_owners_of_their_own() {
        let owners = [(0, 0), (0, 1), (7, 0)].map(|(first, volume)| {
            let mut pool = [9; 16];
            pool[0] = first;
            owner_of(pool, VolumeId(volume))
        });
        assert!(owners[0] != owners[1] && owners[0] != owners[2] && owners[1] != owners[2]);
    }
}
