//! Metrics: what is in them, in both text formats, over the control socket and over TCP.

mod harness;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use harness::{Sandbox, Server, wait_until};

const ENOSPC: u32 = 28;

fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "{line}: {text}");
}

/// The value of the one number with this name and these labels.
fn value(text: &str, number: &str) -> f64 {
    let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(number)).collect();
    assert_eq!(found.len(), 1, "{number}: {text}");
    found[0].trim().parse().expect("a number")
}

/// Names are told once, every number belongs to the last name told and has the label of its pool.
fn assert_in_order(text: &str, pool: &str) {
    let mut told = BTreeSet::new();
    let mut name = "";
    for line in text.lines().filter(|line| *line != "# EOF") {
        match line.strip_prefix("# TYPE ") {
            Some(kind) => {
                name = kind.split(' ').next().unwrap();
                assert!(told.insert(name), "{name} has two TYPE lines");
            }
            None if line.starts_with("# HELP ") => {}
            None => {
                assert!(line.starts_with(name), "{line} after {name}");
                assert!(line.contains(&format!("pool=\"{pool}\"")), "{line} has no pool");
            }
        }
    }
}

#[test]
fn metrics_tell_of_pool_members_and_volumes() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&[".", "--fault-member", "1:corrupt-reads,after=1000000"]);
    sandbox.ok(&["volume", "create", "large", "200M"]);
    let mut client = server.connect("v");
    client.write(0, &vec![2; 1 << 20]).unwrap();
    client.read(0, 1 << 20).unwrap();
    client.flush().unwrap();
    let text = sandbox.ok(&["metrics"]);
    has(&text, "sinew_written_bytes_total{pool=\"tank\"} 1048576");
    has(&text, "sinew_stored_bytes{pool=\"tank\"} 1048576.0");
    has(&text, "sinew_health{pool=\"tank\",state=\"healthy\"} 1.0");
    has(&text, "sinew_member_faults{pool=\"tank\",member=\"1\"} 1.0");
    has(&text, "sinew_member_faults{pool=\"tank\",member=\"0\"} 0.0");
    has(&text, "# TYPE sinew_member_written_bytes counter");
    has(&text, "# TYPE sinew_stripe_wait_seconds counter");
    has(&text, "sinew_volume_size_bytes{pool=\"tank\",volume=\"v\"} 41943040.0");
    has(&text, "sinew_volume_stored_bytes{pool=\"tank\",volume=\"v\"} 1048576.0");
    has(&text, "sinew_volume_stored_bytes{pool=\"tank\",volume=\"large\"} 0.0");
    has(&text, "sinew_volume_connections{pool=\"tank\",volume=\"v\"} 1.0");
    has(&text, "sinew_volume_connections{pool=\"tank\",volume=\"large\"} 0.0");
    has(&text, "sinew_volume_read_bytes_total{pool=\"tank\",volume=\"v\"} 1048576");
    has(&text, "sinew_volume_written_bytes_total{pool=\"tank\",volume=\"v\"} 1048576");
    has(&text, "sinew_volume_written_bytes_total{pool=\"tank\",volume=\"large\"} 0");
    let count = |op: &str| {
        let count = "sinew_volume_request_duration_seconds_count{pool=\"tank\",volume=\"v\",op=\"";
        value(&text, &format!("{count}{op}\"}}"))
    };
    assert_eq!((count("read"), count("write"), count("flush"), count("discard")), (1.0, 1.0, 1.0, 0.0));
    let sum = "sinew_volume_request_duration_seconds_sum{pool=\"tank\",volume=\"v\",op=\"write\"}";
    assert!(value(&text, sum) > 0.0);
    has(&text, "# EOF");
    assert_in_order(&text, "tank");
    // A full pool, and a volume that is deleted and made again under its name.
    let mut filler = server.connect("large");
    let refused = (0..200).find_map(|mib| filler.write(mib << 20, &vec![7; 1 << 20]).err());
    assert_eq!(refused, Some(ENOSPC));
    let errors = "sinew_volume_request_errors_total{pool=\"tank\",volume=\"large\",error=\"no_space\"}";
    assert_eq!(value(&sandbox.ok(&["metrics"]), errors), 1.0);
    drop(filler);
    sandbox.ok(&["volume", "delete", "large", "--yes"]);
    sandbox.ok(&["volume", "create", "large", "8M"]);
    assert_eq!(value(&sandbox.ok(&["metrics"]), errors), 0.0);
    // The older format, for tools that read nothing else.
    let text = sandbox.ok(&["metrics", "--prometheus"]);
    has(&text, "# TYPE sinew_member_written_bytes_total counter");
    assert!(!text.contains("# EOF"));
    assert_in_order(&text, "tank");
    let volumes = &server.status()["volumes"];
    assert_eq!((&volumes[0]["used_bytes"], &volumes[1]["used_bytes"]), (&(1 << 20).into(), &0.into()));
    // Shares of what is stored add up, and rates are there after a second.
    let status = server.status();
    let bytes = |key: &str| status[key].as_u64().unwrap();
    assert_eq!(bytes("stored_mirrored_bytes") + bytes("stored_parity_bytes"), bytes("stored_bytes"));
    assert_eq!(status["members"][1]["faults"][0]["requests"], 0);
    wait_until("rates are known", || server.status()["per_second"]["reads"].is_f64());
}

