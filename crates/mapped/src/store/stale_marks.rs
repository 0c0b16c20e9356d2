//! Stale marks: records that say which chunks do not hold what they should, since their member was out.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::tables::StripeState;
use sinew_core::ids::{MemberId, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;

impl<I: Io> Store<I> {
    /// Queues marks. They are not awaited: the journal may be waiting for this very answer. A flush waits for them.
    pub(crate) fn commit_marks(self: &Rc<Self>, records: Vec<Record>) {
        if records.is_empty() {
            return;
        }
        self.marks_pending.set(self.marks_pending.get() + 1);
        let are_stale = records.iter().any(|record| matches!(record, Record::Stale { .. }));
        let commit = self.journal.commit_urgent(records);
        let store = Rc::clone(self);
        self.io.spawn(async move {
            let _ = commit.await;
            store.marks_pending.set(store.marks_pending.get() - 1);
            if are_stale {
                // The members may be back already.
                store.wakeups().rebuild.kick();
            }
            store.group_flush.changed().notify();
        });
    }

    /// Marks the chunks of stripes that have just come into being on members lost since they were written. Those with fewer chunks
    /// than they should have are rebuilt, if the members that were out when they were planned are back.
    pub(super) fn mark_opened<'a>(self: &Rc<Self>, records: impl Iterator<Item = &'a Record>) {
        let mut marks = Vec::new();
        for record in records {
            let Record::Open { stripe, form, columns, homes } = record else { continue };
            let mut required = self.geometry.required(usize::from(*columns), *form);
            let is_short = required.any(|index| homes[index].is_none());
            if is_short && self.members.taking_new() > self.geometry.failures() {
                self.io.mark(Mark::OpenedShort);
                self.wakeups.rebuild.kick();
            }
            let planned = self.opening.borrow().get(stripe).copied().unwrap_or(0);
            for (index, home) in homes.iter().enumerate() {
                let lost = home.is_some_and(|h| self.members.lost_since(h.member, planned));
                if lost && !mutation::on(Mutation::ForgetStale) {
                    self.io.mark(Mark::OpenedStale);
                    marks.push(Record::Stale { stripe: *stripe, index: index as u8 });
                }
            }
        }
        self.commit_marks(marks);
    }

    /// Marks for every chunk on a member whose content was not flushed there.
    pub(super) fn stale_records(&self, member: MemberId) -> Vec<Record> {
        let tables = self.tables.borrow();
        let stripes: BTreeSet<StripeId> =
            self.unflushed_stripes.borrow().union(&self.flushing_stripes.borrow()).copied().collect();
        let mut records = Vec::new();
        for stripe in stripes {
            if tables.stripe(stripe).state == StripeState::Free {
                continue;
            }
            for (index, home) in tables.homes(stripe).iter().enumerate() {
                if home.is_some_and(|h| h.member == member) {
                    records.push(Record::Stale { stripe, index: index as u8 });
                }
            }
        }
        records
    }

    pub(crate) async fn stale_member(self: &Rc<Self>, member: MemberId) -> Result<(), VolumeError> {
        self.io.mark(Mark::MemberAllStale);
        self.journal.commit(vec![Record::StaleMember { member }]).await?;
        self.flush().await
    }
}
