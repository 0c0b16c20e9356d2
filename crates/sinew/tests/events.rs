//! What an operator has to hear is an event: each is caused for real, and is in the stream and in the log of the server.

mod harness;

use std::os::unix::fs::FileExt;

use std::io::{Read, Write};
use std::net::TcpListener;

use harness::{Sandbox, Server, wait_until};
use serde_json::Value;

const EIO: u32 = 5;
const ENOSPC: u32 = 28;

fn events(sandbox: &Sandbox) -> Vec<Value> {
    let lines = sandbox.ok(&["events", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Waits for an event of this kind for which `is_it` is true; it must be in the log too.
fn hears(sandbox: &Sandbox, server: &Server<'_>, kind: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    wait_until(kind, || {
        let event = events(sandbox).into_iter().find(|event| event["event"] == kind && is_it(event));
        event.inspect(|event| found = event.clone()).is_some()
    });
    let text = found["text"].as_str().expect("a text");
    wait_until("the log", || server.log().contains(text));
    found
}

fn make_device(sandbox: &Sandbox, name: &str) {
    std::fs::File::create(sandbox.path(name)).unwrap().set_len(64 << 20).unwrap();
}

#[test]
fn acts_of_operators_and_clients_are_events() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let opened = hears(&sandbox, &server, "opened", |_| true);
    assert_eq!((opened["number"].as_u64(), opened["severity"].as_str()), (Some(1), Some("info")));
    sandbox.ok(&["volume", "create", "w", "8M"]);
    sandbox.ok(&["volume", "resize", "w", "16M"]);
    let mut client = server.connect("v");
    hears(&sandbox, &server, "clients", |event| event["volume"] == "v" && event["connections"] == 1);
    client.write(0, &vec![3; 4 << 20]).unwrap();
    sandbox.ok(&["member", "offline", "1"]);
    drop(client);
    hears(&sandbox, &server, "clients", |event| event["volume"] == "v" && event["connections"] == 0);
    sandbox.ok(&["member", "online", "1", "--wait"]);
    sandbox.ok(&["member", "offline", "1"]);
    make_device(&sandbox, "new");
    sandbox.ok(&["member", "replace", "1", "new", "--wait"]);
    hears(&sandbox, &server, "work-ended", |event| event["work"] == "rebuild");
    sandbox.ok(&["member", "add", "more", "--size", "64M", "--wait"]);
    sandbox.ok(&["member", "remove", "0", "--wait"]);
    sandbox.ok(&["volume", "delete", "w", "--yes"]);
    sandbox.ok(&["scrub", "start", "--wait"]);
    hears(&sandbox, &server, "work-ended", |event| event["work"] == "scrub");
    let kinds: Vec<String> =
        events(&sandbox).iter().map(|e| e["event"].as_str().unwrap().to_owned()).collect();
    let mut rest = kinds.iter();
    for kind in [
        "opened",
        "volume-created",
        "volume-resized",
        "member-offline",
        "member-back",
        "member-offline",
        "member-replaced",
        "member-added",
        "member-leaving",
        "member-removed",
        "volume-deleted",
    ] {
        assert!(rest.any(|other| other == kind), "no {kind} at its place in {kinds:?}");
    }
    let numbers: Vec<u64> = events(&sandbox).iter().map(|e| e["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    server.stop();
}

#[test]
fn settings_and_devices_that_lose_their_names_are_events() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    std::fs::rename(sandbox.path("m1"), sandbox.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(sandbox.path("elsewhere"), sandbox.path("m1")).unwrap();
    let server = sandbox.serve(&["m0", "m1", "m2", "m3"]);
    hears(&sandbox, &server, "opened", |_| true);
    let setting = |name: &'static str, value: &'static str| {
        let is_it =
            |event: &Value| event["setting"] == name && event["value"].as_str().unwrap().contains(value);
        hears(&sandbox, &server, "setting-changed", is_it);
    };
    sandbox.ok(&["throttle", "3M", "--pause-above", "70"]);
    setting("throttle", "3145728 bytes/s, pause above 70 requests/s");
    assert!(
        sandbox.ok(&["throttle"]).contains("3 MiB per second, and pauses while clients make more than 70")
    );
    sandbox.ok(&["throttle", "--pause-above", "0"]);
    setting("throttle", "3145728 bytes/s, no pause");
    assert_eq!(sandbox.json(&["throttle", "--json"])["bytes_per_second"], 3 << 20);
    assert_eq!(server.status()["throttle"]["pause_above_iops"], 0);
    sandbox.ok(&["policy", "--discard", "false"]);
    setting("policy", "discard false");
    sandbox.ok(&["latency", "off", "--io-timeout", "30s"]);
    setting("spike-avoidance", "off");
    setting("io-timeout", "30000 ms");
    let shown = sandbox.ok(&["latency"]);
    assert!(shown.contains("not detected") && shown.contains("time out after 30s"), "{shown}");
    sandbox.ok(&["member", "physical", "1", "1G"]);
    setting("physical-space", "1073741824 bytes on member 1");
    // Nothing changes, so there is nothing to tell.
    let last = events(&sandbox).len();
    sandbox.ok(&["policy", "--discard", "false"]);
    assert_eq!(events(&sandbox).len(), last);
    std::fs::remove_file(sandbox.path("m1")).unwrap();
    let gone = hears(&sandbox, &server, "member-unnamed", |event| event["member"] == 1);
    assert_eq!(gone["severity"], "warning");
    assert!(server.status()["advice"][0].as_str().unwrap().contains("does not exist any more"));
    std::os::unix::fs::symlink(sandbox.path("elsewhere"), sandbox.path("m1")).unwrap();
    hears(&sandbox, &server, "member-named", |event| event["member"] == 1);
    // A new pool is balanced.
    assert!(!events(&sandbox).iter().any(|event| event["work"] == "rebalance"), "{:#?}", events(&sandbox));
    server.stop();
}

#[test]
fn a_start_without_a_member_is_a_warning() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    std::fs::remove_file(sandbox.path("m2")).unwrap();
    // As a directory: the member that is not there was not named.
    let server = sandbox.serve(&["."]);
    let opened = hears(&sandbox, &server, "opened", |_| true);
    assert_eq!(
        (&opened["out"], &opened["severity"]),
        (&serde_json::json!([2]), &serde_json::json!("warning"))
    );
    let missing = hears(&sandbox, &server, "member-missing", |event| event["member"] == 2);
    assert!(
        missing["path"].as_str().unwrap().ends_with("m2") && missing["severity"] == "warning",
        "{missing:#}"
    );
    assert!(sandbox.ok(&["pool", "history", "--json"]).contains("member-missing"));
    assert!(server.log().contains("WARN"), "{}", server.log());
    server.stop();
}

#[test]
fn repaired_and_lost_blocks_are_events() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let mut client = server.connect("v");
    client.write(0, &vec![5; 20 << 20]).unwrap();
    client.flush().unwrap();
    let spoil = |member: &str| {
        let file = std::fs::OpenOptions::new().write(true).open(sandbox.path(member)).unwrap();
        file.write_all_at(&vec![0xee; 40 << 20], 16 << 20).unwrap();
    };
    spoil("m1");
    sandbox.ok(&["throttle", "1G"]);
    sandbox.ok(&["scrub", "start", "--wait"]);
    let repaired = hears(&sandbox, &server, "member-errors", |event| event["member"] == 1);
    assert_eq!(repaired["severity"], "warning");
    let is_loss = |event: &Value| event["event"] == "damage-found";
    assert!(!events(&sandbox).iter().any(is_loss));
    ["m0", "m1", "m2", "m3"].into_iter().for_each(spoil);
    let mut failed = 0;
    for mib in 0..20 {
        failed += u32::from(client.read(mib << 20, 1 << 20) == Err(EIO));
    }
    assert!(failed > 0, "every copy was overwritten");
    let lost = hears(&sandbox, &server, "damage-found", |event| event["volume"] == "v");
    assert_eq!(lost["severity"], "error");
    assert!(lost["offset"].as_u64().is_some() && lost["bytes"].as_u64() > Some(0), "{lost}");
    let metrics = sandbox.ok(&["metrics"]);
    assert!(metrics.contains("sinew_events_total{pool=\"tank\",event=\"damage-found\",severity=\"error\"}"));
    assert!(metrics.contains("sinew_volume_damaged_bytes{pool=\"tank\",volume=\"v\"}"), "{metrics}");
    drop(client);
    server.stop();
}

