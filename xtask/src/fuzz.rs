//! Runs the fuzz targets with the compiler at hand: sanitizers need a nightly one, the coverage that guides libFuzzer does not.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use super::{output, root, shown, step};

/// The package of the targets, which is no part of the workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";
/// Counts branches and tells what they compare, where libFuzzer looks for it.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Compiles all targets and runs them beside one another, each for this number of seconds.
///
/// # Errors
/// When one does not compile, or finds an input that breaks what it checks.
pub(crate) fn run(seconds: u64) -> Result<(), String> {
    let version = output("rustc", &["-vV"]).unwrap_or_default();
    let machine = version.lines().find_map(|line| line.strip_prefix("host: "));
    let machine = machine.ok_or("rustc does not tell its machine")?;
    // Naming the machine leaves macros and build scripts without coverage.
    let build = ["build", "--release", "--quiet", "--manifest-path", MANIFEST, "--target", machine, "--bins"];
    let flags = format!("RUSTFLAGS={COVERAGE}");
    step("build of the fuzz targets", "env", &[&[flags.as_str(), "cargo"], &build[..]].concat())?;
    // They come from a pool that is made in the simulator, a program that the coverage is of no use to.
    let inputs = ["run", "--quiet", "--manifest-path", MANIFEST, "--example", "seeds", "--", "fuzz/corpus"];
    step("first inputs for fuzz", "cargo", &inputs)?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "fuzz/target".to_owned());
    let programs = &root().join(target).join(machine).join("release");
    let (names, started) = (targets()?, Instant::now());
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let running: Vec<_> =
            names.iter().map(|name| scope.spawn(move || run_target(programs, name, seconds))).collect();
        running.into_iter().map(|run| run.join().expect("it does not panic")).collect()
    });
    println!("== fuzz: {} targets, {:.0} s", results.len(), started.elapsed().as_secs_f64());
    results.into_iter().collect()
}

/// The names of the targets.
fn targets() -> Result<Vec<String>, String> {
    let files = fs::read_dir(root().join("fuzz/fuzz_targets")).map_err(|error| format!("fuzz: {error}"))?;
    let mut names: Vec<String> =
        files.filter_map(|file| file.ok()?.path().file_stem()?.to_str().map(str::to_owned)).collect();
    names.sort_unstable();
    Ok(names)
}

fn run_target(programs: &Path, name: &str, seconds: u64) -> Result<(), String> {
    let (corpus, artifacts) = (format!("fuzz/corpus/{name}"), format!("fuzz/artifacts/{name}/"));
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(root().join(directory)).map_err(|error| format!("{directory}: {error}"))?;
    }
    let dict = format!("fuzz/{name}.dict");
    let mut args = vec![
        corpus,
        format!("-max_total_time={seconds}"),
        "-timeout=60".to_owned(),
        format!("-artifact_prefix={artifacts}"),
    ];
    if root().join(&dict).exists() {
        args.push(format!("-dict={dict}"));
    }
    let program = programs.join(name);
    let ran = Command::new(&program).args(&args).current_dir(root()).stdin(Stdio::null()).output();
    let ran = ran.map_err(|error| format!("fuzz {name}: {}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let last = said.lines().rev().find(|line| line.starts_with("Done")).unwrap_or("it did not end");
    println!("== fuzz {name}: {last}");
    if ran.status.success() {
        return Ok(());
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Err(format!(
        "{said}\nfuzz {name} failed; to repeat:\n    {}",
        shown(&program.display().to_string(), &args)
    ))
}
