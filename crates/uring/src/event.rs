//! Descriptors by which another process wakes a task of this one, or is woken: eventfds, and pipes that stand in for them.
//!
//! The other process shares the descriptor and may do with it what it likes. It can make neither side wait: reads and writes
//! do not block, and what a wait is for is that the descriptor is readable, not a value.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use crate::io::UringIo;

/// Such a descriptor, on one runtime.
pub struct Event {
    io: UringIo,
    fd: Rc<OwnedFd>,
    /// The slot of the request that waits.
    waiting: Cell<Option<usize>>,
    is_silenced: Cell<bool>,
}

impl Event {
    /// Takes over a descriptor. It is set to not block, also for others that share it.
    pub fn from_fd(io: &UringIo, fd: OwnedFd) -> Event {
        // SAFETY: system calls on a descriptor that we own, without memory. On a descriptor that is none for events they may
        // fail; then so do reads and writes.
        unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        let (waiting, is_silenced) = (Cell::new(None), Cell::new(false));
        Event { io: io.clone(), fd: Rc::new(fd), waiting, is_silenced }
    }

    /// Waits until the other side has written, and takes that; true. False after [`Event::silence`], or when the other side
    /// cannot write any more. One task waits at a time.
    pub async fn happened(&self) -> bool {
        while !self.is_silenced.get() {
            let readable = self.io.core.becomes_readable(&self.fd);
            self.waiting.set(readable.slot());
            readable.await;
            self.waiting.set(None);
            let mut value = [0u8; 8];
            // SAFETY: the kernel writes at most eight bytes to a local of that size.
            let read = unsafe { libc::read(self.fd.as_raw_fd(), value.as_mut_ptr().cast(), value.len()) };
            match read {
                1.. => return !self.is_silenced.get(),
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => {}
                _ => return false,
            }
        }
        false
    }

    /// Ends the wait, and every later one.
    pub fn silence(&self) {
        self.is_silenced.set(true);
        if let Some(slot) = self.waiting.take() {
            self.io.core.ring.borrow_mut().cancel(slot);
        }
    }

    /// Wakes the other side. If there is no room for an event, the other side has not taken earlier ones: it is awake.
    pub fn send(&self) {
        let one = 1u64;
        // SAFETY: the kernel reads eight bytes from a local.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}
