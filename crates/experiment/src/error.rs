//! What can go wrong, in words that name the place.

use std::path::PathBuf;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is neither such a file nor such an experiment.
    #[error("there is no file {name} and no experiment of that name; there are: {known}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not a description.
    #[error("{name}: {source}")]
    Description {
        /// The file.
        name: String,
        /// What is wrong, with its line.
        source: toml::de::Error,
    },
    /// What a sweep, a case or a quick run sets does not fit.
    #[error("{name}: with {settings}: {why}")]
    Settings {
        /// The file.
        name: String,
        /// What was set.
        settings: String,
        /// What is wrong.
        why: String,
    },
    /// A setting makes no sense.
    #[error("{setting}: {why}")]
    Setting {
        /// The setting.
        setting: String,
        /// Why not.
        why: String,
    },
    /// A run failed.
    #[error("{run}: {source}")]
    Run {
        /// Which one.
        run: String,
        /// Why.
        source: Box<Error>,
    },
    /// The workload is not well described, or its files are not.
    #[error("workload: {0}")]
    Workload(#[from] sinew_workload::Error),
    /// An experiment that ships with the program needs traces.
    #[error(
        "{name} replays a trace from the directory that {} names, which is not set: {source}",
        crate::named::TRACES
    )]
    NoTraces {
        /// The experiment.
        name: String,
        /// What is missing.
        source: sinew_workload::Error,
    },
    /// The engine did not do what the description asks for.
    #[error("{what}: {why}")]
    Engine {
        /// What it was to do.
        what: &'static str,
        /// What it said.
        why: String,
    },
    /// A plot cannot be drawn.
    #[error("cannot draw a plot: {why}")]
    Drawing {
        /// Why not.
        why: String,
    },
    /// A request lies outside its volume.
    #[error(
        "workload: a request for {len} bytes at {offset} leaves volume {volume}; set fold_into to bring requests into a volume"
    )]
    OutOfRange {
        /// The volume.
        volume: u32,
        /// The first byte.
        offset: u64,
        /// How many.
        len: u64,
    },
}

impl Error {
    pub(crate) fn setting(setting: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Setting { setting: setting.into(), why: why.into() }
    }

    pub(crate) fn engine(what: &'static str, why: impl ToString) -> Error {
        Error::Engine { what, why: why.to_string() }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { path: path.into(), source }
    }
}
