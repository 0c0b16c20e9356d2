//! Which table pages have changed since they were written, and where their copies are.

use std::collections::VecDeque;

use crate::store::per_page::PerPage;
use sinew_core::ids::{Lsn, MemberId};
use sinew_format::table_page::PageId;

/// Where one copy of a page is: a slot of the shard's page area on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageCopy {
    pub(crate) member: MemberId,
    pub(crate) slot: u32,
}

#[derive(Clone, Debug, Default)]
struct PageState {
    /// Last journal block contained when it was read at recovery; replay skips up to here.
    loaded: Lsn,
    /// Last journal block applied to it.
    lsn: Lsn,
    /// First journal block applied to it since it was last written.
    dirty_since: Option<Lsn>,
    copies: Vec<PageCopy>,
    /// Last journal block that the copies contain.
    stored: Lsn,
    /// It is on the members, or was before those were lost.
    ever_written: bool,
}

impl PageState {
    /// Copies on members that count.
    fn copies_on(&self, counts: impl Fn(MemberId) -> bool) -> usize {
        self.copies.iter().filter(|copy| counts(copy.member)).count()
    }
}

/// The state of every page of one shard.
#[derive(Default)]
pub(crate) struct Pages {
    states: PerPage<PageState>,
    /// Changed pages, those that changed first in front.
    dirty: VecDeque<PageId>,
    /// The sum of the LSNs of the pages that are on the members, but for those of the shard.
    lsns: u64,
}

impl Pages {
    /// Whether the page that was found at recovery lacks what journal block `lsn` says.
    pub(crate) fn lacks(&self, page: PageId, lsn: Lsn) -> bool {
        self.states.get(page).is_none_or(|state| state.loaded < lsn)
    }

    /// Whether the page lacks what journal block `lsn` says; if so it counts as changed by it.
    pub(super) fn admits(&mut self, page: PageId, lsn: Lsn) -> bool {
        let state = self.states.get_mut(page);
        if state.loaded >= lsn {
            return false;
        }
        state.lsn = lsn;
        if state.dirty_since.is_none() {
            state.dirty_since = Some(lsn);
            self.dirty.push_back(page);
        }
        true
    }

    /// Records that a page with content up to `lsn` was found at `copies`.
    pub(crate) fn loaded(&mut self, page: PageId, lsn: Lsn, copies: Vec<PageCopy>) {
        let state = self.states.get_mut(page);
        state.loaded = lsn;
        state.lsn = lsn;
        self.set_copies(page, lsn, copies);
    }

    /// The sum of the LSNs of the pages of the map and of the stripes that are on the members. It never decreases: a page that was
    /// written once stays, and is only replaced by a newer version. So where an opening finds less, pages are lost, or newer
    /// versions of them.
    pub(crate) fn lsns(&self) -> u64 {
        self.lsns
    }

    /// The last journal block that a page contains; 0 if it was never written.
    pub(super) fn lsn(&self, page: PageId) -> Lsn {
        self.states.get(page).map_or(0, |state| state.lsn)
    }

    /// The last journal block that any page contains.
    pub(crate) fn newest(&self) -> Lsn {
        self.states.iter().map(|(_, state)| state.lsn).max().unwrap_or(0)
    }

    /// Has the page written again although it did not change, because a copy of it is missing.
    fn rewrite(&mut self, page: PageId, applied: Lsn) {
        let state = self.states.get_mut(page);
        if state.dirty_since.is_none() {
            state.dirty_since = Some(applied);
            self.dirty.push_back(page);
        }
    }

    /// Takes the page that changed first; from here on it counts as written. Gives it, its LSN, and since when it had
    /// changed.
    pub(super) fn take_oldest(&mut self) -> Option<(PageId, Lsn, Lsn)> {
        let page = self.dirty.pop_front()?;
        let state = self.states.get_mut(page);
        let since = state.dirty_since.take().expect("a queued page is dirty");
        Some((page, state.lsn, since))
    }

