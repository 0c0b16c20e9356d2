//! Comparing the figures of runs with published ones.

use std::collections::BTreeMap;

use serde_json::Value;
use sinew_devices::theory::{BlockWrites, DriveRates};
use sinew_layout::LevelName;

use crate::file::published::{DriveRuns, PublishedFigure, PublishedValue, RunSelector};
use crate::results::paths;
use crate::results::schema::{Comparison, Figures, RunResult};
use crate::results::simulated::ArrayResult;
use crate::results::spread::Spread;
use crate::results::summary::{self, Group};
use crate::{Error, Result};

/// Compares the results of a whole or a quick run with all published figures.
///
/// # Errors
/// [`Error::Setting`] if a published figure names a figure that a selected run does not have.
pub(crate) fn compare(
    published: &[PublishedFigure],
    runs: &[RunResult],
    quick: bool,
) -> Result<Vec<Comparison>> {
    let groups = summary::groups(runs, |figures| Some(figures));
    let mut all = Vec::new();
    for (i, published) in published.iter().enumerate() {
        let invalid = |why| Error::setting(format!("references.{i}"), why);
        let mut found = Vec::new();
        if published.has_wildcard() {
            found.push(over_names(published, &groups).map_err(invalid)?);
        } else {
            for group in select(&published.of, &groups) {
                found.push(with_group(published, group, &groups).map_err(invalid)?);
            }
        }
        if published.highest {
            let mean = |comparison: &Comparison| comparison.ours.map_or(f64::NEG_INFINITY, |ours| ours.mean);
            found = found.into_iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).into_iter().collect();
        }
        let within = published.band(quick);
        all.extend(found.into_iter().map(|comparison| Comparison { within, ..comparison }));
    }
    Ok(all)
}

/// The groups that a selector selects.
fn select<'g, 'r>(
    selector: &RunSelector,
    groups: &'g [Group<'r, Figures>],
) -> impl Iterator<Item = &'g Group<'r, Figures>> {
    groups.iter().filter(|group| selector.selects(group.case(), group.settings()))
}

