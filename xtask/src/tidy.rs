//! The house rules that neither rustc nor clippy knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use crate::code::{code_only, has_word};
use crate::house;
use crate::prose;
use crate::rooms::{CRATES, EDGES_LEFT};

/// The longest Rust file.
const LINES_MAX: usize = 600;
/// Names that say nothing, of files and directories.
const NAMELESS: [&str; 5] = ["utils", "helpers", "common", "misc", "manager"];
/// Notes to oneself. Cut in two, as the paths are, so that this file does not trip over its own lists.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// Paths that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];
/// What a finished file does not contain; looked for in code only.
const STUBS: [&str; 4] = ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];

/// Checks every file that git knows.
pub(crate) fn run() -> Result<(), String> {
    let files = tracked()?;
    let mut findings = Vec::new();
    let mut codes = BTreeMap::new();
    for path in &files {
        // What is not text, or deleted and not yet committed so, has no lines to check.
        if let Ok(text) = fs::read_to_string(crate::root().join(path)) {
            let code = if path.ends_with(".rs") { code_only(&text) } else { String::new() };
            check(path, &text, &code, &files, &mut findings);
            codes.insert(path.as_str(), code);
        }
    }
    house::check(&codes, &house::RULES, &mut findings);
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("{}\n{n} findings in {} files", findings.join("\n"), files.len())),
    }
}

fn tracked() -> Result<BTreeSet<String>, String> {
    // In a container the tree may belong to another user, which git refuses unless told.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "-c", "core.quotePath=false", "ls-files"]).current_dir(crate::root());
    let listed = git.output().map_err(|error| format!("git: {error}"))?;
    if !listed.status.success() || listed.stdout.is_empty() {
        let why = String::from_utf8_lossy(&listed.stderr);
        return Err(format!("git ls-files names no files; run this in a checkout: {}", why.trim()));
    }
    Ok(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect())
}

/// Checks a file; `code` is what of a Rust file is not comment or literal.
fn check(path: &str, text: &str, code: &str, files: &BTreeSet<String>, findings: &mut Vec<String>) {
    let mut find = |line: usize, what: &str| findings.push(format!("{path}:{line}: {what}"));
    check_name(path, &mut find);
    let (is_rust, is_markdown) = (path.ends_with(".rs"), path.ends_with(".md"));
    for (i, line) in text.split('\n').enumerate() {
        check_line(line, is_rust || is_markdown, &mut |what| find(i + 1, what));
    }
    prose::check(path, text, &mut find);
    if is_rust {
        check_rust(path, text, code, &mut find);
    }
    if is_markdown {
        check_links(path, text, files, &mut find);
    }
    if path.ends_with("Cargo.toml") {
        check_edges(path, text, &mut find);
    }
}

fn check_name(path: &str, find: &mut impl FnMut(usize, &str)) {
    let stem = |part: &str| part.split('.').next().is_some_and(|stem| NAMELESS.contains(&stem));
    if path.split('/').any(stem) {
        find(1, "a name that says nothing; name it after the concept in it");
    }
}

fn check_line(line: &str, is_prose: bool, find: &mut impl FnMut(&str)) {
    if is_prose && line.ends_with([' ', '\t', '\r']) {
        find("white space at the end of the line; take it out");
    }
    if is_prose && line.contains('\t') {
        find("a tab; indent with spaces, and write \\t in a string");
    }
    if ["<<<<<<< ", ">>>>>>> "].iter().any(|mark| line.starts_with(mark)) {
        find("a merge was not finished; choose between the sides");
    }
    if let Some(note) = NOTES.iter().find(|note| has_word(line, note)) {
        find(&format!("{note}; do it now, or describe the limit in the documentation"));
    }
    if let Some(place) = MACHINE_PATHS.iter().find(|place| line.contains(*place)) {
        find(&format!("{place} is a path of one machine; make it relative, or let the caller say it"));
    }
}

fn check_rust(path: &str, text: &str, code: &str, find: &mut impl FnMut(usize, &str)) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        find(LINES_MAX, &format!("{lines} lines, {LINES_MAX} are allowed; split it by concept"));
    }
    let parts: Vec<&str> = path.split('/').collect();
    if matches!(parts[..], ["crates", _, "src", ..]) && !text.starts_with("//!") {
        find(1, "no `//!` at the top; say what the file is for and what it guarantees");
    }
    let is_uring = path.starts_with("crates/uring/");
    for (i, line) in code.lines().enumerate() {
        if let Some(stub) = STUBS.iter().find(|stub| line.contains(*stub)) {
            find(i + 1, &format!("`{stub}`; finish it or take it out"));
        }
        // What several test programs include, not every one of them uses whole.
        let is_shared = parts.contains(&"harness") || parts.contains(&"examples");
        if line.contains("allow(") && has_word(line, "dead_code") && !is_shared {
            find(i + 1, "dead code is allowed; delete the unused code");
        }
        if !is_uring && has_word(line, "unsafe") {
            find(i + 1, "`unsafe` outside of crates/uring; use a safe crate, or move it there");
        }
    }
}

