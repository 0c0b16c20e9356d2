//! Applying journal blocks to the tables, in order, and acknowledging them.
//!
//! A block is applied once its group is written, all blocks before it are applied, and the status of all data that its
//! records name is known. Commits are acknowledged only then, so the journal on the members never has a hole before an
//! acknowledged record.

use std::rc::Rc;

use crate::store::Store;
use crate::store::data_status::DataStatus;
use crate::store::journal::Block;
use crate::store::tables::Effects;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::stripe_form::StripeClass;

impl<I: Io> Store<I> {
    /// Applies, in order, the blocks that are written with all before them, and whose data is.
    pub(super) fn apply_ready(self: &Rc<Self>) {
        let next = || self.journal.unapplied.borrow_mut().pop_front_if(|block| block.is_settled());
        while let Some(block) = next() {
            self.apply_block(block);
        }
        self.journal.room.notify();
    }

    fn apply_block(self: &Rc<Self>, block: Block) {
        // After one that is not written the others cannot be found.
        let is_gap = block.lsn > self.journal.applied() + 1;
        let written = if is_gap { Err(VolumeError::Failed) } else { block.written.expect("it is settled") };
        if written.is_ok() {
            let has_landed =
                |data_status: &Option<Rc<DataStatus>>| !data_status.as_ref().is_some_and(|l| l.has_failed());
            let landed = block.records.iter().zip(&block.data_statuses).filter(|(_, l)| has_landed(l));
            let mut effects = Effects::default();
            let mut tables = self.tables.borrow_mut();
            for (record, _) in landed.clone() {
                let (stored, pinned) = (tables.live.total(), tables.live.pinned());
                tables.apply(block.lsn, record, &mut effects);
                let freed = stored.saturating_sub(tables.live.total());
                if freed > 0 && !mutation::on(Mutation::OfferDiscarded) {
                    // They are all of one volume.
                    let is_pinned = tables.live.pinned() < pinned;
                    let class = if is_pinned { StripeClass::Pinned } else { StripeClass::Pool };
                    self.room.withhold(self.capacity_taken_by(class, freed));
                }
            }
            drop(tables);
            self.journal.applied.set(block.lsn);
            self.apply_effects(block.lsn, effects);
            self.mark_opened(landed.map(|(record, _)| record));
        }
        for waiter in block.waiters {
            waiter.fulfil(written);
        }
    }
}
