//! Quick forms of experiments: they must run, and the figures for which a file states a band must lie in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::{built, root, step};

/// The quick forms that `test` runs: three quarters of a minute of one core. The others take longer, or read traces.
pub(crate) const TESTED: [&str; 9] = [
    "first",
    "spread",
    "fastscale",
    "mttdl",
    "esap-reliability",
    "ageing-together",
    "consumer",
    "scaled",
    "bursts",
];
/// The environment variable that names the directory of traces; files that need it say so.
const TRACES: &str = "SINEW_TRACES";

/// Runs the quick form of every experiment that ships with the program, or of those that are named. One that fails does not keep
/// the others from being run.
pub(crate) fn run(named: impl Iterator<Item = String>) -> Result<(), String> {
    let named: BTreeSet<String> = named.collect();
    let shipped = shipped()?;
    if let Some(unknown) = named.iter().find(|name| !shipped.contains_key(*name)) {
        return Err(format!("there is no experiment {unknown}"));
    }
    let chosen = shipped.iter().filter(|(name, _)| named.is_empty() || named.contains(*name));
    let mut failed = Vec::new();
    for (name, text) in chosen {
        if text.contains(TRACES) && std::env::var_os(TRACES).is_none() {
            println!("== experiment {name}: skipped, {TRACES} does not name a directory of traces");
            continue;
        }
        failed.extend(quick(name).err());
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Runs one quick form, with what other programs leave of the processors.
pub(crate) fn quick(name: &str) -> Result<(), String> {
    let run = ["-n", "19", &built("sinew"), "experiment", "run", name, "--quick", "--check", "--no-cache"];
    step(&format!("experiment {name}"), "nice", &run)
}

/// The experiments in the tree, each with its text.
fn shipped() -> Result<BTreeMap<String, String>, String> {
    let folder = root().join("experiments");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            all.insert(name.to_owned(), fs::read_to_string(&path).map_err(failed)?);
        }
    }
    Ok(all)
}
