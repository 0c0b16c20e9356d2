//! Every command, in both styles of reply, and what a connection does under pressure.

mod harness;

use harness::client::{Bench, Reply, hello, request};
use harness::wire::Wire;
use sinew_core::volume::VolumeError;
use sinew_frontend::nbd::proto::{PAYLOAD_BYTES_MAX, chunk, command, command_flag};
use sinew_frontend::nbd::server::{BYTES_MAX, ConnectionEnd, REQUESTS_MAX};

const END: u64 = 64 << 20;

fn done(cookie: u64) -> Reply {
    Reply::Simple { cookie, error: 0, data: vec![] }
}

fn failed(cookie: u64, error: u32) -> Reply {
    Reply::Simple { cookie, error, data: vec![] }
}

fn read(cookie: u64, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    request(command::READ, flags, cookie, offset, len, &[])
}

fn write(cookie: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    request(command::WRITE, 0, cookie, offset, data.len() as u32, data)
}

fn zero(cookie: u64, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    request(command::WRITE_ZEROES, flags, cookie, offset, len, &[])
}

/// One chunk: its kind, whether it is the last, and its payload.
fn chunk_of(reply: &Reply) -> (u16, bool, &[u8]) {
    match reply {
        Reply::Chunk { kind, done, data, .. } => (*kind, *done, data),
        other => panic!("not a chunk: {other:?}"),
    }
}

/// The error in a structured reply.
fn chunk_errno(replies: &[Reply]) -> u32 {
    let [reply] = replies else { panic!("{replies:?}") };
    let (kind, done, data) = chunk_of(reply);
    assert!(done && kind == chunk::ERROR);
    assert_eq!(usize::from(u16::from_be_bytes([data[4], data[5]])), data.len() - 6);
    u32::from_be_bytes(data[..4].try_into().unwrap())
}

/// The extents of the whole volume.
fn map(bench: &Bench, flags: u16) -> Vec<(u32, u32)> {
    let replies = bench.ask(&request(command::BLOCK_STATUS, flags, 1, 0, END as u32, &[]));
    let (kind, done, data) = chunk_of(&replies[0]);
    assert!(done && kind == chunk::BLOCK_STATUS && data[..4] == [0, 0, 0, 1]);
    let int = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
    data[4..].chunks(8).map(|extent| (int(&extent[..4]), int(&extent[4..]))).collect()
}

#[test]
fn simple_reads_bring_what_was_written() {
    let bench = Bench::in_transmission(false);
    for (offset, len) in [(0, 4096), (5, 1), (4095, 2), (8192, 100_000), (END - 1, 1), (1 << 20, 3 << 20)] {
        let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8 + 1).collect();
        assert_eq!(bench.ask(&write(7, offset, &data)), [done(7)]);
        let replies = bench.talk(&read(8, 0, offset, len as u32)).replies(|_| len);
        assert_eq!(replies, [Reply::Simple { cookie: 8, error: 0, data }]);
    }
    assert_eq!(bench.ask(&read(1, 0, 0, 0)), [done(1)]);
    assert_eq!(bench.ask(&write(1, 0, &[])), [done(1)]);
    assert_eq!(bench.ask(&read(2, 0, END, 1)), [failed(2, 22)]);
    assert_eq!(bench.ask(&read(2, command_flag::DF, 0, 1)), [failed(2, 22)]);
    assert_eq!(bench.ask(&read(2, 0, 0, PAYLOAD_BYTES_MAX + 1)), [failed(2, 22)]);
    assert_eq!(bench.ask(&request(command::BLOCK_STATUS, 0, 3, 0, 4096, &[])), [failed(3, 22)]);
}

#[test]
fn structured_reads_tell_holes_unless_one_chunk_is_wanted() {
    let bench = Bench::in_transmission(true);
    bench.ask(&write(1, 0, &[1; 65536]));
    bench.ask(&write(1, 131_072, &[2; 4096]));
    let replies = bench.ask(&read(2, 0, 0, 135_168));
    let offset = |at: u64| at.to_be_bytes();
    let data = [&offset(0)[..], &[1; 65536]].concat();
    let hole = [&offset(65536)[..], &65536u32.to_be_bytes()].concat();
    let tail = [&offset(131_072)[..], &[2; 4096]].concat();
    let chunks: Vec<_> = replies.iter().map(chunk_of).collect();
    assert_eq!(chunks, [(1, false, &data[..]), (2, false, &hole[..]), (1, true, &tail[..])]);

    let replies = bench.ask(&read(2, command_flag::DF, 0, 135_168));
    assert_eq!(replies.len(), 1);
    assert_eq!(chunk_of(&replies[0]).2.len(), 8 + 135_168);

    let replies = bench.ask(&read(2, 0, 200_000, 100));
    assert_eq!(chunk_of(&replies[0]).0, chunk::OFFSET_HOLE);
    let replies = bench.ask(&read(2, command_flag::DF, 200_000, 100));
    assert_eq!(chunk_of(&replies[0]).0, chunk::OFFSET_DATA);
    assert_eq!(bench.ask(&read(3, 0, 9, 0)).iter().map(chunk_of).collect::<Vec<_>>(), [(0, true, &[][..])]);
    assert_eq!(chunk_errno(&bench.ask(&read(2, 0, END - 1, 2))), 22);
    assert_eq!(chunk_errno(&bench.ask(&read(2, 0, 0, PAYLOAD_BYTES_MAX + 1))), 75);
}

