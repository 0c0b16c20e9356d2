//! Makes, finds, takes over and removes devices. All calls block.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use io_uring::cqueue;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};

use super::abi::{self, ControlCommand, DeviceInfo, Params};
use super::queue::QueueStart;
use super::users::may_be_in_use;

const CONTROL: &str = "/dev/ublk-control";
/// How long the kernel may take to see that a server has ended, or to make the nodes of a device.
const SETTLE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);
/// Tags of each queue of a new device.
const DEPTH: u16 = 128;
/// Bytes of a request, at most.
const IO_BYTES_MAX: u32 = 1 << 20;
/// Bytes of a discard, or of zeros, at most: numbers of sectors have 32 bits.
const DISCARD_BYTES_MAX: u64 = 1 << 30;

/// Why a device could not be made, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The driver is not there.
    #[error(
        "there is no {CONTROL}: block devices need Linux 6.5 or newer with its driver ublk_drv; load it with `modprobe ublk_drv`"
    )]
    NoDriver,
    /// The driver is older than Linux 6.5.
    #[error("the kernel's driver ublk_drv is too old: block devices need Linux 6.5 or newer")]
    TooOld,
    /// This process may not.
    #[error("this process may not make block devices: run it as root, or give it CAP_SYS_ADMIN")]
    NotAllowed,
    /// A command failed.
    #[error("the kernel cannot {0}: {1}")]
    Failed(&'static str, io::Error),
}

/// What a new device is like.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Its size, a multiple of 512.
    pub bytes: u64,
    /// The unit of writes that need no read, a power of two, at least 512.
    pub block_bytes: u32,
    /// Whether it refuses writes.
    pub read_only: bool,
}

/// What a device waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It was made and not started.
    New,
    /// A server answers its requests.
    Live,
    /// Its server has ended; its requests wait for another.
    Waiting,
    /// Its requests fail.
    Failing,
}

/// A device of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    /// Its number.
    pub number: u32,
    /// What its server knows it by.
    pub owner: u64,
    /// Its state.
    pub state: DeviceState,
    /// The process that serves it, or served it last.
    pub server: u32,
    queues: u16,
    depth: u16,
}

impl Device {
    fn of(info: &DeviceInfo) -> Device {
        Device {
            number: info.device,
            owner: info.owner,
            state: match info.state {
                abi::STATE_LIVE => DeviceState::Live,
                abi::STATE_QUIESCED => DeviceState::Waiting,
                0 => DeviceState::New,
                _ => DeviceState::Failing,
            },
            server: info.server.max(0) as u32,
            queues: info.queues,
            depth: info.depth,
        }
    }

    /// The block device.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.number))
    }

    fn character_path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkc{}", self.number))
    }
}

/// A device that this process is to serve: its queues are to be begun, and then the device with [`Control::start`].
pub struct Opened {
    /// The device.
    pub device: Device,
    /// Its queues.
    pub queues: Vec<QueueStart>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it waited for a server.
    pub is_taken_over: bool,
}

/// The way to the driver.
pub struct Control {
    file: File,
    ring: IoUring<Entry128, cqueue::Entry>,
    features: u64,
}

