//! Sockets for frontends: bytes in owned buffers, over TCP or Unix sockets, on the runtime of the thread.
//!
//! A receive goes through the ring, a send first tries a non-blocking system call unless the runtime is configured not to:
//! the bytes almost always fit the buffer of the socket, and the peer receives them before this thread does other work. One
//! task may receive while another sends; two tasks that send (or receive) at once on one stream interleave.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::ptr;
use std::rc::Rc;

use io_uring::{opcode, types};
use sinew_core::buf::Buf;
use sinew_core::transport::Part;

use crate::io::UringIo;
use crate::iovecs::point_to;
use crate::ring::{Payload, Sending};

/// A socket that accepts connections.
pub struct Listener {
    io: UringIo,
    fd: Rc<OwnedFd>,
    address: Option<SocketAddr>,
}

impl Listener {
    /// Listens on a TCP address; with port 0 the system chooses one, see [`Listener::address`].
    ///
    /// # Errors
    /// When the address does not resolve or cannot be bound.
    pub fn bind_tcp(io: &UringIo, address: impl ToSocketAddrs) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        let address = Some(listener.local_addr()?);
        Ok(Listener { io: io.clone(), fd: Rc::new(listener.into()), address })
    }

    /// Listens on a Unix socket at `path`, which must not exist. The caller removes it.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn bind_unix(io: &UringIo, path: impl AsRef<Path>) -> io::Result<Listener> {
        Ok(Listener { io: io.clone(), fd: Rc::new(UnixListener::bind(path)?.into()), address: None })
    }

    /// Takes over a socket that listens, over TCP or at a Unix socket; it must block.
    pub fn from_fd(io: &UringIo, fd: OwnedFd) -> Listener {
        let listener = TcpListener::from(fd);
        let address = listener.local_addr().ok();
        Listener { io: io.clone(), fd: Rc::new(listener.into()), address }
    }

    /// The path of the Unix socket it listens at, if it has one.
    pub fn path(&self) -> Option<PathBuf> {
        let listener = UnixListener::from(self.fd.try_clone().ok()?);
        listener.local_addr().ok()?.as_pathname().map(Path::to_owned)
    }

    /// The TCP address it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// When the kernel refuses to accept connections, such as for lack of descriptors.
    pub async fn accept(&self) -> io::Result<Stream> {
        let entry = opcode::Accept::new(types::Fd(self.fd.as_raw_fd()), ptr::null_mut(), ptr::null_mut())
            .flags(libc::SOCK_CLOEXEC)
            .build();
        loop {
            // SAFETY: the entry refers to a descriptor only, which the payload keeps open.
            let op = unsafe { self.io.core.submit(entry.clone(), Payload::Accept(Rc::clone(&self.fd))) };
            match op.await.0 {
                fd if fd >= 0 => {
                    // SAFETY: the kernel just made this descriptor for us.
                    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                    if self.address.is_some() {
                        no_delay(&fd);
                    }
                    return Ok(Stream::from_fd(&self.io, fd));
                }
                // The peer closed before the connection was accepted; the listener is intact.
                error if matches!(-error, libc::ECONNABORTED | libc::EINTR | libc::EAGAIN) => {}
                error => return Err(io::Error::from_raw_os_error(-error)),
            }
        }
    }
}

/// Replies are written whole, so waiting to fill a segment only adds latency.
fn no_delay(fd: &OwnedFd) {
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads one integer that outlives the call. Failure costs speed only.
    unsafe {
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const on).cast(), size_of_val(&on) as u32);
    }
}

/// A connection. Clones are the same connection.
#[derive(Clone)]
pub struct Stream {
    io: UringIo,
    fd: Rc<OwnedFd>,
}

impl Stream {
    /// Takes over a connection, for example from another runtime's [`Stream::into_fd`].
    pub fn from_fd(io: &UringIo, fd: OwnedFd) -> Stream {
        Stream { io: io.clone(), fd: Rc::new(fd) }
    }

    /// Releases the connection, so that it can move to another runtime.
    ///
    /// # Errors
    /// Returns the stream while there are clones of it or transfers in flight.
    pub fn into_fd(self) -> Result<OwnedFd, Stream> {
        let Stream { io, fd } = self;
        Rc::try_unwrap(fd).map_err(|fd| Stream { io, fd })
    }

    /// The address of the other end, if this is a TCP connection that is still open.
    pub fn peer(&self) -> Option<SocketAddr> {
        TcpStream::from(self.fd.try_clone().ok()?).peer_addr().ok()
    }

