//! The manual as a book: `mdbook` builds it from `docs` and the documents at the top, and every link in it is followed.
//!
//! The sources are copied first, so that links out of `docs` lead to pages of the book too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// What is copied beside `docs`.
const BESIDE: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "packaging"];
const SETTINGS: &str = "[book]\ntitle = \"Sinew\"\nlanguage = \"en\"\nsrc = \"source\"\n\n[build]\nbuild-dir = \"html\"\n\n\
                        [output.html]\ndefault-theme = \"light\"\npreferred-dark-theme = \"navy\"\n";

/// Builds the book in a directory, which is made anew. Gives its pages; none if mdbook is not installed.
///
/// # Errors
/// When it cannot be built, a document is not in its table of contents, or a link leads nowhere.
pub(crate) fn build(root: &Path, out: &Path) -> Result<Option<usize>, String> {
    let Some(mdbook) = installed() else { return Ok(None) };
    let _ = fs::remove_dir_all(out);
    let source = out.join("source");
    copy_tree(&root.join("docs"), &source.join("docs"))?;
    for name in BESIDE {
        copy_tree(&root.join(name), &source.join(name))?;
    }
    let contents = read(&source.join("docs/SUMMARY.md"))?;
    check_listed(&source.join("docs"), &contents)?;
    // Documents link to the table of contents, so it is a page too. The README is the first page of the book, its index.
    write(&source.join("docs/SUMMARY.md"), &contents.replace("](../README.md)", "](../index.md)"))?;
    let listed = format!("{}\n[Contents](docs/SUMMARY.md)\n", from_top(&contents));
    write(&source.join("SUMMARY.md"), &listed)?;
    write(&out.join("book.toml"), SETTINGS)?;
    let run =
        Command::new(mdbook).arg("build").arg(out).output().map_err(|error| format!("mdbook: {error}"))?;
    if !run.status.success() {
        return Err(format!("mdbook failed:\n{}", String::from_utf8_lossy(&run.stderr)));
    }
    check_links(&out.join("html")).map(Some)
}

/// The program, also where `cargo install` puts it.
pub(crate) fn installed() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let places = [Some(PathBuf::from("mdbook")), home.map(|home| home.join("bin/mdbook"))];
    places.into_iter().flatten().find(|path| Command::new(path).arg("--version").output().is_ok())
}

/// The table of contents, with links from the top of the tree instead of from `docs`.
fn from_top(contents: &str) -> String {
    let mut text = String::new();
    for (i, piece) in contents.split("](").enumerate() {
        if i > 0 {
            text.push_str("](");
        }
        match (i, piece.strip_prefix("../")) {
            (0, _) => text.push_str(piece),
            (_, Some(beside)) => text.push_str(beside),
            (_, None) => text.extend(["docs/", piece]),
        }
    }
    text
}

/// Every document is in the table of contents.
fn check_listed(docs: &Path, contents: &str) -> Result<(), String> {
    for file in files(docs)? {
        let name = file.strip_prefix(docs).unwrap_or(&file).display().to_string();
        if name.ends_with(".md") && name != "SUMMARY.md" && !contents.contains(&format!("]({name})")) {
            return Err(format!("docs/{name} is not in docs/SUMMARY.md; add it to the part of its kind"));
        }
    }
    Ok(())
}

/// Follows every link within the book. Gives the number of pages.
fn check_links(html: &Path) -> Result<usize, String> {
    let mut pages = BTreeMap::new();
    for file in files(html)? {
        if file.extension().is_some_and(|kind| kind == "html") {
            let text = read(&file)?;
            pages.insert(file, text);
        }
    }
    let ids: BTreeMap<&Path, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path.as_path(), values(text, "id=\"").collect())).collect();
    let mut dead = Vec::new();
    for (path, text) in &pages {
        // All chapters on one page, and the page for addresses that do not exist: their links are those of other pages.
        if path
            .file_name()
            .is_some_and(|name| name == "print.html" || name == "404.html" || name == "toc.html")
        {
            continue;
        }
        for link in values(text, "href=\"").chain(values(text, "src=\"")) {
            if leads_elsewhere(link) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { joined(path, file) };
            let is_there = target.exists()
                && (anchor.is_empty() || ids.get(target.as_path()).is_some_and(|ids| ids.contains(anchor)));
            if !is_there {
                let page = path.strip_prefix(html).unwrap_or(path).display();
                dead.push(format!("{page}: the link to {link} leads nowhere"));
            }
        }
    }
    dead.dedup();
    if dead.is_empty() { Ok(pages.len()) } else { Err(dead.join("\n")) }
}

fn leads_elsewhere(link: &str) -> bool {
    link.is_empty() || link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:")
}

/// The place of a link in a file.
fn joined(from: &Path, link: &str) -> PathBuf {
    let mut place = from.parent().map(Path::to_owned).unwrap_or_default();
    for part in Path::new(link.split('?').next().unwrap_or_default()).components() {
        match part {
            Component::ParentDir => drop(place.pop()),
            Component::Normal(name) => place.push(name),
            _ => {}
        }
    }
    place
}

/// The values of an attribute.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// All files below a directory, or the file itself.
///
/// # Errors
/// When a directory cannot be listed.
pub(crate) fn files(place: &Path) -> Result<Vec<PathBuf>, String> {
    if !place.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let entries = fs::read_dir(place).map_err(|error| format!("{}: {error}", place.display()))?;
    let mut all = Vec::new();
    for entry in entries.flatten() {
        all.extend(files(&entry.path())?);
    }
    all.sort();
    Ok(all)
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    for file in files(from)? {
        let target = to.join(file.strip_prefix(from).unwrap_or(&file));
        let target = if file == from { to.to_owned() } else { target };
        let made = target.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::copy(&file, &target).map(drop))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_contents_begin_at_the_top() {
        let contents = "[Sinew](../README.md)\n- [A](a.md)\n- [B](howto/b.md)\n";
        assert_eq!(from_top(contents), "[Sinew](README.md)\n- [A](docs/a.md)\n- [B](docs/howto/b.md)\n");
    }

    #[test]
    fn dead_links_and_dead_anchors_are_found() {
        let dir = std::env::temp_dir().join(format!("sinew-book-{}", std::process::id()));
        fs::create_dir_all(dir.join("sub")).unwrap();
        let page = |links: &str| format!("<h2 id=\"here\">x</h2>{links}");
        fs::write(
            dir.join("a.html"),
            page("<a href=\"sub/b.html#here\"><a href=\"#here\"><a href=\"https://x\">"),
        )
        .unwrap();
        fs::write(dir.join("sub/b.html"), page("<a href=\"../a.html\">")).unwrap();
        assert_eq!(check_links(&dir), Ok(2));
        fs::write(dir.join("sub/b.html"), page("<a href=\"../a.html#gone\"><a href=\"c.html\">")).unwrap();
        let dead = check_links(&dir).unwrap_err();
        assert!(dead.contains("../a.html#gone") && dead.contains("c.html"), "{dead}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
