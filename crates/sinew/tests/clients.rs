//! Real NBD clients against a served volume, those that are installed.

mod harness;

use std::process::Command;

use harness::{Sandbox, installed, text};

/// Runs a client, which must succeed.
fn client(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("the client runs");
    assert!(output.status.success(), "{program} {args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn libnbd_reads_what_it_wrote() {
    if !installed("nbdinfo") || !installed("nbdcopy") {
        return;
    }
    let sandbox = Sandbox::new();
    let server = sandbox.up("data");
    let info = client("nbdinfo", &[&server.uri("vol0")]);
    assert!(info.contains("export-size: 41943040") && info.contains("can_fua: true"), "{info}");
    assert!(client("nbdinfo", &["--map", &server.uri("vol0")]).contains("hole,zero"));
    let (from, to) = (sandbox.path("from"), sandbox.path("to"));
    let data: Vec<u8> = (0..40u64 << 20).map(|i| ((i * i) >> 13) as u8).collect();
    std::fs::write(&from, &data).unwrap();
    client("nbdcopy", &["--flush", from.to_str().unwrap(), &server.uri("vol0")]);
    client("nbdcopy", &[&server.uri("vol0"), to.to_str().unwrap()]);
    assert!(std::fs::read(&to).unwrap() == data, "the copy differs");
    server.stop();
}

#[test]
fn qemu_reads_what_it_wrote() {
    if !installed("qemu-img") || !installed("qemu-io") {
        return;
    }
    let sandbox = Sandbox::new();
    let server = sandbox.up("data");
    let uri = server.uri("vol0");
    assert!(client("qemu-img", &["info", &uri]).contains("40 MiB"));
    let commands =
        ["write -P 17 1M 2M", "write -P 18 1537 9000", "discard 2M 512k", "write -z 64k 64k", "flush"];
    let args: Vec<&str> = commands.iter().flat_map(|c| ["-c", c]).chain(["-f", "raw", &uri]).collect();
    client("qemu-io", &args);
    let checks = ["read -P 17 1M 1M", "read -P 18 1537 9000", "read -P 0 2M 512k", "read -P 0 64k 64k"];
    let args: Vec<&str> = checks.iter().flat_map(|c| ["-c", c]).chain(["-f", "raw", &uri]).collect();
    let output = client("qemu-io", &args);
    assert!(!output.contains("verification failed"), "{output}");
    server.stop();
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !installed("fio") || !client("fio", &["--enghelp"]).contains("nbd") {
        println!("skipped: fio has no nbd engine");
        return;
    }
    let sandbox = Sandbox::new();
    let server = sandbox.up("data");
    let uri = format!("--uri={}", server.uri("vol0"));
    let aux = format!("--aux-path={}", sandbox.path("").display());
    let job =
        ["--name=v", "--ioengine=nbd", "--rw=randrw", "--bsrange=512-64k", "--bs_unaligned", "--iodepth=16"];
    let verify = ["--size=32M", "--verify=crc32c", "--verify_fatal=1"];
    client("fio", &[&job[..], &verify[..], &[&uri, &aux]].concat());
    server.stop();
}
