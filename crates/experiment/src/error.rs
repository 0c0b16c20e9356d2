//! The errors of experiments. Each message names the file, setting, run or request that it is about.

use std::path::PathBuf;

/// The result of every operation here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is neither a file nor an experiment of this name.
    #[error("there is no file {name} and no experiment of that name; the experiments are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of the experiments that ship with the program.
        known: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file does not describe an experiment.
    #[error("{name}: {source}")]
    Description {
        /// The file.
        name: String,
        /// What is wrong, with its line.
        source: toml::de::Error,
    },
    /// The overrides of a sweep, a case or a quick run do not fit the file.
    #[error("{name}: with {settings}: {why}")]
    Settings {
        /// The file.
        name: String,
        /// The overrides.
        settings: String,
        /// What is wrong.
        why: String,
    },
    /// A setting has a value that makes no sense.
    #[error("{setting}: {why}")]
    Setting {
        /// The path of the setting.
        setting: String,
        /// What is wrong.
        why: String,
    },
    /// A run failed.
    #[error("{run}: {source}")]
    Run {
        /// The overrides and the seed of the run.
        run: String,
        /// The error.
        source: Box<Error>,
    },
    /// The workload is not valid, or its files cannot be read.
    #[error("workload: {0}")]
    Workload(#[from] sinew_workload::Error),
    /// An experiment that ships with the program replays a trace, and the environment does not name the directory of traces.
    #[error("{name} replays a trace from the directory that {variable} names, which is not set: {source}")]
    NoTraces {
        /// The experiment.
        name: String,
        /// The environment variable.
        variable: &'static str,
        /// The error of the missing trace.
        source: sinew_workload::Error,
    },
    /// An operation of the engine or of the simulated world failed.
    #[error("{what}: {why}")]
    Engine {
        /// The operation.
        what: &'static str,
        /// The error.
        why: String,
    },
    /// A chart cannot be drawn.
    #[error("cannot draw a chart: {why}")]
    Drawing {
        /// The error of the plotting library.
        why: String,
    },
    /// A request exceeds its volume.
    #[error(
        "workload: a request for {len} bytes at {offset} leaves volume {volume}; set fold_into to map requests into a volume"
    )]
    OutOfRange {
        /// The volume.
        volume: u32,
        /// The first byte.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
}

impl Error {
    /// The setting at a path has a value that makes no sense.
    pub(crate) fn setting(setting: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Setting { setting: setting.into(), why: why.into() }
    }

    /// An operation of the engine or of the simulated world failed.
    pub(crate) fn engine(what: &'static str, why: impl ToString) -> Error {
        Error::Engine { what, why: why.to_string() }
    }

    /// A file cannot be read or written.
    pub(crate) fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Error {
        Error::Io { path: path.into(), source }
    }
}
