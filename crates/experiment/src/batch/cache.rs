//! Cached results of earlier runs. The key of a result is a hash of everything that determines it: the description, the seed,
//! the files that the workload names, and the program itself.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sinew_workload::Source;

use crate::plan::{Run, Subject};
use crate::results::schema::Figures;
use crate::{Error, Result};

/// A directory of cached results.
pub(crate) struct Cache {
    directory: PathBuf,
    /// The hash of the program.
    program: blake3::Hash,
}

impl Cache {
    /// A cache in a directory, which the first result creates.
    pub(crate) fn new(directory: PathBuf) -> Result<Cache> {
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        Ok(Cache { directory, program: hash_of(&program)? })
    }

    /// The file for the result of a run.
    pub(crate) fn entry(&self, run: &Run, base: &Path) -> Result<PathBuf> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.program.as_bytes());
        hasher.update(&run.seed.to_le_bytes());
        let text = match &run.subject {
            Subject::Simulation(spec) => {
                for file in spec.clients().flat_map(|clients| files(&clients.workload.source)) {
                    hasher.update(hash_of(&base.join(file))?.as_bytes());
                }
                // The seeds of other runs, the description and the published figures do not affect the result.
                let mut spec = spec.clone();
                spec.description.clear();
                spec.run.seeds.clear();
                spec.references.clear();
                toml::to_string(&spec)
            }
            Subject::Growth(spec) => toml::to_string(spec),
            Subject::Reliability(spec) => {
                let mut spec = spec.clone();
                spec.seeds.clear();
                toml::to_string(&spec)
            }
        };
        hasher.update(text.expect("the description was read from TOML").as_bytes());
        Ok(self.directory.join(format!("{}.json", hasher.finalize().to_hex())))
    }

    /// The cached result in a file. A file that cannot be parsed is ignored.
    pub(crate) fn get(&self, entry: &Path) -> Option<Figures> {
        serde_json::from_slice(&fs::read(entry).ok()?).ok()
    }

    /// Stores a result. The rename makes it atomic: other processes see the whole file or none.
    pub(crate) fn put(&self, entry: &Path, figures: &Figures) -> Result<()> {
        let at = |error| Error::io(entry, error);
        fs::create_dir_all(&self.directory).map_err(at)?;
        let unfinished = entry.with_extension(format!("{}.new", std::process::id()));
        let mut file = fs::File::create(&unfinished).map_err(at)?;
        let json = serde_json::to_vec(figures).expect("figures are numbers and names");
        file.write_all(&json).map_err(at)?;
        fs::rename(&unfinished, entry).map_err(at)
    }
}

fn hash_of(path: &Path) -> Result<blake3::Hash> {
    let at = |error| Error::io(path, error);
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path).map_err(at)?).map_err(at)?;
    Ok(hasher.finalize())
}

/// The files that a workload reads.
fn files(source: &Source) -> Vec<&Path> {
    match source {
        Source::Trace(trace) => vec![&trace.path],
        Source::Cloudphysics(row) => vec![&row.table],
        Source::Mix(parts) => parts.iter().flat_map(|part| files(&part.source)).collect(),
        Source::Generator(_) | Source::Like(_) | Source::Draw(_) => Vec::new(),
    }
}
