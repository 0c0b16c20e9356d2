//! The members this process has open, shared by all its runtimes.
//!
//! A [`DeviceId`] is never reused, so one that was kept past `close` can only fail. An exclusive open takes a lock that
//! other processes (and other opens in this one) respect, so that two servers never write to one member.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use sinew_core::io::DeviceId;

use crate::aside;
use crate::device::{Backing, Device, Harm, IoRoute, OpenError, OpenOptions};
use crate::executor::Executor;
use crate::faults::{Fault, Faults};

/// The registry of open members. Cheap to clone; all clones are one registry.
#[derive(Clone, Default)]
pub struct Devices(Arc<Registry>);

#[derive(Default)]
struct Registry {
    devices: RwLock<Vec<Option<Arc<Device>>>>,
    /// Counts closings, so that runtimes know when to drop cached devices.
    closings: AtomicU64,
    /// Abandoned devices that may have requests in flight.
    abandoned: Mutex<Vec<Weak<Device>>>,
    /// The runtimes, which are woken when a device is abandoned.
    runtimes: Mutex<Vec<Weak<Executor>>>,
}

impl Devices {
    /// An empty registry.
    pub fn new() -> Devices {
        Devices::default()
    }

    /// Opens a file or block device. Its size is taken now, in whole blocks.
    ///
    /// # Errors
    /// When the member is in use elsewhere, was abandoned and has not answered all requests, is neither a file nor a block device, or
    /// when the operating system refuses it.
    pub fn open(&self, name: impl AsRef<Path>, options: OpenOptions) -> Result<DeviceId, OpenError> {
        let name = name.as_ref();
        if self.owes_answers(name) {
            // An abandoned device would not answer the open either.
            return Err(OpenError::Unanswered(name.to_owned()));
        }
        Ok(self.add(Device::open(name, options)?))
    }

    /// A member of `bytes` zeros in memory, for benchmarks. Like on a device, a write must not overlap another transfer
    /// to the same range that is made at the same time, here on another thread.
    ///
    /// # Errors
    /// When the operating system maps no memory of this size.
    pub fn memory(&self, bytes: u64) -> io::Result<DeviceId> {
        Ok(self.add(Device::memory(bytes)?))
    }

    /// Closes a member: later requests return `Gone`, and its lock is released at once, so all its requests must have
    /// completed. Each runtime drops the descriptor at its next turn.
    pub fn close(&self, id: DeviceId) {
        self.take_out(id, |device| device.close());
    }

    /// Abandons a member that does not answer: as `close`, but its requests in flight end with `Gone`, and its lock is
    /// released only when the last of them is answered.
    pub fn abandon(&self, id: DeviceId) {
        self.take_out(id, |device| {
            device.abandon();
            lock(&self.0.abandoned).push(Arc::downgrade(device));
        });
    }

    fn take_out(&self, id: DeviceId, end: impl FnOnce(&Arc<Device>)) {
        let taken = self.write().get_mut(id.0 as usize).and_then(Option::take);
        let Some(device) = taken else { return };
        end(&device);
        // Let go of here first: the last runtime to do so closes the file.
        drop(device);
        self.0.closings.fetch_add(1, Ordering::Release);
        // One that sleeps would keep the file open until its next request or timer.
        lock(&self.0.runtimes).retain(|runtime| match runtime.upgrade() {
            Some(runtime) => {
                runtime.notify();
                true
            }
            None => false,
        });
    }

    /// Whether a member of this name was abandoned and has not answered all requests.
    fn owes_answers(&self, name: &Path) -> bool {
        let mut abandoned = lock(&self.0.abandoned);
        abandoned.retain(|device| device.strong_count() > 0);
        abandoned.iter().any(|device| device.upgrade().is_some_and(|device| device.name() == name))
    }

    /// Registers a runtime that uses the devices.
    pub(crate) fn enlist(&self, runtime: &Arc<Executor>) {
        lock(&self.0.runtimes).push(Arc::downgrade(runtime));
    }

    /// Injects faults into a member, at most once and before a pool is opened on it. They begin with
    /// [`Devices::begin_faults`].
    pub fn give_faults(&self, id: DeviceId, faults: Vec<Fault>) {
        if let Some(device) = self.get(id) {
            device.give_faults(faults);
        }
    }

    /// Activates the injected faults of all members.
    pub fn begin_faults(&self) {
        self.read().iter().flatten().filter_map(|device| device.faults_given()).for_each(Faults::begin);
    }

    /// The injected faults of a member as text, each with the number of requests it affected.
    pub fn faults(&self, id: DeviceId) -> Vec<(String, u64)> {
        self.get(id).and_then(|device| device.faults_given().map(Faults::told)).unwrap_or_default()
    }

    /// Bytes of the member, while it is open.
    pub fn bytes(&self, id: DeviceId) -> Option<u64> {
        self.get(id).map(|device| device.bytes)
    }

    /// The route of requests to the member, while it is open.
    pub fn route(&self, id: DeviceId) -> Option<IoRoute> {
        self.get(id).map(|device| device.route)
    }

    /// Returns the damage to a member that still answers but could not be opened again. The file system is queried on
    /// another thread, since a hung one does not answer.
    pub async fn harm(&self, id: DeviceId) -> Option<Harm> {
        let device = self.get(id)?;
        match device.backing {
            Backing::File(_) => aside::run(move || device.harm()).await,
            Backing::Block(_) | Backing::Memory(_) => device.harm(),
        }
    }

    /// The name the member was opened by, while it is open.
    pub fn name(&self, id: DeviceId) -> Option<PathBuf> {
        self.get(id).map(|device| device.name().to_owned())
    }

    pub(crate) fn get(&self, id: DeviceId) -> Option<Arc<Device>> {
        self.read().get(id.0 as usize)?.clone()
    }

    pub(crate) fn closings(&self) -> u64 {
        self.0.closings.load(Ordering::Acquire)
    }

    fn add(&self, device: Device) -> DeviceId {
        let mut devices = self.write();
        devices.push(Some(Arc::new(device)));
        DeviceId(devices.len() as u32 - 1)
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Option<Arc<Device>>>> {
        self.0.devices.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<Option<Arc<Device>>>> {
        self.0.devices.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
