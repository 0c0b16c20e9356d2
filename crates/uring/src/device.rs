//! One open member: the route of its requests, and the system calls of synchronous requests.

use std::ffi::c_int;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Discards, IoError};
use sinew_core::physical::Physical;

use crate::faults::{Fault, Faults};
use crate::file_space::{file_space, statfs_of};
use crate::iovecs::point_to;
use crate::memory::Region;
use crate::sysfs::{directory_of, name_of};
use crate::thin::Thin;

/// How requests to a device are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoRoute {
    /// By a synchronous system call. For file systems and devices that complete in memory (tmpfs, zram): a ring would
    /// hand their requests to kernel worker threads, at half the rate and twice the processor time.
    Inline,
    /// Through the io_uring of the calling thread.
    Ring,
    /// By copying; the member is memory of this process.
    Memory,
}

/// How to open a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Only reads will be made; writes fail with EBADF.
    pub read_only: bool,
    /// Open the member exclusively: refuse it if another process has it open so, and exclude other processes.
    pub exclusive: bool,
    /// Carry requests out this way instead of the one that suits the device. [`IoRoute::Memory`] is not for files.
    pub route: Option<IoRoute>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions { read_only: false, exclusive: true, route: None }
    }
}

/// Why a member was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or this one, has the member open exclusively, or it is mounted.
    #[error("{0} is in use")]
    InUse(PathBuf),
    /// It was abandoned, and has not yet answered all requests.
    #[error(
        "{0} was given up because it did not answer, and still owes answers; it can be used again once it has answered or is reset"
    )]
    Unanswered(PathBuf),
    /// Neither a regular file nor a block device.
    #[error("{0} is neither a file nor a block device")]
    WrongKind(PathBuf),
    /// The operating system refused.
    #[error("{path}: {error}")]
    Os {
        /// The member's path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// Damage to a member that still answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Its file was deleted.
    Deleted,
    /// Its file was cut.
    Truncated,
    /// The path by which it was opened no longer exists.
    Unnamed,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Harm::Deleted => "its file was deleted",
            Harm::Truncated => "its file was truncated",
            Harm::Unnamed => "its name is not there any more",
        })
    }
}

pub(crate) enum Backing {
    File(File),
    Block(File),
    Memory(Region),
}

/// One open member.
pub(crate) struct Device {
    pub(crate) route: IoRoute,
    pub(crate) bytes: u64,
    /// Bytes after the last whole block.
    pub(crate) rest: u16,
    pub(crate) backing: Backing,
    /// Requests go to the worker threads of the ring at once: a first attempt in this thread would hang with the file
    /// system.
    pub(crate) may_hang: bool,
    /// A block device that may have less physical space than addresses.
    thin: Option<Thin>,
    /// Files keep their space unless they are thin: a hole might not be filled again.
    pub(crate) discards: Discards,
    name: PathBuf,
    closed: AtomicBool,
    /// Closed with requests in flight that no task waits for.
    abandoned: AtomicBool,
    /// The injected faults.
    faults: OnceLock<Faults>,
}

