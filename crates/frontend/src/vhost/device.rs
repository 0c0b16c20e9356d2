//! The control socket of one guest: messages that set queues and memory up, and start and stop rings.
//!
//! A ring runs while it has addresses, a kick and memory, and is enabled. A message that changes what a ring runs with stops
//! it first, which waits for its requests. A message is answered when it has taken effect.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use async_channel::{Receiver, Sender};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
};

use super::config;
use super::inflight::{self, Inflight};
use super::memory::{Memory, REGIONS_MAX};
use super::ring::{Order, Place, RingStart};
use super::terms::{Disk, PROTOCOL_FEATURES, QUEUE_SIZE_MAX, QUEUES_MAX};

type Result<T> = std::result::Result<T, Error>;

/// The threads that serve rings.
pub trait Rings: Send + 'static {
    /// Hands a ring to the thread that is to serve it. May wait for the thread to take it.
    fn start(&self, ring: RingStart);
}

/// How a session ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// The other side has closed the socket.
    Closed,
    /// It sent a message that is wrong, or the socket broke.
    Failed(String),
}

/// Serves one guest until its control socket is closed; blocks. All its rings have been stopped then.
pub fn serve_session(socket: UnixStream, disk: Disk, rings: impl Rings) -> SessionEnd {
    let device = Arc::new(Mutex::new(Device::new(disk, rings)));
    let mut messages = BackendReqHandler::from_stream(socket, Arc::clone(&device));
    loop {
        match messages.handle_request() {
            Ok(()) => {}
            Err(Error::SocketRetry(_)) => {}
            Err(Error::Disconnected) => return SessionEnd::Closed,
            // A message that was refused, too: the other side need not have asked whether it was.
            Err(error) => return SessionEnd::Failed(error.to_string()),
        }
    }
}

/// A queue as it was set up.
#[derive(Default)]
struct Setup {
    size: u16,
    /// Descriptors, used, available, as addresses of the process that runs the guest.
    addresses: Option<(u64, u64, u64)>,
    next: u16,
    kick: Option<File>,
    call: Option<File>,
    error: Option<File>,
    is_enabled: bool,
    /// The orders of the ring, while there is one.
    running: Option<Sender<Order>>,
}

struct Device<R> {
    disk: Disk,
    rings: R,
    accepted: u64,
    memory: Memory,
    /// Kept by the client over the end of this process.
    inflight: Option<Inflight>,
    queues: Vec<Setup>,
}

impl<R: Rings> Device<R> {
    fn new(disk: Disk, rings: R) -> Device<R> {
        let queues = (0..QUEUES_MAX).map(|_| Setup::default()).collect();
        Device { disk, rings, accepted: 0, memory: Memory::default(), inflight: None, queues }
    }

    fn queue(&mut self, index: u32) -> Result<&mut Setup> {
        self.queues.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Changes a queue: stops its ring, and starts it again if it can run.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut Setup)) -> Result<()> {
        let queue = self.queue(index)?;
        queue.stop();
        change(queue);
        self.start(index)
    }

    /// Starts the ring of a queue if nothing is missing.
    fn start(&mut self, index: u32) -> Result<()> {
        let is_enabled = self.accepted & PROTOCOL_FEATURES == 0;
        let Device { disk, rings, accepted, memory, inflight, queues } = self;
        let queue = queues.get_mut(index as usize).ok_or(Error::InvalidParam)?;
        let (Some(kick), Some((descriptors, used, available))) = (&queue.kick, queue.addresses) else {
            return Ok(());
        };
        if queue.running.is_some() || !(is_enabled || queue.is_enabled) {
            return Ok(());
        }
        let address = |user| memory.guest_address(user).ok_or(Error::InvalidParam);
        let place = Place {
            size: queue.size,
            descriptors: address(descriptors)?,
            available: address(available)?,
            used: address(used)?,
            next: queue.next,
        };
        let (sender, orders) = async_channel::bounded(1);
        rings.start(RingStart {
            index: index as u16,
            place,
            memory: memory.snapshot(),
            terms: disk.terms(*accepted),
            inflight: inflight.as_ref().and_then(|all| all.queue(index as u16, queue.size)),
            kick: duplicate(kick)?,
            call: queue.call.as_ref().map(duplicate).transpose()?,
            error: queue.error.as_ref().map(duplicate).transpose()?,
            orders,
            fault: Arc::clone(&disk.fault),
        });
        queue.running = Some(sender);
        Ok(())
    }

    /// Hands the memory to all rings, and starts those that lacked it.
    fn spread_memory(&mut self) {
        for index in 0..self.queues.len() {
            let memory = self.memory.snapshot();
            self.queues[index].order(|done| Order::Memory(memory, done));
            // A queue with addresses outside the memory runs when they are inside.
            let _ = self.start(index as u32);
        }
    }

    fn start_all(&mut self) -> Result<()> {
        (0..self.queues.len()).try_for_each(|index| self.start(index as u32))
    }

    fn stop_all(&mut self) {
        self.queues.iter_mut().for_each(Setup::stop);
    }
}

