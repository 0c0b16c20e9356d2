//! The requests of one queue of a device, on the runtime that serves it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::rc::Rc;

use io_uring::{opcode, types};
use sinew_core::buf::Buf;

use super::abi::{self, Descriptor, QueueCommand, RawDescriptor};
use crate::io::UringIo;
use crate::ring::Payload;

/// The descriptors of a queue: memory that the kernel writes and this process reads.
struct Descriptors {
    base: NonNull<RawDescriptor>,
    count: u16,
}

// SAFETY: the mapping has no thread affinity.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn bytes(count: u16) -> usize {
        usize::from(count) * size_of::<RawDescriptor>()
    }

    fn map(file: &File, queue: u16, count: u16) -> io::Result<Descriptors> {
        // The queues have equal places, on whole pages.
        let place = (abi::QUEUE_DEPTH_MAX * size_of::<RawDescriptor>() as u64).next_multiple_of(4096);
        let offset = (u64::from(queue) * place) as libc::off_t;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let (len, fd) = (Descriptors::bytes(count), file.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ, flags, fd, offset) };
        match NonNull::new(base.cast::<RawDescriptor>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Descriptors { base, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn get(&self, tag: u16) -> Descriptor {
        assert!(tag < self.count, "tag {tag} of a queue of {}", self.count);
        // SAFETY: the place is inside the mapping (asserted). The kernel writes it before it completes the request that
        // fetches the tag, and not again until the tag is answered.
        Descriptor::of(unsafe { self.base.add(usize::from(tag)).read_volatile() })
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), Descriptors::bytes(self.count)) };
    }
}

/// Has the kernel write nothing to block devices when it frees memory for this thread: the device could be the thread's own, and
/// both would wait for ever. A process without CAP_SYS_RESOURCE may not ask for it.
fn shun_write_back() {
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: a system call without memory.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) };
}

/// A queue on its way to the runtime that is to serve it.
pub struct QueueStart {
    descriptors: Descriptors,
    file: File,
    index: u16,
}

impl QueueStart {
    pub(super) fn new(device: &File, index: u16, depth: u16) -> io::Result<QueueStart> {
        Ok(QueueStart {
            descriptors: Descriptors::map(device, index, depth)?,
            file: device.try_clone()?,
            index,
        })
    }

    /// The place of the queue among those of its device.
    pub fn index(&self) -> u16 {
        self.index
    }

    /// The queue, for the runtime that serves it from now on.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn begin(self, io: &UringIo) -> io::Result<Queue> {
        shun_write_back();
        let QueueStart { descriptors, file, index } = self;
        let commands = Rc::new(OwnedFd::from(file.try_clone()?));
        Ok(Queue { io: io.clone(), descriptors, file, commands, index })
    }
}

/// A queue of a device. Its tags are independent of each other; each has one request at a time.
pub struct Queue {
    io: UringIo,
    descriptors: Descriptors,
    /// The character device of the device.
    file: File,
    /// The same, for commands.
    commands: Rc<OwnedFd>,
    index: u16,
}

impl Queue {
    /// Number of tags.
    pub fn depth(&self) -> u16 {
        self.descriptors.count
    }

    /// Answers the request of a tag, if there is one, and waits for the next. An answer is the number of bytes read or written,
    /// 0 for others, or a negated errno.
    ///
    /// # Errors
    /// ENODEV when the device is being removed.
    pub async fn next(&self, tag: u16, answer: Option<i32>) -> io::Result<Descriptor> {
        let operation = answer.map_or(abi::FETCH, |_| abi::COMMIT_AND_FETCH);
        let command = QueueCommand { queue: self.index, tag, result: answer.unwrap_or(0), address: 0 };
        let mut bytes = [0; 16];
        bytes.copy_from_slice(bytemuck::bytes_of(&command));
        let fd = types::Fd(self.commands.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, operation).cmd(bytes).build();
        // SAFETY: the entry refers to a descriptor only, which the payload keeps open.
        let op = unsafe { self.io.core.submit(entry, Payload::Command(Rc::clone(&self.commands))) };
        match op.await.0 {
            0 => Ok(self.descriptors.get(tag)),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        }
    }

    fn data(&self, tag: u16) -> u64 {
        let place = u64::from(self.index) << abi::DATA_QUEUE_SHIFT | u64::from(tag) << abi::DATA_TAG_SHIFT;
        abi::DATA_BEGIN + place
    }

    /// Copies the data of a write from its request.
    ///
    /// # Errors
    /// When the request has less data, or the device is gone.
    pub fn copy_from(&self, tag: u16, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, self.data(tag))
    }

    /// Copies the data of a read to its request.
    ///
    /// # Errors
    /// When the request has less room, or the device is gone.
    pub fn copy_to(&self, tag: u16, data: &[Buf]) -> io::Result<()> {
        let mut at = self.data(tag);
        for part in data {
            self.file.write_all_at(part.bytes(), at)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}