    /// Puts back a page taken but not written.
    pub(crate) fn put_back(&mut self, page: PageId, since: Lsn) {
        let state = self.states.get_mut(page);
        if state.dirty_since.is_some() {
            // Changed again meanwhile and so already queued; the earlier change is still not on the members.
            let at = self.dirty.iter().position(|&p| p == page).expect("a dirty page is queued");
            self.dirty.remove(at);
        }
        self.states.get_mut(page).dirty_since = Some(since);
        self.dirty.push_front(page);
    }

    /// Where the page's copies are.
    pub(crate) fn copies(&self, page: PageId) -> &[PageCopy] {
        self.states.get(page).map_or(&[], |state| &state.copies)
    }

    /// Forgets one copy; false when the page has no such copy.
    pub(super) fn forget_copy(&mut self, page: PageId, copy: PageCopy) -> bool {
        let copies = &mut self.states.get_mut(page).copies;
        let before = copies.len();
        copies.retain(|c| *c != copy);
        copies.len() < before
    }

    /// Replaces the page's copies by those of the version up to `lsn`, giving back the old ones.
    pub(super) fn set_copies(&mut self, page: PageId, lsn: Lsn, copies: Vec<PageCopy>) -> Vec<PageCopy> {
        let state = self.states.get_mut(page);
        let before = std::mem::replace(&mut state.stored, lsn);
        state.ever_written = true;
        let old = std::mem::replace(&mut state.copies, copies);
        if page != PageId::Shard {
            self.lsns += lsn - before;
        }
        old
    }

    /// The first journal block whose effect is not in any written page; none when all pages are written.
    pub(crate) fn oldest_dirty(&self) -> Option<Lsn> {
        self.states.get(self.oldest()?)?.dirty_since
    }

    /// The page that changed first.
    pub(super) fn oldest(&self) -> Option<PageId> {
        self.dirty.front().copied()
    }

    /// Whether at least `copies` copies on members that count have all that the page has here.
    pub(super) fn is_stored(&self, page: PageId, copies: usize, counts: impl Fn(MemberId) -> bool) -> bool {
        self.states
            .get(page)
            .is_some_and(|state| state.stored == state.lsn && state.copies_on(counts) >= copies.max(1))
    }

    /// The last journal block that the copies of a page contain.
    pub(crate) fn stored(&self, page: PageId) -> Lsn {
        self.states.get(page).map_or(0, |state| state.stored)
    }

    pub(super) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Every page that has been written, with its copies.
    pub(crate) fn written(&self) -> impl Iterator<Item = (PageId, &[PageCopy])> {
        self.states.iter().filter(|(_, s)| !s.copies.is_empty()).map(|(p, s)| (p, s.copies.as_slice()))
    }

    /// Forgets the copies on a member, giving back their slots.
    pub(super) fn forget_member(&mut self, member: MemberId) -> Vec<PageCopy> {
        let lost: Vec<PageId> = self
            .written()
            .filter(|(_, copies)| copies.iter().any(|c| c.member == member))
            .map(|(p, _)| p)
            .collect();
        let mut slots = Vec::with_capacity(lost.len());
        for page in lost {
            slots.extend(self.states.get_mut(page).copies.extract_if(.., |c| c.member == member));
        }
        slots
    }

    /// Has every page with fewer than `copies` copies on members that count written anew.
    pub(super) fn rewrite_short(&mut self, copies: usize, counts: impl Fn(MemberId) -> bool, applied: Lsn) {
        for page in self.short(copies, counts) {
            self.rewrite(page, applied);
        }
    }

    /// Whether a page that was written has fewer than `copies` copies on members that count.
    pub(super) fn any_short(&self, copies: usize, counts: impl Fn(MemberId) -> bool) -> bool {
        !self.short(copies, counts).is_empty()
    }

    fn short(&self, copies: usize, counts: impl Fn(MemberId) -> bool) -> Vec<PageId> {
        self.states
            .iter()
            .filter(|(_, s)| s.ever_written && s.copies_on(&counts) < copies)
            .map(|(p, _)| p)
            .collect()
    }
}
