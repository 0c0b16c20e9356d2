//! Copies of the metadata: every table page, and every journal block that replay needs, on f + 1 members.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::table_page::PageId;

impl<I: Io> Store<I> {
    /// Whether pages, or journal blocks that replay needs, may be on fewer members than they should.
    pub(crate) fn needs_redundancy(&self) -> bool {
        self.recopy.get() || self.journal.tail_durable() < self.tail_wanted.get()
    }

    /// Whether they are, as far as is known: at an opening they are copied again although nothing is known to be missing.
    pub(crate) fn lacks_redundancy(&self) -> bool {
        self.needs_redundancy() && !self.is_precaution.get()
    }

    /// Whether no record would be replayed.
    pub(crate) fn is_clean(&self) -> bool {
        self.tables.borrow().pages.dirty_count() == 0
    }

    /// Copies a page can have with the members that are left.
    pub(super) fn copies_possible(&self) -> usize {
        self.geometry.copies().min(self.members.taking_new())
    }

    /// After a change of members: has every page with too few copies written again, and the tail move past all journal
    /// blocks written so far, some of which may have too few.
    pub(crate) fn restore_redundancy(&self) {
        self.is_precaution.set(false);
        self.copy_again();
    }

    /// As [`Store::restore_redundancy`], at the end of an opening.
    pub(crate) fn ensure_redundancy(&self) {
        self.is_precaution.set(self.is_precaution.get() && !self.is_any_page_short());
        self.copy_again();
    }

    fn copy_again(&self) {
        if mutation::on(Mutation::ForgetMetadataCopies) {
            return;
        }
        self.tail_wanted.set(self.journal.next());
        let (copies, applied) = (self.copies_possible(), self.journal.applied());
        self.tables.borrow_mut().pages.rewrite_short(copies, |m| self.members.takes_new(m), applied);
        self.recopy.set(true);
        self.wakeups.checkpoint.kick();
    }

    pub(crate) fn give_up_page(self: &Rc<Self>, page: PageId, copy: PageCopy) {
        // It may have been written elsewhere meanwhile, and its slot be another page's by now.
        if self.tables.borrow_mut().pages.forget_copy(page, copy) {
            self.io.mark(Mark::ScrubPageBad);
            self.allocator.borrow_mut().free_page_slots([copy]);
            self.counters.scrub_errors.add(1);
            self.members.note_checksum_error(copy.member, 1);
            self.restore_redundancy();
        }
    }

    fn is_any_page_short(&self) -> bool {
        self.tables.borrow().pages.any_short(self.copies_possible(), |m| self.members.takes_new(m))
    }

    /// Whether a page has fewer copies than it can have. Once none has, pages need no redundancy any more.
    pub(crate) fn note_short_pages(&self) -> bool {
        let short = self.is_any_page_short();
        self.recopy.set(self.recopy.get() && short);
        short
    }
}