#[test]
fn flush_and_fua_reach_the_volume() {
    let bench = Bench::in_transmission(true);
    assert_eq!(bench.ask(&request(command::FLUSH, 0, 1, 0, 0, &[])), [done(1)]);
    assert_eq!(bench.volume.counts(), (1, 0));
    bench.ask(&request(command::WRITE, command_flag::FUA, 1, 0, 4, b"data"));
    bench.ask(&zero(1, command_flag::FUA, 0, 4096));
    assert_eq!(bench.volume.counts(), (1, 2));
    bench.ask(&request(command::TRIM, command_flag::FUA, 1, 0, 4096, &[]));
    bench.ask(&zero(1, command_flag::FUA | command_flag::NO_HOLE, 0, 4096));
    assert_eq!(bench.volume.counts(), (3, 2));
    assert_eq!(chunk_errno(&bench.ask(&request(command::FLUSH, 0, 1, 0, 1, &[]))), 22);
}

#[test]
fn zeros_trims_and_the_map() {
    let bench = Bench::in_transmission(true);
    assert_eq!(map(&bench, 0), [(END as u32, 3)]);
    bench.ask(&write(1, 4 << 20, &vec![1; 4 << 20]));
    assert_eq!(map(&bench, 0), [(4 << 20, 3), (4 << 20, 0), (56 << 20, 3)]);
    assert_eq!(map(&bench, command_flag::REQ_ONE), [(4 << 20, 3)]);
    assert_eq!(bench.ask(&zero(2, command_flag::FAST_ZERO, 5 << 20, 1 << 20)), [done(2)]);
    assert_eq!(map(&bench, 0)[..3], [(4 << 20, 3), (1 << 20, 0), (1 << 20, 3)]);
    // Kept blocks: unaligned at both ends, longer than one piece.
    assert_eq!(bench.ask(&zero(3, command_flag::NO_HOLE, (20 << 20) + 5, (3 << 20) + 7)), [done(3)]);
    assert_eq!(map(&bench, 0)[5..7], [((3 << 20) + 4096, 0), ((41 << 20) - 4096, 3)]);
    assert_eq!(chunk_errno(&bench.ask(&zero(3, 0b1_0010, 0, 1))), 95);
    assert_eq!(bench.ask(&request(command::TRIM, 0, 4, 0, END as u32, &[])), [done(4)]);
    assert_eq!(map(&bench, 0), [(END as u32, 3)]);
    assert_eq!(bench.ask(&request(command::CACHE, 0, 5, 0, END as u32, &[])), [done(5)]);
    assert_eq!(chunk_errno(&bench.ask(&request(command::BLOCK_STATUS, 0, 1, 0, 0, &[]))), 22);
}

#[test]
fn a_long_map_comes_in_parts() {
    let bench = Bench::in_transmission(true);
    (0..END / 8192).for_each(|at| drop(bench.ask(&write(1, at * 8192, &[1; 4096]))));
    let extents = map(&bench, 0);
    assert_eq!(extents.len(), 8192);
    assert_eq!(extents[..2], [(4096, 0), (4096, 3)]);
}

#[test]
fn errors_have_their_numbers_and_writes_beyond_the_end_are_skipped() {
    let bench = Bench::in_transmission(false);
    let mut script = write(1, END - 1, &[1; 5000]);
    script.extend(request(command::WRITE, 1 << 9, 2, 0, 3, b"abc"));
    script.extend(request(99, 0, 3, 0, 77, &[]));
    script.extend(request(command::FLUSH, 0, 4, 0, 0, &[]));
    assert_eq!(bench.ask(&script), [failed(1, 28), failed(2, 22), failed(3, 22), done(4)]);
    for (error, errno) in [
        (VolumeError::NoSpace, 28),
        (VolumeError::Failed, 5),
        (VolumeError::Gone, 108),
        (VolumeError::OutOfRange, 28),
    ] {
        bench.volume.fail(Some(error));
        assert_eq!(bench.ask(&write(5, 0, b"x")), [failed(5, errno)]);
    }
    bench.volume.fail(Some(VolumeError::Failed));
    let structured = Bench::start(
        Wire::default(),
        bench.volume.clone(),
        harness::memory::MemoryExports(vec![("disk", bench.volume.clone())]),
    );
    structured.talk(&hello("disk", true));
    for code in [command::READ, command::TRIM, command::WRITE_ZEROES, command::BLOCK_STATUS] {
        assert_eq!(chunk_errno(&structured.ask(&request(code, 0, 1, 0, 4096, &[]))), 5);
    }
}

