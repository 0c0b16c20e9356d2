//! Ratios from pairs of runs: how a figure of one system compares with that of another under the same requests.
//!
//! The ratio of a pair of runs is the geometric mean over the names that the path stands for: the workloads of a mix are not
//! independent of each other. The ratio of all is the geometric mean over the pairs, and its interval is from a bootstrap over
//! the pairs. A quantile counts only if both runs have enough requests above it. A saturated run is no pair:
//! its latencies grow with the measured time.

use std::collections::BTreeMap;

use rand::RngExt;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value as Json;
use toml::Value;

use crate::file::ratio::RatioSpec;
use crate::results::paths;
use crate::results::ratio::Ratio;
use crate::results::schema::RunResult;
use crate::results::summary::is_quantile_known;
use crate::{Error, Result};

/// Resamples of a bootstrap; and the seed, so that equal results give equal intervals.
const RESAMPLES: usize = 4000;
const SEED: u64 = 1;
/// With fewer pairs there is no interval.
const PAIRS_MIN: usize = 3;

/// A run and its JSON.
struct Known<'a> {
    run: &'a RunResult,
    json: Json,
}

/// What the pairs gave.
#[derive(Default)]
struct Found {
    /// For each pair, the mean of the logarithms.
    pairs: Vec<f64>,
    ratios: usize,
    above_one: usize,
    too_few_requests: usize,
    one_sided: usize,
    saturated: usize,
}

/// All ratios that a file asks for.
///
/// # Errors
/// [`Error::Setting`] if a ratio names a figure that a selected run does not have.
pub(crate) fn ratios(specs: &[RatioSpec], runs: &[RunResult], quick: bool) -> Result<Vec<Ratio>> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let json = |run: &RunResult| serde_json::to_value(&run.figures).expect("figures are numbers and names");
    let known: Vec<Known<'_>> = runs.iter().map(|run| Known { run, json: json(run) }).collect();
    let mut all = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let invalid = |why| Error::setting(format!("ratios.{i}"), why);
        let within = spec.band(quick);
        all.push(Ratio { within, ..ratio(spec, &known, None).map_err(invalid)? });
        let mut settings: Vec<&BTreeMap<String, Value>> = Vec::new();
        for known in known.iter().filter(|known| spec.apart && selects(spec, known)) {
            if !known.run.settings.is_empty() && !settings.contains(&&known.run.settings) {
                settings.push(&known.run.settings);
            }
        }
        for settings in settings {
            all.push(ratio(spec, &known, Some(settings)).map_err(invalid)?);
        }
    }
    Ok(all)
}

fn selects(spec: &RatioSpec, known: &Known<'_>) -> bool {
    spec.of.selects(known.run.case.as_deref(), &known.run.settings)
}

fn ratio(
    spec: &RatioSpec,
    known: &[Known<'_>],
    settings: Option<&BTreeMap<String, Value>>,
) -> std::result::Result<Ratio, String> {
    let mut found = Found::default();
    for of in known.iter().filter(|known| selects(spec, known)) {
        if settings.is_some_and(|settings| *settings != of.run.settings) {
            continue;
        }
        if let Some(over) = known.iter().find(|over| are_paired(spec, of.run, over.run)) {
            add_pair(spec, of, over, &mut found)?;
        }
    }
    Ok(Ratio {
        what: spec.what.clone(),
        figure: spec.figure.clone(),
        settings: settings.cloned().unwrap_or_default(),
        pairs: found.pairs.len(),
        mean: mean(&found.pairs).map(f64::exp),
        interval: interval(&found.pairs).map(|ends| ends.map(f64::exp)),
        ratios: found.ratios,
        above_one: found.above_one,
        too_few_requests: found.too_few_requests,
        one_sided: found.one_sided,
        saturated: found.saturated,
        within: None,
    })
}

/// Whether two runs are a pair: equal but for what `over` names, the case or swept values.
fn are_paired(spec: &RatioSpec, of: &RunResult, over: &RunResult) -> bool {
    let named = &spec.over;
    let is_equal = |(path, value): (&String, &Value)| {
        named.set.contains_key(path) || of.settings.get(path) == Some(value)
    };
    named.selects(over.case.as_deref(), &over.settings)
        && of.seed == over.seed
        && (named.case.is_some() || of.case == over.case)
        && over.settings.iter().all(is_equal)
}

fn add_pair(
    spec: &RatioSpec,
    of: &Known<'_>,
    over: &Known<'_>,
    found: &mut Found,
) -> std::result::Result<(), String> {
    if is_saturated(&of.json) || is_saturated(&over.json) {
        found.saturated += 1;
        return Ok(());
    }
    let mut logarithms = Vec::new();
    for path in figures(&spec.figure, &of.json)? {
        let figure = |known: &Known<'_>| paths::at(&known.json, &path);
        let both = (figure(of)?, figure(over)?);
        let (Some(of_figure), Some(over_figure)) = both else {
            found.one_sided += usize::from(both.0.is_some() != both.1.is_some());
            continue;
        };
        if !(has_enough(&of.json, &path)? && has_enough(&over.json, &path)?) {
            found.too_few_requests += 1;
            continue;
        }
        if of_figure > 0.0 && over_figure > 0.0 {
            found.ratios += 1;
            found.above_one += usize::from(of_figure > over_figure);
            logarithms.push((of_figure / over_figure).ln());
        }
    }
    found.pairs.extend(mean(&logarithms));
    Ok(())
}

/// The paths that a path with or without a `*` stands for.
fn figures(path: &str, json: &Json) -> std::result::Result<Vec<String>, String> {
    if !path.split('.').any(|part| part == "*") {
        return Ok(vec![path.to_owned()]);
    }
    let names = paths::names_at(json, path)?;
    Ok(names.into_iter().map(|name| path.replacen('*', &name, 1)).collect())
}

/// Whether enough requests are above a quantile; other figures always have enough.
fn has_enough(json: &Json, path: &str) -> std::result::Result<bool, String> {
    let (Some(quantile), Some(count)) = (paths::quantile(path), paths::count_path(path)) else {
        return Ok(true);
    };
    let requests = paths::at(json, &count)?.unwrap_or(0.0);
    Ok(is_quantile_known(quantile, requests as u64))
}

fn is_saturated(json: &Json) -> bool {
    json.pointer("/load/saturated").and_then(Json::as_bool).unwrap_or(false)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The interval of 95 % of a mean: the quantiles of the means of resamples.
fn interval(values: &[f64]) -> Option<[f64; 2]> {
    if values.len() < PAIRS_MIN {
        return None;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut resample = || {
        let drawn = (0..values.len()).map(|_| values[random.random_range(0..values.len())]);
        drawn.sum::<f64>() / values.len() as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    means.sort_by(f64::total_cmp);
    let at = |part: f64| means[((RESAMPLES as f64 * part) as usize).min(RESAMPLES - 1)];
    Some([at(0.025), at(0.975)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_mean_and_narrows_with_pairs() {
        let few: Vec<f64> = (0..5).map(|i| f64::from(i) / 10.0).collect();
        let many: Vec<f64> = few.iter().copied().cycle().take(80).collect();
        let width = |values: &[f64]| {
            let [low, high] = interval(values).unwrap();
            assert!(low < 0.2 && high > 0.2, "{low} to {high}");
            high - low
        };
        assert!(width(&many) * 3.0 < width(&few));
        // The standard error of 80 values of this deviation, times 1.96 on both sides.
        assert!((width(&many) - 2.0 * 1.96 * 0.02_f64.sqrt() / 80.0_f64.sqrt()).abs() < 0.01);
        assert_eq!(interval(&few[..2]), None);
    }
}
