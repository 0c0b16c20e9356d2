//! An NBD client whose server is whatever the fuzzer finds.
//!
//! The first byte chooses how the stream is cut and how far a well-behaved server went before. Whatever follows, the client
//! must not panic, and its requests must end with the server.

#![no_main]

#[path = "../../crates/frontend/tests/harness/mod.rs"]
mod harness;

use std::cell::Cell;
use std::rc::Rc;

use harness::client::welcome;
use harness::memory::TaskIo;
use harness::wire::{ClientEnd, Wire};
use libfuzzer_sys::fuzz_target;
use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_frontend::nbd::Client;
use sinew_frontend::transport::Stream;

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else { return };
    let cuts: &[usize] = match choice & 3 {
        0 => &[],
        1 => &[1],
        2 => &[27, 1, 4096],
        _ => &[7, 29, 512],
    };
    let (io, wire) = (TaskIo::new(), Wire::cut(cuts));
    match choice >> 2 & 3 {
        0 | 1 => {}
        2 => wire.push_replies(&welcome(1 << 20, false)),
        _ => wire.push_replies(&welcome(1 << 20, true)),
    }
    let ended = Rc::new(Cell::new(false));
    let (end, task, stream) = (Rc::clone(&ended), io.clone(), Rc::new(ClientEnd(wire.clone())));
    io.spawn(async move {
        if let Ok(client) = Client::connect(&task, stream, "disk", 1_000_000_000, None).await {
            let _ = client.read(4096, 64).await;
            let _ = client.write(512, &Buf::zeroed(1000)).await;
            let _ = client.read(0, 70_000).await;
            let _ = client.flush().await;
            client.close().await;
        }
        end.set(true);
    });
    wire.push_replies(bytes);
    io.settle();
    wire.shutdown();
    io.settle();
    assert!(ended.get(), "the client outlives its server");
    // Tasks that wait for a deadline wake once more, and end.
    io.advance(3_600_000_000_000);
    io.settle();
});
