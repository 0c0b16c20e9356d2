//! Streams: echo over TCP and Unix sockets, short transfers, moving between threads, the end of a stream.

// Only to raise a signal.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::transport::Part;
use sinew_uring::net::{Listener, Stream};
use sinew_uring::signal::{Signal, Signals};
use sinew_uring::{Config, Runtime, threads};

fn runtime(sends_inline: bool) -> Runtime {
    Runtime::new(Config { sends_inline, ..Config::default() }).expect("io_uring")
}

async fn echo(stream: Stream) {
    let mut buf = vec![0; 1000];
    loop {
        let (back, got) = stream.recv(buf, 0).await;
        buf = back;
        let len = got.expect("receive");
        if len == 0 {
            return;
        }
        let (head, tail) = (buf[..len / 2].to_vec(), Buf::copy_of(&buf[len / 2..len]));
        let (parts, sent) = stream.send(vec![Part::Bytes(head), Part::Buf(tail)]).await;
        sent.expect("send");
        assert_eq!(parts.len(), 2);
    }
}

/// Sends a megabyte while receiving it back.
fn pump(mut sender: impl Write + Send + 'static, mut receiver: impl Read) {
    let data = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let expected = data.clone();
    let writer = thread::spawn(move || sender.write_all(&data).expect("write"));
    let mut back = vec![0; expected.len()];
    receiver.read_exact(&mut back).expect("read");
    assert!(back == expected, "the echo differs");
    writer.join().expect("no panic");
}

#[test]
fn echo_over_tcp() {
    for inline in [true, false] {
        let runtime = runtime(inline);
        let listener = Listener::bind_tcp(&runtime.io(), "127.0.0.1:0").expect("bind");
        let address: SocketAddr = listener.address().expect("TCP has an address");
        let client = thread::spawn(move || {
            let stream = TcpStream::connect(address).expect("connect");
            pump(stream.try_clone().expect("clone"), stream);
        });
        runtime.block_on(async { echo(listener.accept().await.expect("accept")).await });
        client.join().expect("no panic");
    }
}

#[test]
fn echo_over_unix_on_another_thread() {
    for inline in [true, false] {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let runtime = runtime(inline);
        let listener = Listener::bind_unix(&runtime.io(), &path).expect("bind");
        let client = thread::spawn(move || {
            let stream = UnixStream::connect(path).expect("connect");
            pump(stream.try_clone().expect("clone"), stream);
        });
        let stream = runtime.block_on(listener.accept()).expect("accept");
        let fd = stream.into_fd().ok().expect("nothing in flight");
        let config = Config { sends_inline: inline, ..Config::default() };
        let server =
            threads::spawn_pinned(
                None,
                "echo",
                config,
                |io| async move { echo(Stream::from_fd(&io, fd)).await },
            );
        client.join().expect("no panic");
        server.expect("start").join().expect("no panic").expect("io_uring");
    }
}

#[test]
fn receives_what_there_is() {
    for inline in [true, false] {
        let runtime = runtime(inline);
        let (mut client, server) = UnixStream::pair().expect("a pair");
        let stream = Stream::from_fd(&runtime.io(), OwnedFd::from(server));
        client.write_all(b"abc").expect("write");
        runtime.block_on(async {
            let (buf, got) = stream.recv(vec![b'x'; 10], 2).await;
            assert_eq!((got.expect("short"), &buf[..]), (3, &b"xxabcxxxxx"[..]));
            client.write_all(b"defgh").expect("write");
            let (buf, got) = stream.recv_buf(Buf::zeroed(8), 5).await;
            assert_eq!((got.expect("as much as fits"), buf.bytes()), (3, &b"\0\0\0\0\0def"[..]));
            let (_, got) = stream.recv(vec![0; 10], 0).await;
            assert_eq!(got.expect("the rest"), 2);
            drop(client);
            let (_, got) = stream.recv(vec![0; 10], 0).await;
            assert_eq!(got.expect("the end"), 0);
            let (_, sent) = stream.send(vec![Part::Bytes(vec![0; 10])]).await;
            assert!(sent.is_err(), "sending to a closed connection fails, without a signal");
        });
    }
}

#[test]
fn shutdown_ends_a_receive() {
    let runtime = runtime(true);
    let (_client, server) = UnixStream::pair().expect("a pair");
    let io = runtime.io();
    let stream = Stream::from_fd(&io, OwnedFd::from(server));
    let same = stream.clone();
    let (done, ended) = async_channel::bounded(1);
    io.spawn(async move {
        let (_, got) = same.recv(vec![0; 10], 0).await;
        done.send(got.expect("the end")).await.expect("report");
    });
    runtime.block_on(async {
        io.sleep(1_000_000).await;
        let stream = stream.into_fd().expect_err("a receive is in flight");
        stream.shutdown();
        assert_eq!(ended.recv().await, Ok(0));
    });
}

#[test]
fn signals_arrive_as_a_future() {
    let signals = Signals::take_over().expect("signals");
    let runtime = runtime(true);
    let io = runtime.io();
    runtime.block_on(async {
        // SAFETY: the signal goes to this thread only, which blocks it; the harness's other threads would die of it.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_eq!(signals.next(&io).await.expect("a signal"), Signal::Terminate);
    });
}
