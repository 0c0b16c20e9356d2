//! Properties of a connection: where the stream is cut makes no difference, and no bytes make it panic or hang.

mod harness;

use harness::client::{Bench, Reply, extended_request, hello, hello_extended, request};
use harness::memory::{MemoryExports, MemoryVolume};
use harness::wire::Wire;
use proptest::prelude::*;
use sinew_frontend::nbd::proto::{chunk, command, command_flag, option};

/// Requests that do not touch each other's ranges, so that replies do not depend on the order they run in.
fn script(kinds: &[(u16, u32)], structured: bool) -> Vec<u8> {
    let mut bytes = hello("disk", structured);
    for (at, (kind, len)) in kinds.iter().enumerate() {
        let payload = if *kind == command::WRITE { payload(at, *len) } else { vec![] };
        bytes.extend(request(*kind, 0, at as u64, at as u64 * 65536, *len, &payload));
    }
    bytes
}

fn payload(at: usize, len: u32) -> Vec<u8> {
    (0..len as usize).map(|byte| (at + byte) as u8 | 1).collect()
}

/// The replies, those of one request in order; checks that there is one to each, and that writes were written.
fn run(script: &[u8], cuts: &[usize], yields: u64, kinds: &[(u16, u32)]) -> Vec<Reply> {
    let mut volume = MemoryVolume::new(64 << 20);
    volume.yields = yields;
    let exports = MemoryExports(vec![("disk", volume.clone())]);
    let bench = Bench::start(Wire::cut(cuts), volume, exports);
    let mut received = bench.talk(script);
    received.greeting();
    while received.option_replies().last().is_some_and(|reply| reply.option != option::GO) {}
    let read_len = |cookie: u64| match kinds[cookie as usize] {
        (command::READ, len) => len as usize,
        _ => 0,
    };
    let mut replies = received.replies(read_len);
    replies.sort_by_key(cookie);
    let mut cookies: Vec<_> = replies.iter().map(cookie).collect();
    cookies.dedup();
    assert!(cookies.iter().copied().eq(0..kinds.len() as u64), "not one reply to each request: {cookies:?}");
    for (at, (_, len)) in kinds.iter().enumerate().filter(|(_, (kind, _))| *kind == command::WRITE) {
        let again =
            bench.talk(&request(command::READ, command_flag::DF, at as u64, at as u64 * 65536, *len, &[]));
        // Without structured replies the flag is an error; then the plain read brings everything in one piece.
        let again = match again.0.len() {
            16 => bench.talk(&request(command::READ, 0, at as u64, at as u64 * 65536, *len, &[])),
            _ => again,
        };
        assert!(again.0.ends_with(&payload(at, *len)), "write {at} was not stored");
    }
    replies
}

fn cookie(reply: &Reply) -> u64 {
    match reply {
        Reply::Simple { cookie, .. } | Reply::Chunk { cookie, .. } => *cookie,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn cuts_make_no_difference(
        kinds in prop::collection::vec(
            (prop::sample::select(vec![0u16, 1, 1, 3, 4, 5, 6, 7, 77]), 1u32..30_000), 1..40),
        cuts in prop::collection::vec(prop_oneof![1usize..40, 1usize..9000], 1..50),
        yields in 0u64..9,
        structured: bool,
    ) {
        let script = script(&kinds, structured);
        let whole = run(&script, &[], 0, &kinds);
        prop_assert_eq!(run(&script, &cuts, yields, &kinds), whole);
    }

    #[test]
    fn random_bytes_end_in_peace(bytes: Vec<u8>, greeted: bool, transmitting: bool, structured: bool) {
        let bench = Bench::one_disk(Wire::default());
        if transmitting {
            bench.talk(&hello("disk", structured));
        } else if greeted {
            bench.talk(&[0, 0, 0, 3]);
        }
        bench.talk(&bytes);
        // Dropping the bench checks that the connection ends.
    }

    #[test]
    fn damaged_scripts_end_in_peace(
        kinds in prop::collection::vec((0u16..10, 1u32..9000), 1..12),
        structured: bool,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut: prop::sample::Index,
    ) {
        let mut script = script(&kinds, structured);
        for (at, byte) in damage {
            let at = at.index(script.len());
            script[at] = byte;
        }
        script.truncate(cut.index(script.len()) + 1);
        Bench::one_disk(Wire::default()).talk(&script);
    }
}

proptest! {
    #[test]
    fn extended_headers_with_any_damage_end_in_peace(
        kinds in prop::collection::vec((0u16..10, 0u16..64, 0u64..9000), 1..12),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(1usize..9000, 1..8),
    ) {
        let mut script = hello_extended("disk");
        for (at, (kind, flags, len)) in kinds.iter().enumerate() {
            let payload = if *kind == command::WRITE { payload(at, *len as u32) } else { vec![] };
            script.extend(extended_request(*kind, *flags, at as u64, (at as u64 * 65536, *len), &payload));
        }
        for (at, byte) in damage {
            let at = at.index(script.len());
            script[at] = byte;
        }
        Bench::one_disk(Wire::cut(&cuts)).talk(&script);
    }
}

#[test]
fn every_single_cut_gives_the_same_replies() {
    let kinds = [(command::WRITE, 100), (command::READ, 5000), (command::BLOCK_STATUS, 4096)];
    let script = script(&kinds, true);
    let whole = run(&script, &[], 0, &kinds);
    assert!(whole.iter().any(|r| matches!(r, Reply::Chunk { kind: chunk::BLOCK_STATUS, .. })));
    for cut in 1..script.len() {
        assert_eq!(run(&script, &[cut, script.len()], 0, &kinds), whole, "cut at {cut}");
    }
}
