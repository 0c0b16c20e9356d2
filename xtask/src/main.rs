//! Chores: `cargo xtask setup | check | test | paths | experiments | fuzz | tidy | package | book`.

mod book;
mod code;
mod experiments;
mod fuzz;
mod house;
mod package;
mod prose;
mod resolve;
mod rooms;
mod source;
mod tidy;
mod tokens;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Simulation seeds run by `check`.
const CHECK_SEEDS: u64 = 100;
/// The seeds that failed once.
const KEPT: &str = "crates/sim/seeds.txt";
/// A few seeds that together with the kept ones take every path, and the seeds among which `paths` looks for them.
const COVER: (&str, u64) = ("crates/sim/paths.txt", 2000);
/// Simulation seeds run by `test` that are others with every state of the sources.
const FRESH_SEEDS: u64 = 1000;
/// How long the fuzz targets are run by `test`, all at the same time.
const FUZZ_SECONDS: u64 = 30;
/// Debian packages with the clients that the end-to-end tests use, and a command that works when one is there. Packages
/// are not asked for by name, since some releases have one of them in another.
const PACKAGES: [(&str, &str); 40] = [
    ("bcache-tools", "command -v make-bcache"),
    ("bindfs", "bindfs --version"),
    ("btrfs-progs", "mkfs.btrfs -V"),
    ("busybox", "command -v busybox"),
    ("chromium", "chromium --version"),
    ("chromium-driver", "chromedriver --version"),
    ("cpio", "cpio --version"),
    ("cryptsetup-bin", "cryptsetup --version"),
    ("dbus", "command -v dbus-daemon"),
    ("dosfstools", "command -v mkfs.vfat"),
    ("e2fsprogs", "mkfs.ext4 -V"),
    ("exfatprogs", "command -v mkfs.exfat"),
    ("f2fs-tools", "command -v mkfs.f2fs"),
    ("fdisk", "sfdisk --version"),
    ("fio", "fio --version"),
    ("g++", "c++ --version"),
    ("kmod", "modprobe -V"),
    ("libnbd-bin", "nbdinfo --version"),
    ("libvirt-daemon-driver-qemu", "command -v virt-qemu-run"),
    // The first has a driver for block devices of processes; newer releases have one in the second.
    ("linux-image-6.12-cloud-amd64", "ls /boot/vmlinuz-*cloud-* | grep -Ev 'vmlinuz-(5|6[.]1)[.]'"),
    ("linux-image-cloud-amd64", "ls /boot/vmlinuz-*cloud-*"),
    ("lvm2", "command -v pvcreate"),
    ("mdadm", "command -v mdadm"),
    ("nbd-client", "command -v nbd-client"),
    ("nbdfuse", "nbdfuse --version"),
    ("nbdkit", "nbdkit --version"),
    ("ntfs-3g", "command -v mkfs.ntfs"),
    ("openssl", "openssl version"),
    ("prometheus", "command -v prometheus && command -v promtool"),
    ("man-db", "man --version"),
    ("python3-libnbd", "/usr/bin/python3 -c 'import nbd'"),
    ("python3-seccomp", "/usr/bin/python3 -c 'import seccomp'"),
    ("qemu-system-x86", "qemu-system-x86_64 --version"),
    ("qemu-utils", "qemu-img --version"),
    ("rocksdb-tools", "command -v db_bench"),
    ("systemd-sysv", "test -x /lib/systemd/systemd"),
    ("udev", "udevadm --version"),
    ("user-mode-linux", "command -v linux.uml"),
    ("xfsprogs", "mkfs.xfs -V"),
    ("xz-utils", "xz --version"),
];

