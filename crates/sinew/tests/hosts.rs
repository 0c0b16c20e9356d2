//! A pool that one host has open is refused on another. The hosts are one machine with two identities.

mod harness;

use std::process::{Command, Output};

use harness::{Sandbox, text};

/// The command as another host runs it.
fn elsewhere(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.command(args);
    command.env("SINEW_HOST_ID", "another");
    command
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[track_caller]
fn says(complaint: &str, parts: &[&str]) {
    for part in parts {
        assert!(complaint.contains(part), "{part:?} is missing in: {complaint}");
    }
}

const MEMBERS: [&str; 4] = ["m0", "m1", "m2", "m3"];

#[test]
fn a_pool_that_was_not_stopped_is_taken_over_on_purpose_only() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let serve = ["serve", ".", "--unix", "nbd.sock"];
    // After a clean stop any host may open it.
    let found = elsewhere(&sandbox, &["pool", "find", "."]).output().unwrap();
    says(&text(&found.stdout), &["can be served"]);
    let server = sandbox.serve(&MEMBERS);
    server.connect("v").write(0, &[5; 4096]).unwrap();
    drop(server);
    // It has crashed. The same host sees a record of its own.
    says(&sandbox.ok(&["pool", "find", "."]), &["can be served", "open on", "which is this one"]);
    let state = elsewhere(&sandbox, &["pool", "find", ".", "--json"]).output().unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state.stdout).unwrap();
    assert_eq!(state["pools"][0]["can_be_served"], false);
    assert_eq!(state["pools"][0]["open_on"]["is_this_host"], false);
    assert!(state["pools"][0]["open_on"]["since"].is_string());
    let wrong = ["pool tank is open on", " since 20", "take-over", "This host has the same name"];
    says(&refused(&elsewhere(&sandbox, &serve).output().unwrap()), &wrong);
    let destroy = [&["pool", "destroy", "--yes"], &MEMBERS[..]].concat();
    says(&refused(&elsewhere(&sandbox, &destroy).output().unwrap()), &["is open on", "--force"]);
    let take_over = [&["pool", "take-over"], &MEMBERS[..]].concat();
    says(&refused(&elsewhere(&sandbox, &take_over).output().unwrap()), &["nothing was changed", "--yes"]);
    says(&sandbox.ok(&take_over), &["is not open on another host"]);

    let taken = elsewhere(&sandbox, &[&take_over[..], &["--yes"]].concat()).output().unwrap();
    says(&text(&taken.stdout), &["pool tank is taken over from"]);
    // From here on it is the other host's.
    says(&sandbox.fails(&serve), &wrong);
    let server = sandbox.serve_by(elsewhere(&sandbox, &serve));
    assert_eq!(server.connect("v").read(0, 4096).unwrap(), [5; 4096]);
    server.stop();
    let server = sandbox.serve(&MEMBERS);
    assert_eq!(server.connect("v").read(0, 4096).unwrap(), [5; 4096]);
    server.stop();
}

#[test]
fn a_reader_is_told_of_the_host_that_writes() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["array", "create", "a", "m0", "m1", "m2", "--level", "5", "--size", "64M"]);
    let serve = ["serve", ".", "--unix", "nbd.sock", "--read-only"];
    let server = sandbox.serve(&["m0", "m1", "m2"]);
    drop(server);
    let mut reader = sandbox.serve_by(elsewhere(&sandbox, &serve));
    says(&reader.log(), &["warning: pool a is open on", "is older, or a mix"]);
    reader.stop();
    // Nor is the host that crashed told anything.
    reader = sandbox.serve_with(&["--read-only"]);
    assert!(!reader.log().contains("is open on"), "{}", reader.log());
    reader.stop();
    let destroy = ["pool", "destroy", "--yes", "--force", "m0", "m1", "m2"];
    assert!(elsewhere(&sandbox, &destroy).status().unwrap().success());
}
