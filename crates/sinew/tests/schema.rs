//! What is generated for the documents: the reference of commands is current.
//!
//! The JSON Schema of the control socket: the file in docs is the one that the program prints, and every request and every
//! answer of a server is valid against it.

mod harness;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use harness::{Sandbox, wait_until};
use jsonschema::Validator;
use serde_json::{Value, json};

const COMMITTED: &str = include_str!("../../../docs/control-api.schema.json");

/// The part of the schema at a pointer.
fn part(schema: &Value, pointer: &str) -> Validator {
    let part = json!({ "$schema": schema["$schema"], "$ref": pointer, "$defs": schema["$defs"] });
    jsonschema::validator_for(&part).unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
    assert!(errors.is_empty(), "{what}: {errors:#?} in {value:#}");
}

/// The names of all requests in the schema.
fn requests(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for form in schema["$defs"]["Request"]["oneOf"].as_array().expect("forms of requests") {
        let plain = form["enum"].as_array().into_iter().flatten().chain(form.get("const"));
        names.extend(plain.map(|name| name.as_str().expect("a name").to_owned()));
        names.extend(
            form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned),
        );
    }
    names
}

/// Asks a server, and checks every request and every answer.
struct Asker {
    schema: Value,
    request: Validator,
    socket: BufReader<UnixStream>,
    /// Requests that were carried out.
    done: BTreeSet<String>,
}

impl Asker {
    fn new(schema: &Value, path: &Path) -> Asker {
        let socket = BufReader::new(UnixStream::connect(path).expect("a control socket"));
        let request = part(schema, "#/$defs/Request");
        Asker { schema: schema.clone(), request, socket, done: BTreeSet::new() }
    }

    fn ask(&mut self, request: &Value) -> Value {
        assert_valid(&self.request, request, "request");
        self.socket.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        let name = match request {
            Value::String(name) => name.clone(),
            other => other.as_object().and_then(|fields| fields.keys().next()).expect("a name").clone(),
        };
        let pointer = format!("#/$defs/Answers/properties/{name}");
        assert_valid(&part(&self.schema, &pointer), &answer, &name);
        if answer.get("ok").is_some() {
            self.done.insert(name);
        }
        answer
    }

    /// The result of a request that must succeed.
    fn ok(&mut self, request: Value) -> Value {
        let answer = self.ask(&request);
        answer.get("ok").unwrap_or_else(|| panic!("{request}: {answer}")).clone()
    }
}

#[test]
fn the_schema_in_the_documents_is_the_one_of_the_program() {
    let sandbox = Sandbox::new();
    let printed = sandbox.json(&["generate", "schema"]);
    let committed: Value = serde_json::from_str(COMMITTED).expect("JSON");
    assert!(
        printed == committed,
        "docs/control-api.schema.json is not current: `sinew generate schema > docs/control-api.schema.json`"
    );
    assert_eq!(printed["version"], 1);
    let answers = printed["$defs"]["Answers"]["properties"].as_object().expect("answers");
    assert_eq!(requests(&printed), answers.keys().cloned().collect());
}

#[test]
fn the_reference_in_the_documents_is_the_one_of_the_program() {
    let printed = Sandbox::new().ok(&["generate", "reference"]);
    let committed = include_str!("../../../docs/reference/commands.md");
    assert!(
        printed == committed,
        "docs/reference/commands.md is not current: `sinew generate reference > docs/reference/commands.md`"
    );
}

