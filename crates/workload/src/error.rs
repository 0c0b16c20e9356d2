//! What can go wrong, with the place where it did.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// One pointer wide, because it travels beside every request of a stream.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Problem>);

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's or the decompressor's word on it.
        source: io::Error,
    },
    /// A line or record of a trace is not what its format asks for.
    #[error("{path}:{number}: expected {expected}, found {found:?}", path = .path.display())]
    Line {
        /// The trace.
        path: PathBuf,
        /// The line, or the record of a binary format, counted from 1.
        number: u64,
        /// The line as it is, shortened.
        found: String,
        /// What should have been there.
        expected: &'static str,
    },
    /// The format of a trace cannot be told from its content.
    #[error("{path}: not a trace of a known format; name the format ({known})", path = .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The formats that can be named.
        known: String,
    },
    /// A setting makes no sense.
    #[error("{name}: {why}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Why not, with the value.
        why: String,
    },
    /// A description is not well-formed.
    #[error("{0}")]
    Description(toml::de::Error),
}

impl Error {
    /// What is wrong, to act upon.
    pub fn problem(&self) -> &Problem {
        &self.0
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Error {
        Problem::Io { path: path.to_owned(), source }.into()
    }

    pub(crate) fn setting(name: &'static str, why: impl Into<String>) -> Error {
        Problem::Setting { name, why: why.into() }.into()
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Error {
        Error(Box::new(problem))
    }
}
