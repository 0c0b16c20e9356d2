//! A member made of memory, for benchmarks: a lazily allocated anonymous mapping.
//!
//! Like a device, it does not order concurrent transfers to one range. Callers must not let a write overlap another
//! transfer in time *and* place; the engine never does, as shards own disjoint ranges and a range is read only after
//! its write has completed. Under that contract the plain copies below do not race.

use std::io;
use std::ptr::{self, NonNull};

/// An anonymous mapping of zeros.
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory without thread affinity; access to it follows the module's contract.
unsafe impl Send for Region {}
// SAFETY: as above: transfers that overlap in time touch disjoint ranges or only read.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes of zeros; pages are allocated when first written.
    pub(crate) fn new(len: usize) -> io::Result<Region> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Region { base, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies `to.len()` bytes from `offset`.
    pub(crate) fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset.checked_add(to.len()).is_some_and(|end| end <= self.len), "read past a memory member");
        // SAFETY: the range is inside the mapping (asserted), `to` is an exclusive reference elsewhere, and no request
        // writes the range meanwhile by the module's contract.
        unsafe { ptr::copy_nonoverlapping(self.base.as_ptr().add(offset), to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` to `offset`.
    pub(crate) fn write(&self, offset: usize, from: &[u8]) {
        assert!(
            offset.checked_add(from.len()).is_some_and(|end| end <= self.len),
            "write past a memory member"
        );
        // SAFETY: the range is inside the mapping (asserted), `from` lies elsewhere, and no other request touches the range
        // meanwhile by the module's contract.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.base.as_ptr().add(offset), from.len()) }
    }

    /// Releases the pages of a range; they read as zeros.
    pub(crate) fn discard(&self, offset: usize, len: usize) -> io::Result<()> {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "discard past a memory member");
        // SAFETY: the range is inside our own private mapping, of which no reference exists outside the copies above.
        let failed =
            unsafe { libc::madvise(self.base.as_ptr().add(offset).cast(), len, libc::MADV_DONTNEED) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no copy runs any more as no other reference to the region exists.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
