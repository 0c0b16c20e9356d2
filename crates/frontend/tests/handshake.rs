//! The handshake, option by option, as a client sees it.

mod harness;

use harness::client::{Bench, Received, hello, info_data, meta_data, option};
use harness::memory::{MemoryExports, MemoryVolume};
use harness::wire::Wire;
use sinew_frontend::nbd::handshake::{OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OPTIONS_MAX};
use sinew_frontend::nbd::proto::{command, info, option as code, option_reply};
use sinew_frontend::nbd::server::{ConnectionEnd, HANDSHAKE_NS_MAX};

const FLAGS: [u8; 4] = [0, 0, 0, 3];

/// Two exports, `b` the default, `c` read-only; greeted and past the client's flags.
fn haggling() -> Bench {
    let volume = MemoryVolume::new(8 << 20);
    let exports =
        MemoryExports(vec![("a", MemoryVolume::new(4096)), ("b*", volume.clone()), ("c!", volume.clone())]);
    let bench = Bench::start(Wire::default(), volume, exports);
    let mut received = bench.talk(&FLAGS);
    received.greeting();
    assert!(received.0.is_empty());
    bench
}

fn kinds(mut received: Received) -> Vec<u32> {
    let kinds = received.option_replies().iter().map(|reply| reply.kind).collect();
    assert!(received.0.is_empty());
    kinds
}

#[test]
fn list_names_every_export() {
    let bench = haggling();
    let replies = bench.talk(&option(code::LIST, &[])).option_replies();
    let names: Vec<_> = replies.iter().map(|reply| reply.data.get(4..).unwrap_or_default()).collect();
    assert_eq!(names, [&b"a"[..], b"b", b"c", b""]);
    assert_eq!(kinds(bench.talk(&option(code::LIST, b"x"))), [option_reply::ERR_INVALID]);
}

#[test]
fn info_tells_what_was_asked_for_and_go_starts() {
    let bench = haggling();
    let all = [info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77];
    let replies = bench.talk(&option(code::INFO, &info_data("", &all))).option_replies();
    let data: Vec<_> = replies.iter().map(|reply| reply.data.as_slice()).collect();
    let sizes = [&[0, 3, 0, 0, 0, 1, 0, 0, 16, 0][..], &(32u32 << 20).to_be_bytes()].concat();
    let export = [&[0, 0][..], &(8u64 << 20).to_be_bytes(), &0b1101_0110_1101u16.to_be_bytes()].concat();
    assert_eq!(data, [&export[..], b"\0\x01b", b"\0\x02memory volume b", &sizes, b""]);
    assert_eq!(kinds(bench.talk(&option(code::GO, &info_data("b", &[])))), [option_reply::INFO, 1]);
    let flush = harness::client::request(command::FLUSH, 0, 9, 0, 0, &[]);
    assert_eq!(bench.ask(&flush).len(), 1);
}

#[test]
fn flags_tell_read_only_and_structured() {
    let bench = haggling();
    assert_eq!(kinds(bench.talk(&option(code::STRUCTURED_REPLY, &[]))), [option_reply::ACK]);
    let mut received = bench.talk(&option(code::INFO, &info_data("c", &[])));
    let data = received.option_replies()[0].data.clone();
    assert_eq!(data[10..], 0b0101_1000_1111u16.to_be_bytes());
}

#[test]
fn nonsense_in_info_is_refused_and_haggling_goes_on() {
    let bench = haggling();
    assert_eq!(kinds(bench.talk(&option(code::GO, &info_data("z", &[])))), [option_reply::ERR_UNKNOWN]);
    assert_eq!(kinds(bench.talk(&option(code::GO, b"\0\0\0\x09a\0\0"))), [option_reply::ERR_INVALID]);
    assert_eq!(kinds(bench.talk(&option(code::GO, b"\0\0\0\x01\xff\0\0"))), [option_reply::ERR_INVALID]);
    assert_eq!(kinds(bench.talk(&option(code::STARTTLS, &[]))), [option_reply::ERR_POLICY]);
    assert_eq!(kinds(bench.talk(&option(code::STRUCTURED_REPLY, b"x"))), [option_reply::ERR_INVALID]);
    assert_eq!(kinds(bench.talk(&option(4711, b"data"))), [option_reply::ERR_UNSUP]);
    assert_eq!(kinds(bench.talk(&option(code::GO, &info_data("a", &[])))), [option_reply::INFO, 1]);
}

