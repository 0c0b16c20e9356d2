//! Block devices that may have less physical space than addresses.

use std::fs::File;

use libc::dev_t;
use sinew_core::physical::Physical;

use crate::nvme::Nvme;
use crate::zram::{ZRAM_RESERVE, compacted_zram_space, zram_space};

/// A block device that tells its physical space.
pub(crate) enum Thin {
    Zram(dev_t),
    Nvme(Nvme),
}

impl Thin {
    /// A block device with this name, if it is of a kind that tells.
    pub(crate) fn of(number: dev_t, name: &str) -> Option<Thin> {
        if name.starts_with("zram") {
            return Some(Thin::Zram(number));
        }
        if name.starts_with("nvme") { Nvme::of(number).map(Thin::Nvme) } else { None }
    }

    /// The physical space; `None` if the device has as much as addresses, or does not tell. May block.
    pub(crate) fn space(&self, file: &File) -> Option<Physical> {
        match self {
            Thin::Zram(number) => compacted_zram_space(*number),
            Thin::Nvme(nvme) => nvme.space(file),
        }
    }

    /// Whether a write that failed with EIO at this moment may have failed for lack of space.
    pub(crate) fn fails_for_space(&self) -> bool {
        match self {
            Thin::Zram(number) => {
                let free = zram_space(*number).and_then(|space| space.free);
                free.is_some_and(|free| free < ZRAM_RESERVE)
            }
            Thin::Nvme(_) => false,
        }
    }
}