    /// Receives into `buf[at..]`. Returns the number of bytes, at least one; 0 is the end of the stream.
    ///
    /// # Errors
    /// When the connection is broken.
    ///
    /// # Panics
    /// When there is no room after `at`.
    pub async fn recv(&self, buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        match self.recv_part(Part::Bytes(buf), at).await {
            (Part::Bytes(buf), done) => (buf, done),
            (Part::Buf(_), _) => unreachable!("a slot keeps its payload"),
        }
    }

    /// As [`Stream::recv`], into the only handle of a `Buf`.
    ///
    /// # Errors
    /// When the connection is broken.
    ///
    /// # Panics
    /// When there is no room after `at`, or another handle shares the memory.
    pub async fn recv_buf(&self, buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        match self.recv_part(Part::Buf(buf), at).await {
            (Part::Buf(buf), done) => (buf, done),
            (Part::Bytes(_), _) => unreachable!("a slot keeps its payload"),
        }
    }

    async fn recv_part(&self, mut part: Part, at: usize) -> (Part, io::Result<usize>) {
        let fd = self.fd.as_raw_fd();
        loop {
            let room = &mut part.bytes_mut()[at..];
            assert!(!room.is_empty(), "receive without room");
            let (start, len) = (room.as_mut_ptr(), room.len());
            let entry = opcode::Recv::new(types::Fd(fd), start, len.min(i32::MAX as usize) as u32).build();
            // SAFETY: the payload owns the buffer, whose memory is on the heap and has no other handle, and keeps the
            // descriptor open.
            let op = unsafe { self.io.core.submit(entry, Payload::Recv(part, Rc::clone(&self.fd))) };
            let (result, Payload::Recv(back, _)) = op.await else { unreachable!("a slot keeps its payload") };
            part = back;
            match result_of(result) {
                Err(error) if is_retry(&error) => {}
                result => return (part, result),
            }
        }
    }

    /// Sends all bytes of all parts, in order, and returns the parts.
    ///
    /// # Errors
    /// When the connection is broken; an unknown prefix was sent.
    pub async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        let total = parts.iter().map(|part| part.bytes().len()).sum::<usize>();
        let mut sent = 0;
        if self.io.core.config.sends_inline {
            self.io.core.breathe(0).await;
            match self.send_now(&parts) {
                Ok(count) => sent = count,
                Err(error) if is_retry(&error) => {}
                Err(error) => return (parts, Err(error)),
            }
        }
        if sent == total {
            return (parts, Ok(()));
        }
        self.send_ring(parts, sent, total).await
    }

    /// One non-blocking attempt.
    fn send_now(&self, parts: &[Part]) -> io::Result<usize> {
        let mut iovecs = self.io.core.iovecs.borrow_mut();
        point_to(parts.iter().map(Part::bytes), 0, &mut iovecs);
        let header = header_of(&mut iovecs);
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: header, vectors and the bytes they point to outlive the call, which only reads them.
        done(unsafe { libc::sendmsg(self.fd.as_raw_fd(), &raw const header, flags) })
    }

    async fn send_ring(
        &self,
        parts: Vec<Part>,
        mut sent: usize,
        total: usize,
    ) -> (Vec<Part>, io::Result<()>) {
        let mut sending = Box::new(Sending { parts, iovecs: Vec::new(), header: header_of(&mut []) });
        while sent < total {
            let Sending { parts, iovecs, header } = &mut *sending;
            point_to(parts.iter().map(Part::bytes), sent, iovecs);
            *header = header_of(iovecs);
            let entry = opcode::SendMsg::new(types::Fd(self.fd.as_raw_fd()), &raw const *header)
                .flags(libc::MSG_NOSIGNAL as u32)
                .build();
            // SAFETY: the payload owns header, vectors and bytes, all on the heap, and keeps the descriptor open.
            let op = unsafe { self.io.core.submit(entry, Payload::Send(sending, Rc::clone(&self.fd))) };
            let (result, Payload::Send(back, _)) = op.await else { unreachable!("a slot keeps its payload") };
            sending = back;
            match result_of(result) {
                Ok(count) => sent += count,
                Err(error) if is_retry(&error) => {}
                Err(error) => return (sending.parts, Err(error)),
            }
        }
        (sending.parts, Ok(()))
    }

    /// Ends the connection in both directions; transfers in flight return.
    pub fn shutdown(&self) {
        // SAFETY: a system call on a descriptor we own. It fails only when the peer has ended the connection already.
        unsafe { libc::shutdown(self.fd.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn header_of(iovecs: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: msghdr is integers and pointers, for which zeros are a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = iovecs.as_mut_ptr();
    header.msg_iovlen = iovecs.len() as _;
    header
}

fn done(result: isize) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

fn result_of(result: i32) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
}

fn is_retry(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}
