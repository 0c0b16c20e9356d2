//! The client: against the project's own server, and against servers that err, lie, stall and vanish.

mod harness;

use std::cell::RefCell;
use std::rc::Rc;

use harness::client::welcome;
use harness::memory::{MemoryExports, MemoryVolume, TaskIo};
use harness::wire::{ClientEnd, Wire};
use proptest::prelude::*;
use sinew_core::buf::{Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_frontend::nbd::proto::{self, Errno, Headers, ReplyTo, chunk};
use sinew_frontend::nbd::{Client, ClientError, TlsMode, serve_connection};

type WireClient = Client<TaskIo, ClientEnd>;

const BYTES: u64 = 64 << 20;
const PATIENCE_NS: u64 = 1_000_000_000;
const ONE: ReplyTo = ReplyTo::Structured { cookie: 1 };

async fn connect(io: &TaskIo, wire: &Wire, export: &str) -> Result<WireClient, ClientError> {
    Client::connect(io, Rc::new(ClientEnd(wire.clone())), export, PATIENCE_NS, None).await
}

/// A client of the project's own server on a memory volume.
fn served<T>(cuts: &[usize], exports: MemoryExports, test: impl AsyncFnOnce(WireClient) -> T) -> T {
    let (io, wire) = (TaskIo::new(), Wire::cut(cuts));
    let (server, stream) = (io.clone(), Rc::new(wire.clone()));
    io.spawn(async move {
        let _ = serve_connection(server, stream, exports, &TlsMode::Off).await;
    });
    io.block_on(async {
        let client = connect(&io, &wire, "disk").await.expect("the export is there");
        test(client).await
    })
}

fn one_disk(volume: &MemoryVolume) -> MemoryExports {
    MemoryExports(vec![("disk", volume.clone()), ("archive!", volume.clone())])
}

fn bytes(parts: &[Buf]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.bytes().iter().copied()).collect()
}

fn pattern(len: usize, seed: usize) -> Buf {
    Buf::copy_of(&(0..len).map(|i| (i * 31 + seed * 7 + i / 251) as u8).collect::<Vec<_>>())
}

#[test]
fn what_is_written_is_read() {
    for cuts in [&[][..], &[1], &[27, 1, 4096], &[7, 29, 512]] {
        let volume = MemoryVolume::new(BYTES);
        served(cuts, one_disk(&volume), async |client| {
            assert_eq!((client.terms().bytes, client.terms().headers), (BYTES, Headers::Extended));
            for (offset, len) in [(0, 4096), (4096, 100_000), (BYTES - 512, 512), (777, 333)] {
                let data = pattern(len, offset as usize);
                client.write(offset, &data).await.expect("written");
                assert_eq!(bytes(&client.read(offset, len as u32).await.expect("read")), data.bytes());
            }
            // Holes and data in one reply.
            let data = bytes(&client.read(0, 1 << 20).await.expect("read"));
            assert_eq!((data.len(), &data[4096..4106]), (1 << 20, &pattern(100_000, 4096).bytes()[..10]));
            assert!(data[200_000..].iter().all(|byte| *byte == 0));
            client.flush().await.expect("flushed");
            client.trim(0, 1 << 20).await.expect("trimmed");
            assert!(bytes(&client.read(0, 4096).await.expect("read")).iter().all(|byte| *byte == 0));
            assert!(client.read(5, 0).await.expect("nothing").is_empty());
            client.close().await;
            assert_eq!(client.flush().await, Err(ClientError::Closed));
        });
        assert_eq!(volume.counts().0, 1);
    }
}

#[test]
fn a_trim_of_terabytes_is_one_request_where_the_server_knows_long_ones() {
    let volume = MemoryVolume::new(1 << 45);
    served(&[7, 29, 512], one_disk(&volume), async |client| {
        client.write(1 << 44, &pattern(8192, 1)).await.expect("written");
        client.trim(4096, (1 << 45) - 4096).await.expect("trimmed");
        assert_eq!(bytes(&client.read(1 << 44, 8192).await.expect("read")), [0; 8192]);
    });
    assert_eq!(volume.discards(), 1);
}

