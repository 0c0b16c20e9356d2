//! Waiting for work of a running pool to end.

use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::target::Target;
use crate::protocol::Request;

/// How often the pool is asked.
const POLL: Duration = Duration::from_millis(200);

/// Shows a progress bar until `left`, of the pool's state, is 0.
///
/// # Errors
/// When the server cannot be reached any more.
pub(crate) fn wait_for(target: &Target, what: &str, left: impl Fn(&Value) -> u64) -> Result<()> {
    let first = left(&target.ask(&Request::Status)?);
    let bar = ProgressBar::new(first.max(1));
    bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {percent} % {eta}")?);
    bar.set_message(what.to_owned());
    loop {
        let now = left(&target.ask(&Request::Status)?);
        bar.set_length(bar.length().unwrap_or(1).max(now));
        bar.set_position(bar.length().unwrap_or(1) - now);
        if now == 0 {
            bar.finish();
            return Ok(());
        }
        std::thread::sleep(POLL);
    }
}
