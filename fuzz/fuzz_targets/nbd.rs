//! A whole NBD connection over a memory volume, fed whatever the fuzzer finds.
//!
//! The first byte chooses how the stream is cut, how far the handshake was done by a well-behaved client before, and
//! whether the client takes replies. Whatever follows, the connection must not panic, and must end with its client.

#![no_main]

#[path = "../../crates/frontend/tests/harness/mod.rs"]
mod harness;

use harness::client::{Bench, hello};
use harness::memory::{MemoryExports, MemoryVolume};
use harness::wire::Wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let cuts: &[usize] = match choice & 3 {
        0 => &[],
        1 => &[1],
        2 => &[27, 1, 4096],
        _ => &[7, 29, 512],
    };
    let mut volume = MemoryVolume::new(1 << 20);
    volume.yields = u64::from(choice >> 5);
    let exports = MemoryExports(vec![("disk*", volume.clone()), ("archive!", volume.clone())]);
    let bench = Bench::start(Wire::cut(cuts), volume, exports);
    match choice >> 2 & 3 {
        0 => {}
        1 => drop(bench.talk(&[0, 0, 0, 3])),
        2 => drop(bench.talk(&hello("disk", false))),
        _ => drop(bench.talk(&hello("disk", true))),
    }
    if choice & 16 != 0 {
        bench.wire.limit(100);
    }
    bench.talk(bytes);
    // Dropping the bench ends the client, and checks that the connection ends with it.
});
