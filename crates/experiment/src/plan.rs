//! From a file to its list of runs. Every run is checked as far as that is possible without running it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::file::builtin::{self, Builtin};
use crate::file::growth::{GrowthFile, GrowthSpec};
use crate::file::head::{CaseSpec, Head};
use crate::file::overrides::{self, Overrides};
use crate::file::published::PublishedFigure;
use crate::file::ratio::RatioSpec;
use crate::file::reliability::{ReliabilityFile, ReliabilitySpec};
use crate::file::spec::Spec;
use crate::{Error, Result};

/// The runs of an experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The name of the experiment.
    pub name: String,
    /// The description in its file.
    pub description: String,
    /// Whether the runs are those of a quick run.
    pub quick: bool,
    /// The directory at which relative paths of traces begin.
    pub base: PathBuf,
    /// The searches for the capacities whose shares are the loads of runs. They come first.
    pub searches: Vec<Run>,
    /// The runs, in order.
    pub runs: Vec<Run>,
    /// Published figures to compare the results with.
    pub references: Vec<PublishedFigure>,
    /// Ratios of figures of paired runs.
    pub ratios: Vec<RatioSpec>,
    /// The text of the file.
    pub text: String,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The case, if the file has cases.
    pub case: Option<String>,
    /// The swept values of this run, by path.
    pub settings: BTreeMap<String, Value>,
    /// The seed.
    pub seed: u64,
    /// The file's tables with the overrides of case and sweep applied.
    pub subject: Subject,
    /// What the load is a share of, if it is one. `workload.speed` is known when the searches have ended.
    pub load: Option<LoadShare>,
}

/// A load that is a share of the lowest of some capacities.
#[derive(Clone, Debug)]
pub struct LoadShare {
    /// The share.
    pub share: f64,
    /// The indices of the searches in the plan.
    pub searches: Vec<usize>,
}

/// The subject of a run.
#[derive(Clone, Debug)]
pub enum Subject {
    /// The engine, or a member alone, under a load.
    Simulation(Box<Spec>),
    /// An array that grows.
    Growth(GrowthSpec),
    /// Reliability by arithmetic.
    Reliability(Box<ReliabilitySpec>),
}

/// The kinds of files.
#[derive(Clone, Copy)]
enum FileKind {
    Simulation,
    Growth,
    Reliability,
}

impl FileKind {
    /// The kind, by the table that only files of the kind have.
    fn of(document: &Table) -> FileKind {
        if document.contains_key("growth") {
            FileKind::Growth
        } else if document.contains_key("reliability") {
            FileKind::Reliability
        } else {
            FileKind::Simulation
        }
    }
}

/// The tables of the head that decide which runs there are. A run's own document is without them.
const HEAD_TABLES: [&str; 5] = ["cases", "sweep", "quick", "references", "ratios"];

impl Subject {
    fn read(document: Table) -> Result<Subject, toml::de::Error> {
        Ok(match FileKind::of(&document) {
            FileKind::Growth => Subject::Growth(document.try_into::<GrowthFile>()?.growth),
            FileKind::Reliability => {
                Subject::Reliability(Box::new(document.try_into::<ReliabilityFile>()?.reliability))
            }
            FileKind::Simulation => {
                Subject::Simulation(Box::new(document.try_into::<Spec>()?.with_single_volumes()))
            }
        })
    }

    fn check(&self, base: &Path) -> Result<()> {
        match self {
            Subject::Simulation(spec) => {
                spec.check()?;
                spec.clients().try_for_each(|clients| Ok(clients.workload.open(base).map(drop)?))
            }
            Subject::Growth(spec) => spec.check(),
            Subject::Reliability(spec) => spec.check(),
        }
    }

    /// The seeds of the file. Arithmetic without random numbers has one.
    fn seeds(&self) -> &[u64] {
        match self {
            Subject::Simulation(spec) => &spec.run.seeds,
            Subject::Reliability(spec) if spec.is_random() => &spec.seeds,
            Subject::Growth(_) | Subject::Reliability(_) => &[0],
        }
    }

    /// Whether the run measures times of this machine.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self, Subject::Growth(spec) if spec.timed)
    }
}

