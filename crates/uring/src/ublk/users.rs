//! Whether a block device is in use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether the block device at `path` is mounted, part of another device, or open in a process. True also when that cannot be
/// told; false when there is no device.
pub(super) fn may_be_in_use(path: &Path) -> bool {
    match look_for_users(path) {
        Ok(has_users) => has_users,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn look_for_users(path: &Path) -> io::Result<bool> {
    let number = fs::metadata(path)?.rdev();
    // The kernel's own users hold it exclusively.
    match OpenOptions::new().read(true).custom_flags(libc::O_EXCL | libc::O_NONBLOCK).open(path) {
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(true),
        Err(error) => return Err(error),
    }
    let is_process = |name: &str| name.bytes().all(|c| c.is_ascii_digit());
    for process in fs::read_dir("/proc")?.flatten() {
        if process.file_name().to_str().is_some_and(is_process) && has_open(&process.path(), number)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a process has a block device open.
///
/// # Errors
/// When this process may not see that.
fn has_open(process: &Path, number: u64) -> io::Result<bool> {
    let descriptors = match fs::read_dir(process.join("fd")) {
        Ok(descriptors) => descriptors,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        // It has ended.
        Err(_) => return Ok(false),
    };
    let is_it = |descriptor: fs::DirEntry| {
        let meta = fs::metadata(descriptor.path());
        meta.is_ok_and(|meta| meta.file_type().is_block_device() && meta.rdev() == number)
    };
    Ok(descriptors.flatten().any(is_it))
}
