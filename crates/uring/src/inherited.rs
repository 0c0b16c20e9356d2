//! Sockets that the process was started with (sd_listen_fds(3)): by systemd, or by a client that starts its own server.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the sockets that `LISTEN_FDS` and `LISTEN_PID` name. A second call gives none.
///
/// # Errors
/// When the variables make no sense, or a descriptor is no stream socket that listens.
pub fn sockets() -> io::Result<Vec<OwnedFd>> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for fd in sd_notify::listen_fds()? {
        // SAFETY: the starter of this process opened the descriptor for the code that obeys the variables. That is this code,
        // once.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let is_stream = option(&fd, libc::SO_TYPE)? == libc::SOCK_STREAM;
        if !is_stream || option(&fd, libc::SO_ACCEPTCONN)? == 0 {
            return Err(io::Error::other("a descriptor of LISTEN_FDS is no stream socket that listens"));
        }
        // The ring waits for connections only if the socket blocks. The family of the socket makes no difference here.
        let listener = UnixListener::from(fd);
        listener.set_nonblocking(false)?;
        all.push(listener.into());
    }
    Ok(all)
}

/// An option of a socket that is a number.
fn option(fd: &OwnedFd, name: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes one integer, and its length, both of which outlive the call.
    let done = unsafe {
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, name, (&raw mut value).cast(), &raw mut len)
    };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