#[test]
fn what_exceeds_the_largest_payload_is_split() {
    let len = proto::PAYLOAD_BYTES_MAX as usize + 4096;
    served(&[], one_disk(&MemoryVolume::new(BYTES)), async |client| {
        let data = pattern(len, 3);
        client.write(8192, &data).await.expect("written");
        assert!(bytes(&client.read(8192, len as u32).await.expect("read")) == data.bytes());
    });
}

#[test]
fn replies_out_of_order_find_their_requests() {
    let mut volume = MemoryVolume::new(BYTES);
    volume.yields = 7;
    served(&[], one_disk(&volume), async |client| {
        let client = &client;
        let all = smol::LocalExecutor::new();
        let one = async |i: u64| {
            let data = pattern(4096, i as usize);
            client.write(i * 4096, &data).await.expect("written");
            assert_eq!(bytes(&client.read(i * 4096, 4096).await.expect("read")), data.bytes(), "block {i}");
        };
        let tasks: Vec<_> = (0..200).map(|i| all.spawn(one(i))).collect();
        all.run(async {
            for task in tasks {
                task.await;
            }
        })
        .await;
    });
}

#[test]
fn refusals_end_a_request_and_not_the_connection() {
    let volume = MemoryVolume::new(BYTES);
    served(&[], one_disk(&volume), async |client| {
        let errno = |error: ClientError| match error {
            ClientError::Refused { errno, .. } => errno,
            other => panic!("{other}"),
        };
        for (error, wanted) in [
            (VolumeError::NoSpace, Errno::NoSpc),
            (VolumeError::Failed, Errno::Io),
            (VolumeError::Gone, Errno::Shutdown),
        ] {
            volume.fail(Some(error));
            assert_eq!(errno(client.write(0, &pattern(4096, 0)).await.expect_err("it fails")), wanted);
            assert_eq!(errno(client.read(0, 4096).await.expect_err("it fails")), wanted);
        }
        volume.fail(None);
        assert_eq!(errno(client.read(BYTES, 1).await.expect_err("past the end")), Errno::Inval);
        client.read(0, 4096).await.expect("it goes on");
    });
}

#[test]
fn a_read_only_export_is_not_written_to() {
    let (io, wire) = (TaskIo::new(), Wire::default());
    let (server, exports) = (io.clone(), one_disk(&MemoryVolume::new(BYTES)));
    let stream = Rc::new(wire.clone());
    io.spawn(async move {
        let _ = serve_connection(server, stream, exports, &TlsMode::Off).await;
    });
    io.block_on(async {
        let client = connect(&io, &wire, "archive").await.expect("it is there");
        let refused = |error: ClientError| matches!(error, ClientError::Refused { errno: Errno::Perm, .. });
        assert!(client.write(0, &pattern(512, 0)).await.is_err_and(refused));
        assert!(client.trim(0, 512).await.is_err_and(refused));
    });
}

#[test]
fn an_export_that_is_not_there_is_named() {
    let (io, wire) = (TaskIo::new(), Wire::default());
    let (server, exports) = (io.clone(), one_disk(&MemoryVolume::new(BYTES)));
    let stream = Rc::new(wire.clone());
    io.spawn(async move {
        let _ = serve_connection(server, stream, exports, &TlsMode::Off).await;
    });
    let error = io.block_on(connect(&io, &wire, "nothing")).err().expect("there is no such export");
    assert!(error.to_string().contains("no export \"nothing\""), "{error}");
}

type Read = Rc<RefCell<Option<Result<Bufs, ClientError>>>>;

/// A client that reads 64 bytes at 4096, and gets these bytes from a server that is none.
fn answered(
    structured: bool,
    reply: &[u8],
    then: impl FnOnce(&TaskIo, &Wire),
) -> Option<Result<Vec<u8>, ClientError>> {
    answered_behind(&welcome(BYTES, structured), reply, then)
}