#[test]
fn requests_and_answers_are_valid() {
    let sandbox = Sandbox::new();
    let schema = sandbox.json(&["generate", "schema"]);
    sandbox.make_pool("tank");
    let mut done;
    {
        let server = sandbox.serve_with(&[
            "--metrics",
            "127.0.0.1:0",
            "--fault-member",
            "1:corrupt-reads,after=1000000",
        ]);
        let mut asker = Asker::new(&schema, &sandbox.path("sinew/tank.sock"));
        asker.ok(json!("status"));
        let mut client = server.connect("v");
        client.write(0, &vec![5; 1 << 20]).unwrap();
        client.read(0, 1 << 20).unwrap();
        client.flush().unwrap();
        wait_until("rates are known", || asker.ok(json!("status"))["per_second"].is_object());
        let state = asker.ok(json!("status"));
        assert!(state["members"][0]["write_latency_us"].is_object(), "{state:#}");
        assert_eq!(state["members"][1]["faults"].as_array().map(Vec::len), Some(1));
        asker.ok(json!("metrics"));
        asker.ok(json!("damage"));
        wait_until("there is a history", || {
            asker.ok(json!("history"))["members"][0]["write_p99_us"][0].is_u64()
        });
        asker.ok(json!({ "volume-create": { "name": "w", "bytes": 1 << 20 } }));
        let limits = json!({ "iops": 5000, "burst_ms": 20 });
        asker.ok(json!({ "volume-create": { "name": "x", "bytes": 1 << 20, "limits": limits } }));
        let set =
            asker.ok(json!({ "volume-set": { "name": "x", "limits": { "bytes_per_second": 1 << 20 } } }));
        assert_eq!(set, json!({ "iops": 5000, "bytes_per_second": 1 << 20, "burst_ms": 20 }));
        asker.ok(json!({ "volume-delete": { "name": "x" } }));
        asker.ok(json!({ "volume-resize": { "name": "w", "bytes": 2 << 20, "shrink": false } }));
        asker.ok(json!({ "volume-delete": { "name": "w" } }));
        assert!(asker.ask(&json!({ "volume-delete": { "name": "w", "force": true } }))["error"].is_string());
        asker.ok(json!({ "throttle": { "bytes_per_second": 0, "pause_above_iops": 0 } }));
        asker.ok(json!({ "latency": { "spike_avoidance": "auto" } }));
        asker.ok(json!({ "latency": { "io_timeout": { "ms": 60_000 } } }));
        asker.ok(json!({ "policy": { "change": { "packing": "packed", "discard": false } } }));
        asker.ok(json!({ "scrub": { "run": true } }));
        asker.ok(json!({ "member-physical": { "member": 0, "bytes": 64 << 20 } }));
        asker.ok(json!("status"));
        asker.ok(json!({ "member-physical": { "member": 0, "bytes": 0 } }));
        asker.ok(json!({ "member-weight": { "member": 1, "percent": 60 } }));
        asker.ok(json!({ "member-offline": { "member": 2 } }));
        asker.ok(json!("status"));
        asker.ok(json!({ "member-online": { "member": 2, "path": null } }));
        wait_until("the member is up to date", || asker.ok(json!("status"))["health"] == "healthy");
        asker.ok(json!({ "member-offline": { "member": 2 } }));
        for name in ["new", "more"] {
            std::fs::File::create(sandbox.path(name)).unwrap().set_len(64 << 20).unwrap();
        }
        asker.ok(json!({ "member-replace": { "member": 2, "path": sandbox.path("new"), "force": false } }));
        wait_until("the member is rebuilt", || asker.ok(json!("status"))["health"] == "healthy");
        let added = asker.ok(json!({ "member-add": { "path": sandbox.path("more"), "force": false } }));
        asker.ok(json!({ "member-remove": { "member": added["member"], "cancel": false } }));
        // It may have left already.
        asker.ask(&json!({ "member-remove": { "member": added["member"], "cancel": true } }));
        let events = asker.ok(json!({ "events": { "after": 0, "wait": false } }));
        let kinds: BTreeSet<&str> =
            events["events"].as_array().unwrap().iter().filter_map(|event| event["event"].as_str()).collect();
        assert!(
            ["opened", "volume-created", "member-offline"].iter().all(|kind| kinds.contains(kind)),
            "{kinds:?}"
        );
        done = asker.done;
    }
    let elastic = Sandbox::new();
    let create = ["array", "create", "five", "a0", "a1", "a2", "--level", "5", "--elastic", "--size", "64M"];
    elastic.ok(&create);
    {
        let _server = elastic.serve(&["a0", "a1", "a2"]);
        let mut asker = Asker::new(&schema, &elastic.path("sinew/five.sock"));
        asker.ok(json!({ "array-share": { "percent": 50 } }));
        let change = json!({ "share": "none", "low": 70, "hit_factor": 200 });
        assert_eq!(asker.ok(json!({ "array-policy": { "change": change } }))["low"], 70);
        assert!(asker.ask(&json!({ "array-policy": { "change": { "high": 60 } } }))["error"].is_string());
        assert!(asker.ok(json!("status"))["array"]["elastic"].is_object());
        assert!(asker.ask(&json!({ "policy": { "change": {} } }))["error"].is_string());
        done.extend(asker.done);
    }
    let ten = Sandbox::new();
    ten.ok(&["array", "create", "ten", "a0", "a1", "--level", "10", "--size", "64M"]);
    {
        let _server = ten.serve(&["a0", "a1"]);
        let mut asker = Asker::new(&schema, &ten.path("sinew/ten.sock"));
        let paths = ["a2", "a3"].map(|name| ten.path(name));
        for path in &paths {
            std::fs::File::create(path).unwrap().set_len(64 << 20).unwrap();
        }
        asker.ok(json!({ "array-grow": { "paths": paths, "method": null, "force": false } }));
        asker.ok(json!("status"));
        done.extend(asker.done);
    }
    assert_eq!(done, requests(&schema), "a request was not tried");
}