impl Device {
    /// Opens a file or block device. Its size is taken now, in whole blocks.
    pub(crate) fn open(name: &Path, options: OpenOptions) -> Result<Device, OpenError> {
        let os = |error| OpenError::Os { path: name.to_owned(), error };
        let kind = fs::metadata(name).map_err(os)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::WrongKind(name.to_owned()));
        }
        let file =
            open_file(name, options, kind.is_block_device()).map_err(|error| match error.raw_os_error() {
                Some(libc::EBUSY | libc::EWOULDBLOCK) => OpenError::InUse(name.to_owned()),
                _ => os(error),
            })?;
        let meta = file.metadata().map_err(os)?;
        let mut device;
        if meta.file_type().is_block_device() {
            let bytes = block_device_bytes(&file).map_err(os)?;
            let kernel_name = name_of(meta.rdev());
            device = Device::new(name, route_of_block_device(&kernel_name), bytes, Backing::Block(file));
            device.thin = Thin::of(meta.rdev(), &kernel_name);
            if takes_discards(meta.rdev()) {
                let is_zram = matches!(device.thin, Some(Thin::Zram(_)));
                device.discards = if is_zram { Discards::Zeros } else { Discards::Unspecified };
            }
        } else {
            let (route, may_hang) = route_of_file(&file).map_err(os)?;
            let is_thin = file_space(&file).is_some();
            device = Device::new(name, route, meta.len(), Backing::File(file));
            if is_thin {
                device.discards = Discards::Holes;
            }
            device.may_hang = may_hang;
        }
        if options.read_only {
            device.discards = Discards::Ignored;
        }
        if let Some(route) = options.route.filter(|route| *route != IoRoute::Memory) {
            device.route = route;
        }
        Ok(device)
    }

    /// A member in memory, of `bytes` zeros.
    pub(crate) fn memory(bytes: u64) -> io::Result<Device> {
        let region = Region::new((bytes - bytes % BLOCK_BYTES as u64) as usize)?;
        Ok(Device::new(Path::new("memory"), IoRoute::Memory, bytes, Backing::Memory(region)))
    }

    fn new(name: &Path, route: IoRoute, bytes: u64, backing: Backing) -> Device {
        Device {
            route,
            bytes: bytes - bytes % BLOCK_BYTES as u64,
            rest: (bytes % BLOCK_BYTES as u64) as u16,
            backing,
            may_hang: false,
            thin: None,
            discards: Discards::Ignored,
            name: name.to_owned(),
            closed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            faults: OnceLock::new(),
        }
    }

    /// The name it was opened by.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Closes the device, which has no requests in flight, and releases its lock.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.unlock();
    }

    /// Closes the device without waiting for requests in flight.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
        self.closed.store(true, Ordering::Release);
    }

    /// Injects faults; at most once.
    pub(crate) fn give_faults(&self, faults: Vec<Fault>) {
        let _ = self.faults.set(Faults::new(faults, self.bytes));
    }

    /// The injected faults, active or not.
    pub(crate) fn faults_given(&self) -> Option<&Faults> {
        self.faults.get()
    }

    /// The injected faults, if they are active.
    pub(crate) fn faults(&self) -> Option<&Faults> {
        self.faults.get().filter(|faults| faults.are_on())
    }

    /// Whether it has injected faults that delay requests, active or not.
    pub(crate) fn may_be_delayed(&self) -> bool {
        self.faults.get().is_some_and(Faults::delay)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the damage to the member.
    pub(crate) fn harm(&self) -> Option<Harm> {
        if let Backing::File(file) = &self.backing {
            let meta = file.metadata().ok()?;
            if meta.nlink() == 0 {
                return Some(Harm::Deleted);
            }
            if meta.len() < self.bytes {
                return Some(Harm::Truncated);
            }
        }
        (self.fd().is_some() && !self.name.exists()).then_some(Harm::Unnamed)
    }

    fn unlock(&self) {
        if let Backing::File(file) = &self.backing {
            // SAFETY: a system call on a descriptor we own; no memory is passed.
            unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
        }
    }

    /// The descriptor, unless the device is memory.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        match &self.backing {
            Backing::File(file) | Backing::Block(file) => Some(file.as_raw_fd()),
            Backing::Memory(_) => None,
        }
    }

    /// Whether a request lies on the device and on block boundaries.
    pub(crate) fn check(&self, offset: u64, bytes: u64) -> Result<(), IoError> {
        let block = BLOCK_BYTES as u64;
        let fits = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if fits && offset.is_multiple_of(block) && bytes.is_multiple_of(block) {
            Ok(())
        } else {
            Err(IoError::OutOfRange)
        }
    }

    /// Reads synchronously.
    pub(crate) fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        match &self.backing {
            Backing::File(file) | Backing::Block(file) => {
                file.read_exact_at(into, offset).map_err(|error| io_error(&error))
            }
            Backing::Memory(region) => {
                region.read(offset as usize, into);
                Ok(())
            }
        }
    }

    /// Writes synchronously; `iovecs` is scratch.
    pub(crate) fn write_now(
        &self,
        offset: u64,
        data: &[Buf],
        iovecs: &mut Vec<libc::iovec>,
    ) -> Result<(), IoError> {
        match (&self.backing, data) {
            (Backing::File(file) | Backing::Block(file), [buf]) => {
                file.write_all_at(buf.bytes(), offset).map_err(|error| self.write_error(io_error(&error)))
            }
            (Backing::File(file) | Backing::Block(file), _) => {
                let written = write_gathered(file, offset, data, iovecs);
                written.map_err(|error| self.write_error(io_error(&error)))
            }
            (Backing::Memory(region), _) => {
                let mut at = offset as usize;
                for buf in data {
                    region.write(at, buf.bytes());
                    at += buf.len();
                }
                Ok(())
            }
        }
    }

    /// The error of a write that failed with this one. A thin device may report EIO when it has no physical space left (zram
    /// at its limit does), so its space is asked for at this moment.
    pub(crate) fn write_error(&self, error: IoError) -> IoError {
        match error {
            IoError::Failed(libc::ENOSPC | libc::EDQUOT) => IoError::NoSpace,
            IoError::Failed(libc::EIO) if self.is_out_of_space() => IoError::NoSpace,
            error => error,
        }
    }

    fn is_out_of_space(&self) -> bool {
        self.thin.as_ref().is_some_and(Thin::fails_for_space)
    }

    /// Whether [`Device::physical`] may block: a file system may, a zram that is compacted, and a command to a drive.
    pub(crate) fn may_block_for_space(&self) -> bool {
        matches!(self.backing, Backing::File(_)) || self.thin.is_some()
    }

    /// The physical space of a thin device.
    pub(crate) fn physical(&self) -> Option<Physical> {
        match &self.backing {
            Backing::File(file) => file_space(file),
            Backing::Block(file) => self.thin.as_ref()?.space(file),
            Backing::Memory(_) => None,
        }
    }

    /// Reads the bytes after the last whole block. Through a descriptor of its own: that of the device passes the page cache
    /// by, so it reaches whole blocks only.
    pub(crate) fn read_rest(&self) -> Result<Vec<u8>, IoError> {
        let mut rest = vec![0; usize::from(self.rest)];
        if let (Some(fd), false) = (self.fd(), rest.is_empty()) {
            let file = File::open(format!("/proc/self/fd/{fd}"));
            let read = file.and_then(|file| file.read_exact_at(&mut rest, self.bytes));
            read.map_err(|error| io_error(&error))?;
        }
        Ok(rest)
    }

    /// Overwrites the bytes after the last whole block with zeros, durably.
    pub(crate) fn clear_rest(&self) -> Result<(), IoError> {
        let zeros = vec![0; usize::from(self.rest)];
        if let (Some(fd), false) = (self.fd(), zeros.is_empty()) {
            let file = fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{fd}"));
            let written = file.and_then(|file| file.write_all_at(&zeros, self.bytes).and(file.sync_data()));
            written.map_err(|error| io_error(&error))?;
        }
        Ok(())
    }

    /// Flushes synchronously.
    pub(crate) fn flush_now(&self) -> Result<(), IoError> {
        match &self.backing {
            Backing::File(file) | Backing::Block(file) => file.sync_data().map_err(|error| io_error(&error)),
            Backing::Memory(_) => Ok(()),
        }
    }

    /// Discards synchronously. A device that cannot discard has nothing to do.
    pub(crate) fn discard_now(&self, offset: u64, bytes: u64) -> Result<(), IoError> {
        let done = match &self.backing {
            Backing::File(file) => {
                // SAFETY: a system call on a descriptor we own; no memory is passed.
                checked(unsafe {
                    libc::fallocate(file.as_raw_fd(), PUNCH, offset as libc::off_t, bytes as libc::off_t)
                })
            }
            Backing::Block(file) => {
                let range = [offset, bytes];
                // SAFETY: BLKDISCARD reads two integers, which live until the call returns.
                checked(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD, range.as_ptr()) })
            }
            Backing::Memory(region) => region.discard(offset as usize, bytes as usize),
        };
        match done {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            done => done.map_err(|error| io_error(&error)),
        }
    }
}