#[test]
fn export_name_answers_with_or_without_padding() {
    for (flags, padding) in [(1u8, 124), (3, 0)] {
        let bench = Bench::one_disk(Wire::default());
        bench.talk(&[0, 0, 0, flags]).greeting();
        let received = bench.talk(&option(code::EXPORT_NAME, b"disk")).0;
        assert_eq!(received[..8], (64u64 << 20).to_be_bytes());
        assert_eq!(received.len(), 10 + padding);
        assert_eq!(bench.end(), None);
    }
    let bench = haggling();
    assert!(bench.talk(&option(code::EXPORT_NAME, b"z")).0.is_empty());
    assert_eq!(bench.end(), Some(ConnectionEnd::UnknownExport));
}

#[test]
fn a_lone_export_is_the_default_and_one_of_many_is_not() {
    let bench = Bench::one_disk(Wire::default());
    let mut received = bench.talk(&hello("", false));
    received.greeting();
    assert_eq!(kinds(received), [option_reply::INFO, 1]);
    let two = MemoryExports(vec![("a", MemoryVolume::new(4096)), ("b", MemoryVolume::new(4096))]);
    let bench = Bench::start(Wire::default(), MemoryVolume::new(0), two);
    let mut received = bench.talk(&hello("", false));
    received.greeting();
    assert_eq!(kinds(received), [option_reply::ERR_UNKNOWN]);
}

#[test]
fn contexts_are_listed_by_wildcard_and_set_by_name() {
    let bench = haggling();
    let set = |queries: &[&str]| option(code::SET_META_CONTEXT, &meta_data("b", queries));
    let list = |queries: &[&str]| option(code::LIST_META_CONTEXT, &meta_data("b", queries));
    assert_eq!(kinds(bench.talk(&set(&["base:allocation"]))), [option_reply::ERR_INVALID]);
    bench.talk(&option(code::STRUCTURED_REPLY, &[]));
    for (asked, found) in [
        (list(&[]), true),
        (list(&["base:"]), true),
        (list(&["qemu:", "base:allocation"]), true),
        (list(&["base:other", "x:y"]), false),
        (set(&["base:allocation"]), true),
        (set(&["base:"]), false),
        (set(&[]), false),
    ] {
        let want: &[u32] = if found { &[option_reply::META_CONTEXT, 1] } else { &[1] };
        assert_eq!(kinds(bench.talk(&asked)), want);
    }
    let unknown = option(code::SET_META_CONTEXT, &meta_data("z", &["base:allocation"]));
    assert_eq!(kinds(bench.talk(&unknown)), [option_reply::ERR_UNKNOWN]);
    let mut lying = meta_data("b", &[]);
    *lying.last_mut().unwrap() = 1;
    assert_eq!(kinds(bench.talk(&option(code::LIST_META_CONTEXT, &lying))), [option_reply::ERR_INVALID]);
}

