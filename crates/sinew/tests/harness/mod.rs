//! What the tests of the command share: a directory of their own, the command run in it, a server that ends with the
//! test.

#![allow(dead_code, reason = "not every test uses everything")]

pub(crate) mod nbd;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long a server may take to start or stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory for one test, which is also where its control sockets are.
pub(crate) struct Sandbox(TempDir);

impl Sandbox {
    pub(crate) fn new() -> Sandbox {
        Sandbox(tempfile::Builder::new().prefix("sinew").tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sinew"));
        command.args(args).current_dir(self.0.path()).env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    /// A server on the members of this directory whose third descriptor is named by `LISTEN_FDS`.
    pub(crate) fn inheriting_command(&self, given: OwnedFd, options: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 </dev/null"]);
        command.args([env!("CARGO_BIN_EXE_sinew"), "serve", "."]).args(options).stdin(given);
        command.current_dir(self.0.path()).env("XDG_RUNTIME_DIR", self.0.path());
        command
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the command runs")
    }

    /// Runs the command, which must succeed, and gives what it said.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "sinew {args:?} failed: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs the command, which must fail, and gives its complaint.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "sinew {args:?}: {}", text(&output.stdout));
        let complaint = text(&output.stderr);
        assert!(complaint.starts_with("sinew: "), "{complaint}");
        complaint
    }

    /// Runs the command, whose arguments must be wrong, and gives its complaint.
    pub(crate) fn misused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(2), "sinew {args:?}: {}", text(&output.stderr));
        text(&output.stderr)
    }

    /// The answer of a command with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ok(args)).expect("JSON")
    }

    /// Makes a pool of `m0` to `m3`, 64 MiB each, with a volume `v`.
    pub(crate) fn make_pool(&self, name: &str) {
        let create = ["pool", "create", name, "m0", "m1", "m2", "m3", "--size", "64M", "--shards", "2"];
        self.ok(&[&create[..], &["--volume", "v:40M"]].concat());
    }

    /// Starts a server on these members.
    pub(crate) fn serve(&self, members: &[&str]) -> Server<'_> {
        let socket = self.path("nbd.sock");
        let args = [&["serve"], members, &["--unix", "nbd.sock"]].concat();
        Server::start(self, self.command(&args), socket)
    }

    /// Starts a server on the members of this directory with further options.
    pub(crate) fn serve_with(&self, options: &[&str]) -> Server<'_> {
        let args = [&["serve", ".", "--unix", "nbd.sock"], options].concat();
        let mut server = Server::start(self, self.command(&args), self.path("nbd.sock"));
        // Its log tells all of its addresses once it has this line.
        server.wait_until(|server| server.log().contains("  control  "));
        server
    }

    /// Starts a server by this command, which serves at `nbd.sock`.
    pub(crate) fn serve_by(&self, command: Command) -> Server<'_> {
        Server::start(self, command, self.path("nbd.sock"))
    }

    /// Starts a server of this pool that chooses its sockets itself.
    pub(crate) fn serve_at_default(&self, pool: &str, members: &[&str]) -> Server<'_> {
        let socket = self.path("sinew/nbd").join(format!("{pool}.sock"));
        Server::start(self, self.command(&[&["serve"], members].concat()), socket)
    }

    /// Starts `sinew up` in a directory here.
    pub(crate) fn up(&self, dir: &str) -> Server<'_> {
        let socket = self.path(dir).join("nbd.sock");
        Server::start(self, self.command(&["up", dir, "--size", "64M", "--volume-size", "40M"]), socket)
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Looks again and again whether something is so.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a program is installed; says so if it is not.
pub(crate) fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

/// A running server. Dropping it kills it, as a crash would.
pub(crate) struct Server<'a> {
    child: Child,
    pub(crate) socket: PathBuf,
    /// It makes the socket, and removes it when it stops.
    makes_socket: bool,
    sandbox: &'a Sandbox,
}

impl<'a> Server<'a> {
    fn start(sandbox: &'a Sandbox, mut command: Command, socket: PathBuf) -> Server<'a> {
        let _ = std::fs::remove_file(&socket);
        let log = std::fs::File::create(sandbox.path("server.log")).expect("a log file");
        command.stdout(log.try_clone().expect("a log file")).stderr(log);
        let child = command.spawn().expect("the server starts");
        let mut server = Server { child, socket, makes_socket: true, sandbox };
        server.wait_until(|server| is_listening(&server.socket));
        server
    }

    /// Starts a server on the members of this directory that is given a socket by its starter.
    pub(crate) fn inherits(sandbox: &'a Sandbox, given: OwnedFd, socket: PathBuf) -> Server<'a> {
        let log = std::fs::File::create(sandbox.path("server.log")).expect("a log file");
        let mut command = sandbox.inheriting_command(given, &[]);
        command.stdout(log.try_clone().expect("a log file")).stderr(log);
        let child = command.spawn().expect("the server starts");
        let mut server = Server { child, socket, makes_socket: false, sandbox };
        server.wait_until(|server| server.log().contains("control"));
        server
    }

    fn wait_until(&mut self, mut done: impl FnMut(&mut Server<'a>) -> bool) {
        let started = Instant::now();
        while !done(self) {
            let ended = self.child.try_wait().expect("the server's state");
            assert!(ended.is_none(), "the server ended: {}", self.log());
            assert!(started.elapsed() < PATIENCE, "the server does not come: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What its descriptors refer to, in their order.
    pub(crate) fn descriptors(&self) -> Vec<String> {
        let all = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("its descriptors");
        let target = |path: PathBuf| std::fs::read_link(path).ok().map(|path| path.display().to_string());
        let mut targets: Vec<String> = all.flatten().filter_map(|entry| target(entry.path())).collect();
        targets.sort();
        targets
    }

    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.sandbox.path("server.log")).unwrap_or_default()
    }

    /// A connection to a volume.
    pub(crate) fn connect(&self, volume: &str) -> nbd::Client {
        nbd::Client::connect(&self.socket, volume)
    }

    pub(crate) fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.socket.display())
    }

    /// The pool's state.
    pub(crate) fn status(&self) -> Value {
        self.sandbox.json(&["pool", "status", "--json"])
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(killed.success());
    }

    /// Ends it as a service manager would; it must stop by itself and well.
    pub(crate) fn stop(self) -> String {
        self.signal("-TERM");
        self.stops()
    }

    /// It must stop by itself and well.
    pub(crate) fn stops(mut self) -> String {
        let started = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("the server's state") {
                Some(status) => break status,
                None if started.elapsed() > PATIENCE => panic!("the server does not stop: {}", self.log()),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        assert_eq!(status.code(), Some(0), "{}", self.log());
        assert_eq!(self.socket.exists(), !self.makes_socket, "the socket is left behind, or was of another");
        self.log()
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_listening(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}