impl Plan {
    /// The plan of a file, or of an experiment that ships with the program.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is neither, [`Error::Io`] if the file cannot be read, [`Error::NoTraces`] if a builtin
    /// experiment lacks its traces, and the errors of [`Plan::new`].
    pub fn find(file_or_name: &str, quick: bool) -> Result<Plan> {
        let path = Path::new(file_or_name);
        match builtin::find(file_or_name) {
            Some(builtin) if !path.is_file() => Plan::of_builtin(builtin, quick),
            None if !path.exists() => {
                let known: Vec<_> = builtin::ALL.iter().map(|builtin| builtin.name).collect();
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

    /// The number of searches and runs.
    pub fn executions(&self) -> usize {
        self.searches.len() + self.runs.len()
    }

    /// The plan of an experiment that ships with the program. Its traces are in the directory that [`builtin::TRACES`] names.
    fn of_builtin(builtin: Builtin, quick: bool) -> Result<Plan> {
        let traces = std::env::var_os(builtin::TRACES).filter(|directory| !directory.is_empty());
        let base = Path::new(traces.as_deref().unwrap_or_default());
        match Plan::new(builtin.name, builtin.text, base, quick) {
            Err(Error::Workload(source)) if traces.is_none() => {
                Err(Error::NoTraces { name: builtin.name.to_owned(), variable: builtin::TRACES, source })
            }
            plan => plan,
        }
    }

    /// The plan of a text. Relative paths of traces begin at `base`.
    ///
    /// # Errors
    /// [`Error::Description`] if the text does not describe an experiment, [`Error::Settings`] if overrides do not fit it,
    /// [`Error::Setting`] if a value makes no sense, and [`Error::Workload`] if a workload cannot be opened.
    pub fn new(name: &str, text: &str, base: &Path, quick: bool) -> Result<Plan> {
        let description = |source| Error::Description { name: name.to_owned(), source };
        let mut document: Table = text.parse().map_err(description)?;
        let head = read_head(text, FileKind::of(&document)).map_err(description)?;
        for table in HEAD_TABLES {
            document.remove(table);
        }
        if quick {
            if head.quick.is_empty() {
                return Err(Error::setting("quick", format!("{name} does not describe a quick run")));
            }
            apply(name, &mut document, &head.quick)?;
        }
        let sweeps = head.sweeps();
        head.check_published(&sweeps)?;
        let variants = Variants { name, document: &document, sweeps: &sweeps };
        let (mut runs, mut searches) = (Vec::new(), Vec::new());
        for (case, combinations) in &sweeps {
            for swept in combinations {
                let (set, subject) = variants.subject(case, swept)?;
                let with_overrides = |error: Error| match error {
                    // It names the file, or the part of the workload.
                    Error::Workload(_) => error,
                    error if set.is_empty() => error,
                    error => misfit(name, &set, &error.to_string()),
                };
                subject.check(base).map_err(with_overrides)?;
                let load = variants.load_share(case, swept, &subject, &mut searches)?;
                let seeds = if quick { &subject.seeds()[..1] } else { subject.seeds() };
                runs.extend(seeds.iter().map(|&seed| Run {
                    case: case.name().map(str::to_owned),
                    settings: swept.clone(),
                    seed,
                    subject: subject.clone(),
                    load: load.clone(),
                }));
            }
        }
        if runs.is_empty() {
            return Err(Error::setting("sweep", "a list without values leaves no run"));
        }
        Ok(Plan {
            name: name.to_owned(),
            description: head.description,
            quick,
            base: base.to_owned(),
            searches,
            runs,
            references: head.references,
            ratios: head.ratios,
            text: text.to_owned(),
        })
    }
}

/// What the runs of a file are made of.
struct Variants<'a> {
    name: &'a str,
    document: &'a Table,
    sweeps: &'a [(CaseSpec, Vec<Overrides>)],
}

impl Variants<'_> {
    /// The overrides of a case with these swept values, and the subject of the document with them.
    fn subject(&self, case: &CaseSpec, swept: &Overrides) -> Result<(Overrides, Subject)> {
        let mut set = case.set.clone();
        set.extend(swept.clone());
        let mut document = self.document.clone();
        apply(self.name, &mut document, &set)?;
        let subject = Subject::read(document).map_err(|error| misfit(self.name, &set, &error.to_string()))?;
        Ok((set, subject))
    }

    /// What the load of a case is a share of. Adds the searches that are not there yet.
    fn load_share(
        &self,
        case: &CaseSpec,
        swept: &Overrides,
        subject: &Subject,
        searches: &mut Vec<Run>,
    ) -> Result<Option<LoadShare>> {
        let Subject::Simulation(spec) = subject else { return Ok(None) };
        let Some((capacity, share)) = spec.capacity.as_ref().and_then(|c| Some((c, c.share?))) else {
            return Ok(None);
        };
        let own = [case.name.clone()];
        let names = if capacity.weakest_of.is_empty() { &own } else { &capacity.weakest_of[..] };
        let mut indices = Vec::new();
        for name in names {
            let Some((weakest, _)) = self.sweeps.iter().find(|(case, _)| case.name == *name) else {
                return Err(Error::setting("capacity.weakest_of", format!("there is no case {name:?}")));
            };
            let search = self.search(weakest, swept)?;
            let same = |run: &Run| matches!(&run.subject, Subject::Simulation(spec) if **spec == search);
            indices.push(searches.iter().position(same).unwrap_or(searches.len()));
            if indices.last() == Some(&searches.len()) {
                searches.push(Run {
                    case: weakest.name().map(str::to_owned),
                    settings: swept.clone(),
                    seed: search.run.seeds[0],
                    subject: Subject::Simulation(Box::new(search)),
                    load: None,
                });
            }
        }
        Ok(Some(LoadShare { share, searches: indices }))
    }

    /// The search for the capacity of a case with these swept values.
    fn search(&self, case: &CaseSpec, swept: &Overrides) -> Result<Spec> {
        let (_, Subject::Simulation(mut spec)) = self.subject(case, swept)? else {
            unreachable!("cases of a file are of one kind")
        };
        let Some(capacity) = &mut spec.capacity else {
            let why = format!("the case {:?} has no table [capacity] to search by", case.name);
            return Err(Error::setting("capacity.weakest_of", why));
        };
        (capacity.share, capacity.weakest_of) = (None, Vec::new());
        spec.check()?;
        Ok(*spec)
    }
}

/// Reads the whole text, so that an error anywhere in it has a line, and keeps the head.
fn read_head(text: &str, kind: FileKind) -> Result<Head, toml::de::Error> {
    Ok(match kind {
        FileKind::Growth => toml::from_str::<GrowthFile>(text)?.into(),
        FileKind::Reliability => toml::from_str::<ReliabilityFile>(text)?.into(),
        FileKind::Simulation => toml::from_str::<Spec>(text)?.into(),
    })
}

fn apply(name: &str, document: &mut Table, set: &Overrides) -> Result<()> {
    overrides::apply(document, set).map_err(|why| misfit(name, set, &why))
}

/// The error of overrides that do not fit a file.
fn misfit(name: &str, set: &Overrides, why: &str) -> Error {
    Error::Settings {
        name: name.to_owned(),
        settings: overrides::describe(set),
        why: why.trim_end().to_owned(),
    }
}
