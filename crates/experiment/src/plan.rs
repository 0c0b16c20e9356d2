//! From a file to a list of runs, each checked as far as it can be without running it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::reference::ReferenceSpec;
use crate::settings::{self, Settings};
use crate::spec::{CaseSpec, Spec};
use crate::{Error, Result, named, reference};

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The experiment.
    pub name: String,
    /// What its file says of it.
    pub description: String,
    /// Whether it is a quick run.
    pub quick: bool,
    /// Where relative paths of traces begin.
    pub base: PathBuf,
    /// The runs, in order.
    pub runs: Vec<Run>,
    /// Figures of other people to hold the results beside.
    pub references: Vec<ReferenceSpec>,
    /// The file.
    pub text: String,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The case, if there are any.
    pub case: Option<String>,
    /// What the sweep set.
    pub settings: BTreeMap<String, Value>,
    /// The seed.
    pub seed: u64,
    /// All that is to be run, with cases and sweeps applied.
    pub spec: Spec,
}

impl Plan {
    /// The plan of a file, or of an experiment that ships with the program.
    pub fn find(file_or_name: &str, quick: bool) -> Result<Plan> {
        let path = Path::new(file_or_name);
        match named::find(file_or_name) {
            Some(named) if !path.is_file() => named.plan(quick),
            None if !path.exists() => {
                let known: Vec<_> = named::ALL.iter().map(|named| named.name).collect();
                Err(Error::Unknown { name: file_or_name.to_owned(), known: known.join(", ") })
            }
            _ => {
                let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
                let base = path.parent().unwrap_or(Path::new(""));
                let name = path.file_stem().map_or(file_or_name.into(), |stem| stem.to_string_lossy());
                Plan::new(&name, &text, base, quick)
            }
        }
    }

    /// The plan of a text. Relative paths of traces begin at `base`.
    pub fn new(name: &str, text: &str, base: &Path, quick: bool) -> Result<Plan> {
        let description = |source| Error::Description { name: name.to_owned(), source };
        let whole: Spec = toml::from_str(text).map_err(description)?;
        let mut document: Table = text.parse().map_err(description)?;
        for key in ["cases", "sweep", "quick", "references"] {
            document.remove(key);
        }
        if quick {
            if whole.quick.is_empty() {
                return Err(Error::setting("quick", format!("{name} does not say what a quick run sets")));
            }
            apply(name, &mut document, &whole.quick)?;
        }
        let mut runs = Vec::new();
        let combinations = settings::combinations(&whole.sweep);
        reference::check(&whole, &combinations)?;
        let unnamed = [CaseSpec { name: String::new(), set: Settings::new() }];
        let cases = if whole.cases.is_empty() { &unnamed[..] } else { &whole.cases };
        for case in cases {
            for swept in &combinations {
                let mut set = case.set.clone();
                set.extend(swept.clone());
                let spec = variant(name, &document, &set)?;
                check(name, &spec, &set, base)?;
                let seeds = if quick { &spec.run.seeds[..1] } else { &spec.run.seeds };
                runs.extend(seeds.iter().map(|&seed| Run {
                    case: (!case.name.is_empty()).then(|| case.name.clone()),
                    settings: swept.clone(),
                    seed,
                    spec: spec.clone(),
                }));
            }
        }
        if runs.is_empty() {
            return Err(Error::setting("sweep", "a list without values leaves nothing to run"));
        }
        Ok(Plan {
            name: name.to_owned(),
            description: whole.description,
            quick,
            base: base.to_owned(),
            runs,
            references: whole.references,
            text: text.to_owned(),
        })
    }
}

fn apply(name: &str, document: &mut Table, set: &Settings) -> Result<()> {
    settings::apply(document, set).map_err(|why| wrong(name, set, why))
}

fn variant(name: &str, document: &Table, set: &Settings) -> Result<Spec> {
    let mut document = document.clone();
    apply(name, &mut document, set)?;
    document.try_into().map_err(|error| wrong(name, set, toml::de::Error::to_string(&error)))
}

fn check(name: &str, spec: &Spec, set: &Settings, base: &Path) -> Result<()> {
    let checked = spec.check().and_then(|()| Ok(spec.workload.open(base).map(drop)?));
    checked.map_err(|error| if set.is_empty() { error } else { wrong(name, set, error.to_string()) })
}

fn wrong(name: &str, set: &Settings, why: String) -> Error {
    Error::Settings {
        name: name.to_owned(),
        settings: settings::describe(set),
        why: why.trim_end().to_owned(),
    }
}
