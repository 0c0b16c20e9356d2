//! A pool's life through the command: made, served, looked at, crashed, damaged, mended, gone.

mod harness;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use harness::{Sandbox, wait_until};
use serde_json::{Value, json};

/// Data that is different in every block and byte.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed;
    let mut next = || {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn a_pool_is_made_served_and_destroyed() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let data = pattern(1, 3 << 20);
    let server = sandbox.serve(&["m0", "m1", "m2", "m3"]);
    let mut client = server.connect("v");
    assert_eq!(client.size, 40 << 20);
    client.write(8192, &data).unwrap();
    client.write(5, b"not aligned").unwrap();
    client.flush().unwrap();
    assert_eq!(client.read(8192, data.len() as u32).unwrap(), data);
    assert_eq!(client.read(5, 11).unwrap(), b"not aligned");
    let status = server.status();
    assert_eq!((&status["pool"], &status["health"]), (&json!("tank"), &json!("healthy")));
    assert_eq!(status["members"].as_array().unwrap().len(), 4);
    assert!(status["stored_bytes"].as_u64() >= Some(3 << 20));
    let shown = sandbox.ok(&["pool", "status", "--pool", "tank"]);
    assert!(shown.contains("data safe yes") && shown.contains("active"), "{shown}");
    assert!(server.stop().contains("stopped"));

    // Also by its directory, and from other paths.
    let server = sandbox.serve(&["."]);
    assert_eq!(server.connect("v").read(8192, data.len() as u32).unwrap(), data);
    drop(server);
    sandbox.ok(&["pool", "destroy", "m0", "m1", "m2", "m3", "--yes"]);
    let overview = sandbox.json(&["pool", "find", "m0", "m1", "--json"]);
    assert_eq!(overview["pools"], json!([]));
    sandbox.make_pool("again");
}

#[test]
fn volumes_come_go_and_change() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    sandbox.ok(&["volume", "create", "w", "8M"]);
    server.connect("w").write(0, &[7; 4096]).unwrap();
    assert!(sandbox.fails(&["volume", "create", "w", "8M"]).contains("there is a volume w already"));
    assert!(sandbox.fails(&["volume", "create", "x", "1000"]).contains("multiple of 4096"));
    assert!(sandbox.fails(&["volume", "delete", "w"]).contains("--yes"));
    // What is not there cannot be lost.
    assert_eq!(sandbox.fails(&["volume", "delete", "nope"]), "sinew: there is no volume nope\n");
    assert!(sandbox.fails(&["volume", "resize", "w", "4M"]).contains("--shrink"));
    sandbox.ok(&["volume", "resize", "w", "4M", "--shrink"]);
    sandbox.ok(&["volume", "resize", "w", "16M"]);
    let volumes = sandbox.json(&["volume", "list", "--json"]);
    let sizes: Vec<_> = volumes.as_array().unwrap().iter().map(|v| (&v["name"], &v["bytes"])).collect();
    assert_eq!(json!(sizes), json!([["v", 40 << 20], ["w", 16 << 20]]));
    assert_eq!(server.connect("w").size, 16 << 20);
    assert_eq!(server.connect("w").read(0, 4096).unwrap(), [7; 4096]);
    sandbox.ok(&["volume", "delete", "w", "--yes"]);
    assert!(harness::nbd::Client::try_connect(&server.socket, "w").is_err());
    assert!(sandbox.fails(&["volume", "delete", "w", "--yes"]).contains("there is no volume w"));
    server.stop();
}

#[test]
fn up_goes_on_after_a_crash() {
    let sandbox = Sandbox::new();
    let data = pattern(2, 4 << 20);
    let server = sandbox.up("data");
    let mut client = server.connect("vol0");
    client.write(0, &data).unwrap();
    drop(server);
    let server = sandbox.up("data");
    assert_eq!(server.connect("vol0").read(0, data.len() as u32).unwrap(), data);
    assert_eq!(server.status()["health"], "healthy");
    // Its options are those of a new pool.
    assert!(server.log().contains("holds a pool already: --members, --size"), "{}", server.log());
    server.stop();
    let server = sandbox.up("data");
    assert_eq!(server.connect("vol0").read(0, data.len() as u32).unwrap(), data);
    server.stop();
}