#[test]
fn a_full_pool_is_told_before_and_when_it_refuses() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    sandbox.ok(&["volume", "create", "large", "200M"]);
    let mut client = server.connect("large");
    let refused = (0..200).find_map(|mib| client.write(mib << 20, &vec![7; 1 << 20]).err());
    assert_eq!(refused, Some(ENOSPC));
    hears(&sandbox, &server, "space-used", |event| event["percent"] == 95);
    let full = hears(&sandbox, &server, "no-space", |event| event["volume"] == "large");
    assert_eq!(full["severity"], "error");
    drop(client);
    server.stop();
}

#[test]
fn members_that_fail_are_told_and_so_is_the_end_of_the_pool() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve_with(&["--fault-member", "2:write-errors,rate=1"]);
    let mut client = server.connect("v");
    client.write(0, &vec![1; 8 << 20]).unwrap();
    let failed = hears(&sandbox, &server, "member-failed", |event| event["member"] == 2);
    assert!(failed["path"].as_str().unwrap().ends_with("/m2") && failed["severity"] == "warning");
    drop(client);
    server.stop();
    let server = sandbox.serve_with(&[
        "--fault-member",
        "0:write-errors,rate=1",
        "--fault-member",
        "1:write-errors,rate=1",
    ]);
    let mut client = server.connect("v");
    assert_eq!(client.write(0, &vec![1; 8 << 20]), Err(EIO));
    let failed = hears(&sandbox, &server, "pool-failed", |_| true);
    assert_eq!(failed["severity"], "error");
}

