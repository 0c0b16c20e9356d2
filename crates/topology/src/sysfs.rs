//! Files and links below a root directory: /sys, or a copy of one.
//!
//! Links that lead out of the root are not followed, so that a copy never shows this machine.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes that are read of a file at most; a page is the most that sysfs gives.
const BYTES_MAX: u64 = 4096;
/// Entries that are read of a directory at most.
const ENTRIES_MAX: usize = 65_536;

/// A sysfs tree.
#[derive(Clone, Debug)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// The tree below a directory.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn new(root: &Path) -> std::io::Result<Sysfs> {
        Ok(Sysfs { root: root.canonicalize()? })
    }

    /// The content of a file, trimmed; nothing if it cannot be read, or is empty. `path` begins at the root.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let path = self.inside(path.as_ref())?;
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A number in a file.
    pub fn number<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Whether there is a file or directory.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.inside(path.as_ref()).is_some()
    }

    /// The names in a directory, sorted; none if it cannot be read.
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Some(path) = self.inside(path.as_ref()) else { return Vec::new() };
        let entries = std::fs::read_dir(path).into_iter().flatten().take(ENTRIES_MAX);
        let mut names: Vec<_> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Where a path leads after all links, from the root; nothing if it leads out of the root or nowhere.
    pub fn resolve(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        Some(self.inside(path.as_ref())?.strip_prefix(&self.root).ok()?.to_owned())
    }

    fn inside(&self, path: &Path) -> Option<PathBuf> {
        let path = self.root.join(path).canonicalize().ok()?;
        path.starts_with(&self.root).then_some(path)
    }
}
