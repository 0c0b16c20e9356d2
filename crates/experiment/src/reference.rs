//! Published figures, and figures of closed forms, that an experiment holds its own beside.
//!
//! A figure is named by its path in the JSON of a run: `requests.write.latency.p99_ns`, `members.0.flash.stalls`. A `*` in
//! the path stands for each name that is there: `volumes.*.latency.p50_ns`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::plan::Frame;
use crate::results::{Figures, RunResult};
use crate::summary::{self, Group, Spread};
use crate::{Error, Result, settings};

/// A figure of other people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceSpec {
    /// What it is, for people.
    pub what: String,
    /// The figure of ours to hold beside it, by its path.
    pub figure: String,
    /// Ours is divided by this one of the same run.
    #[serde(default)]
    pub divided_by: Option<String>,
    /// The runs it is of; each case and each combination of what is swept where nothing is said.
    #[serde(default)]
    pub of: Choice,
    /// Ours is divided by the same figure of these runs.
    #[serde(default)]
    pub over: Option<Choice>,
    /// Ours is what is missing to 1: a reduction.
    #[serde(default)]
    pub less: bool,
    /// Of all those runs, only the one in which ours is highest.
    #[serde(default)]
    pub highest: bool,
    /// Theirs.
    pub published: Published,
    /// The unit of both.
    #[serde(default)]
    pub unit: Unit,
    /// Who says so, and where.
    pub source: String,
}

/// Runs, by what tells them from others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The case.
    #[serde(default)]
    pub case: Option<String>,
    /// What the sweep set, by path.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
}

/// A figure of other people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Published {
    /// A number.
    Number(f64),
    /// From a number to a number.
    Range([f64; 2]),
    /// What a closed form says for the run: a figure of the same run, by its path.
    Figure(String),
}

/// How a figure is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number.
    #[default]
    Number,
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// A part of a whole, shown in percent.
    Part,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Number => summary::three_digits(value),
            Unit::Time => summary::time(value),
            Unit::Bytes => summary::bytes(value),
            Unit::Part => format!("{:.2} %", value * 100.0),
        }
    }
}

/// A published figure and ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What it is.
    pub what: String,
    /// The path of the figure, after `highest` if it is that of the run in which it is; by what it is divided comes after
    /// a slash.
    pub figure: String,
    /// The case of the runs, if there are any.
    pub case: Option<String>,
    /// What the sweep set for them.
    pub settings: BTreeMap<String, Value>,
    /// The unit.
    pub unit: Unit,
    /// The published figure, from and to.
    pub published: [f64; 2],
    /// Ours: mean, lowest and highest over the seeds; nothing where the runs have no such figure.
    pub ours: Option<Spread>,
    /// Who says so, and where.
    pub source: String,
}

impl ReferenceSpec {
    /// Whether its figure is one for each of several names.
    fn has_names(&self) -> bool {
        self.figure.split('.').any(|part| part == "*")
    }

    fn path(&self) -> String {
        let over = self.over.as_ref().map(|over| {
            let parts = [over.case.clone().unwrap_or_default(), settings::describe(&over.set)];
            format!(
                "that of {}",
                parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
            )
        });
        let parts = [Some(self.figure.clone()), self.divided_by.clone(), over];
        let path = parts.into_iter().flatten().collect::<Vec<_>>().join(" / ");
        let path = if self.less { format!("1 - {path}") } else { path };
        if self.highest { format!("highest {path}") } else { path }
    }
}

impl Comparison {
    /// The published figure, for people.
    pub(crate) fn show_published(&self) -> String {
        let [from, to] = self.published;
        let (from, to) = (self.unit.show(from), self.unit.show(to));
        if from == to { from } else { format!("{from} to {to}") }
    }

    /// Ours, for people.
    pub(crate) fn show_ours(&self) -> String {
        self.ours.map_or("-".to_owned(), |ours| ours.show(|value| self.unit.show(value)))
    }

    /// The runs, for people.
    pub(crate) fn label(&self) -> String {
        summary::label(self.case.as_deref(), &self.settings)
    }
}

