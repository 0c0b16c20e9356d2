//! Requests and replies with extended headers, as a client sees them.

mod harness;

use harness::client::{Bench, ExtendedReply, extended_request, hello_extended, request};
use harness::memory::{MemoryExports, MemoryVolume};
use harness::wire::Wire;
use sinew_frontend::nbd::ConnectionEnd;
use sinew_frontend::nbd::proto::{PAYLOAD_BYTES_MAX, chunk, command, command_flag, state};

const END: u64 = 1 << 44;
const PAYLOAD: u16 = command_flag::PAYLOAD_LEN;

/// A volume of 16 TiB, in transmission.
fn transmitting() -> Bench {
    let volume = MemoryVolume::new(END);
    let bench = Bench::start(Wire::default(), volume.clone(), MemoryExports(vec![("disk", volume)]));
    bench.talk(&hello_extended("disk"));
    bench
}

fn ask(bench: &Bench, command: u16, flags: u16, range: (u64, u64), payload: &[u8]) -> Vec<ExtendedReply> {
    bench.talk(&extended_request(command, flags, 5, range, payload)).extended_replies()
}

fn done(offset: u64) -> Vec<ExtendedReply> {
    vec![ExtendedReply { cookie: 5, offset, done: true, kind: chunk::NONE, data: vec![] }]
}

/// The error of a reply that is one.
fn errno(replies: &[ExtendedReply]) -> u32 {
    let [reply] = replies else { panic!("{replies:?}") };
    assert!(reply.done && reply.kind == chunk::ERROR, "{reply:?}");
    u32::from_be_bytes(reply.data[..4].try_into().unwrap())
}

#[test]
fn every_reply_is_extended_and_names_the_offset_of_its_request() {
    let bench = transmitting();
    let at = END - 4096;
    assert_eq!(ask(&bench, command::WRITE, PAYLOAD, (at, 4096), &[7; 4096]), done(at));
    // The flag may be missing: what follows a write is its payload all the same.
    assert_eq!(ask(&bench, command::WRITE, command_flag::FUA, (0, 100), &[8; 100]), done(0));
    assert_eq!(bench.volume.counts(), (0, 1));
    let read = ask(&bench, command::READ, command_flag::DF, (at, 4096), &[]);
    let data = [&at.to_be_bytes()[..], &[7; 4096]].concat();
    let reply = ExtendedReply { cookie: 5, offset: at, done: true, kind: chunk::OFFSET_DATA, data };
    assert_eq!(read, [reply]);
    let hole = ask(&bench, command::READ, 0, (1 << 40, 1 << 20), &[]);
    let data = [&(1u64 << 40).to_be_bytes()[..], &(1u32 << 20).to_be_bytes()].concat();
    assert_eq!((hole[0].kind, &hole[0].data), (chunk::OFFSET_HOLE, &data));
    assert_eq!(ask(&bench, command::READ, 0, (4096, 0), &[]), done(4096));
    assert_eq!(ask(&bench, command::FLUSH, 0, (0, 0), &[]), done(0));
    assert_eq!(ask(&bench, command::CACHE, 0, (0, END), &[]), done(0));
}

#[test]
fn lengths_of_64_bits_are_one_request() {
    let bench = transmitting();
    ask(&bench, command::WRITE, PAYLOAD, (1 << 43, 8192), &[7; 8192]);
    assert_eq!(ask(&bench, command::WRITE_ZEROES, 0, (4096, END - 4096), &[]), done(4096));
    assert_eq!(ask(&bench, command::TRIM, 0, (0, END), &[]), done(0));
    assert_eq!(bench.volume.discards(), 1);
    for (command, range, want) in [
        (command::TRIM, (4096, END), 22),
        (command::TRIM, (u64::MAX, u64::MAX), 22),
        (command::WRITE_ZEROES, (0, u64::MAX), 28),
        (command::READ, (0, u64::from(PAYLOAD_BYTES_MAX) + 1), 75),
        (command::READ, (0, u64::MAX), 75),
        (command::BLOCK_STATUS, (4096, END), 22),
        (77, (0, 0), 22),
    ] {
        assert_eq!(errno(&ask(&bench, command, 0, range, &[])), want, "command {command} at {range:?}");
    }
}

#[test]
fn block_status_has_64_bits_and_a_bounded_range() {
    let bench = transmitting();
    let at = 5 << 30;
    ask(&bench, command::WRITE, PAYLOAD, (at, 8192), &[7; 8192]);
    let map = |flags: u16, range: (u64, u64)| -> Vec<(u64, u64)> {
        let [reply] = &ask(&bench, command::BLOCK_STATUS, flags, range, &[])[..] else { panic!() };
        assert_eq!((reply.kind, reply.done, reply.offset), (chunk::BLOCK_STATUS_EXT, true, range.0));
        let int = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        assert_eq!((int(&reply.data[..4]), int(&reply.data[4..8])), (1, (reply.data.len() as u64 - 8) / 16));
        reply.data[8..].chunks(16).map(|extent| (int(&extent[..8]), int(&extent[8..]))).collect()
    };
    let hole = u64::from(state::HOLE | state::ZERO);
    let covered = 64 << 30;
    assert_eq!(map(0, (0, END)), [(at, hole), (8192, 0), (covered - at - 8192, hole)]);
    assert_eq!(map(command_flag::REQ_ONE, (0, END)), [(at, hole)]);
    assert_eq!(map(0, (END - 4096, 4096)), [(4096, hole)]);
}

#[test]
fn payloads_where_none_belong_are_skipped_and_absurd_ones_end_it() {
    let bench = transmitting();
    for command in [command::READ, command::TRIM, command::BLOCK_STATUS, 77] {
        let range = (0, 100_000);
        assert_eq!(errno(&ask(&bench, command, PAYLOAD, range, &[1; 100_000])), 22, "command {command}");
    }
    let long = u64::from(PAYLOAD_BYTES_MAX) + 1;
    let payload = vec![1; long as usize];
    assert_eq!(errno(&ask(&bench, command::WRITE, PAYLOAD, (0, long), &payload)), 22);
    assert_eq!(ask(&bench, command::FLUSH, 0, (0, 0), &[]), done(0));
    bench.talk(&extended_request(command::WRITE, PAYLOAD, 1, (0, 1 << 32), &[]));
    assert_eq!(bench.end(), Some(ConnectionEnd::Violation("a payload of more than 4 GiB")));

    let bench = transmitting();
    bench.talk(&[request(command::FLUSH, 0, 1, 0, 0, &[]), vec![0; 4]].concat());
    assert_eq!(bench.end(), Some(ConnectionEnd::Violation("bad magic of a request")));
}
