//! The backlog of a load over time: requests that were due and are not completed.
//!
//! A load whose backlog grows is more than the system can serve. Its latencies then depend on the measured time, and mean
//! nothing beside those of another system.

use sinew_workload::Done;

use crate::results::simulated::LoadResult;

/// Spans in which requests are counted.
const SPANS: usize = 100;
/// The backlog must grow by more than this fraction of the requests due.
const GROWTH_MIN: f64 = 0.01;
/// The slope of the backlog over the last half must be this multiple of its standard error: one-sided, 95 %.
const DEVIATIONS: f64 = 1.645;

/// Counts of requests, by the span of the measured time in which they were due or completed.
pub(crate) struct Backlog {
    from_ns: u64,
    span_ns: u64,
    due: Vec<u64>,
    completed: Vec<u64>,
    /// Requests due before the measured time and not completed by then.
    before: u64,
}

impl Backlog {
    /// Nothing, for a measured time of `duration_ns` from `from_ns`.
    pub(crate) fn new(from_ns: u64, duration_ns: u64) -> Backlog {
        let span_ns = duration_ns.div_ceil(SPANS as u64).max(1);
        Backlog { from_ns, span_ns, due: vec![0; SPANS], completed: vec![0; SPANS], before: 0 }
    }

    /// Counts a completed request.
    pub(crate) fn record(&mut self, done: &Done) {
        if done.done_ns < self.from_ns {
            return;
        }
        match self.span(done.issue.due_ns) {
            None => self.before += 1,
            Some(span) if span < SPANS => self.due[span] += 1,
            Some(_) => {}
        }
        if let Some(span) = self.span(done.done_ns).filter(|&span| span < SPANS) {
            self.completed[span] += 1;
        }
    }

    fn span(&self, at_ns: u64) -> Option<usize> {
        Some((at_ns.checked_sub(self.from_ns)? / self.span_ns) as usize)
    }

    /// The result after `ran_ns`.
    pub(crate) fn result(&self, ran_ns: u64) -> LoadResult {
        let spans = (ran_ns / self.span_ns).clamp(1, SPANS as u64) as usize;
        let mut backlog = self.before as f64;
        let mut series = Vec::with_capacity(spans);
        for (due, completed) in self.due.iter().zip(&self.completed).take(spans) {
            backlog += *due as f64 - *completed as f64;
            series.push(backlog);
        }
        let (due, completed) =
            (self.due[..spans].iter().sum::<u64>(), self.completed[..spans].iter().sum::<u64>());
        let growth = backlog - self.before as f64;
        let grows = growth > GROWTH_MIN * due as f64 && is_rising(&series[spans / 2..]);
        LoadResult {
            due,
            completed,
            backlog_mean: series.iter().sum::<f64>() / spans as f64,
            backlog_max: series.iter().copied().fold(0.0, f64::max),
            backlog_end: backlog,
            saturated: grows,
        }
    }
}

/// Whether the slope of equally spaced values is above 0 with a confidence of 95 %.
fn is_rising(values: &[f64]) -> bool {
    let count = values.len() as f64;
    if values.len() < 3 {
        return false;
    }
    let (x_mean, y_mean) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let at = |i: usize| i as f64 - x_mean;
    let xx: f64 = (0..values.len()).map(|i| at(i).powi(2)).sum();
    let xy: f64 = values.iter().enumerate().map(|(i, y)| at(i) * (y - y_mean)).sum();
    let slope = xy / xx;
    let residuals: f64 = values.iter().enumerate().map(|(i, y)| (y - y_mean - slope * at(i)).powi(2)).sum();
    let error = (residuals / (count - 2.0) / xx).sqrt();
    slope > DEVIATIONS * error
}

#[cfg(test)]
mod tests {
    use sinew_workload::{Issue, Kind, Request};

    use super::*;

    /// A request each millisecond for a second, which takes what `latency_ns` says for its number.
    fn backlog(latency_ns: impl Fn(u64) -> u64) -> LoadResult {
        let mut backlog = Backlog::new(0, 1_000_000_000);
        for number in 0..1000 {
            let due_ns = number * 1_000_000;
            let request = Request { at_ns: due_ns, offset: 0, len: 4096, volume: 0, kind: Kind::Read };
            let issue = Issue { number, request, due_ns, issued_ns: due_ns };
            backlog.record(&Done { issue, done_ns: due_ns + latency_ns(number), ok: true });
        }
        backlog.result(1_000_000_000)
    }

    #[test]
    fn a_load_is_saturated_if_its_backlog_grows() {
        let steady = backlog(|_| 50_000_000);
        assert_eq!((steady.due, steady.completed, steady.saturated), (1000, 950, false));
        assert_eq!((steady.backlog_end, steady.backlog_max), (50.0, 50.0));
        // Each request takes longer than the last: a tenth of them are not served.
        assert!(backlog(|number| number * 100_000).saturated);
        // A burst that is worked off.
        let burst =
            backlog(|number| if (300..500).contains(&number) { (500 - number) * 1_000_000 } else { 1000 });
        assert!(!burst.saturated && burst.backlog_max > 150.0, "{burst:?}");
    }
}