#[test]
fn an_absurdly_long_write_is_skipped() {
    let bench = Bench::in_transmission(false);
    let len = PAYLOAD_BYTES_MAX + 1;
    bench.talk(&request(command::WRITE, 0, 1, 0, len, &[]));
    let piece = vec![0; 1 << 20];
    (0..32).for_each(|_| assert!(bench.talk(&piece).0.is_empty()));
    assert_eq!(bench.ask(&[0]), [failed(1, 22)]);
}

#[test]
fn disconnect_waits_for_requests_in_flight() {
    let bench = Bench::in_transmission(false);
    bench.volume.hold();
    let mut script = write(1, 0, b"held");
    script.extend(request(command::DISC, 0, 0, 0, 0, &[]));
    assert_eq!(bench.ask(&script), []);
    assert_eq!(bench.end(), None);
    bench.volume.release();
    assert_eq!(bench.ask(&[]), [done(1)]);
    assert_eq!(bench.end(), Some(ConnectionEnd::Disconnected));
}

#[test]
fn a_vanished_client_leaves_nothing_behind() {
    let bench = Bench::in_transmission(false);
    bench.volume.hold();
    (0..10).for_each(|at| drop(bench.talk(&write(at, at * 4096, &[9; 4096]))));
    bench.wire.close();
    assert_eq!(bench.end(), None, "requests are under way");
    bench.volume.release();
    assert_eq!(bench.end(), Some(ConnectionEnd::Vanished));
    assert!(bench.wire.pull().is_empty());
}

#[test]
fn a_client_vanishing_inside_a_message_is_an_end() {
    for cut in [1, 27, 28, 29, 28 + 20_000] {
        let bench = Bench::in_transmission(true);
        bench.talk(&write(1, 0, &[1; 40_000])[..cut]);
        bench.wire.close();
        assert_eq!(bench.end(), Some(ConnectionEnd::Vanished));
    }
}

#[test]
fn bad_magic_drops_the_connection() {
    let bench = Bench::in_transmission(true);
    bench.talk(&[0x55; 28]);
    assert!(matches!(bench.end(), Some(ConnectionEnd::Violation(_))));
}

#[test]
fn requests_in_flight_are_limited() {
    let bench = Bench::in_transmission(true);
    bench.volume.hold();
    let many = 32 * REQUESTS_MAX as usize;
    let one = read(1, 0, 0, 4096);
    bench.talk(&one.repeat(many));
    // What is not let in stays on the wire, but for the read-ahead.
    let left = bench.wire.unreceived();
    assert!(left >= one.len() * (many - REQUESTS_MAX as usize) - 2 * (64 << 10), "only {left} bytes left");
    bench.talk(&one);
    assert_eq!(bench.wire.unreceived(), left + one.len(), "nothing more is read");
    bench.volume.release();
    assert_eq!(bench.ask(&[]).len(), many + 1);
}

#[test]
fn bytes_in_flight_are_limited() {
    let bench = Bench::in_transmission(false);
    bench.volume.hold();
    let data = vec![3; 8 << 20];
    (0..12).for_each(|cookie| drop(bench.talk(&write(cookie, 0, &data))));
    let taken = 12 * (data.len() + 28) - bench.wire.unreceived();
    assert!(taken as u64 <= BYTES_MAX + (64 << 10) + 12 * 28, "{taken} bytes were taken");
    bench.volume.release();
    assert_eq!(bench.ask(&[]).len(), 12);
}

#[test]
fn a_slow_reader_stalls_only_itself() {
    let bench = Bench::in_transmission(true);
    bench.ask(&write(1, 0, &vec![5; 8 << 20]));
    bench.wire.limit(1000);
    let requests = read(2, 0, 0, 8 << 20).repeat(4000);
    bench.wire.push(&requests);
    bench.io.settle();
    assert!(bench.wire.unreceived() > requests.len() - (65 << 10), "more than the read-ahead was received");
    // It goes on as soon as the client takes something, and ends when it goes away.
    assert_eq!(bench.wire.pull().len(), 1000);
    bench.io.settle();
    assert_eq!(bench.wire.pull().len(), 1000);
    bench.wire.close();
    assert_eq!(bench.end(), Some(ConnectionEnd::Vanished));
}

#[test]
fn replies_of_a_burst_share_sends() {
    let bench = Bench::in_transmission(true);
    bench.volume.hold();
    let before = bench.wire.sends();
    bench.talk(&read(1, 0, 0, 4096).repeat(64));
    bench.volume.release();
    assert_eq!(bench.ask(&[]).len(), 64);
    assert!(bench.wire.sends() - before <= 4, "{} sends for 64 replies", bench.wire.sends() - before);
}
