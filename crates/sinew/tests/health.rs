//! The health of a pool as an operator sees it: states, advice that can be carried out as it is, exit codes, progress.

mod harness;

use harness::{Sandbox, Server, wait_until};
use serde_json::Value;

const EIO: u32 = 5;

/// The exit code and the output of `pool status --check`.
fn check(sandbox: &Sandbox) -> (Option<i32>, String) {
    let output = sandbox.run(&["pool", "status", "--check"]);
    (output.status.code(), harness::text(&output.stdout) + &harness::text(&output.stderr))
}

fn advice(status: &Value) -> Vec<String> {
    let advice = status["advice"].as_array().expect("a list").iter();
    advice.map(|advice| advice.as_str().expect("a text").to_owned()).collect()
}

/// Carries out the first command in a piece of advice, and waits for it where that is possible.
fn carry_out(sandbox: &Sandbox, advice: &str) {
    let command = advice.split('`').nth(1).expect("a command");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "sinew", "{command}");
    sandbox.ok(&[&words[1..], &["--wait"]].concat());
}

fn take_offline(sandbox: &Sandbox, server: &Server<'_>, options: &[&str]) -> String {
    sandbox.ok(&[&["member", "offline", "2"], options].concat());
    let status = server.status();
    assert_eq!((&status["health"], advice(&status).len()), (&"at risk".into(), 1), "{status:#}");
    assert_eq!(status["needs_attention"], true);
    advice(&status).remove(0)
}

#[test]
fn commands_in_advice_work_as_they_are() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    server.connect("v").write(0, &vec![1; 1 << 20]).unwrap();
    assert_eq!(check(&sandbox), (Some(0), "tank: healthy\n".to_owned()));
    let told = take_offline(&sandbox, &server, &[]);
    assert!(told.contains("`sinew member online 2 --pool tank`"), "{told}");
    let (code, line) = check(&sandbox);
    assert_eq!(code, Some(1));
    assert!(line.starts_with("tank: at risk; member 2 out"), "{line}");
    carry_out(&sandbox, &told);
    assert_eq!(check(&sandbox).0, Some(0));
    server.stop();
    let (code, line) = check(&sandbox);
    assert_eq!(code, Some(2));
    assert!(line.contains("no pool is served"), "{line}");
}

#[test]
fn advice_names_a_control_socket_elsewhere() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&[".", "--control", "my ctl"]);
    let told =
        sandbox.command(&["pool", "status", "--json"]).env("SINEW_CONTROL", "my ctl").output().unwrap();
    let status: Value = serde_json::from_slice(&told.stdout).expect("the variable names the socket");
    assert_eq!(status["health"], "healthy");
    sandbox.ok(&["member", "offline", "2", "--control", "my ctl"]);
    let shown = sandbox.ok(&["pool", "status", "--control", "my ctl"]);
    let path = sandbox.path("my ctl").canonicalize().unwrap();
    assert!(shown.contains(&format!("`sinew member online 2 --control '{}'`", path.display())), "{shown}");
    server.stop();
}

#[test]
fn a_failed_pool_says_so_and_its_data_is_there_when_it_is_served_again() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let faults = [
        "--fault-member",
        "1:write-errors,rate=1,after=200",
        "--fault-member",
        "2:write-errors,rate=1,after=200",
    ];
    let server = sandbox.serve_with(&faults);
    let mut client = server.connect("v");
    let content = |piece: u64| [piece as u8 + 1; 1 << 16];
    let pieces = (0..512).take_while(|&piece| client.write(piece << 16, &content(piece)).is_ok()).count();
    drop(client);
    wait_until("the pool fails", || server.status()["health"] == "failed");
    let status = server.status();
    assert_eq!(status["data_safe"], "not known until the pool is served again");
    assert!(advice(&status)[0].contains("serve the pool again"), "{status:#}");
    assert_eq!(check(&sandbox).0, Some(2));
    drop(server);
    let server = sandbox.serve_with(&[]);
    let mut client = server.connect("v");
    for piece in 0..pieces as u64 {
        assert_eq!(client.read(piece << 16, 1 << 16).unwrap(), content(piece), "piece {piece}");
    }
    drop(client);
    // The member that failed first is out, as it was before the pool failed.
    carry_out(&sandbox, &advice(&server.status())[0]);
    wait_until("nothing needs attention", || check(&sandbox).0 == Some(0));
    server.stop();
}

