//! The surroundings of a server: its clients, its signals, its sockets, its user.

mod harness;

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use harness::{Sandbox, Server};

const EIO: u32 = 5;
const ENOSPC: u32 = 28;
const ESHUTDOWN: u32 = 108;

#[test]
fn a_volume_in_use_is_neither_deleted_nor_shrunk_unless_forced() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let mut client = server.connect("v");
    client.write(0, &[1; 4096]).unwrap();
    assert_eq!(server.status()["volumes"][0]["connections"], 1);
    for refused in [&["volume", "delete", "v", "--yes"][..], &["volume", "resize", "v", "8M", "--shrink"]] {
        let complaint = sandbox.fails(refused);
        assert!(complaint.contains("v is in use: it has 1 client connection"), "{complaint}");
        assert!(complaint.contains("--force"), "{complaint}");
    }
    // Growing takes nothing away.
    sandbox.ok(&["volume", "resize", "v", "44M"]);
    sandbox.ok(&["volume", "resize", "v", "8M", "--shrink", "--force"]);
    // What was inside when the client connected is no full pool; what never was is out of range.
    assert_eq!(client.write(16 << 20, &[1; 4096]), Err(EIO));
    assert_eq!(client.read(16 << 20, 4096), Err(EIO));
    assert_eq!(client.write(80 << 20, &[1; 4096]), Err(ENOSPC));
    client.write(4 << 20, &[1; 4096]).unwrap();
    sandbox.ok(&["volume", "delete", "v", "--yes", "--force"]);
    assert_eq!(client.write(0, &[1; 4096]), Err(ESHUTDOWN));
    assert_eq!(client.read(0, 4096), Err(ESHUTDOWN));
    drop(client);
    sandbox.ok(&["volume", "create", "w", "8M"]);
    drop(server.connect("w"));
    harness::wait_until("the end of the connection is noticed", || {
        server.status()["volumes"][0]["connections"] == 0
    });
    sandbox.ok(&["volume", "delete", "w", "--yes"]);
    server.stop();
}

#[test]
fn a_socket_of_the_starter_is_served_and_left_in_place() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let path = sandbox.path("given.sock");
    let given = UnixListener::bind(&path).unwrap();
    // Systemd may leave it so; the server must not turn in circles then.
    given.set_nonblocking(true).unwrap();
    let server = Server::inherits(&sandbox, given.into(), path.clone());
    let mut client = server.connect("v");
    client.write(0, &[1; 4096]).unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), [1; 4096]);
    assert_eq!(server.status()["nbd"]["unix"], path.display().to_string());
    assert!(!sandbox.path("sinew/nbd").exists(), "it has a socket and needs no other");
    server.stop();
    assert!(path.exists(), "the socket is its starter's");
}

#[test]
fn sockets_of_the_starter_are_checked() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let serve = |given: std::os::fd::OwnedFd, options: &[&str]| {
        let output = sandbox.inheriting_command(given, options).output().unwrap();
        (output.status.code(), harness::text(&output.stderr))
    };
    let file = std::fs::File::open(sandbox.path("m0")).unwrap();
    let (code, complaint) = serve(file.into(), &[]);
    assert!(code == Some(1) && complaint.contains("LISTEN_FDS"), "{complaint}");
    let unconnected = std::os::unix::net::UnixDatagram::unbound().unwrap();
    let (code, complaint) = serve(unconnected.into(), &[]);
    assert!(code == Some(1) && complaint.contains("no stream socket that listens"), "{complaint}");
    let public = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let (code, complaint) = serve(public.into(), &[]);
    assert!(code == Some(1) && complaint.contains("--public"), "{complaint}");
}

#[test]
fn a_hangup_stops_a_server_cleanly() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    server.connect("v").write(0, &[1; 4096]).unwrap();
    server.signal("-HUP");
    assert!(server.stops().contains("stopped, everything is on the members"));
}

