//! The engine's `Io` on the runtime of this thread.
//!
//! A request is checked against the device, then takes the device's [`IoRoute`]. Short transfers continue where they
//! stopped; a read that meets the end of the file fails with EIO, as zeros would pass for data.

use std::future::Future;
use std::rc::Rc;

use io_uring::squeue::Flags;
use io_uring::{opcode, types};
use sinew_core::buf::Buf;
use sinew_core::io::{DeviceId, Discards, Gather, Io, IoError, Space};
use sinew_core::physical::Physical;
use sinew_devices::Kind;

use crate::aside;
use crate::clock::{now, random};
use crate::core::Core;
use crate::device::{Backing, Device, IoRoute, PUNCH, io_error_of};
use crate::fault_delays::hold_up;
use crate::faults::Side;
use crate::iovecs::point_to;
use crate::ring::{Handle, Payload};

/// A handle to the runtime of this thread. Cheap to clone.
#[derive(Clone)]
pub struct UringIo {
    pub(crate) core: Rc<Core>,
}

impl Io for UringIo {
    fn now(&self) -> u64 {
        now()
    }

    fn now_coarse(&self) -> u64 {
        self.core.looked_at.get()
    }

    fn sleep(&self, ns: u64) -> impl Future<Output = ()> {
        self.core.sleep(ns)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.core.spawn(task);
    }

    fn random(&self) -> u64 {
        random()
    }

    async fn read(&self, device: DeviceId, offset: u64, buf: Buf) -> (Buf, Result<(), IoError>) {
        let checked = self
            .core
            .device(device)
            .and_then(|handle| handle.check(offset, buf.len() as u64).map(|()| handle));
        match checked {
            Err(error) => (buf, Err(error)),
            Ok(_) if buf.is_empty() => (buf, Ok(())),
            Ok(handle) if handle.faults().is_some() => {
                Box::pin(self.read_with_faults(handle, offset, buf)).await
            }
            Ok(handle) => self.read_device(handle, offset, buf).await,
        }
    }

