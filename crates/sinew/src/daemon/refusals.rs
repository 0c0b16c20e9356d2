//! Clients that were refused, from the threads that refuse them to the events of the pool: once a second, each client and
//! reason once, with how often. What many clients do at once is no more events than [`KINDS_MAX`] in a second, so that
//! no client can push other events out.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use sinew_core::io::Io;

use crate::pool::host::Open;

/// How often events are made.
const LOOK_NS: u64 = 1_000_000_000;
/// Clients and reasons that are told apart between two looks.
const KINDS_MAX: usize = 8;

/// Clients that were refused, the reasons, and how often, since the last look.
#[derive(Clone, Default)]
pub(super) struct Refusals(Arc<Mutex<BTreeMap<(String, String), u64>>>);

impl Refusals {
    /// Counts a refusal.
    pub(super) fn count(&self, client: &str, why: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = (client.to_owned(), why.to_owned());
        if all.len() >= KINDS_MAX && !all.contains_key(&kind) {
            kind = ("other clients".to_owned(), "various reasons".to_owned());
        }
        *all.entry(kind).or_default() += 1;
    }

    fn take(&self) -> BTreeMap<(String, String), u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes events of refusals, until the daemon ends.
pub(super) async fn watch(open: Rc<Open>, refusals: Refusals) {
    loop {
        open.io.sleep(LOOK_NS).await;
        for ((client, reason), times) in refusals.take() {
            open.control.note_client_refused(client, reason, times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_clients_are_few_events() {
        let refusals = Refusals::default();
        for i in 0..1000 {
            refusals.count(&format!("10.0.0.{}", i % 50), "it has no certificate");
        }
        let taken = refusals.take();
        assert_eq!(taken.len(), KINDS_MAX + 1);
        assert_eq!(taken.values().sum::<u64>(), 1000);
        assert!(refusals.take().is_empty());
    }
}