#[test]
fn a_lost_member_is_replaced() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let data = pattern(3, 6 << 20);
    let server = sandbox.serve(&["."]);
    server.connect("v").write(0, &data).unwrap();
    server.stop();
    std::fs::remove_file(sandbox.path("m2")).unwrap();
    let overview = sandbox.json(&["pool", "find", ".", "--json"]);
    assert_eq!(overview["pools"][0]["can_be_served"], true);
    assert_eq!(overview["pools"][0]["missing"][0]["member"], 2);
    let server = sandbox.serve(&["m0", "m1", "m2", "m3"]);
    assert!(server.log().contains("warning"), "{}", server.log());
    let mut client = server.connect("v");
    assert_eq!(client.read(0, data.len() as u32).unwrap(), data);
    let status = server.status();
    assert_eq!(status["members"][2]["state"], "missing");
    assert_ne!(status["health"], "healthy");
    assert!(status["advice"][0].as_str().unwrap().contains("sinew member replace 2"));
    assert!(sandbox.fails(&["member", "offline", "0"]).contains("cannot do without member 0"));
    assert!(sandbox.fails(&["member", "replace", "0", "new"]).contains("No such file"));
    std::fs::File::create(sandbox.path("new")).unwrap().set_len(64 << 20).unwrap();
    assert!(sandbox.fails(&["member", "replace", "0", "new"]).contains("take it offline first"));
    assert!(sandbox.fails(&["member", "replace", "2"]).contains("too few"));
    sandbox.ok(&["member", "replace", "2", "new", "--wait"]);
    let status = server.status();
    assert_eq!(status["health"], "healthy");
    assert!(status["members"][2]["path"].as_str().unwrap().ends_with("/new"));
    assert_eq!(client.read(0, data.len() as u32).unwrap(), data);
    drop(client);
    server.stop();
    // The replacement carries its part: without another member everything is still there.
    let server = sandbox.serve(&["new", "m1", "m3"]);
    assert_eq!(server.connect("v").read(0, data.len() as u32).unwrap(), data);
    server.stop();
}

#[test]
fn replaced_members_are_closed() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    server.connect("v").write(0, &pattern(8, 1 << 20)).unwrap();
    let replace = |new: &str| {
        std::fs::File::create(sandbox.path(new)).unwrap().set_len(64 << 20).unwrap();
        sandbox.ok(&["member", "offline", "1"]);
        sandbox.ok(&["member", "replace", "1", new, "--wait"]);
    };
    let mut old = "m1".to_owned();
    for round in 0..4 {
        let new = format!("n{round}");
        replace(&new);
        // A deleted file gives its room back only when nothing has it open.
        std::fs::remove_file(sandbox.path(&old)).unwrap();
        wait_until("the old member's file is closed", || {
            server.descriptors().iter().all(|target| !target.ends_with("(deleted)"))
        });
        old = new;
    }
    // And others can use the old device at once.
    replace("last");
    sandbox.ok(&["pool", "create", "other", "n3", "b", "c", "--size", "64M", "--force"]);
    server.stop();
}

#[test]
fn a_new_device_does_not_inherit_the_errors_of_the_old_one() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let mut client = server.connect("v");
    client.write(0, &pattern(9, 20 << 20)).unwrap();
    client.flush().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.path("m1")).unwrap();
    file.write_all_at(&pattern(7, 40 << 20), 16 << 20).unwrap();
    sandbox.ok(&["throttle", "1G"]);
    sandbox.ok(&["scrub", "start", "--wait"]);
    let count = |name: &str| server.status()["members"][1][name].as_u64().unwrap();
    assert!(count("checksum_errors") > 0 && count("repaired_blocks") > 0);
    sandbox.ok(&["member", "offline", "1"]);
    sandbox.ok(&["member", "online", "1", "--wait"]);
    assert!(count("checksum_errors") > 0, "it is the same device");
    sandbox.ok(&["member", "offline", "1"]);
    std::fs::File::create(sandbox.path("new")).unwrap().set_len(64 << 20).unwrap();
    sandbox.ok(&["member", "replace", "1", "new", "--wait"]);
    assert_eq!((count("checksum_errors"), count("repaired_blocks"), count("read_errors")), (0, 0, 0));
    assert!(count("writes") > 0, "the rebuild is counted");
    server.stop();
}

#[test]
fn a_member_goes_offline_and_returns() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let data = pattern(4, 2 << 20);
    let server = sandbox.serve(&["."]);
    let mut client = server.connect("v");
    client.write(0, &pattern(5, 2 << 20)).unwrap();
    sandbox.ok(&["member", "offline", "1"]);
    assert!(sandbox.fails(&["member", "offline", "1"]).contains("member 1 is offline"));
    client.write(0, &data).unwrap();
    assert!(sandbox.fails(&["member", "online", "1", "m0"]).contains("a member of this pool already"));
    sandbox.ok(&["member", "online", "1", "--wait"]);
    assert_eq!(server.status()["health"], "healthy");
    assert_eq!(client.read(0, data.len() as u32).unwrap(), data);
    assert!(sandbox.fails(&["member", "online", "9"]).contains("there is no member 9"));
    let offline = sandbox.ok(&["member", "offline", "1", "--pool", "tank"]);
    assert!(offline.contains("`sinew member online 1 --pool tank`"), "{offline}");
    std::fs::rename(sandbox.path("m1"), sandbox.path("away")).unwrap();
    let gone = sandbox.fails(&["member", "online", "1"]);
    assert_eq!(gone.matches("os error 2").count(), 1, "{gone}");
    sandbox.ok(&["member", "online", "1", "away", "--wait"]);
    server.stop();
}