impl Control {
    /// Opens the driver.
    ///
    /// # Errors
    /// When there is none, it is too old, or this process may not use it.
    pub fn open() -> Result<Control, ControlError> {
        let file =
            OpenOptions::new().read(true).write(true).open(CONTROL).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ControlError::NoDriver,
                io::ErrorKind::PermissionDenied => ControlError::NotAllowed,
                _ => ControlError::Failed("open its driver for block devices", error),
            })?;
        let ring = IoUring::<Entry128, cqueue::Entry>::builder().build(4);
        let ring = ring.map_err(|error| ControlError::Failed("make an io_uring of large entries", error))?;
        let mut control = Control { file, ring, features: 0 };
        let mut features = 0u64;
        control.exchange(abi::GET_FEATURES, 0, &mut features).map_err(|error| {
            match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => ControlError::NotAllowed,
                Some(libc::EOPNOTSUPP | libc::EINVAL) => ControlError::TooOld,
                _ => ControlError::Failed("tell the features of its driver ublk_drv", error),
            }
        })?;
        control.features = features;
        let needed = abi::USER_RECOVERY | abi::USER_RECOVERY_REISSUE | abi::CMD_IOCTL_ENCODE | abi::USER_COPY;
        if features & needed == needed { Ok(control) } else { Err(ControlError::TooOld) }
    }

    /// Carries a command out.
    fn command(&mut self, operation: u32, command: ControlCommand) -> io::Result<()> {
        let mut bytes = [0; 80];
        bytes[..size_of_val(&command)].copy_from_slice(bytemuck::bytes_of(&command));
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, operation).cmd(bytes).build();
        // SAFETY: what the command refers to outlives this call, which waits for the end of the command; the descriptor is
        // ours.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if let Some(done) = self.ring.completion().next() {
                return match done.result() {
                    error @ ..0 => Err(io::Error::from_raw_os_error(-error)),
                    _ => Ok(()),
                };
            }
        }
    }

    /// Carries out a command with a structure that it reads or writes.
    fn exchange<T>(&mut self, operation: u32, device: u32, with: &mut T) -> io::Result<()> {
        let len = size_of::<T>() as u16;
        let address = std::ptr::from_mut(with) as u64;
        self.command(
            operation,
            ControlCommand { device, queue: u16::MAX, len, address, ..Zeroable::zeroed() },
        )
    }

    fn order(&mut self, operation: u32, device: u32, data: u64) -> io::Result<()> {
        self.command(operation, ControlCommand { device, queue: u16::MAX, data, ..Zeroable::zeroed() })
    }

    fn info(&mut self, number: u32) -> io::Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        self.exchange(abi::GET_DEV_INFO, number, &mut info)?;
        Ok(info)
    }

    /// The devices that there are.
    ///
    /// # Errors
    /// When the directory of devices cannot be read.
    pub fn devices(&mut self) -> Result<Vec<Device>, ControlError> {
        let entries =
            std::fs::read_dir("/dev").map_err(|error| ControlError::Failed("list devices", error))?;
        let number = |name: &str| name.strip_prefix("ublkc")?.parse::<u32>().ok();
        let mut numbers: Vec<u32> =
            entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        // One may have been removed since, or belong to another user.
        Ok(numbers.into_iter().filter_map(|number| self.info(number).ok()).map(|i| Device::of(&i)).collect())
    }

    /// A device by its number.
    pub fn device(&mut self, number: u32) -> Option<Device> {
        self.info(number).ok().map(|info| Device::of(&info))
    }

    /// Waits until a device whose server has ended waits for another, or until that takes too long; returns its last state.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn settle(&mut self, device: &Device) -> Result<Device, ControlError> {
        let until = Instant::now() + SETTLE;
        loop {
            let info =
                self.info(device.number).map_err(|error| ControlError::Failed("find the device", error))?;
            let now = Device::of(&info);
            let is_served = Path::new(&format!("/proc/{}", now.server)).exists();
            if now.state != DeviceState::Live || is_served || Instant::now() > until {
                return Ok(now);
            }
            sleep(LOOK);
        }
    }

    /// Makes a device with this number, or any, that will be known by `owner`; it has `queues` queues, or as many as the machine
    /// has processors if those are fewer.
    ///
    /// # Errors
    /// When the kernel refuses, for example because the number is taken.
    pub fn create(
        &mut self,
        number: Option<u32>,
        owner: u64,
        queues: u16,
        geometry: Geometry,
    ) -> Result<Opened, ControlError> {
        let number = number.unwrap_or(u32::MAX);
        let flags = abi::USER_RECOVERY
            | abi::USER_RECOVERY_REISSUE
            | abi::CMD_IOCTL_ENCODE
            | abi::USER_COPY
            | self.features & (abi::UPDATE_SIZE | abi::SAFE_STOP_DEV);
        let mut info = DeviceInfo {
            queues,
            depth: DEPTH,
            io_bytes_max: IO_BYTES_MAX,
            device: number,
            flags,
            owner,
            ..Zeroable::zeroed()
        };
        let failed = |error| ControlError::Failed("make a block device", error);
        self.exchange(abi::ADD_DEV, number, &mut info).map_err(failed)?;
        let device = Device::of(&info);
        let mut params = params(geometry);
        let set = self.exchange(abi::SET_PARAMS, device.number, &mut params).map_err(failed);
        set.and_then(|()| open(device, geometry.bytes, false)).inspect_err(|_| {
            // It is of no use to anyone, and not in use.
            let _ = self.order(abi::DEL_DEV, device.number, 0);
        })
    }

    /// Takes over a device that waits for a server.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_over(&mut self, device: Device) -> Result<Opened, ControlError> {
        let failed = |error| ControlError::Failed("take a block device over", error);
        let mut params = Params { len: size_of::<Params>() as u32, ..Zeroable::zeroed() };
        self.exchange(abi::GET_PARAMS, device.number, &mut params).map_err(failed)?;
        // The queues of the last server may still be being closed.
        let is_passing = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
        retry(is_passing, || self.order(abi::START_USER_RECOVERY, device.number, 0)).map_err(failed)?;
        open(device, params.device_sectors * abi::SECTOR_BYTES, true)
    }

    /// Starts a device whose queues have begun; returns when all have. Its first requests may come before.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self, device: &Device, is_taken_over: bool) -> Result<(), ControlError> {
        let (operation, what) = match is_taken_over {
            true => (abi::END_USER_RECOVERY, "take a block device over"),
            false => (abi::START_DEV, "start a block device"),
        };
        let started = self.order(operation, device.number, u64::from(std::process::id()));
        started.map_err(|error| ControlError::Failed(what, error))
    }

    /// Tells the kernel the new size of a device. False if its driver cannot be told.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn resize(&mut self, device: &Device, bytes: u64) -> Result<bool, ControlError> {
        let failed = |error| ControlError::Failed("change the size of a block device", error);
        let info = self.info(device.number).map_err(failed)?;
        if info.flags & abi::UPDATE_SIZE == 0 {
            return Ok(false);
        }
        self.order(abi::SET_SIZE, device.number, bytes / abi::SECTOR_BYTES).map_err(failed)?;
        Ok(true)
    }

    /// Ends the block device: those that have it open get errors from now on. Its queues end when what is under way has been
    /// answered, which this call waits for.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&mut self, device: &Device) -> Result<(), ControlError> {
        let stopped = self.order(abi::STOP_DEV, device.number, 0);
        stopped.map_err(|error| ControlError::Failed("stop a block device", error))
    }

    /// As [`Control::stop`], unless the device is in use or may be; false then. Older drivers do not tell; then mounts
    /// and the descriptors of all processes are looked at, for which this process needs CAP_SYS_PTRACE.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop_unused(&mut self, device: &Device) -> Result<bool, ControlError> {
        let info =
            self.info(device.number).map_err(|error| ControlError::Failed("find the device", error))?;
        if info.flags & abi::SAFE_STOP_DEV != 0 {
            return match self.order(abi::TRY_STOP_DEV, device.number, 0) {
                Ok(()) => Ok(true),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Ok(false),
                Err(error) => Err(ControlError::Failed("stop a block device", error)),
            };
        }
        if may_be_in_use(&device.path()) {
            return Ok(false);
        }
        self.stop(device).map(|()| true)
    }

    /// Removes a device that has been stopped, once the queues have been dropped.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn remove(&mut self, device: &Device) -> Result<(), ControlError> {
        let removed = self.order(abi::DEL_DEV, device.number, 0);
        removed.map_err(|error| ControlError::Failed("remove a block device", error))
    }
}