#[test]
fn events_can_be_followed() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let out = std::fs::File::create(sandbox.path("followed")).unwrap();
    let mut follower = sandbox.command(&["events", "--follow"]).stdout(out).spawn().unwrap();
    let followed = || std::fs::read_to_string(sandbox.path("followed")).unwrap();
    wait_until("the first event", || followed().contains("the pool is open with all members"));
    sandbox.ok(&["member", "offline", "3"]);
    wait_until("the next event", || followed().contains("warning") && followed().contains("taken offline"));
    server.stop();
    // It ends with the server, and says so.
    wait_until("the end", || follower.try_wait().unwrap().is_some_and(|status| !status.success()));
}

#[test]
fn a_hook_runs_for_each_event_and_its_failure_is_logged() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let script = "cat >>\"$1\"; echo \"$SINEW_POOL $SINEW_EVENT $SINEW_SEVERITY $SINEW_LEFT_OUT\" >>\"$1.env\"; \
                  [ $SINEW_EVENT != volume-created ]";
    let told = sandbox.path("told");
    let hook = [
        "--hook",
        "sh",
        "--hook",
        "-c",
        "--hook",
        script,
        "--hook",
        "hook",
        "--hook",
        told.to_str().unwrap(),
    ];
    let server = sandbox.serve_with(&hook);
    sandbox.ok(&["member", "offline", "1"]);
    sandbox.ok(&["volume", "create", "w", "1M"]);
    sandbox.ok(&["member", "online", "1", "--wait"]);
    let lines = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(sandbox.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    wait_until("the hook ran", || lines("told.env").iter().any(|line| line == "tank member-back info 0"));
    let events: Vec<Value> = lines("told").iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event["number"].as_u64().unwrap()).collect();
    assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "each once, in order: {numbers:?}");
    let offline = events.iter().find(|event| event["event"] == "member-offline").expect("it was told");
    assert_eq!((&offline["pool"], &offline["member"]), (&"tank".into(), &1.into()));
    assert!(server.log().contains("the hook sh: ended with exit status: 1 for the event volume-created"));
    server.stop();
    assert!(sandbox.fails(&["serve", ".", "--hook", "./nothing"]).contains("there is no hook ./nothing"));
}

#[test]
fn the_webhook_of_the_package_posts_events() {
    if !harness::installed("curl") {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let webhook = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/hooks/webhook");
    let server = sandbox.serve_with(&["--hook", webhook, "--hook", &url]);
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = String::new();
    while !request.ends_with("}\n") {
        let mut some = [0; 4096];
        let got = stream.read(&mut some).unwrap();
        assert!(got > 0, "{request}");
        request += std::str::from_utf8(&some[..got]).unwrap();
    }
    stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").unwrap();
    let (head, body) = request.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("POST /events HTTP/1.1\r\n"), "{head}");
    let event: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&event["event"], &event["pool"]), (&"opened".into(), &"tank".into()));
    drop(listener);
    server.stop();
}