/// Flips a byte in every copy of a block with this content in the files of the members; gives the number of copies.
fn spoil(sandbox: &Sandbox, content: &[u8]) -> usize {
    let mut copies = 0;
    for member in ["m0", "m1", "m2", "m3"] {
        let mut bytes = std::fs::read(sandbox.path(member)).unwrap();
        for block in bytes.chunks_mut(4096).filter(|block| *block == content) {
            block[1000] ^= 1;
            copies += 1;
        }
        std::fs::write(sandbox.path(member), bytes).unwrap();
    }
    copies
}

#[test]
fn damage_is_known_until_it_is_written_again_also_after_a_crash() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let content: Vec<u8> = (0..4096_usize).map(|i| (i * i / 7 + i) as u8 | 1).collect();
    let mut client = server.connect("v");
    client.write(0, &vec![9; 1 << 20]).unwrap();
    client.write(3 * 4096, &content).unwrap();
    drop(client);
    server.stop();
    assert!(spoil(&sandbox, &content) >= 2);
    let spoiled = {
        let mut spoiled = content.clone();
        spoiled[1000] ^= 1;
        spoiled
    };
    let server = sandbox.serve(&["."]);
    assert_eq!(check(&sandbox).0, Some(0), "not known before it is read");
    let mut client = server.connect("v");
    assert_eq!(client.read(0, 1 << 20), Err(EIO));
    wait_until("it is found", || server.status()["health"] == "damaged");
    let damage = sandbox.json(&["pool", "damage", "--json"]);
    let only = (damage[0]["volume"].as_str(), damage[0]["offset"].as_u64(), damage[0]["bytes"].as_u64());
    assert_eq!((only, damage.as_array().unwrap().len()), ((Some("v"), Some(12288), Some(4096)), 1));
    wait_until("it is stored", || sandbox.ok(&["events"]).contains("4096 bytes at 12288 have no good copy"));
    assert!(sandbox.json(&["pool", "damage", "--json"])[0]["since"].is_string());
    let (code, line) = check(&sandbox);
    assert_eq!(code, Some(2));
    assert!(
        line.contains("1 damaged range of volumes") && line.contains("`sinew pool damage --pool tank`"),
        "{line}"
    );
    drop((client, server));
    let server = sandbox.serve(&["."]);
    assert_eq!(server.status()["health"], "damaged", "it is known after a crash");
    assert!(sandbox.ok(&["pool", "damage"]).contains("12288"));
    let mut client = server.connect("v");
    client.write(3 * 4096, &content).unwrap();
    wait_until("it has ended", || check(&sandbox).0 == Some(0));
    assert_eq!(sandbox.ok(&["pool", "damage"]), "no damage is known\n");
    assert_eq!(client.read(3 * 4096, 4096).unwrap(), content);
    drop(client);
    server.stop();
    // Damage that was none ends when the blocks are read well.
    assert!(spoil(&sandbox, &content) >= 2);
    let server = sandbox.serve(&["."]);
    assert_eq!(server.connect("v").read(3 * 4096, 4096), Err(EIO));
    wait_until("it is found", || server.status()["health"] == "damaged");
    wait_until("it is stored", || sandbox.ok(&["events"]).contains("have no good copy"));
    server.stop();
    assert!(spoil(&sandbox, &spoiled) >= 2);
    let server = sandbox.serve(&["."]);
    assert_eq!(server.status()["health"], "damaged");
    assert_eq!(server.connect("v").read(3 * 4096, 4096).unwrap(), content);
    wait_until("it has ended", || sandbox.ok(&["events"]).contains("are no longer damaged"));
    assert_eq!(check(&sandbox).0, Some(0));
    server.stop();
}