#[test]
fn block_status_needs_a_context_of_the_same_export() {
    let status = harness::client::request(command::BLOCK_STATUS, 0, 1, 0, 4096, &[]);
    for (selected, kind) in [("a", 0x8001u16), ("b", 5), ("", 5)] {
        let bench = haggling();
        bench.talk(&option(code::STRUCTURED_REPLY, &[]));
        bench.talk(&option(code::SET_META_CONTEXT, &meta_data(selected, &["base:allocation"])));
        bench.talk(&option(code::GO, &info_data("b", &[])));
        match bench.ask(&status).as_slice() {
            [harness::client::Reply::Chunk { kind: got, done: true, .. }] => assert_eq!(*got, kind),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn extended_headers_take_the_place_of_structured_replies() {
    let bench = haggling();
    let ask = |code: u32, data: &[u8]| kinds(bench.talk(&option(code, data)));
    assert_eq!(ask(code::EXTENDED_HEADERS, b"x"), [option_reply::ERR_INVALID]);
    assert_eq!(ask(code::STRUCTURED_REPLY, &[]), [option_reply::ACK]);
    assert_eq!(ask(code::EXTENDED_HEADERS, &[]), [option_reply::ACK]);
    assert_eq!(ask(code::STRUCTURED_REPLY, &[]), [option_reply::ERR_EXT_HEADER_REQD]);
    let context = meta_data("b", &["base:allocation"]);
    assert_eq!(ask(code::SET_META_CONTEXT, &context), [option_reply::META_CONTEXT, option_reply::ACK]);
    bench.talk(&option(code::EXPORT_NAME, b"b"));
    assert_eq!(bench.end(), Some(ConnectionEnd::Violation("EXPORT_NAME with extended headers")));
}

#[test]
fn abort_is_acknowledged() {
    let bench = haggling();
    assert_eq!(kinds(bench.talk(&option(code::ABORT, b"whatever"))), [option_reply::ACK]);
    assert_eq!(bench.end(), Some(ConnectionEnd::Disconnected));
    assert!(bench.wire.is_shut_down());
}

#[test]
fn long_options_are_skipped_and_absurd_ones_end_it() {
    let bench = haggling();
    let most = option(code::LIST_META_CONTEXT, &vec![0; OPTION_BYTES_MAX]);
    assert_eq!(kinds(bench.talk(&most)), [option_reply::ERR_INVALID]);
    let long = option(code::GO, &vec![0; OPTION_SKIP_BYTES_MAX as usize]);
    assert_eq!(kinds(bench.talk(&long)), [option_reply::ERR_TOO_BIG]);
    assert_eq!(kinds(bench.talk(&option(code::GO, &info_data("a", &[])))), [option_reply::INFO, 1]);

    let bench = haggling();
    let mut absurd = option(code::GO, &[]);
    absurd[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    bench.talk(&absurd);
    assert!(matches!(bench.end(), Some(ConnectionEnd::Violation(_))));
}

#[test]
fn options_are_limited_in_number() {
    let bench = haggling();
    let many = option(999, &[]).repeat(OPTIONS_MAX as usize);
    bench.talk(&many);
    assert_eq!(bench.end(), None);
    bench.talk(&option(999, &[]));
    assert!(matches!(bench.end(), Some(ConnectionEnd::Violation(_))));
}

#[test]
fn bad_flags_and_bad_magic_end_it() {
    let bench = Bench::one_disk(Wire::default());
    bench.talk(&[0, 0, 0, 7]);
    assert!(matches!(bench.end(), Some(ConnectionEnd::Violation(_))));
    let bench = haggling();
    bench.talk(&[b'x'; 16]);
    assert!(matches!(bench.end(), Some(ConnectionEnd::Violation(_))));
}

#[test]
fn the_handshake_has_a_time_limit_and_transmission_has_none() {
    let bench = haggling();
    bench.io.advance(HANDSHAKE_NS_MAX - 1);
    assert_eq!(bench.end(), None);
    bench.io.advance(1);
    assert_eq!(bench.end(), Some(ConnectionEnd::TimedOut));

    let bench = Bench::in_transmission(true);
    bench.io.advance(HANDSHAKE_NS_MAX * 2);
    assert_eq!(bench.end(), None);
}

#[test]
fn a_client_that_takes_no_answer_runs_out_of_time() {
    let bench = haggling();
    bench.wire.limit(0);
    bench.wire.push(&option(code::LIST, &[]));
    assert_eq!(bench.end(), None);
    bench.io.advance(HANDSHAKE_NS_MAX);
    assert_eq!(bench.end(), Some(ConnectionEnd::TimedOut));
}
