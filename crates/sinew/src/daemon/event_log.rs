//! The log of a server: each event of the pool is a line with time and level on the standard error.

use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use sinew_core::io::Io;
use sinew_engine::control::events::{Entry, Severity};

use super::hook::Hook;
use crate::pool::host::Open;
use crate::protocol;

/// Sends the events of this process to the standard error. Once only; a log that cannot be written is no reason to stop.
pub(crate) fn begin() {
    let log = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .log_internal_errors(false);
    let _ = log.try_init();
}

/// Logs what happens to the pool, and has the hook run for it, until the daemon ends.
pub(crate) async fn write(open: Rc<Open>, hook: Option<Hook>) {
    let start = SystemTime::now() - Duration::from_nanos(open.io.now());
    let events = open.control.events();
    let mut last = 0;
    loop {
        let new = events.after(last);
        if let Some(lost) = new.first().map(|entry| entry.number - last - 1).filter(|lost| *lost > 0) {
            tracing::warn!("{lost} events were not logged, since too many came at once");
        }
        for entry in &new {
            line(entry);
            if let Some(hook) = &hook {
                hook.send(&protocol::events::entry(entry, start));
            }
        }
        last = new.last().map_or(last, |entry| entry.number);
        events.wait_for_more(last).await;
    }
}

fn line(entry: &Entry) {
    let (event, number, text) = (entry.event.kind(), entry.number, &entry.event);
    match entry.event.severity() {
        Severity::Info => tracing::info!(event, number, "{text}"),
        Severity::Warning => tracing::warn!(event, number, "{text}"),
        Severity::Error => tracing::error!(event, number, "{text}"),
    }
}