/// The version of mdbook that builds the manual.
const MDBOOK: &str = "0.5.4";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next().unwrap_or_default();
    let mut args = args.peekable();
    let result = match (chore.as_str(), args.peek()) {
        ("setup", None) => setup(),
        ("check", None) => check(),
        ("test", None) => test(),
        ("paths", None) => paths(),
        ("experiments", _) => all_experiments(args),
        ("fuzz", seconds) => match seconds.map_or(Ok(FUZZ_SECONDS), |seconds| seconds.parse()) {
            Ok(seconds) => fuzz::run(seconds),
            Err(error) => Err(format!("seconds to run the fuzz targets: {error}")),
        },
        ("tidy", None) => tidy::run(),
        ("book", None) => book(),
        ("package", _) => package::run(root(), args),
        _ => Err("usage: cargo xtask setup | check | test | paths | experiments [NAME ...] | fuzz [SECONDS] | tidy | package | book"
            .to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the tree; every command runs there.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate is in a directory of the tree")
}

/// Installs what builds the manual, and on Debian as root what the end-to-end tests use; otherwise says what is missing.
fn setup() -> Result<(), String> {
    if book::installed().is_none() {
        let args = ["install", "--locked", "--no-default-features", "--version", MDBOOK, "mdbook"];
        if let Err(error) = step("the tool for the manual", "cargo", &args) {
            println!("{error}\nthe manual is not built");
        }
    }
    let missing: Vec<&str> = PACKAGES
        .into_iter()
        .filter(|(_, proof)| output("sh", &["-c", proof]).is_none())
        .map(|(name, _)| name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let install = format!("apt-get install -y --no-install-recommends {}", missing.join(" "));
    let command = format!("apt-get update && {install}");
    if output("id", &["-u"]).is_none_or(|id| id.trim() != "0") {
        println!(
            "not root, nothing installed; tests whose clients are missing are skipped. As root: {command}"
        );
        return Ok(());
    }
    if let Err(error) = step("packages for the end-to-end tests", "sh", &["-c", &command]) {
        println!("{error}\ntests whose clients are missing are skipped");
    }
    Ok(())
}

/// What is compiled for tests: all packages at once and with all features, so that nothing is compiled a second time, and
/// what only features have is tested too. Features add commands and ways to break the engine; none changes what it does.
const WHOLE: [&str; 4] = ["--workspace", "--all-features", "--profile", "checks"];

/// What a contributor runs while at work: a few minutes.
fn check() -> Result<(), String> {
    let started = Instant::now();
    lints()?;
    cargo("unit tests", "test", &[&WHOLE[..], &["--lib", "--bins", "--quiet"]].concat())?;
    cargo("build of the seeds", "build", &[&WHOLE[..], &["--example", "seeds", "--quiet"]].concat())?;
    step("seeds", &built("examples/seeds"), &[&CHECK_SEEDS.to_string()])?;
    println!("== all passed: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Everything a contributor should have run.
fn test() -> Result<(), String> {
    let started = Instant::now();
    lints()?;
    book()?;
    // As users compile it, without features.
    let plain = ["--workspace", "--profile", "checks", "--", "-D", "warnings"];
    cargo("clippy without features", "clippy", &plain)?;
    cargo("build of the tests", "test", &[&WHOLE[..], &["--quiet", "--no-run"]].concat())?;
    // Clients wait most of the time; meanwhile the other tests and the simulator use the processors.
    std::thread::scope(|scope| {
        let clients = scope.spawn(end_to_end);
        let others = cargo("tests", "test", &[&WHOLE[..], &["--quiet"]].concat())
            .and_then(|()| torture_all())
            .and_then(|()| experiments::TESTED.into_iter().try_for_each(experiments::quick));
        clients.join().map_err(|_| "end to end panicked".to_owned())?.and(others)
    })?;
    fuzz::run(FUZZ_SECONDS)?;
    println!("== all passed: {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the quick forms of the experiments that are named, or of all.
fn all_experiments(named: impl Iterator<Item = String>) -> Result<(), String> {
    cargo("build of the experiments", "build", &[&WHOLE[..], &["--bin", "sinew", "--quiet"]].concat())?;
    experiments::run(named)
}

/// What looks at the sources only, the quickest first.
fn lints() -> Result<(), String> {
    cargo("format", "fmt", &["--all", "--check"])?;
    cargo("format of the fuzz targets", "fmt", &["--check", "--manifest-path", fuzz::MANIFEST])?;
    cargo("tidy", "xtask", &["tidy"])?;
    cargo("clippy", "clippy", &[&WHOLE[..], &["--all-targets", "--", "-D", "warnings"]].concat())
}

/// Builds the manual and follows its links, where the tool for it is installed.
fn book() -> Result<(), String> {
    let started = Instant::now();
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let out = root().join(target).join("book");
    match book::build(root(), &out)? {
        Some(pages) => {
            let (place, seconds) = (out.join("html/index.html"), started.elapsed().as_secs_f64());
            println!("== book: {pages} pages, {}: {seconds:.0} s", place.display());
        }
        None => println!("== book: skipped, mdbook is not installed"),
    }
    Ok(())
}

/// Runs the engine in the simulator: the seeds that failed once, those that take every path, and fresh ones.
fn torture_all() -> Result<(), String> {
    // A path or two is taken by one seed in hundreds: chance must not decide whether this passes.
    let same = ["--file", KEPT, "--file", COVER.0, "--twice", "--every-path"];
    torture("seeds that failed once, and every path", &same).map_err(|error| {
        format!("{error}\n(a path that none took: `cargo xtask paths` looks for seeds that do)")
    })?;
    let from = fresh_from().to_string();
    torture("fresh seeds", &["--seeds", &FRESH_SEEDS.to_string(), "--from", &from])
}

/// Looks for seeds that together with the kept ones take every path: after a change of what seeds draw.
fn paths() -> Result<(), String> {
    cargo("build of the torture", "build", &[&WHOLE[..], &["--bin", "sinew", "--quiet"]].concat())?;
    let among = COVER.1.to_string();
    let args = ["--file", KEPT, "--seeds", &among, "--from", "0", "--cover", COVER.0, "--every-path"];
    torture("seeds that take every path", &args)
}

/// Where fresh seeds begin: elsewhere with every state of the sources, and in the same place whenever that one is tested,
/// so that a failure stays until it is mended.
fn fresh_from() -> u64 {
    let tree = output("git", &["rev-parse", "HEAD^{tree}"]).unwrap_or_default();
    let number = tree.get(..8).and_then(|hex| u64::from_str_radix(hex, 16).ok());
    (1 + number.unwrap_or(0)) * 10_000
}

/// Runs the engine in the simulator, with what other programs leave of the processors.
fn torture(title: &str, args: &[&str]) -> Result<(), String> {
    step(title, "nice", &[&["-n", "19", &built("sinew"), "torture"], args].concat())
}

/// A program as the tests have built it: alone it would be compiled again.
fn built(name: &str) -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    root().join(target).join("checks").join(name).display().to_string()
}

/// Runs the command under real clients, and says how it went when it has ended.
fn end_to_end() -> Result<(), String> {
    let script = "tests/e2e/run";
    if !root().join(script).exists() {
        println!("== end to end: skipped, there is no {script}");
        return Ok(());
    }
    let (program, args) = ("env", [&*format!("SINEW={}", built("sinew")), "bash", script]);
    let started = Instant::now();
    let out = Command::new(program).args(args).current_dir(root()).stdin(Stdio::null()).output();
    let out = out.map_err(|error| format!("end to end failed: {program}: {error}"))?;
    let command = shown(program, &args);
    let said = String::from_utf8_lossy(&out.stdout);
    let complained = String::from_utf8_lossy(&out.stderr);
    println!(
        "== end to end: {command}\n{said}{complained}== end to end: {:.0} s",
        started.elapsed().as_secs_f64()
    );
    if out.status.success() { Ok(()) } else { Err(format!("end to end failed; to repeat:\n    {command}")) }
}

/// Runs one command of cargo's.
fn cargo(title: &str, command: &str, args: &[&str]) -> Result<(), String> {
    step(title, "cargo", &[&[command], args].concat())
}

/// Runs one command under a title and says how long it took.
fn step(title: &str, program: &str, args: &[&str]) -> Result<(), String> {
    let command = shown(program, args);
    println!("== {title}: {command}");
    let started = Instant::now();
    let status = Command::new(program).args(args).current_dir(root()).status();
    let status = status.map_err(|error| format!("{title} failed: {program}: {error}"))?;
    println!("== {title}: {:.0} s", started.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{title} failed; to repeat:\n    {command}")) }
}

/// What a command prints; none when it cannot be run or fails.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).current_dir(root()).stderr(Stdio::null()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A command as one types it.
fn shown(program: &str, args: &[&str]) -> String {
    let quoted = |arg: &&str| if arg.contains([' ', '*']) { format!("'{arg}'") } else { (*arg).to_owned() };
    std::iter::once(program.to_owned()).chain(args.iter().map(quoted)).collect::<Vec<_>>().join(" ")
}