#[test]
fn a_member_that_stays_away_is_rebuilt_into_free_space() {
    let sandbox = Sandbox::new();
    let create = ["pool", "create", "tank", "m0", "m1", "m2", "m3", "--size", "64M", "--data-columns", "2"];
    sandbox.ok(&[&create[..], &["--volume", "v:40M"]].concat());
    let server = sandbox.serve_with(&["--rebuild-after", "1s"]);
    server.connect("v").write(0, &vec![6; 10 << 20]).unwrap();
    let status = server.status();
    assert_eq!((&status["rebuild_after_s"], &status["rebuild_room"]), (&1.0.into(), &true.into()));
    assert!(sandbox.ok(&["pool", "status"]).contains("rebuild any one member into free space (after 1s)"));
    std::fs::remove_file(sandbox.path("m2")).unwrap();
    wait_until("it is rebuilt", || server.status()["members"][2]["state"] == "removed");
    wait_until("the pool is healthy", || check(&sandbox).0 == Some(0));
    let told = sandbox.ok(&["events"]);
    assert!(told.contains("what it held is rebuilt into free space"), "{told}");
    assert_eq!(server.connect("v").read(0, 10 << 20).unwrap(), vec![6; 10 << 20]);
    server.stop();
}

#[test]
fn a_server_that_hangs_is_not_waited_for() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    server.signal("-STOP");
    let (code, line) = check(&sandbox);
    server.signal("-CONT");
    assert_eq!(code, Some(2));
    assert!(line.contains("does not answer within 10 s"), "{line}");
    server.stop();
}

#[test]
fn volumes_beyond_the_capacity_are_told() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let output = sandbox.run(&["volume", "create", "large", "100M"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", harness::text(&output.stderr));
    let output = sandbox.run(&["volume", "resize", "large", "200M"]);
    assert!(output.status.success());
    assert!(harness::text(&output.stderr).contains("warning: the volumes have 240 MiB in all"));
    let status = server.status();
    assert_eq!(
        (&status["provisioned_bytes"], &status["overprovisioned"]),
        (&(240 << 20).into(), &true.into())
    );
    assert!(sandbox.ok(&["pool", "status"]).contains("240 MiB in all, more than the capacity"));
    server.stop();
}

#[test]
fn long_work_tells_how_far_it_is() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    server.connect("v").write(0, &vec![3; 30 << 20]).unwrap();
    sandbox.ok(&["throttle", "1M"]);
    sandbox.ok(&["scrub"]);
    wait_until("the scrub has a rate", || server.status()["work"][0]["seconds_left"].as_u64().is_some());
    let work = &server.status()["work"][0];
    assert_eq!((&work["work"], &work["unit"]), (&"scrub".into(), &"stripes".into()));
    let (done, left) = (work["done"].as_u64().unwrap(), work["left"].as_u64().unwrap());
    assert_eq!(work["percent"], done * 100 / (done + left));
    let shown = sandbox.ok(&["pool", "status"]);
    assert!(shown.contains("working   scrub, ") && shown.contains(" % done, "), "{shown}");
    server.stop();
}

#[test]
fn a_watch_shows_the_state_again_and_again() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let mut watch = sandbox.command(&["pool", "status", "--watch=10ms"]);
    let out = std::fs::File::create(sandbox.path("shown")).unwrap();
    let mut watch = watch.stdout(out).spawn().unwrap();
    let shown = || std::fs::read_to_string(sandbox.path("shown")).unwrap().matches("health    ").count();
    wait_until("it is shown three times", || shown() >= 3);
    watch.kill().unwrap();
    watch.wait().unwrap();
    server.stop();
}
