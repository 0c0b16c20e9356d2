//! The search for the largest load that a system serves: by doubling or halving, then by bisection.
//!
//! A system is assumed to serve every load below one that it serves.

use std::path::Path;

use crate::file::capacity::CapacitySpec;
use crate::file::spec::Spec;
use crate::progress::Progress;
use crate::results::capacity::{CapacityResult, TriedLoad};
use crate::results::simulated::{KindResult, Simulated};
use crate::results::summary::is_quantile_known;
use crate::run::simulation::{self, SimulatedRun};
use crate::system::members::AgedDrives;
use crate::{Error, Result};

/// A system that does not serve this part of the first speed has no capacity that is worth a search.
const LOWEST: f64 = 1.0 / 1024.0;

/// Runs a simulation at one speed after the other. Returns the run at the largest speed that is served, or at the lowest one if
/// none is.
///
/// # Errors
/// Those of [`simulation::run`], and [`Error::Setting`] if too few requests are measured to tell a p99 for its bound.
pub(crate) fn run(
    spec: &Spec,
    capacity: &CapacitySpec,
    seed: u64,
    base: &Path,
    aged: Option<&AgedDrives>,
    progress: &Progress,
) -> Result<SimulatedRun> {
    let mut search = Search { spec: capacity, served: None, refused: None };
    let (mut tried, mut kept, mut member_requests) = (Vec::new(), None, 0);
    while let Some(speed) = search.next() {
        let mut spec = spec.clone();
        spec.workload.speed = Some(speed);
        let ran = simulation::run(&spec, seed, base, aged, progress)?;
        member_requests += ran.member_requests;
        let load = judge(capacity, speed, &ran.figures)?;
        if load.served || search.served.is_none() {
            kept = Some(ran.figures);
        }
        search.tell(speed, load.served);
        tried.push(load);
    }
    tried.sort_by(|a, b| a.speed.total_cmp(&b.speed));
    let result = CapacityResult {
        speed: search.served,
        at_max: search.refused.is_none(),
        p99_bound_ns: bound_ns(capacity),
        tried,
    };
    let figures = kept.expect("the first speed is tried");
    Ok(SimulatedRun { figures: Simulated { capacity: Some(result), ..figures }, member_requests })
}

/// Which speed is tried next.
struct Search<'a> {
    spec: &'a CapacitySpec,
    /// The largest speed served, and the lowest one that is not.
    served: Option<f64>,
    refused: Option<f64>,
}

impl Search<'_> {
    /// The next speed to try; nothing at the end.
    fn next(&self) -> Option<f64> {
        let &CapacitySpec { from, max, within, .. } = self.spec;
        match (self.served, self.refused) {
            (None, None) => Some(from),
            (Some(served), None) => (served < max).then(|| (served * 2.0).min(max)),
            (None, Some(refused)) => (refused > from * LOWEST).then_some(refused / 2.0),
            (Some(served), Some(refused)) => {
                (refused > served * (1.0 + within)).then(|| (served * refused).sqrt())
            }
        }
    }

    fn tell(&mut self, speed: f64, is_served: bool) {
        *if is_served { &mut self.served } else { &mut self.refused } = Some(speed);
    }
}

fn bound_ns(capacity: &CapacitySpec) -> Option<u64> {
    capacity.p99_ms.map(|bound| (bound * 1e6).round() as u64)
}

/// Whether the figures are those of a load that is served.
fn judge(capacity: &CapacitySpec, speed: f64, figures: &Simulated) -> Result<TriedLoad> {
    let requests = |kind: &KindResult| kind.summary.requests;
    let p99 = |kind: &str| {
        let found = figures.requests.get(kind)?;
        is_quantile_known(0.99, requests(found)).then_some(found.summary.latency.p99_ns)
    };
    let saturated = figures.load.is_some_and(|load| load.saturated);
    let mut is_within = true;
    for kind in ["read", "write"] {
        let (Some(bound), Some(found)) = (bound_ns(capacity), figures.requests.get(kind)) else { continue };
        match p99(kind) {
            Some(p99) => is_within &= p99 <= bound,
            // Without a bound that is kept it makes no difference.
            None if saturated => {}
            None => {
                let why = format!(
                    "at a speed of {speed:.3} only {} requests of kind {kind} are measured, too few for a p99: measure longer, or begin at a higher speed",
                    requests(found)
                );
                return Err(Error::setting("capacity.p99_ms", why));
            }
        }
    }
    let errors = figures.requests.values().map(|kind| kind.summary.errors).sum();
    let completed = figures.load.map_or(0, |load| load.completed);
    Ok(TriedLoad {
        speed,
        completed_per_s: completed as f64 / figures.duration_s,
        read_p99_ns: p99("read"),
        write_p99_ns: p99("write"),
        saturated,
        errors,
        served: !saturated && is_within && errors == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a search among speeds that are served up to `capacity`, and the speeds that were tried.
    fn search(from: f64, max: f64, capacity: f64) -> (Option<f64>, Option<f64>, Vec<f64>) {
        let spec =
            CapacitySpec { from, max, within: 0.05, p99_ms: None, share: None, weakest_of: Vec::new() };
        let (mut search, mut tried) = (Search { spec: &spec, served: None, refused: None }, Vec::new());
        while let Some(speed) = search.next() {
            search.tell(speed, speed <= capacity);
            tried.push(speed);
        }
        (search.served, search.refused, tried)
    }

    #[test]
    fn a_search_ends_between_a_speed_served_and_one_that_is_not() {
        for (from, capacity) in [(1.0, 3.3), (1.0, 0.07), (0.25, 0.25), (4.0, 900.0)] {
            let (served, refused, tried) = search(from, 1024.0, capacity);
            let (served, refused) = (served.unwrap(), refused.unwrap());
            assert!(served <= capacity && capacity < refused && refused / served <= 1.05);
            // No speed is twice the capacity or more, unless it is the first: overload takes long.
            assert!(tried[1..].iter().all(|&speed| speed <= from.max(2.0 * capacity)), "{tried:?}");
            assert!(tried.len() <= 16);
        }
    }

    #[test]
    fn a_search_has_ends() {
        assert_eq!(search(1.0, 6.0, 1e9), (Some(6.0), None, vec![1.0, 2.0, 4.0, 6.0]));
        let (served, refused, tried) = search(1.0, 6.0, 0.0);
        assert_eq!((served, refused, tried.len()), (None, Some(1.0 / 1024.0), 11));
    }
}