impl Choice {
    fn fits(&self, case: Option<&str>, settings: &BTreeMap<String, Value>) -> bool {
        let case_fits = self.case.is_none() || self.case.as_deref() == case;
        case_fits && self.set.iter().all(|(path, value)| settings.get(path).is_some_and(|v| equal(v, value)))
    }

    fn find<'g, 'r>(&self, groups: &'g [Group<'r, Figures>]) -> impl Iterator<Item = &'g Group<'r, Figures>> {
        groups.iter().filter(|group| self.fits(group.case(), group.settings()))
    }
}

/// 1 and 1.0 are the same.
fn equal(a: &Value, b: &Value) -> bool {
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|n| n as f64));
    a == b || number(a).is_some_and(|a| number(b) == Some(a))
}

/// Whether what the references name is there: runs, and the shapes of figures.
pub(crate) fn check(file: &Frame, combinations: &[BTreeMap<String, Value>]) -> Result<()> {
    let unswept = [BTreeMap::new()];
    for (i, reference) in file.references.iter().enumerate() {
        for (name, choice) in [("of", Some(&reference.of)), ("over", reference.over.as_ref())] {
            let cases: Vec<_> =
                file.cases.iter().map(|case| (Some(case.name.as_str()), case.swept)).collect();
            let cases = if cases.is_empty() { &[(None, true)][..] } else { &cases };
            let fits = |choice: &Choice| {
                let count = |&(case, swept): &(Option<&str>, bool)| {
                    let sets = if swept { combinations } else { &unswept };
                    sets.iter().filter(|set| choice.fits(case, set)).count()
                };
                cases.iter().map(count).sum::<usize>()
            };
            let found = choice.map(fits);
            let setting = format!("references.{i}.{name}");
            if found == Some(0) {
                return Err(Error::setting(setting, "there is no such run"));
            }
            if name == "over" && found.is_some_and(|found| found > 1) && !reference.has_names() {
                return Err(Error::setting(
                    setting,
                    "several combinations of case and swept values are such runs",
                ));
            }
        }
        let setting = format!("references.{i}");
        if reference.has_names() && (reference.divided_by.is_some() || reference.highest) {
            return Err(Error::setting(setting, "divided_by and highest do not go with * in a figure"));
        }
        if reference.has_names() && matches!(reference.published, Published::Figure(_)) {
            return Err(Error::setting(
                setting,
                "what is published is not a figure of a run where there is a *",
            ));
        }
    }
    Ok(())
}

/// Holds the results beside what is published.
pub(crate) fn compare(references: &[ReferenceSpec], runs: &[RunResult]) -> Result<Vec<Comparison>> {
    let groups = summary::groups(runs, |figures| Some(figures));
    let mut all = Vec::new();
    for (i, reference) in references.iter().enumerate() {
        let wrong = |why| Error::setting(format!("references.{i}"), why);
        let mut found = Vec::new();
        if reference.has_names() {
            all.push(by_name(reference, &groups).map_err(wrong)?);
            continue;
        }
        for group in reference.of.find(&groups) {
            let (published, ours) = one(reference, group, &groups).map_err(wrong)?;
            found.push(Comparison {
                what: reference.what.clone(),
                figure: reference.path(),
                case: group.case().map(str::to_owned),
                settings: group.settings().clone(),
                unit: reference.unit,
                published,
                ours,
                source: reference.source.clone(),
            });
        }
        if reference.highest {
            let mean = |comparison: &Comparison| comparison.ours.map_or(f64::NEG_INFINITY, |ours| ours.mean);
            found = found.into_iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).into_iter().collect();
        }
        all.append(&mut found);
    }
    Ok(all)
}

