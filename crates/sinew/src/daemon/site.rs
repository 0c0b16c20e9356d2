//! What the HTTP listeners of a daemon serve: the metrics of its pool.

use std::rc::Rc;

use super::exposition::CONTENT_TYPE;
use super::http::{Page, Site};
use super::metrics;
use super::volume_stats::VolumeStats;
use crate::pool::host::Open;

/// The metrics of a pool.
pub(super) struct MetricsSite {
    /// The pool.
    pub(super) open: Rc<Open>,
    /// What its clients asked for.
    pub(super) stats: VolumeStats,
}

impl Site for MetricsSite {
    async fn page(&self, path: &str) -> Page {
        if path != "/metrics" {
            return Page::Absent("there is only /metrics");
        }
        match metrics::text(&self.open, &self.stats).await {
            Ok(text) => Page::Found(CONTENT_TYPE, text),
            Err(error) => Page::Failed(format!("{error:#}")),
        }
    }
}