impl Drop for Device {
    /// Closing the descriptor is not enough: the kernel may hold the file for a moment after its last completion.
    fn drop(&mut self) {
        self.unlock();
    }
}

/// Frees a file's blocks and leaves its size alone.
pub(crate) const PUNCH: c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
/// `_IO(0x12, 119)`.
const BLKDISCARD: libc::c_ulong = 0x1277;
/// `_IOR(0x12, 114, size_t)`.
const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;

/// The error of the engine for an errno.
pub(crate) fn io_error_of(errno: i32) -> IoError {
    match errno {
        libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM => IoError::Gone,
        errno => IoError::Failed(errno),
    }
}

/// As [`io_error_of`]; an unexpected end of file has no errno and counts as EIO.
fn io_error(error: &io::Error) -> IoError {
    io_error_of(error.raw_os_error().unwrap_or(libc::EIO))
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn write_gathered(file: &File, offset: u64, data: &[Buf], iovecs: &mut Vec<libc::iovec>) -> io::Result<()> {
    let bytes = data.iter().map(Buf::len).sum::<usize>();
    let mut done = 0;
    while done < bytes {
        point_to(data.iter().map(Buf::bytes), done, iovecs);
        let at = (offset + done as u64) as libc::off_t;
        // SAFETY: the vectors and the buffers they point to outlive the call, which only reads them.
        let n = unsafe { libc::pwritev(file.as_raw_fd(), iovecs.as_ptr(), iovecs.len() as c_int, at) };
        match n {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n if n > 0 => done += n as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Opens past the page cache where the file system can, and takes the lock.
fn open_file(name: &Path, options: OpenOptions, is_block: bool) -> io::Result<File> {
    // O_EXCL on a block device keeps out, and is kept out by, mounts and arrays.
    let claim = if is_block && options.exclusive { libc::O_EXCL } else { 0 };
    let open = |direct| {
        fs::OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            .custom_flags(claim | direct | libc::O_CLOEXEC)
            .open(name)
    };
    let file = match open(libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(0)?,
        opened => opened?,
    };
    // On a block device, udev would wait with its events for this lock.
    if options.exclusive && !is_block {
        // SAFETY: a system call on a descriptor we own; no memory is passed.
        checked(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })?;
    }
    Ok(file)
}

fn block_device_bytes(file: &File) -> io::Result<u64> {
    let mut bytes = 0u64;
    // SAFETY: BLKGETSIZE64 writes one 64-bit integer, which outlives the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64, &raw mut bytes) })?;
    Ok(bytes)
}

/// Returns the route that suits the file system of a file, and whether a server or a user process implements that file
/// system: such a file system blocks even on requests that must not block.
fn route_of_file(file: &File) -> io::Result<(IoRoute, bool)> {
    const RAMFS_MAGIC: libc::c_long = 0x8584_58f6;
    const FUSE_MAGIC: libc::c_long = 0x6573_5546;
    const CIFS_MAGIC: libc::c_long = 0xff53_4d42;
    const SMB2_MAGIC: libc::c_long = 0xfe53_4d42;
    const V9FS_MAGIC: libc::c_long = 0x0102_1997;
    const CEPH_MAGIC: libc::c_long = 0x00c3_6400;
    Ok(match statfs_of(file)?.f_type {
        libc::TMPFS_MAGIC | RAMFS_MAGIC => (IoRoute::Inline, false),
        libc::NFS_SUPER_MAGIC | FUSE_MAGIC | CIFS_MAGIC | SMB2_MAGIC | V9FS_MAGIC | CEPH_MAGIC => {
            (IoRoute::Ring, true)
        }
        _ => (IoRoute::Ring, false),
    })
}

/// Whether a block device reports support for discards.
fn takes_discards(number: libc::dev_t) -> bool {
    let device = directory_of(number);
    // A partition has its disk's queue.
    let of = |directory: &str| fs::read_to_string(format!("{device}/{directory}/discard_max_bytes")).ok();
    let most = of("queue").or_else(|| of("../queue"));
    most.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|bytes| bytes > 0)
}

/// zram, brd and pmem complete in the submitting thread.
fn route_of_block_device(name: &str) -> IoRoute {
    let in_memory = ["zram", "ram", "pmem"].iter().any(|prefix| name.starts_with(prefix));
    if in_memory { IoRoute::Inline } else { IoRoute::Ring }
}
