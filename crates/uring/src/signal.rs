//! SIGINT, SIGTERM and SIGHUP as a future.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use crate::io::UringIo;

/// The signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: a person at the terminal.
    Interrupt,
    /// SIGTERM: the service manager.
    Terminate,
    /// SIGHUP: the terminal has gone.
    HangUp,
}

/// Receives SIGINT, SIGTERM and SIGHUP, which then do not end the process.
pub struct Signals(OwnedFd);

impl Signals {
    /// Takes the three signals over. Call it before starting threads: they inherit the mask, and a thread without it
    /// would still be killed.
    ///
    /// # Errors
    /// When the kernel refuses the signal mask or the descriptor.
    pub fn take_over() -> io::Result<Signals> {
        // SAFETY: a signal set is plain bits, for which zeros are a value; each call gets pointers to this local.
        let fd = unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, libc::SIGINT);
            libc::sigaddset(&raw mut set, libc::SIGTERM);
            libc::sigaddset(&raw mut set, libc::SIGHUP);
            let failed = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
            if failed != 0 {
                return Err(io::Error::from_raw_os_error(failed));
            }
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just created and nothing else owns it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Waits for the next of the three signals, on the runtime of `io`.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated or read.
    pub async fn next(&self, io: &UringIo) -> io::Result<Signal> {
        let fd = Rc::new(self.0.try_clone()?);
        loop {
            io.core.readable(&fd).await;
            // SAFETY: plain integers, for which zeros are a value.
            let mut info: libc::signalfd_siginfo = unsafe { mem::zeroed() };
            // SAFETY: the kernel fills at most the structure, which outlives the call.
            let got = unsafe { libc::read(fd.as_raw_fd(), (&raw mut info).cast(), size_of_val(&info)) };
            if got == size_of_val(&info) as isize {
                return Ok(match info.ssi_signo as i32 {
                    libc::SIGINT => Signal::Interrupt,
                    libc::SIGHUP => Signal::HangUp,
                    _ => Signal::Terminate,
                });
            }
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
                return Err(error);
            }
        }
    }
}
