//! The house rules that neither rustc nor clippy knows.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The longest Rust file.
const LINES_MAX: usize = 600;
/// Names that say nothing.
const NAMELESS: [&str; 5] = ["utils", "helpers", "common", "misc", "manager"];

/// Checks every file that git knows.
pub(crate) fn run() -> Result<(), String> {
    let listed = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .map_err(|e| format!("git: {e}"))?;
    let mut findings = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).lines() {
        if let Ok(text) = fs::read_to_string(root().join(path)) {
            check(path, &text, &mut findings);
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn check(path: &str, text: &str, findings: &mut Vec<String>) {
    let mut find = |line: usize, what: &str| findings.push(format!("{path}:{line}: {what}"));
    let stem = Path::new(path).file_stem().and_then(|s| s.to_str()).unwrap_or("");
    if NAMELESS.contains(&stem) {
        find(1, "a name that says nothing; name the concept");
    }
    let (is_rust, is_text) =
        (path.ends_with(".rs"), path.ends_with(".md") || path.ends_with(".rs") || path.ends_with(".sh"));
    if is_rust && text.lines().count() > LINES_MAX {
        find(LINES_MAX, "more than 600 lines; split it by concept");
    }
    if is_rust && path.starts_with("crates/") && !text.starts_with("//!") {
        find(1, "no `//!`: say what the file is for and what it guarantees");
    }
    // Put together here so that this file does not trip over its own list.
    let stubs = [
        ["to", "do!("].concat(),
        ["unimpl", "emented!("].concat(),
        ["#[ig", "nore]"].concat(),
        ["FIX", "ME"].concat(),
    ];
    let places = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/ho", "me/"].concat()];
    for (i, line) in text.lines().enumerate() {
        if is_text && line.ends_with([' ', '\t']) {
            find(i + 1, "white space at the end of the line");
        }
        if is_rust && stubs.iter().any(|stub| line.contains(stub.as_str())) {
            find(i + 1, "a stub or an ignored test; finish it or take it out");
        }
        if is_text && places.iter().any(|place| line.contains(place.as_str())) {
            find(i + 1, "a path of one machine");
        }
    }
    if path.starts_with("crates/") && path.ends_with("Cargo.toml") {
        check_edges(path, text, &mut find);
    }
    if path.ends_with(".md") {
        check_links(path, text, &mut find);
    }
}

/// Who may depend on whom; see ARCHITECTURE.md.
fn check_edges(path: &str, text: &str, find: &mut impl FnMut(usize, &str)) {
    let allowed: &[&str] = match path.split('/').nth(1) {
        Some("engine") => &[],
        Some("uring" | "sim" | "frontend") => &["sinew-engine"],
        _ => return,
    };
    for (i, line) in text.lines().enumerate() {
        let name = line.split(['.', ' ', '=']).next().unwrap_or("");
        if name.starts_with("sinew-") && !allowed.contains(&name) {
            find(i + 1, "a dependency that ARCHITECTURE.md does not allow");
        }
    }
}

fn check_links(path: &str, text: &str, find: &mut impl FnMut(usize, &str)) {
    let dir = root().join(path);
    let dir = dir.parent().unwrap_or(root());
    for (i, line) in text.lines().enumerate() {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.contains("://") && !dir.join(link).exists() {
                find(i + 1, &format!("a link to {link}, which is not there"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        if let Err(findings) = super::run() {
            panic!("\n{findings}");
        }
    }
}
