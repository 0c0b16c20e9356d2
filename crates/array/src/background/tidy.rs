//! Tidying: units that the form of their stripe does not use are discarded, so that they take no physical space.
//!
//! A read without a lock may still be under way in a unit that a change of form has left, so a round waits for the reads that
//! began before it. The members know which regions are untidy, until the discards are durable: a crash undoes the others.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};

use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::journal::Journal;
use crate::state::{RETRY_NS, ShardState};
use crate::stripe::Stripes;

/// Stripes tidied at once.
const STRIPES_AT_ONCE: usize = 32;

/// Discards the unused units of a shard's stripes.
pub(crate) struct Tidier<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
}

impl<I: Io> Tidier<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        forms: &Rc<Forms<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Tidier<I> {
        Tidier {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            forms: Rc::clone(forms),
            journal: Rc::clone(journal),
            stripes: Rc::clone(stripes),
        }
    }

    /// Tidies whenever there is something to tidy, for ever. Begins with the regions that the last opening left untidy.
    pub(crate) async fn run(self: Rc<Self>) {
        self.queue_all();
        loop {
            self.forms.wait_for_untidy().await;
            while self.is_wanted() {
                let version = self.state.members().version();
                let tidied = self.tidy_round().await && self.clear_regions(version).await;
                if self.state.members().version() != version {
                    self.state.mark(Mark::ArrayTidyVoid);
                    self.queue_all();
                } else if self.state.members_out().next().is_some() {
                    // The regions stay untidy until these members are back.
                    break;
                } else if !tidied {
                    self.state.mark(Mark::ArrayTidyRetried);
                    self.state.io().sleep(RETRY_NS).await;
                }
            }
        }
    }

    fn is_wanted(&self) -> bool {
        self.bitmap.regions().untidy().any() && !self.state.is_closing() && !self.state.has_failed()
    }

    /// All stripes of untidy regions may need it: members may have lost discards, or have missed some.
    pub(crate) fn queue_all(&self) {
        let layout = self.state.layout();
        let regions: Vec<usize> = self.bitmap.regions().untidy().ones().collect();
        for region in regions {
            self.forms.note_untidy(layout.region_stripes(region));
        }
    }

    /// Tidies the stripes that are known to need it; false when some of them do again.
    async fn tidy_round(&self) -> bool {
        let stripes = self.forms.take_untidy();
        if self.journal.settle_forms().await.is_err() {
            self.forms.note_untidy(stripes);
            return false;
        }
        if !mutation::on(Mutation::TrimUnderReaders) {
            self.journal.progress().wait_for_unlocked_reads().await;
        }
        let all: Vec<u64> = stripes.iter().copied().collect();
        let mut failed = BTreeSet::new();
        for some in all.chunks(STRIPES_AT_ONCE) {
            if !self.stripes.tidy(some).await {
                failed.extend(some);
            }
        }
        let is_whole = failed.is_empty();
        if !is_whole {
            self.forms.note_untidy(failed);
        }
        is_whole
    }

    /// Clears the marks of regions in which nothing is untidy, once the discards are durable on all members; false when some are
    /// left. `version` is that of the members before the discards.
    async fn clear_regions(&self, version: u64) -> bool {
        let tidy = |region: &usize| !self.forms.is_untidy(*region);
        let regions: Vec<usize> = self.bitmap.regions().untidy().ones().filter(tidy).collect();
        if self.journal.wait_for_state_room().await.is_err()
            || self.journal.flush().await.is_err()
            || self.state.members().version() != version
            || self.state.members_out().next().is_some()
        {
            return false;
        }
        // A change of forms that began meanwhile has found its region marked, so the mark stays.
        let still: Vec<usize> = regions.into_iter().filter(tidy).collect();
        self.bitmap.set_tidy(still.into_iter());
        self.state.mark(Mark::ArrayTidied);
        !self.bitmap.regions().untidy().any() || self.forms.untidy() > 0
    }
}