/// Each name's figure, the mean of all runs chosen, by that of the runs that it is held against; and that over all names.
fn by_name(reference: &ReferenceSpec, groups: &[Group<'_, Figures>]) -> Result<Comparison, String> {
    let mut ours = names(&reference.of, &reference.figure, groups)?;
    if let Some(over) = &reference.over {
        let base = names(over, &reference.figure, groups)?;
        let both =
            |(name, figure)| Some((Clone::clone(&name), ratio(Some(figure), base.get(&name).copied())?));
        ours = ours.into_iter().filter_map(both).collect();
    }
    let less = |figure: f64| if reference.less { 1.0 - figure } else { figure };
    let published = match reference.published {
        Published::Number(number) => [number; 2],
        Published::Range(range) => range,
        Published::Figure(_) => unreachable!("it was checked"),
    };
    Ok(Comparison {
        what: reference.what.clone(),
        figure: reference.path(),
        case: reference.of.case.clone(),
        settings: reference.of.set.clone(),
        unit: reference.unit,
        published,
        ours: Spread::of(&ours.into_values().map(less).collect::<Vec<_>>()),
        source: reference.source.clone(),
    })
}

/// By what stands for the `*` of a path: the mean of that figure over the runs that have it.
fn names(
    choice: &Choice,
    path: &str,
    groups: &[Group<'_, Figures>],
) -> Result<BTreeMap<String, f64>, String> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in choice.find(groups).flat_map(|group| &group.runs) {
        for name in names_at(run.figures, path)? {
            if let Some(figure) = at(run.figures, &path.replacen('*', &name, 1))? {
                all.entry(name).or_default().push(figure);
            }
        }
    }
    Ok(all.into_iter().map(|(name, found)| (name, found.iter().sum::<f64>() / found.len() as f64)).collect())
}

/// What the first `*` of a path stands for.
fn names_at(figures: &Figures, path: &str) -> Result<Vec<String>, String> {
    let json = serde_json::to_value(figures).expect("numbers and names only");
    let mut here = &json;
    for part in path.split('.') {
        if part == "*" {
            let names = here.as_object().map(|table| table.keys().cloned().collect());
            return names.ok_or_else(|| format!("{path}: where the * is there are no names"));
        }
        here = here.get(part).ok_or_else(|| format!("a run has no figure {path}: there is no {part}"))?;
    }
    Ok(Vec::new())
}

type Found = ([f64; 2], Option<Spread>);

fn one(
    reference: &ReferenceSpec,
    group: &Group<'_, Figures>,
    groups: &[Group<'_, Figures>],
) -> Result<Found, String> {
    let mut ours = figure(group, &reference.figure)?;
    if let Some(path) = &reference.divided_by {
        let divisors = figure(group, path)?;
        ours = ours.into_iter().zip(divisors).map(|(ours, by)| ratio(ours, by)).collect();
    }
    if let Some(over) = &reference.over {
        let base = over.find(groups).next().map_or(Ok(Vec::new()), |base| figure(base, &reference.figure))?;
        let mean = Spread::of(&base.into_iter().flatten().collect::<Vec<_>>()).map(|spread| spread.mean);
        ours = ours.into_iter().map(|ours| ratio(ours, mean)).collect();
    }
    if reference.less {
        ours = ours.into_iter().map(|ours| ours.map(|ours| 1.0 - ours)).collect();
    }
    let published = match &reference.published {
        Published::Number(number) => [*number; 2],
        Published::Range(range) => *range,
        Published::Figure(path) => {
            let values: Vec<f64> = figure(group, path)?.into_iter().flatten().collect();
            let spread = Spread::of(&values).ok_or_else(|| format!("no run has a figure {path}"))?;
            [spread.low, spread.high]
        }
    };
    Ok((published, Spread::of(&ours.into_iter().flatten().collect::<Vec<_>>())))
}

fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(of? / to.filter(|&to| to != 0.0)?)
}

/// A figure of each run of a group; nothing where it is null, as that of a drive that did nothing, and an error where
/// there is no such thing.
fn figure(group: &Group<'_, Figures>, path: &str) -> Result<Vec<Option<f64>>, String> {
    group.runs.iter().map(|run| at(run.figures, path)).collect()
}

fn at(figures: &Figures, path: &str) -> Result<Option<f64>, String> {
    let json = serde_json::to_value(figures).expect("numbers and names only");
    let mut here = &json;
    for part in path.split('.') {
        let next = match part.parse::<usize>() {
            Ok(index) => here.get(index),
            Err(_) => here.get(part),
        };
        here = next.ok_or_else(|| format!("a run has no figure {path}: there is no {part}"))?;
    }
    match here {
        serde_json::Value::Null => Ok(None),
        here => here.as_f64().map(Some).ok_or_else(|| format!("{path} is not a number")),
    }
}
