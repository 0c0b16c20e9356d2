//! The end of recovery, when the shard runs already.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use crate::recovery::{JournalEnds, Recovery};
use crate::store::Store;
use crate::store::tables::Effects;
use crate::store::tables::StripeState;
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;

/// Ends recovery: marks what missing members missed of the stripes whose data was not known durable, and the chunks that
/// full members had no space to mend, and writes a
/// block of this epoch, durably, so that no block that recovery did not reach can ever be reached again.
pub(crate) async fn complete<I: Io>(
    store: Rc<Store<I>>,
    touched: BTreeSet<StripeId>,
    unmended: BTreeSet<(StripeId, u8)>,
) -> Result<(), VolumeError> {
    let is_there = |&(stripe, _): &(StripeId, u8)| store.tables().stripe(stripe).state != StripeState::Free;
    let unmended = unmended.into_iter().filter(is_there);
    let mut marks: Vec<Record> = unmended.map(|(stripe, index)| Record::Stale { stripe, index }).collect();
    for stripe in touched {
        let tables = store.tables();
        if tables.stripe(stripe).state == StripeState::Free {
            continue;
        }
        for (index, home) in tables.homes(stripe).iter().enumerate() {
            if home.is_some_and(|h| !store.members().is_active(h.member)) {
                marks.push(Record::Stale { stripe, index: index as u8 });
            }
        }
    }
    if !marks.is_empty() {
        store.mark(Mark::RecoverMarked);
    }
    store.commit_marks(marks);
    store.ensure_redundancy();
    store.journal().mark().await?;
    store.flush().await
}

impl<I: Io> Recovery<I> {
    /// The part of the end of recovery that reads need, in memory only: a member that is out may have missed data that was
    /// not known durable, and may be read again later.
    pub(super) fn apply_missed(&mut self, ends: JournalEnds) {
        let mut missed = Vec::new();
        for &stripe in &self.touched {
            if self.tables.stripe(stripe).state == StripeState::Free {
                continue;
            }
            for (index, home) in self.tables.homes(stripe).iter().enumerate() {
                if home.is_some_and(|home| !self.members.is_active(home.member)) {
                    missed.push(Record::Stale { stripe, index: index as u8 });
                }
            }
        }
        for record in missed {
            self.tables.apply(ends.last + 1, &record, &mut Effects::default());
        }
    }
}