/// Tries again while it fails with a passing error, until that takes too long.
fn retry<T>(
    is_passing: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let until = Instant::now() + SETTLE;
    loop {
        match attempt() {
            Err(error) if is_passing(&error) && Instant::now() < until => sleep(LOOK),
            result => return result,
        }
    }
}

/// Opens the character device, and all queues.
fn open(device: Device, bytes: u64, is_taken_over: bool) -> Result<Opened, ControlError> {
    let failed = |error| ControlError::Failed("open the queues of a block device", error);
    // udev may not have made it yet, or looks at it.
    let path = device.character_path();
    let file = retry(|_| true, || OpenOptions::new().read(true).write(true).open(&path)).map_err(failed)?;
    let queue = |index| QueueStart::new(&file, index, device.depth);
    let queues = (0..device.queues).map(queue).collect::<io::Result<_>>().map_err(failed)?;
    Ok(Opened { device, queues, bytes, is_taken_over })
}

fn params(geometry: Geometry) -> Params {
    let Geometry { bytes, block_bytes, read_only } = geometry;
    let sectors = |bytes: u64| (bytes / abi::SECTOR_BYTES) as u32;
    let attributes =
        abi::ATTR_VOLATILE_CACHE | abi::ATTR_FUA | if read_only { abi::ATTR_READ_ONLY } else { 0 };
    let block_shift = block_bytes.ilog2() as u8;
    Params {
        len: size_of::<Params>() as u32,
        types: abi::PARAM_BASIC | abi::PARAM_DISCARD,
        attributes,
        logical_shift: abi::SECTOR_BYTES.ilog2() as u8,
        physical_shift: block_shift,
        optimal_shift: block_shift,
        minimal_shift: block_shift,
        sectors_max: sectors(IO_BYTES_MAX.into()),
        device_sectors: bytes / abi::SECTOR_BYTES,
        discard_granularity: block_bytes,
        discard_sectors_max: sectors(DISCARD_BYTES_MAX),
        zeroes_sectors_max: sectors(DISCARD_BYTES_MAX),
        discard_segments_max: 1,
        ..Zeroable::zeroed()
    }
}
