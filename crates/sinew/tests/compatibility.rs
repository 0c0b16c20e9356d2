//! Pools that version 0.1.0 made and that were cut off by `kill -9` while written to: they are opened, and every block is
//! what it was.
//!
//! `compatibility/` holds the members, compressed. Block i of the volume was written with version 1, in requests of 64
//! blocks; every third block with version 2, alone and in random order; then the volume was flushed; every fifth block was
//! written with version 3, which was acknowledged and not flushed. The process was killed, not the machine, so version 3
//! is there.

mod harness;

use std::path::Path;

use harness::Sandbox;
use serde_json::json;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 2048;

/// The content of a block: one 64-bit number, repeated.
fn block(index: u64) -> Vec<u8> {
    let version = match index {
        _ if index.is_multiple_of(5) => 3,
        _ if index.is_multiple_of(3) => 2,
        _ => 1,
    };
    (index * 1_000_003 + version).to_le_bytes().repeat(BLOCK / 8)
}

fn opens(kind: &str, members: &[&str]) {
    let sandbox = Sandbox::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compatibility").join(kind);
    for member in members {
        let packed = std::fs::File::open(kept.join(format!("{member}.zst"))).unwrap();
        let mut unpacked = std::fs::File::create(sandbox.path(member)).unwrap();
        zstd::stream::copy_decode(packed, &mut unpacked).unwrap();
    }
    let server = sandbox.serve(members);
    let mut client = server.connect("v");
    for index in 0..BLOCKS {
        let read = client.read(index * BLOCK as u64, BLOCK as u32).unwrap();
        assert!(read == block(index), "{kind}: block {index} is not what was written");
    }
    let scrub = sandbox.json(&["scrub", "start", "--wait", "--json"]);
    assert_eq!((&scrub["errors"], &scrub["unrepaired"]), (&json!(0), &json!(0)), "{kind}");
    assert!(server.stop().contains("stopped"));
}

#[test]
fn a_mapped_pool_of_the_first_version_is_opened() {
    opens("pool", &["m0", "m1", "m2", "m3", "m4"]);
}

#[test]
fn an_array_of_the_first_version_is_opened() {
    opens("array", &["m0", "m1", "m2", "m3"]);
}