    async fn write(&self, device: DeviceId, offset: u64, data: Gather) -> Result<(), IoError> {
        let bytes = data.iter().map(Buf::len).sum::<usize>();
        let handle = self.core.device(device)?;
        handle.check(offset, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        if handle.faults().is_some() {
            return Box::pin(self.write_with_faults(handle, offset, data, bytes)).await;
        }
        self.write_device(handle, offset, data, bytes).await
    }

    async fn flush(&self, device: DeviceId) -> Result<(), IoError> {
        let handle = self.core.device(device)?;
        if let Some(faults) = handle.faults() {
            Box::pin(hold_up(faults, &self.core, &handle, Kind::Flush, 0, 0)).await?;
        }
        let (IoRoute::Ring, Some(fd)) = (handle.route, handle.fd()) else {
            self.core.breathe(0).await;
            return handle.flush_now();
        };
        let entry = opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build();
        // SAFETY: the entry refers to a descriptor only, which the payload keeps open.
        let (result, _) = unsafe { self.core.submit(entry, Payload::Device(handle)) }.await;
        if result < 0 { Err(io_error_of(-result)) } else { Ok(()) }
    }

    async fn discard(&self, device: DeviceId, offset: u64, bytes: u64) -> Result<(), IoError> {
        let handle = self.core.device(device)?;
        handle.check(offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        match (handle.route, &handle.backing) {
            (IoRoute::Ring, Backing::Block(_)) => {
                let device = (*handle).clone();
                aside::run(move || device.discard_now(offset, bytes)).await
            }
            (IoRoute::Ring, Backing::File(_)) => self.punch(handle, offset, bytes).await,
            _ => {
                self.core.breathe(0).await;
                handle.discard_now(offset, bytes)
            }
        }
    }

    fn abandon(&self, device: DeviceId) {
        self.core.config.devices.abandon(device);
    }

    fn answers_at_once(&self, device: DeviceId) -> bool {
        let at_once = |handle: &Handle| handle.route != IoRoute::Ring && !handle.may_be_delayed();
        self.core.device(device).is_ok_and(|handle| at_once(&handle))
    }

    fn discards(&self, device: DeviceId) -> Discards {
        self.core.device(device).map_or(Discards::Ignored, |handle| handle.discards)
    }

    async fn read_rest(&self, device: DeviceId) -> Result<Vec<u8>, IoError> {
        let handle = self.core.device(device)?;
        if handle.rest == 0 {
            return Ok(Vec::new());
        }
        let device = (*handle).clone();
        aside::run(move || device.read_rest()).await
    }

    async fn clear_rest(&self, device: DeviceId) -> Result<(), IoError> {
        let handle = self.core.device(device)?;
        if handle.rest == 0 {
            return Ok(());
        }
        let device = (*handle).clone();
        aside::run(move || device.clear_rest()).await
    }

    fn space(&self, device: DeviceId) -> Result<Space, IoError> {
        Ok(Space { bytes: self.core.device(device)?.bytes })
    }

    async fn physical(&self, device: DeviceId) -> Option<Physical> {
        let handle = self.core.device(device).ok()?;
        if handle.route != IoRoute::Ring || !handle.may_block_for_space() {
            return handle.physical();
        }
        let device = (*handle).clone();
        aside::run(move || device.physical()).await
    }
}

impl UringIo {
    async fn read_device(&self, handle: Handle, offset: u64, mut buf: Buf) -> (Buf, Result<(), IoError>) {
        if handle.route == IoRoute::Ring {
            return self.read_ring(handle, offset, buf).await;
        }
        self.core.breathe(buf.len()).await;
        let done = handle.read_now(offset, buf.bytes_mut());
        (buf, done)
    }

    async fn write_device(
        &self,
        handle: Handle,
        offset: u64,
        data: Gather,
        bytes: usize,
    ) -> Result<(), IoError> {
        if handle.route == IoRoute::Ring {
            return self.write_ring(handle, offset, data, bytes).await;
        }
        self.core.breathe(bytes).await;
        handle.write_now(offset, &data, &mut self.core.iovecs.borrow_mut())
    }

    async fn read_with_faults(&self, handle: Handle, offset: u64, buf: Buf) -> (Buf, Result<(), IoError>) {
        let bytes = buf.len() as u64;
        let Some(faults) = handle.faults() else {
            return self.read_device(Rc::clone(&handle), offset, buf).await;
        };
        if let Err(error) = hold_up(faults, &self.core, &handle, Kind::Read, offset, bytes).await {
            return (buf, Err(error));
        }
        let fate = faults.draw(Side::Reads, offset, bytes);
        if let Some(error) = fate.error() {
            return (buf, Err(error));
        }
        let (mut buf, done) = self.read_device(Rc::clone(&handle), offset, buf).await;
        if done.is_ok() {
            fate.spoil(&mut buf);
        }
        (buf, done)
    }

    async fn write_with_faults(
        &self,
        handle: Handle,
        offset: u64,
        data: Gather,
        bytes: usize,
    ) -> Result<(), IoError> {
        let mut data = data;
        if let Some(faults) = handle.faults() {
            hold_up(faults, &self.core, &handle, Kind::Write, offset, bytes as u64).await?;
            let fate = faults.draw(Side::Writes, offset, bytes as u64);
            if let Some(error) = fate.error() {
                return Err(error);
            }
            data = fate.spoiled(data);
        }
        self.write_device(handle, offset, data, bytes).await
    }

    async fn read_ring(&self, handle: Handle, offset: u64, mut buf: Buf) -> (Buf, Result<(), IoError>) {
        let Some(fd) = handle.fd() else { return (buf, Err(IoError::Gone)) };
        let mut progress = Progress::new(buf.len());
        while let Some(done) = progress.next() {
            if handle.is_closed() {
                return (buf, Err(IoError::Gone));
            }
            let rest = &mut buf.bytes_mut()[done..];
            let entry = opcode::Read::new(types::Fd(fd), rest.as_mut_ptr(), rest.len() as u32)
                .offset(offset + done as u64)
                .build()
                .flags(flags_of(&handle));
            // SAFETY: the payload owns the buffer, whose memory is on the heap and has no other handle (`bytes_mut`
            // asserts that), and keeps the descriptor open.
            let op = unsafe { self.core.submit(entry, Payload::Read(buf, Rc::clone(&handle))) };
            let (result, Payload::Read(back, _)) = op.await else {
                return (Buf::stale(0), Err(IoError::Gone));
            };
            buf = back;
            progress.add(result);
        }
        (buf, progress.outcome())
    }

    async fn write_ring(
        &self,
        handle: Handle,
        offset: u64,
        data: Gather,
        bytes: usize,
    ) -> Result<(), IoError> {
        let fd = types::Fd(handle.fd().ok_or(IoError::Gone)?);
        let mut iovecs = Vec::new();
        let mut progress = Progress::new(bytes);
        while let Some(done) = progress.next() {
            if handle.is_closed() {
                return Err(IoError::Gone);
            }
            let at = offset + done as u64;
            let entry = if let [buf] = &*data {
                let rest = &buf.bytes()[done..];
                opcode::Write::new(fd, rest.as_ptr(), rest.len() as u32).offset(at).build()
            } else {
                point_to(data.iter().map(Buf::bytes), done, &mut iovecs);
                opcode::Writev::new(fd, iovecs.as_ptr(), iovecs.len() as u32).offset(at).build()
            };
            let payload = Payload::Write { data: Rc::clone(&data), iovecs, device: Rc::clone(&handle) };
            let entry = entry.flags(flags_of(&handle));
            // SAFETY: the payload owns the buffers and the vectors pointing to them, all on the heap, and keeps the
            // descriptor open.
            let (result, payload) = unsafe { self.core.submit(entry, payload) }.await;
            let Payload::Write { iovecs: back, .. } = payload else { return Err(IoError::Gone) };
            iovecs = back;
            progress.add(result);
        }
        progress.outcome().map_err(|error| handle.write_error(error))
    }

    async fn punch(&self, handle: Handle, offset: u64, bytes: u64) -> Result<(), IoError> {
        let fd = types::Fd(handle.fd().ok_or(IoError::Gone)?);
        let entry = opcode::Fallocate::new(fd, bytes).offset(offset).mode(PUNCH).build();
        // SAFETY: the entry refers to a descriptor only, which the payload keeps open.
        let (result, _) = unsafe { self.core.submit(entry, Payload::Device(handle)) }.await;
        match -result {
            // A file system that cannot punch has nothing to do.
            libc::EOPNOTSUPP => Ok(()),
            e if e > 0 => Err(io_error_of(e)),
            _ => Ok(()),
        }
    }
}

fn flags_of(device: &Device) -> Flags {
    if device.may_hang { Flags::ASYNC } else { Flags::empty() }
}

/// A transfer through the ring that may take several requests, since the kernel may end one short.
struct Progress {
    bytes: usize,
    done: usize,
    error: Option<IoError>,
}

impl Progress {
    fn new(bytes: usize) -> Progress {
        Progress { bytes, done: 0, error: None }
    }

    /// Bytes before the next request; `None` if none is needed any more, or after an error.
    fn next(&self) -> Option<usize> {
        (self.error.is_none() && self.done < self.bytes).then_some(self.done)
    }

    /// Takes the result of a request: a number of bytes or a negated errno.
    fn add(&mut self, result: i32) {
        match result {
            0 => self.error = Some(IoError::Failed(libc::EIO)),
            n if n > 0 => self.done += n as usize,
            e if matches!(-e, libc::EINTR | libc::EAGAIN) => {}
            e => self.error = Some(io_error_of(-e)),
        }
    }

    fn outcome(self) -> Result<(), IoError> {
        self.error.map_or(Ok(()), Err)
    }
}