#[test]
fn damage_is_found_and_mended() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let data = pattern(6, 20 << 20);
    let server = sandbox.serve(&["."]);
    let mut client = server.connect("v");
    client.write(0, &data).unwrap();
    client.flush().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.path("m1")).unwrap();
    file.write_all_at(&pattern(7, 40 << 20), 16 << 20).unwrap();
    sandbox.ok(&["throttle", "1G"]);
    let scrub = sandbox.json(&["scrub", "start", "--wait", "--json"]);
    assert!(scrub["errors"].as_u64() > Some(0), "{scrub}");
    assert_eq!(scrub["unrepaired"], 0);
    assert_eq!(client.read(0, data.len() as u32).unwrap(), data);
    let again = sandbox.json(&["scrub", "start", "--wait", "--json"]);
    assert_eq!(again["errors"], scrub["errors"], "the second scrub finds nothing new");
    drop(client);
    server.stop();
}

#[test]
fn the_control_socket_answers_line_by_line() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let mut stream = UnixStream::connect(sandbox.path("sinew/tank.sock")).unwrap();
    stream.write_all(b"{\"volume-create\":{\"name\":\"a\",\"bytes\":4096}}\nnonsense\n\"status\"\n").unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stream));
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["ok"]["provisioned_bytes"], (40 << 20) + 4096);
    assert!(next()["error"].as_str().unwrap().starts_with("not a request"));
    assert_eq!(next()["ok"]["volumes"][0]["name"], "v");
    server.stop();
    assert!(!sandbox.path("sinew/tank.sock").exists());
}

#[test]
fn pools_that_are_served_are_listed() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve_at_default("tank", &["."]);
    let other = Sandbox::new();
    let create = ["pool", "create", "pond", "m0", "m1", "m2", "--size", "64M"];
    other.ok(&create);
    let mut serve = other.command(&["serve", ".", "--unix", "nbd.sock"]);
    let mut pond = serve.env("XDG_RUNTIME_DIR", sandbox.path("")).spawn().unwrap();
    wait_until("both are listed", || {
        sandbox.json(&["pool", "list", "--json"]).as_array().unwrap().len() == 2
    });
    let listed = sandbox.json(&["pool", "list", "--json"]);
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|p| (&p["pool"], &p["health"])).collect();
    assert_eq!(json!(names), json!([["pond", "healthy"], ["tank", "healthy"]]));
    let shown = sandbox.ok(&["pool", "list"]);
    assert!(shown.contains("pond") && shown.contains("tank") && shown.contains("tank.sock"), "{shown}");
    // A command is about one of them.
    assert!(sandbox.fails(&["pool", "status"]).contains("several pools are served: pond, tank"));
    let by_name = sandbox.command(&["pool", "status", "--check"]).env("SINEW_POOL", "pond").output().unwrap();
    assert_eq!(harness::text(&by_name.stdout), "pond: healthy\n");
    assert!(sandbox.ok(&["pool", "history", "--pool", "pond"]).contains("the pool is open"));
    let _ = pond.kill();
    let _ = pond.wait();
    server.stop();
    assert_eq!(sandbox.ok(&["pool", "list"]), "no pool is served\n");
}

#[test]
fn sockets_have_a_default_place() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve_at_default("tank", &["."]);
    assert_eq!(server.connect("v").size, 40 << 20);
    assert_eq!(server.status()["pool"], "tank");
    server.stop();
}

#[test]
fn a_benchmark_keeps_to_itself() {
    let sandbox = Sandbox::new();
    let bench = ["bench", "--seconds", "0.2", "--json"];
    let small = ["--members", "4", "--size", "64M"];
    let result = sandbox.json(&[&bench[..], &small[..], &["--shards", "2", "--rw", "mixed"]].concat());
    assert!(result["iops"].as_f64() > Some(0.0));
    assert!(result["device_per_request"]["writes"].as_f64() > Some(0.0));
    sandbox.json(&[&bench[..], &small[..], &["--dir", "files", "--rw", "randread"]].concat());
    assert_eq!(std::fs::read_dir(sandbox.path("files")).unwrap().count(), 0, "its files are left behind");
    sandbox.make_pool("tank");
    let refused = sandbox.fails(&["bench", "m0", "m1", "m2", "m3", "--seconds", "0.1"]);
    assert!(refused.contains("which no benchmark made"), "{refused}");
}
