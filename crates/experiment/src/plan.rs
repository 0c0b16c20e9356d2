//! From a file to a list of runs, each checked as far as it can be without running it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::growth::{GrowthFile, GrowthSpec};
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
    pub subject: Subject,
}

/// What is run.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The engine, or a member alone, under a load.
    Simulation(Box<Spec>),
    /// An array that grows.
    Growth(GrowthSpec),
}

/// What every file says around that.
pub(crate) struct Frame {
    pub(crate) description: String,
    pub(crate) cases: Vec<CaseSpec>,
    pub(crate) sweep: BTreeMap<String, Vec<Value>>,
    pub(crate) quick: Settings,
    pub(crate) references: Vec<ReferenceSpec>,
}

/// The table that a file about an array that grows has, and no other.
const GROWTH: &str = "growth";

impl Frame {
    fn read(text: &str, is_growth: bool) -> Result<Frame, toml::de::Error> {
        Ok(if is_growth {
            let GrowthFile { description, cases, sweep, quick, references, growth: _ } =
                toml::from_str(text)?;
            Frame { description, cases, sweep, quick, references }
        } else {
            let Spec { description, cases, sweep, quick, references, .. } = toml::from_str(text)?;
            Frame { description, cases, sweep, quick, references }
        })
    }
}

impl Subject {
    fn read(document: Table) -> Result<Subject, toml::de::Error> {
        Ok(if document.contains_key(GROWTH) {
            Subject::Growth(document.try_into::<GrowthFile>()?.growth)
        } else {
            Subject::Simulation(Box::new(document.try_into()?))
        })
    }

    fn check(&self, base: &Path) -> Result<()> {
        match self {
            Subject::Simulation(spec) => {
                spec.check()?;
                Ok(spec.workload.open(base).map(drop)?)
            }
            Subject::Growth(spec) => spec.check(),
        }
    }

    /// Nothing is random about an array that grows.
    fn seeds(&self) -> &[u64] {
        match self {
            Subject::Simulation(spec) => &spec.run.seeds,
            Subject::Growth(_) => &[0],
        }
    }

    /// Whether it tells times of this machine.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self, Subject::Growth(spec) if spec.timed)
    }
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
        let mut document: Table = text.parse().map_err(description)?;
        let whole = Frame::read(text, document.contains_key(GROWTH)).map_err(description)?;
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
        let unnamed = [CaseSpec { name: String::new(), set: Settings::new(), swept: true }];
        let unswept = [Settings::new()];
        let cases = if whole.cases.is_empty() { &unnamed[..] } else { &whole.cases };
        for case in cases {
            for swept in if case.swept { &combinations[..] } else { &unswept } {
                let mut set = case.set.clone();
                set.extend(swept.clone());
                let subject = variant(name, &document, &set)?;
                let wrong_here =
                    |error: Error| if set.is_empty() { error } else { wrong(name, &set, error.to_string()) };
                subject.check(base).map_err(wrong_here)?;
                let seeds = if quick { &subject.seeds()[..1] } else { subject.seeds() };
                runs.extend(seeds.iter().map(|&seed| Run {
                    case: (!case.name.is_empty()).then(|| case.name.clone()),
                    settings: swept.clone(),
                    seed,
                    subject: subject.clone(),
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

fn variant(name: &str, document: &Table, set: &Settings) -> Result<Subject> {
    let mut document = document.clone();
    apply(name, &mut document, set)?;
    Subject::read(document).map_err(|error| wrong(name, set, error.to_string()))
}

fn wrong(name: &str, set: &Settings, why: String) -> Error {
    Error::Settings {
        name: name.to_owned(),
        settings: settings::describe(set),
        why: why.trim_end().to_owned(),
    }
}
