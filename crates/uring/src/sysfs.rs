//! Block devices in sysfs.

use std::fs;

use libc::dev_t;

/// The directory of a block device.
pub(crate) fn directory_of(number: dev_t) -> String {
    format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number))
}

/// The kernel's name of a block device; empty if there is none.
pub(crate) fn name_of(number: dev_t) -> String {
    let target = fs::read_link(directory_of(number)).unwrap_or_default();
    target.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned()
}