/// The answer to an HTTP request, as head and body.
fn ask(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    (head.to_owned(), body.to_owned())
}

fn tcp(server: &Server<'_>) -> TcpStream {
    let status = server.status();
    TcpStream::connect(status["metrics"].as_str().expect("an address")).unwrap()
}

#[test]
fn scrapers_speak_http() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve_with(&["--metrics", "127.0.0.1:0"]);
    assert!(server.log().contains("  metrics  http://127.0.0.1:"), "{}", server.log());
    let unix = || UnixStream::connect(sandbox.path("sinew/tank.sock")).unwrap();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    for (head, body) in [ask(unix(), &get("/metrics")), ask(tcp(&server), &get("/metrics"))] {
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.ends_with("# EOF\n"));
        assert_in_order(&body, "tank");
    }
    let (head, body) = ask(tcp(&server), "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && body.is_empty());
    assert!(ask(unix(), &get("/else")).0.starts_with("HTTP/1.1 404 "));
    assert!(ask(tcp(&server), &get("/")).0.starts_with("HTTP/1.1 404 "));
    assert!(ask(tcp(&server), "POST /metrics HTTP/1.1\r\n\r\n").0.starts_with("HTTP/1.1 405 "));
    assert!(ask(tcp(&server), "\0\0\0\0\r\n").0.starts_with("HTTP/1.1 400 "));
    // As long as is read at most, so that nothing is left over when the connection is closed.
    let mut long = "GET /metrics HTTP/1.1\r\nA: ".to_owned();
    long.extend(std::iter::repeat_n('b', (16 << 10) - long.len()));
    assert!(ask(tcp(&server), &long).0.starts_with("HTTP/1.1 431 "));
    // A request in two pieces, while a connection that says nothing is open.
    let silent = tcp(&server);
    let mut slow = tcp(&server);
    slow.write_all(b"GET /metrics HT").unwrap();
    assert!(ask(tcp(&server), &get("/metrics")).0.starts_with("HTTP/1.1 200 "));
    assert!(ask(slow, "TP/1.1\r\nHost: x\r\n\r\n").0.starts_with("HTTP/1.1 200 "));
    drop(silent);
    server.stop();
}

#[test]
fn the_page_is_of_this_server_alone() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let complaint = sandbox.fails(&["serve", ".", "--http", "0.0.0.0:0"]);
    assert!(complaint.contains("--http-public"), "{complaint}");
    let server = sandbox.serve_with(&["--http", "127.0.0.1:0"]);
    assert!(server.log().contains("  page     http://127.0.0.1:"), "{}", server.log());
    let address = server.status()["http"].as_str().expect("an address").to_owned();
    let get = |path: &str, host: &str| {
        let stream = TcpStream::connect(&address).unwrap();
        ask(stream, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    };
    for path in ["/", "/page.css", "/page.js", "/icon.svg", "/state", "/history", "/events"] {
        let (head, body) = get(path, &address);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
        assert!(head.contains("Content-Security-Policy: default-src 'none'; "), "{path}: {head}");
        assert!(!body.contains("https://") && !body.is_empty(), "{path} leads elsewhere");
    }
    let state: serde_json::Value = serde_json::from_str(&get("/state", "localhost").1).unwrap();
    assert_eq!(state["pool"], "tank");
    let events: serde_json::Value = serde_json::from_str(&get("/events", "[::1]:1").1).unwrap();
    assert_eq!(events["events"][0]["event"], "opened");
    // A name of another host that leads here, as in a rebinding attack.
    assert!(get("/state", "example.org").0.starts_with("HTTP/1.1 421 "));
    assert!(get("/metrics", &address).0.starts_with("HTTP/1.1 404 "));
    server.stop();
}

#[test]
fn metrics_are_not_open_to_other_machines_unless_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let complaint = sandbox.fails(&["serve", ".", "--metrics", "0.0.0.0:0"]);
    assert!(complaint.contains("--metrics-public"), "{complaint}");
    let server = sandbox.serve_with(&["--metrics", "0.0.0.0:0", "--metrics-public"]);
    assert!(server.status()["metrics"].as_str().unwrap().starts_with("0.0.0.0:"));
    server.stop();
}
