//! Chores: `cargo xtask setup | test | tidy`.

mod tidy;

use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Fresh simulation seeds run by `test`.
const SEEDS: u64 = 1500;

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("setup") => setup(),
        Some("test") => test(),
        Some("tidy") => tidy::run(),
        _ => Err("usage: cargo xtask setup | test | tidy".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Installs what the end-to-end tests use, on Debian as root; otherwise says what is missing.
fn setup() -> Result<(), String> {
    let packages =
        ["fio", "libnbd-bin", "nbdfuse", "nbdkit", "python3-libnbd", "qemu-utils", "xfsprogs", "e2fsprogs"];
    let present = |name: &&str| {
        let query = Command::new("dpkg-query").args(["-W", "-f", "${Status}", name]).output();
        query.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("install ok installed"))
    };
    let missing: Vec<&str> = packages.into_iter().filter(|name| !present(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let command =
        format!("apt-get update && apt-get install -y --no-install-recommends {}", missing.join(" "));
    if step("install packages for the end-to-end tests", "sh", &["-c", &command]).is_err() {
        eprintln!("not installed: {}; tests that need them are skipped", missing.join(", "));
    }
    Ok(())
}

/// Everything a contributor should have run.
fn test() -> Result<(), String> {
    step("format", "cargo", &["fmt", "--all", "--check"])?;
    let deny = ["clippy", "--workspace", "--all-targets", "--release", "--", "-D", "warnings"];
    step("clippy", "cargo", &deny)?;
    step("tests", "cargo", &["test", "--workspace", "--release", "--quiet"])?;
    step(
        "deliberate defects",
        "cargo",
        &["test", "--release", "-p", "sinew-sim", "--features", "sabotage", "--test", "sabotage"],
    )?;
    let torture = ["run", "--release", "--quiet", "-p", "sinew", "--", "torture"];
    let with = |more: &[&'static str]| [&torture[..], more].concat();
    step("seeds that failed once", "cargo", &with(&["--twice", "--file", "crates/sim/seeds.txt"]))?;
    let fresh = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() * 10_000);
    let (seeds, from) = (SEEDS.to_string(), fresh.to_string());
    let mut fresh_seeds: Vec<&str> = torture.to_vec();
    fresh_seeds.extend(["--seeds", &seeds, "--from", &from]);
    step("fresh seeds", "cargo", &fresh_seeds)?;
    step("end to end", "tests/e2e/run", &[])
}

/// Runs one command under a title and says how long it took.
fn step(title: &str, program: &str, args: &[&str]) -> Result<(), String> {
    println!("== {title}: {program} {}", args.join(" "));
    let started = Instant::now();
    let status = Command::new(program).args(args).status().map_err(|error| format!("{program}: {error}"))?;
    println!("== {title}: {:.0} s", started.elapsed().as_secs_f64());
    if status.success() {
        Ok(())
    } else {
        Err(format!("{title} failed; to repeat: {program} {}", args.join(" ")))
    }
}