/// Dependencies between the crates of the workspace, against the table.
fn check_edges(path: &str, text: &str, find: &mut impl FnMut(usize, &str)) {
    let parts: Vec<&str> = path.split('/').collect();
    let (name, allowed) = match parts[..] {
        ["xtask", _] => ("xtask", &[][..]),
        ["crates", name, _] => match CRATES.iter().find(|row| row.name == name) {
            Some(row) => (name, row.may_use),
            None => return find(1, "no crate of this name is in xtask/src/rooms.rs"),
        },
        _ => return,
    };
    let may_use = |used: &str| allowed.contains(&used) || EDGES_LEFT.contains(&(name, used));
    let mut in_dependencies = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies");
        }
        if !in_dependencies {
            continue;
        }
        let names = line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_');
        for used in names.filter_map(|name| name.strip_prefix("sinew-")).filter(|used| !may_use(used)) {
            let what = format!("{name} may not use {used}; see xtask/src/rooms.rs and ARCHITECTURE.md");
            find(i + 1, &what);
        }
    }
}

fn check_links(path: &str, text: &str, files: &BTreeSet<String>, find: &mut impl FnMut(usize, &str)) {
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for link in links(line) {
            let file = link.split(['#', '?']).next().unwrap_or("");
            let elsewhere = file.contains("://") || file.starts_with("mailto:");
            if !file.is_empty() && !elsewhere && !is_tracked(path, file, files) {
                find(
                    i + 1,
                    &format!("a link to {file}, which git does not know; add the file or mend the link"),
                );
            }
        }
    }
}

/// The targets of a line's links, inline or as a definition, outside of code.
fn links(line: &str) -> Vec<String> {
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let inline =
        prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next().map(str::to_owned));
    let definition = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let defined = definition.and_then(|(_, target)| target.split_whitespace().next().map(str::to_owned));
    inline.chain(defined).collect()
}

/// Whether a link in file `from` leads to a file, or a directory with files, that git knows.
fn is_tracked(from: &str, link: &str, files: &BTreeSet<String>) -> bool {
    let mut place: Vec<&str> = from.split('/').collect();
    place.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." if place.pop().is_none() => return false,
            ".." => {}
            part => place.push(part),
        }
    }
    let place = place.join("/");
    let inside = format!("{place}/");
    let known = files.contains(&place)
        || files.range(inside.clone()..).next().is_some_and(|f| f.starts_with(&inside));
    known || place.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        if let Err(findings) = run() {
            panic!("\n{findings}");
        }
    }

    fn findings(path: &str, text: &str) -> Vec<String> {
        let files = ["a.md", "docs/b.md", "Cargo.toml"].map(str::to_owned).into();
        let mut found = Vec::new();
        check(path, text, &code_only(text), &files, &mut found);
        found
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let src = "crates/engine/src/x.rs";
        let long = "//! x\n".repeat(LINES_MAX + 1);
        let bad = [
            (src, "fn f() {}\n".to_owned()),
            (src, long),
            (src, "//! x\nfn f() { todo!() }\n".to_owned()),
            (src, "//! x\n#[ignore = \"slow\"]\n".to_owned()),
            (src, "//! x\n#![allow(unused, dead_code)]\n".to_owned()),
            (src, "//! x\nunsafe fn f() {}\n".to_owned()),
            (src, "//! x \n".to_owned()),
            (src, "//! x\n\tfn\n".to_owned()),
            (src, format!("//! {}: x\n", NOTES[1])),
            ("tests/run", format!("cd {}me\n", MACHINE_PATHS[0])),
            ("crates/engine/src/utils.rs", "//! x\n".to_owned()),
            ("tests/common/mod.rs", "//! x\n".to_owned()),
            ("crates/engine/Cargo.toml", "[dev-dependencies]\nsinew-sim.workspace = true\n".to_owned()),
            ("crates/sim/Cargo.toml", "[dependencies]\nx = { package = \"sinew-uring\" }\n".to_owned()),
            ("crates/array/Cargo.toml", "[dependencies]\nsinew-mapped.workspace = true\n".to_owned()),
            ("crates/unknown/Cargo.toml", "[dependencies]\n".to_owned()),
            ("docs/b.md", "[a](a.md)\n".to_owned()),
            ("docs/b.md", "[a]: ../../a.md\n".to_owned()),
        ];
        for (path, text) in bad {
            assert_eq!(findings(path, &text).len(), 1, "{path}: {text}");
        }
    }

    #[test]
    fn what_is_allowed_is_not_found() {
        let good = [
            (
                "crates/engine/src/x.rs",
                "//! No unsafe here.\nconst X: &str = \"todo!( dbg!(\"; // unsafe_code\n",
            ),
            ("crates/uring/src/x.rs", "//! x\nunsafe fn f() {}\n"),
            ("crates/sim/Cargo.toml", "[package]\nname = \"sinew-sim\"\n[dependencies]\nsinew-engine = {}\n"),
            ("docs/b.md", "[a](../Cargo.toml#x) [b](b.md) [c](https://c) `[d](e)` [f](#g) [h](../docs/)\n"),
            ("tests/run", "mktemp x.XXXXXX\n"),
        ];
        for (path, text) in good {
            assert_eq!(findings(path, text), Vec::<String>::new());
        }
    }
}