impl<R> Drop for Device<R> {
    fn drop(&mut self) {
        self.queues.iter_mut().for_each(Setup::stop);
    }
}

impl Setup {
    /// Gives the ring an order, and waits until it has been carried out. `None` if there is no ring.
    fn order<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> Option<T> {
        let (done, answer): (Sender<T>, Receiver<T>) = async_channel::bounded(1);
        self.running.as_ref()?.send_blocking(order(done)).ok()?;
        answer.recv_blocking().ok()
    }

    /// Stops the ring, if there is one, when its requests have been answered.
    fn stop(&mut self) {
        if let Some(next) = self.order(Order::Stop) {
            self.next = next;
        }
        self.running = None;
    }
}

fn duplicate(file: &File) -> Result<OwnedFd> {
    file.try_clone().map(OwnedFd::from).map_err(Error::ReqHandlerError)
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not supported"))
}

impl<R: Rings> VhostUserBackendReqHandlerMut for Device<R> {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.stop_all();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.disk.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !self.disk.features() != 0 {
            return Err(Error::FeatureMismatch);
        }
        if features != self.accepted {
            self.stop_all();
            self.accepted = features;
            self.start_all()?;
        }
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.memory.replace(regions, files)?;
        self.spread_memory();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let size = u16::try_from(size).ok().filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        let size = size.ok_or(Error::InvalidParam)?;
        self.change(index, |queue| queue.size = size)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.change(index, |queue| queue.addresses = Some((descriptors, used, available)))
    }

    fn set_vring_base(&mut self, index: u32, next: u32) -> Result<()> {
        let next = u16::try_from(next).map_err(|_| Error::InvalidParam)?;
        self.change(index, |queue| queue.next = next)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let queue = self.queue(index)?;
        queue.stop();
        // The ring starts again with the next kick.
        queue.kick = None;
        Ok(VhostUserVringState::new(index, queue.next.into()))
    }

    fn set_vring_kick(&mut self, index: u8, kick: Option<File>) -> Result<()> {
        if kick.is_none() {
            return Err(Error::InvalidOperation("rings are not polled without a kick"));
        }
        self.change(index.into(), |queue| queue.kick = kick)
    }

    fn set_vring_call(&mut self, index: u8, call: Option<File>) -> Result<()> {
        let queue = self.queue(index.into())?;
        queue.call = call;
        let call = queue.call.as_ref().map(duplicate).transpose()?;
        queue.order(|done| Order::Call(call, done));
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, error: Option<File>) -> Result<()> {
        self.queue(index.into())?.error = error;
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX.into())
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        let queue = self.queue(index)?;
        if queue.is_enabled == is_enabled {
            return Ok(());
        }
        self.change(index, |queue| queue.is_enabled = is_enabled)
    }

    fn get_config(&mut self, offset: u32, size: u32, _flags: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Ok(config::read((self.disk.bytes)(), offset, size))
    }

    fn set_config(&mut self, _offset: u32, _bytes: &[u8], _flags: VhostUserConfigFlags) -> Result<()> {
        // No field of it can be written.
        Ok(())
    }

    fn set_gpu_socket(&mut self, _gpu: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _object: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        inflight::create(wanted)
    }

    fn set_inflight_fd(&mut self, described: &VhostUserInflight, file: File) -> Result<()> {
        let inflight = Inflight::map(described, file)?;
        self.stop_all();
        self.inflight = Some(inflight);
        self.start_all()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        self.memory.add(region, file)?;
        self.spread_memory();
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.memory.remove(region)?;
        self.spread_memory();
        Ok(())
    }

    fn set_device_state_fd(
        &mut self,
        _direction: VhostTransferStateDirection,
        _phase: VhostTransferStatePhase,
        _file: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _log: &VhostUserLog, _file: File) -> Result<()> {
        unsupported()
    }
}
