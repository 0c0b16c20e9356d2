//! A whole NBD connection over a memory volume, fed whatever the fuzzer finds.
//!
//! The first byte chooses how the stream is cut, how far the handshake was done by a well-behaved client before, and
//! whether the client takes replies; the second whether TLS is off, offered, required, or already asked for,
//! and whether headers are extended. Whatever follows,
//! the connection must not panic, and must end with its client.

#![no_main]

#[path = "../../crates/frontend/tests/harness/mod.rs"]
mod harness;

use std::sync::{Arc, LazyLock};

use harness::client::{Bench, hello, hello_extended, option};
use harness::memory::{MemoryExports, MemoryVolume};
use harness::wire::Wire;
use libfuzzer_sys::fuzz_target;
use sinew_frontend::nbd::TlsMode;
use sinew_frontend::nbd::proto::option::STARTTLS;
use sinew_frontend::tls::ServerTls;
use sinew_frontend::tls::credentials::OwnPem;

static SERVER: LazyLock<Arc<ServerTls>> = LazyLock::new(|| {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (own.cert.pem(), own.signing_key.serialize_pem());
    let own = OwnPem { certificate: certificate.as_bytes(), key: key.as_bytes() };
    Arc::new(ServerTls::new(own, Some(certificate.as_bytes()), None).expect("a server"))
});

fuzz_target!(|data: &[u8]| {
    let [choice, tls, bytes @ ..] = data else { return };
    let cuts: &[usize] = match choice & 3 {
        0 => &[],
        1 => &[1],
        2 => &[27, 1, 4096],
        _ => &[7, 29, 512],
    };
    let mut volume = MemoryVolume::new(1 << 20);
    volume.yields = u64::from(choice >> 5);
    let exports = MemoryExports(vec![("disk*", volume.clone()), ("archive!", volume.clone())]);
    let mode = match tls & 3 {
        0 => TlsMode::Off,
        1 => TlsMode::Require(Arc::clone(&SERVER)),
        _ => TlsMode::Allow(Arc::clone(&SERVER)),
    };
    let bench = Bench::start_with(Wire::cut(cuts), volume, exports, mode);
    match choice >> 2 & 3 {
        _ if tls & 3 == 3 => drop(bench.talk(&[&[0, 0, 0, 3], &option(STARTTLS, &[])[..]].concat())),
        0 => {}
        1 => drop(bench.talk(&[0, 0, 0, 3])),
        2 => drop(bench.talk(&hello("disk", false))),
        _ if tls & 4 != 0 => drop(bench.talk(&hello_extended("disk"))),
        _ => drop(bench.talk(&hello("disk", true))),
    }
    if choice & 16 != 0 {
        bench.wire.limit(100);
    }
    bench.talk(bytes);
    // Dropping the bench ends the client, and checks that the connection ends with it.
});