/// Compares a published figure with the figure of one group.
fn with_group(
    published: &PublishedFigure,
    group: &Group<'_, Figures>,
    groups: &[Group<'_, Figures>],
) -> Result<Comparison, String> {
    let mut ours = figure(group, &published.figure)?;
    if let Some(path) = &published.divided_by {
        let divisors = figure(group, path)?;
        ours = ours.into_iter().zip(divisors).map(|(ours, divisor)| ratio(ours, divisor)).collect();
    }
    if let Some(over) = &published.over {
        let base = select(over, groups).next();
        let base = base.map_or(Ok(Vec::new()), |base| figure(base, &published.figure))?;
        let mean = Spread::of(&base.into_iter().flatten().collect::<Vec<_>>()).map(|spread| spread.mean);
        ours = ours.into_iter().map(|ours| ratio(ours, mean)).collect();
    }
    if published.less {
        ours = ours.into_iter().map(|ours| ours.map(|ours| 1.0 - ours)).collect();
    }
    let value = match &published.published {
        PublishedValue::Number(number) => [*number; 2],
        PublishedValue::Range(range) => *range,
        PublishedValue::Predicted { block_writes } => {
            let of_over = published.over.as_ref().and_then(|over| select(over, groups).next());
            let base = of_over.map(|over| predicted(block_writes, over, groups)).transpose()?;
            [predicted(block_writes, group, groups)? / base.unwrap_or(1.0); 2]
        }
        PublishedValue::Figure(path) => {
            let values: Vec<f64> = figure(group, path)?.into_iter().flatten().collect();
            let spread = Spread::of(&values).ok_or_else(|| format!("no run has a figure {path}"))?;
            [spread.low, spread.high]
        }
    };
    Ok(Comparison {
        what: published.what.clone(),
        figure: published.expression(),
        case: group.case().map(str::to_owned),
        settings: group.settings().clone(),
        unit: published.unit,
        published: value,
        ours: Spread::of(&ours.into_iter().flatten().collect::<Vec<_>>()),
        within: None,
        source: published.source.clone(),
    })
}

/// Random single blocks per second that the array of a group writes, by the rates of one of its drives. A drive alone writes
/// what it writes.
fn predicted(
    runs: &DriveRuns,
    group: &Group<'_, Figures>,
    groups: &[Group<'_, Figures>],
) -> Result<f64, String> {
    let rate = |case: &str, path: &str| {
        let of_case = || groups.iter().filter(|found| found.case() == Some(case));
        let same = of_case().find(|found| found.settings() == group.settings());
        let alone = same.or_else(|| of_case().find(|found| found.settings().is_empty()));
        let found = alone.ok_or_else(|| format!("no run of {case} has the values of {}", group.name()))?;
        let rates: Vec<f64> = figure(found, path)?.into_iter().flatten().collect();
        Spread::of(&rates).map(|rate| rate.mean).ok_or_else(|| format!("{case} has no figure {path}"))
    };
    let drive = DriveRates {
        writes_per_s: rate(&runs.writes, "requests.write.iops")?,
        reads_per_s: rate(&runs.reads, "requests.read.iops")?,
    };
    let array = group.first().simulated().and_then(|figures| figures.array);
    let Some(ArrayResult { level, members }) = array else { return Ok(drive.writes_per_s) };
    let writes = match level {
        LevelName::Raid0 => BlockWrites::copied(members, 1),
        LevelName::Raid1 => BlockWrites::copied(members, members),
        LevelName::Raid10 => BlockWrites::copied(members, 2),
        LevelName::Raid5 => BlockWrites::with_parity(members, 1),
        LevelName::Raid6 => BlockWrites::with_parity(members, 2),
        other => return Err(format!("there is no prediction for {other}")),
    };
    Ok(writes.per_second(drive))
}

/// Compares a published figure with the figures of all names that its `*` stands for. The figure of a name is the mean over the
/// selected runs, divided by that of the `over` runs if there are any; the spread is over the names.
fn over_names(published: &PublishedFigure, groups: &[Group<'_, Figures>]) -> Result<Comparison, String> {
    let mut ours = means_by_name(&published.of, &published.figure, groups)?;
    if let Some(over) = &published.over {
        let base = means_by_name(over, &published.figure, groups)?;
        let both =
            |(name, figure)| Some((Clone::clone(&name), ratio(Some(figure), base.get(&name).copied())?));
        ours = ours.into_iter().filter_map(both).collect();
    }
    let less = |figure: f64| if published.less { 1.0 - figure } else { figure };
    let value = match published.published {
        PublishedValue::Number(number) => [number; 2],
        PublishedValue::Range(range) => range,
        PublishedValue::Figure(_) | PublishedValue::Predicted { .. } => unreachable!("the plan rejects it"),
    };
    Ok(Comparison {
        what: published.what.clone(),
        figure: published.expression(),
        case: published.of.case.clone(),
        settings: published.of.set.clone(),
        unit: published.unit,
        published: value,
        ours: Spread::of(&ours.into_values().map(less).collect::<Vec<_>>()),
        within: None,
        source: published.source.clone(),
    })
}

/// For each name that the `*` of a path stands for, the mean of the figure over the selected runs that have it.
fn means_by_name(
    selector: &RunSelector,
    path: &str,
    groups: &[Group<'_, Figures>],
) -> Result<BTreeMap<String, f64>, String> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in select(selector, groups).flat_map(|group| &group.runs) {
        let json = json_of(run.figures);
        for name in paths::names_at(&json, path)? {
            if let Some(figure) = paths::at(&json, &path.replacen('*', &name, 1))? {
                all.entry(name).or_default().push(figure);
            }
        }
    }
    Ok(all.into_iter().map(|(name, found)| (name, found.iter().sum::<f64>() / found.len() as f64)).collect())
}

fn ratio(of: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(of? / to.filter(|&to| to != 0.0)?)
}

/// A figure of each run of a group; nothing where it is null, which the figure of an idle drive is. A path that does not exist
/// is an error.
fn figure(group: &Group<'_, Figures>, path: &str) -> Result<Vec<Option<f64>>, String> {
    group.runs.iter().map(|run| at(run.figures, path)).collect()
}

fn at(figures: &Figures, path: &str) -> Result<Option<f64>, String> {
    paths::at(&json_of(figures), path)
}

fn json_of(figures: &Figures) -> Value {
    serde_json::to_value(figures).expect("figures are numbers and names")
}
