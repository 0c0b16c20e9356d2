//! Limits of volumes: set, shown, kept on the members, and what they do to clients.

mod harness;

use std::time::{Duration, Instant};

use harness::Sandbox;

#[test]
fn limits_hold_requests_back_and_last() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    assert_eq!(sandbox.ok(&["volume", "set", "v"]).trim(), "volume v has no limits");
    let set = sandbox.ok(&["volume", "set", "v", "--iops", "50", "--burst", "0s"]);
    assert_eq!(set.trim(), "volume v is limited to 50 requests/s, bursts of 0s");
    let mut client = server.connect("v");
    let began = Instant::now();
    for _ in 0..11 {
        client.read(0, 4096).unwrap();
    }
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    let volume = &server.status()["volumes"][0];
    assert!(volume["delayed_requests"].as_u64() >= Some(5), "{volume}");
    assert_eq!(volume["limits"]["iops"], 50);
    let metrics = sandbox.ok(&["metrics"]);
    assert!(
        metrics.contains("sinew_volume_limit_requests_per_second{pool=\"tank\",volume=\"v\"} 50.0"),
        "{metrics}"
    );
    assert!(metrics.contains("sinew_volume_delay_seconds_total{pool=\"tank\",volume=\"v\"} 0."), "{metrics}");
    drop(client);
    sandbox.ok(&["volume", "create", "w", "8M", "--bytes", "1M"]);
    server.stop();
    let server = sandbox.serve(&["."]);
    let list = sandbox.ok(&["volume", "list"]);
    assert!(list.contains("50 requests/s, bursts of 0s") && list.contains("1 MiB/s, bursts of 1s"), "{list}");
    assert_eq!(sandbox.json(&["volume", "set", "w", "--json"])["bytes_per_second"], 1 << 20);
    sandbox.ok(&["volume", "set", "w", "--bytes", "none"]);
    assert_eq!(sandbox.ok(&["volume", "set", "w"]).trim(), "volume w has no limits");
    server.stop();
}

#[test]
fn a_server_stops_while_requests_wait_for_a_limit() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    sandbox.ok(&["volume", "set", "v", "--bytes", "64K", "--burst", "0s"]);
    let mut client = server.connect("v");
    // The next request waits for a minute.
    client.read(0, 4 << 20).unwrap();
    let waiting = std::thread::spawn(move || client.read(0, 4096).map(|data| data.len()));
    std::thread::sleep(Duration::from_millis(300));
    server.stop();
    let _ = waiting.join();
}

#[test]
fn wrong_limits_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    for limit in [["--iops", "0"], ["--iops", "many"]] {
        let refused = sandbox.misused(&["volume", "set", "v", limit[0], limit[1]]);
        assert!(refused.contains("no number of requests per second"), "{limit:?}: {refused}");
    }
    let refused = sandbox.misused(&["volume", "set", "v", "--burst", "2"]);
    assert!(refused.contains("a time is in us, ms, s, m or h"), "{refused}");
    for (limit, why) in [
        (["--iops", "2000000000"], "at most 1000000000 per second"),
        (["--bytes", "1K"], "at least 64K"),
        (["--burst", "2h"], "at most an hour"),
    ] {
        let refused = sandbox.fails(&["volume", "set", "v", limit[0], limit[1]]);
        assert!(refused.contains(why), "{limit:?}: {refused}");
    }
    assert!(sandbox.fails(&["volume", "set", "w", "--iops", "5"]).contains("there is no volume w"));
    server.stop();
}