/// As [`answered`], behind these words of the handshake.
fn answered_behind(
    welcome: &[u8],
    reply: &[u8],
    then: impl FnOnce(&TaskIo, &Wire),
) -> Option<Result<Vec<u8>, ClientError>> {
    let (io, wire) = (TaskIo::new(), Wire::default());
    wire.push_replies(welcome);
    let (done, task, stream) = (Read::default(), io.clone(), wire.clone());
    let result = Rc::clone(&done);
    io.spawn(async move {
        let client = connect(&task, &stream, "x").await.expect("welcome");
        let read = client.read(4096, 64).await;
        *result.borrow_mut() = Some(read);
    });
    io.settle();
    wire.push_replies(reply);
    io.settle();
    then(&io, &wire);
    let result = done.borrow_mut().take();
    result.map(|read| read.map(|parts| bytes(&parts)))
}

/// A read of a client with extended headers, answered by a server that is none.
fn answered_extended(reply: &[u8]) -> Option<Result<Vec<u8>, ClientError>> {
    let mut hello = welcome(BYTES, false);
    // The first answer becomes a yes, so the second one, to what is asked for less, does not come.
    let (greeting, replies) = hello.split_at_mut(proto::GREETING_BYTES);
    let (first, rest) = replies.split_at_mut(proto::OPTION_REPLY_BYTES);
    first[12..16].copy_from_slice(&proto::option_reply::ACK.to_be_bytes());
    let hello = [greeting, first, &mut rest[proto::OPTION_REPLY_BYTES..]].concat();
    answered_behind(&hello, reply, |_, _| ())
}

#[test]
fn extended_replies_are_told_from_nonsense() {
    let to = |cookie| ReplyTo::Extended { cookie, offset: 4096 };
    let good = reply(|out| {
        proto::hole_chunk(out, to(1), 0, 4096 + 32, 32);
        proto::data_chunk(out, to(1), chunk::FLAG_DONE, 4096, 32);
        out.extend([9; 32]);
    });
    assert_eq!(answered_extended(&good), Some(Ok([[9; 32], [0; 32]].concat())));
    let refused = reply(|out| proto::error_chunk(out, to(1), Errno::NoSpc, "full"));
    assert!(matches!(
        answered_extended(&refused),
        Some(Err(ClientError::Refused { errno: Errno::NoSpc, .. }))
    ));
    let mut absurd = reply(|out| proto::chunk_header(out, to(1), chunk::OFFSET_DATA, 0, 8 + 32));
    absurd[24] = 255;
    for wrong in [
        absurd,
        reply(|out| proto::chunk_header(out, to(2), chunk::NONE, chunk::FLAG_DONE, 0)),
        reply(|out| proto::chunk_header(out, to(1), chunk::NONE, chunk::FLAG_DONE, 0)),
        // Structured headers, and simple replies, are not extended ones.
        reply(|out| proto::error_chunk(out, ONE, Errno::Io, "a long enough message")),
        reply(|out| (0..2).for_each(|_| proto::simple_reply(out, 1, 0))),
    ] {
        let found = answered_extended(&wrong);
        assert!(matches!(found, Some(Err(ClientError::Violation(_)))), "{found:?}");
    }
}

fn reply(make: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    make(&mut out);
    out
}

#[test]
fn chunks_in_any_order_make_a_read() {
    let chunks = reply(|out| {
        proto::hole_chunk(out, ONE, 0, 4096 + 32, 32);
        proto::data_chunk(out, ONE, 0, 4096, 32);
        out.extend([9; 32]);
        proto::chunk_header(out, ONE, chunk::NONE, chunk::FLAG_DONE, 0);
    });
    let wanted = [[9; 32], [0; 32]].concat();
    assert_eq!(answered(true, &chunks, |_, _| ()), Some(Ok(wanted)));
    let simple = reply(|out| {
        proto::simple_reply(out, 1, 0);
        out.extend([7; 64]);
    });
    assert_eq!(answered(false, &simple, |_, _| ()), Some(Ok(vec![7; 64])));
}

