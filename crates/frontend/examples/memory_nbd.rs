//! Serves a volume in memory on a Unix socket, for trying real clients: `memory_nbd SOCKET SIZE_MIB`.
//!
//! One thread per connection; sockets through smol. Exports: `disk` (the default) and `archive`, the same read-only.

#[path = "../tests/harness/memory.rs"]
#[allow(dead_code)]
mod memory;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;

use memory::{MemoryExports, MemoryVolume, TaskIo};
use sinew_core::buf::Buf;
use sinew_frontend::nbd::{TlsMode, serve_connection};
use sinew_frontend::transport::{Part, Stream};
use smol::Async;
use smol::io::AsyncWriteExt;

/// `writev` takes no more than this many pieces.
const PIECES_MAX: usize = 1024;

struct Socket(Async<UnixStream>);

impl Stream for Socket {
    async fn recv(&self, mut buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        let received = smol::io::AsyncReadExt::read(&mut &self.0, &mut buf[at..]).await;
        (buf, received)
    }

    async fn recv_buf(&self, mut buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        let received = smol::io::AsyncReadExt::read(&mut &self.0, &mut buf.bytes_mut()[at..]).await;
        (buf, received)
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        for some in parts.chunks(PIECES_MAX) {
            if let Err(error) = send_pieces(&self.0, some).await {
                return (parts, Err(error));
            }
        }
        (parts, Ok(()))
    }

    fn shutdown(&self) {
        let _ = self.0.get_ref().shutdown(Shutdown::Both);
    }
}

async fn send_pieces(mut socket: &Async<UnixStream>, parts: &[Part]) -> io::Result<()> {
    let mut slices: Vec<_> = parts.iter().map(|part| io::IoSlice::new(part.bytes())).collect();
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        match socket.write_vectored(left).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            sent => io::IoSlice::advance_slices(&mut left, sent),
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(mib)) = (args.next(), args.next().and_then(|mib| mib.parse::<u64>().ok())) else {
        return Err(io::Error::other("usage: memory_nbd SOCKET SIZE_MIB"));
    };
    let volume = MemoryVolume::new(mib << 20);
    let exports = MemoryExports(vec![("disk*", volume.clone()), ("archive!", volume)]);
    let listener = UnixListener::bind(path)?;
    for stream in listener.incoming() {
        let (stream, exports) = (stream?, exports.clone());
        std::thread::spawn(move || {
            let Ok(socket) = Async::new(stream) else { return };
            let io = TaskIo::new();
            let served = serve_connection(io.clone(), Rc::new(Socket(socket)), exports, &TlsMode::Off);
            let end = io.block_on(served);
            eprintln!("connection ended: {end:?}");
        });
    }
    Ok(())
}
