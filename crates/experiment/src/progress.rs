//! How a run reports its progress.

use std::sync::Arc;

/// Called with the name of a phase and the fraction of it that is done, from 0 to 1.
pub(crate) type Progress = Arc<dyn Fn(&'static str, f64) + Send + Sync>;