#[test]
fn more_signals_while_stopping_change_nothing() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    for (first, second) in [("-INT", "-TERM"), ("-HUP", "-TERM")] {
        let server = sandbox.serve(&["."]);
        server.connect("v").write(0, &[1; 4096]).unwrap();
        // While it is stopped it takes no signal, so that both are pending at once; two of one kind would be merged.
        server.signal("-STOP");
        server.signal(first);
        server.signal(second);
        server.signal("-CONT");
        let log = server.stops();
        assert!(log.contains("stopped, everything is on the members") && !log.contains("at once"), "{log}");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn sockets_have_the_mode_and_group_that_were_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let group = std::fs::metadata(sandbox.path("m0")).unwrap().gid().to_string();
    let server = sandbox.serve_with(&["--socket-group", &group, "--control", "ctl"]);
    assert_eq!((mode(&sandbox.path("nbd.sock")), mode(&sandbox.path("ctl"))), (0o660, 0o600));
    server.stop();
    let server = sandbox.serve_with(&["--socket-mode", "0666"]);
    assert_eq!(mode(&sandbox.path("nbd.sock")), 0o666);
    assert_eq!(mode(&sandbox.path("sinew/tank.sock")), 0o600);
    server.stop();
    assert!(sandbox.misused(&["serve", ".", "--socket-mode", "999"]).contains("0660"));
    assert!(
        sandbox
            .misused(&["serve", ".", "--socket-group", "no-such-group"])
            .contains("no group no-such-group")
    );
    assert!(sandbox.misused(&["serve", ".", "--tcp", "nonsense"]).contains("localhost:10809"));
}

#[test]
fn a_server_that_does_not_start_leaves_no_socket() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("localhost:{}", taken.local_addr().unwrap().port());
    let complaint = sandbox.fails(&["serve", ".", "--unix", "nbd.sock", "--tcp", &address]);
    assert!(complaint.contains("cannot listen"), "{complaint}");
    assert!(!sandbox.path("nbd.sock").exists() && !sandbox.path("sinew/tank.sock").exists());
}

#[test]
fn directories_of_links_name_the_members() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    std::fs::create_dir(sandbox.path("by-id")).unwrap();
    for (link, member) in
        [("ata-1", "m0"), ("ata-2", "m1"), ("ata-3", "m2"), ("ata-4", "m3"), ("wwn-1", "m0")]
    {
        std::os::unix::fs::symlink(sandbox.path(member), sandbox.path("by-id").join(link)).unwrap();
    }
    let found = sandbox.json(&["pool", "find", "by-id", "--json"]);
    assert_eq!(found["pools"][0]["usable"], 4);
    let server = sandbox.serve(&["by-id"]);
    let status = server.status();
    assert_eq!(status["health"], "healthy");
    assert!(status["members"][0]["path"].as_str().unwrap().ends_with("by-id/ata-1"));
    server.stop();
}

#[test]
fn without_a_runtime_directory_a_user_has_one_of_their_own() {
    let sandbox = Sandbox::new();
    // Only root can become another user.
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 || !harness::installed("setpriv") {
        return;
    }
    let home = sandbox.path("");
    std::fs::set_permissions(&home, PermissionsExt::from_mode(0o777)).unwrap();
    let program = sandbox.path("sinew-of-others");
    std::fs::copy(env!("CARGO_BIN_EXE_sinew"), &program).unwrap();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(args);
        command.env_remove("XDG_RUNTIME_DIR").env("TMPDIR", &home).current_dir(&home);
        command
    };
    let mut child = run(&["up", "data", "--size", "64M"]).spawn().unwrap();
    let control = sandbox.path("sinew-65534/data.sock");
    harness::wait_until("the server comes", || {
        control.symlink_metadata().is_ok_and(|m| m.file_type().is_socket())
    });
    assert_eq!(mode(&sandbox.path("sinew-65534")), 0o700);
    let status = run(&["pool", "status"]).output().unwrap();
    assert!(harness::text(&status.stdout).contains("healthy"), "{}", harness::text(&status.stderr));
    let _ = child.kill();
    let _ = child.wait();
}