#[test]
fn servers_that_break_the_protocol_are_left() {
    let whole = |cookie, offset, len: u32| {
        reply(|out| {
            proto::data_chunk(out, ReplyTo::Structured { cookie }, chunk::FLAG_DONE, offset, len);
            out.extend(vec![1; len as usize]);
        })
    };
    let wrong = [
        (true, vec![0; 16]),
        (true, whole(2, 4096, 64)),
        (true, whole(1, 4096, 63)),
        (true, whole(1, 4095, 64)),
        (true, whole(1, 0, 64)),
        (true, whole(1, 4096, 65)),
        (true, reply(|out| proto::chunk_header(out, ONE, chunk::NONE, chunk::FLAG_DONE, 0))),
        (true, reply(|out| proto::chunk_header(out, ONE, chunk::NONE, 0, u32::MAX))),
        (true, reply(|out| proto::chunk_header(out, ONE, chunk::OFFSET_DATA, 0, u32::MAX))),
        (true, reply(|out| proto::chunk_header(out, ONE, chunk::ERROR, 0, u32::MAX))),
        (true, reply(|out| proto::hole_chunk(out, ONE, chunk::FLAG_DONE, 4096, u32::MAX))),
        (true, reply(|out| proto::simple_reply(out, 1, 0))),
        (
            true,
            reply(|out| {
                proto::chunk_header(out, ONE, chunk::ERROR, chunk::FLAG_DONE, 6);
                out.extend([0, 0, 0, 5, 255, 255]);
            }),
        ),
        (false, whole(1, 4096, 64)),
        (false, reply(|out| proto::simple_reply(out, 9, 0))),
    ];
    for (i, (structured, reply)) in wrong.into_iter().enumerate() {
        let found = answered(structured, &reply, |_, _| ());
        assert!(matches!(found, Some(Err(ClientError::Violation(_)))), "{i}: {found:?}");
    }
}

#[test]
fn a_server_that_vanishes_or_stalls_is_left() {
    let half = reply(|out| {
        proto::data_chunk(out, ONE, chunk::FLAG_DONE, 4096, 64);
        out.extend([1; 20]);
    });
    let vanished = answered(true, &half, |io, wire| {
        sinew_frontend::transport::Stream::shutdown(wire);
        io.settle();
    });
    assert_eq!(vanished, Some(Err(ClientError::Closed)));
    assert_eq!(answered(true, &half, |_, _| ()), None);
    let stalled = answered(true, &half, |io, _| {
        for _ in 0..8 {
            io.advance(PATIENCE_NS / 4);
            io.settle();
        }
    });
    assert_eq!(stalled, Some(Err(ClientError::Silent(PATIENCE_NS))));
}

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let (io, wire) = (TaskIo::new(), Wire::default());
    let (done, task, stream) = (Rc::new(RefCell::new(None)), io.clone(), wire.clone());
    let result = Rc::clone(&done);
    io.spawn(async move { *result.borrow_mut() = connect(&task, &stream, "x").await.err() });
    io.settle();
    io.advance(3600 * PATIENCE_NS);
    io.settle();
    assert!(matches!(done.borrow_mut().take(), Some(ClientError::Silent(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever comes, from the greeting on or after a good beginning: no panic, and an end once the server has left.
    #[test]
    fn any_bytes_are_survived(
        good in 0usize..3,
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        flips in proptest::collection::vec((0usize..400, any::<u8>()), 0..4),
    ) {
        let mut bytes = if good > 0 { welcome(BYTES, good == 2) } else { Vec::new() };
        bytes.extend(reply(|out| {
            proto::data_chunk(out, ONE, chunk::FLAG_DONE, 4096, 64);
            out.extend([1; 64]);
        }));
        bytes.extend(noise);
        for (at, flip) in flips {
            let at = at % bytes.len();
            bytes[at] ^= flip;
        }
        let (io, wire) = (TaskIo::new(), Wire::default());
        let (done, task, stream) = (Rc::new(RefCell::new(false)), io.clone(), wire.clone());
        let ended = Rc::clone(&done);
        io.spawn(async move {
            if let Ok(client) = connect(&task, &stream, "x").await {
                let _ = client.read(4096, 64).await;
                let _ = client.flush().await;
            }
            *ended.borrow_mut() = true;
        });
        wire.push_replies(&bytes);
        io.settle();
        sinew_frontend::transport::Stream::shutdown(&wire);
        io.settle();
        prop_assert!(*done.borrow());
    }
}
