//! A pool that grows and shrinks through the command, while it is used and across crashes.

mod harness;

use harness::{Sandbox, Server};
use serde_json::Value;

const STORED: usize = 30 << 20;

/// Data that is different in every block.
fn pattern(seed: u32) -> Vec<u8> {
    (0..STORED as u32 / 4)
        .flat_map(|word| word.wrapping_mul(2_654_435_761).wrapping_add(seed).to_le_bytes())
        .collect()
}

fn fill(server: &Server<'_>, seed: u32) -> Vec<u8> {
    let data = pattern(seed);
    let mut client = server.connect("v");
    for (i, part) in data.chunks(1 << 20).enumerate() {
        client.write((i as u64) << 20, part).unwrap();
    }
    client.flush().unwrap();
    data
}

fn holds(server: &Server<'_>, data: &[u8]) -> bool {
    let mut client = server.connect("v");
    let mut parts = data.chunks(1 << 20).enumerate();
    parts.all(|(i, part)| client.read((i as u64) << 20, part.len() as u32).unwrap() == part)
}

fn used(status: &Value, member: usize) -> u64 {
    status["members"][member]["chunks_used"].as_u64().unwrap()
}

#[test]
fn members_come_and_go_while_the_pool_is_served() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let data = fill(&server, 1);
    let before = server.status();
    assert!(sandbox.fails(&["member", "add", "m1"]).contains("a member of this pool already"));
    assert!(sandbox.fails(&["member", "add", "new"]).contains("--size"));
    assert!(sandbox.fails(&["member", "remove", "1"]).contains("too few"));
    let said = sandbox.ok(&["member", "add", "new", "--size", "64M", "--wait"]);
    assert!(said.contains("is member 4") && said.contains("have their share"), "{said}");
    let after = server.status();
    assert!(after["capacity_bytes"].as_u64() > before["capacity_bytes"].as_u64());
    let all: u64 = (0..5).map(|member| used(&after, member)).sum();
    assert!((0..5).all(|member| used(&after, member).abs_diff(all / 5) <= 20), "{:#}", after["members"]);
    assert_eq!(after["health"], "healthy");

    sandbox.ok(&["throttle", "64K"]);
    sandbox.ok(&["member", "remove", "2"]);
    let status = server.status();
    assert_eq!((&status["members"][2]["state"], &status["health"]), (&"leaving".into(), &"healthy".into()));
    assert!(status["advice"][0].as_str().unwrap().contains("--cancel"));
    assert!(sandbox.fails(&["member", "remove", "3"]).contains("too few"));
    sandbox.ok(&["member", "remove", "2", "--cancel"]);
    assert_eq!(server.status()["members"][2]["state"], "active");
    sandbox.ok(&["throttle", "0"]);
    let said = sandbox.ok(&["member", "remove", "2", "--wait"]);
    assert!(said.contains("member 2 has left"), "{said}");
    assert!(holds(&server, &data));
    // Its device is free for something else, and that is all it is good for.
    sandbox.ok(&["member", "list"]);
    assert!(sandbox.fails(&["pool", "find", "m2"]).contains("no pool found"));
    std::fs::remove_file(sandbox.path("m2")).unwrap();
    server.stop();
    let server = sandbox.serve(&["."]);
    assert!(holds(&server, &data));
    assert_eq!(server.status()["health"], "healthy");
    let said = sandbox.ok(&["member", "add", "again", "--size", "80M", "--wait"]);
    assert!(said.contains("is member 2"), "{said}");
    server.stop();
}

#[test]
fn growing_and_shrinking_go_on_after_a_crash() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let data = fill(&server, 2);
    sandbox.ok(&["throttle", "64K"]);
    sandbox.ok(&["member", "add", "n4", "n5", "--size", "96M"]);
    drop(server);
    let server = sandbox.serve(&["."]);
    assert_eq!(server.status()["members"].as_array().unwrap().len(), 6);
    harness::wait_until("balance", || server.status()["rebalance_chunks_left"] == 0);
    let status = server.status();
    // In proportion to their size.
    let fill =
        |member: usize| used(&status, member) * 100 / status["members"][member]["chunks"].as_u64().unwrap();
    assert!((0..6).all(|member| fill(member).abs_diff(fill(0)) <= 4), "{:#}", status["members"]);
    assert!(holds(&server, &data));
    sandbox.ok(&["throttle", "64K"]);
    sandbox.ok(&["member", "remove", "1"]);
    drop(server);
    let server = sandbox.serve(&["."]);
    harness::wait_until("removal", || server.status()["members"][1]["state"] == "removed");
    assert!(holds(&server, &data));
    server.stop();
    std::fs::remove_file(sandbox.path("m1")).unwrap();
    let server = sandbox.serve(&["."]);
    assert!(holds(&server, &data));
    server.stop();
}
