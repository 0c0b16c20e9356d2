//! Results of earlier runs, kept under what decides them: the description, the seed, the files that the workload names,
//! and the program itself.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use sinew_workload::Source;

use crate::plan::{Run, Subject};
use crate::results::Figures;
use crate::{Error, Result};

/// A directory of results.
pub(crate) struct Cache {
    directory: PathBuf,
    /// Of the program.
    program: blake3::Hash,
}

impl Cache {
    /// A cache in a directory, which is made when there is something to keep.
    pub(crate) fn new(directory: PathBuf) -> Result<Cache> {
        let program = std::env::current_exe().map_err(|error| Error::io("this program", error))?;
        Ok(Cache { directory, program: hash_of(&program)? })
    }

    /// Where the result of a run is kept.
    pub(crate) fn place(&self, run: &Run, base: &Path) -> Result<PathBuf> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.program.as_bytes());
        hasher.update(&run.seed.to_le_bytes());
        let text = match &run.subject {
            Subject::Simulation(spec) => {
                for file in files(&spec.workload.source) {
                    hasher.update(hash_of(&base.join(file))?.as_bytes());
                }
                // The seeds of other runs, and the words and figures of others about them, decide nothing.
                let mut spec = spec.clone();
                spec.description.clear();
                spec.run.seeds.clear();
                spec.references.clear();
                toml::to_string(&spec)
            }
            Subject::Growth(spec) => toml::to_string(spec),
        };
        hasher.update(text.expect("it came from TOML").as_bytes());
        Ok(self.directory.join(format!("{}.json", hasher.finalize().to_hex())))
    }

    /// What is kept there. A file that cannot be read as a result is none.
    pub(crate) fn get(&self, place: &Path) -> Option<Figures> {
        serde_json::from_slice(&fs::read(place).ok()?).ok()
    }

    /// Keeps a result. Other processes see all of it or nothing.
    pub(crate) fn put(&self, place: &Path, figures: &Figures) -> Result<()> {
        let at = |error| Error::io(place, error);
        fs::create_dir_all(&self.directory).map_err(at)?;
        let unfinished = place.with_extension(format!("{}.new", std::process::id()));
        let mut file = fs::File::create(&unfinished).map_err(at)?;
        let json = serde_json::to_vec(figures).expect("numbers and names only");
        file.write_all(&json).map_err(at)?;
        fs::rename(&unfinished, place).map_err(at)
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
