//! Sockets of the Linux world as streams of the NBD frontend, and the pool's volumes as its exports.

use std::io;
use std::rc::Rc;

use sinew_engine::buf::Buf;
use sinew_engine::client::{PoolClient, VolumeHandle};
use sinew_engine::control::Catalog;
use sinew_frontend::exports::{Export, Exports};
use sinew_frontend::nbd::serve_connection;
use sinew_frontend::transport::{Part, Stream};
use sinew_uring::UringIo;
use sinew_uring::net;

struct Socket(net::Stream);

impl Stream for Socket {
    async fn recv(&self, buf: Vec<u8>, at: usize) -> (Vec<u8>, io::Result<usize>) {
        self.0.recv(buf, at).await
    }

    async fn recv_buf(&self, buf: Buf, at: usize) -> (Buf, io::Result<usize>) {
        self.0.recv_buf(buf, at).await
    }

    async fn send(&self, parts: Vec<Part>) -> (Vec<Part>, io::Result<()>) {
        let parts = parts.into_iter().map(|part| match part {
            Part::Bytes(bytes) => net::Part::Bytes(bytes),
            Part::Buf(buf) => net::Part::Buf(buf),
        });
        let (parts, result) = self.0.send(parts.collect()).await;
        let parts = parts.into_iter().map(|part| match part {
            net::Part::Bytes(bytes) => Part::Bytes(bytes),
            net::Part::Buf(buf) => Part::Buf(buf),
        });
        (parts.collect(), result)
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

struct PoolExports {
    client: PoolClient<UringIo>,
    catalog: Catalog,
}

impl Exports for PoolExports {
    type Volume = VolumeHandle<UringIo>;

    fn names(&self) -> Vec<String> {
        self.catalog.names()
    }

    fn open(&self, name: &str) -> Option<Export<Self::Volume>> {
        let volume = self.client.volume(self.catalog.get(name)?);
        Some(Export { name: name.to_owned(), description: String::new(), volume, read_only: false })
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve(io: UringIo, stream: net::Stream, client: PoolClient<UringIo>, catalog: Catalog) {
    // How a client's connection ends is the client's business.
    let _ = serve_connection(io, Rc::new(Socket(stream)), PoolExports { client, catalog }).await;
}