#[test]
fn commands_print_json() {
    let sandbox = Sandbox::new();
    let create =
        ["pool", "create", "tank", "m0", "m1", "m2", "m3", "--size", "64M", "--volume", "v:40M", "--json"];
    let made = sandbox.json(&create);
    assert_eq!(
        (&made["pool"], &made["members"], &made["volumes"][0]["bytes"]),
        (&json!("tank"), &json!(4), &json!(40 << 20))
    );
    let server = sandbox.serve(&["."]);
    let volume = sandbox.json(&["volume", "create", "w", "1M", "--json"]);
    assert_eq!(volume["provisioned_bytes"], 41 << 20);
    assert!(volume["capacity_bytes"].as_u64() > Some(41 << 20));
    assert_eq!(sandbox.json(&["volume", "resize", "w", "2M", "--json"])["bytes"], 2 << 20);
    assert_eq!(sandbox.json(&["volume", "delete", "w", "--yes", "--json"]), json!({ "name": "w" }));
    assert_eq!(sandbox.json(&["member", "offline", "1", "--json"])["state"], "offline");
    assert_eq!(sandbox.json(&["member", "online", "1", "--wait", "--json"])["state"], "active");
    assert_eq!(sandbox.json(&["member", "physical", "1", "1G", "--json"])["physical_limit"], 1 << 30);
    assert_eq!(sandbox.json(&["member", "weight", "1", "50", "--json"])["weight"], 50);
    let added = sandbox.json(&["member", "add", "m4", "--size", "64M", "--json"]);
    assert_eq!((&added[0]["member"], &added[0]["path"]), (&json!(4), &json!(sandbox.path("m4"))));
    assert_eq!(sandbox.json(&["member", "remove", "4", "--wait", "--json"])["state"], "removed");
    assert_eq!(sandbox.json(&["throttle", "100M", "--json"])["bytes_per_second"], 100 << 20);
    assert_eq!(sandbox.json(&["latency", "--io-timeout", "never", "--json"])["io_timeout_s"], Value::Null);
    assert_eq!(sandbox.json(&["policy", "--discard", "false", "--json"])["discard"], false);
    server.stop();
    let destroyed = sandbox.json(&["pool", "destroy", "m0", "m1", "m2", "m3", "--yes", "--json"]);
    assert_eq!(destroyed, json!({ "pools": ["tank"], "members": 4 }));
}
