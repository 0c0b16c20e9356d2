//! Which form pages differ from the members, and the groups of the log that replay needs until they are written.

use std::collections::BTreeMap;

/// The state of the form pages of a shard.
pub(crate) struct FormPages {
    /// The version of each page on the members.
    versions: Vec<u64>,
    /// Pages with changes, and the oldest group that a change is in.
    dirty: BTreeMap<u32, u64>,
    /// The same of pages that are being written.
    writing: BTreeMap<u32, u64>,
    /// Changes that are in the log, but not in the table yet, by page.
    logged: BTreeMap<u32, u32>,
}

impl FormPages {
    /// Pages of these versions, as the members have them.
    pub(crate) fn new(versions: Vec<u64>) -> FormPages {
        FormPages { versions, dirty: BTreeMap::new(), writing: BTreeMap::new(), logged: BTreeMap::new() }
    }

    /// Recovery has found a change of this page in a group.
    pub(crate) fn note_replayed(&mut self, page: u32, group: u64) {
        self.dirty.entry(page).or_insert(group);
    }

    /// A group has a change of this page.
    pub(crate) fn note_logged(&mut self, page: u32, group: u64) {
        self.dirty.entry(page).or_insert(group);
        *self.logged.entry(page).or_default() += 1;
    }

    /// The table has a change that was logged.
    pub(crate) fn note_applied(&mut self, page: u32) {
        if let Some(count) = self.logged.get_mut(&page) {
            *count -= 1;
            if *count == 0 {
                self.logged.remove(&page);
            }
        }
    }

    /// Every page has to be written again; replay needs no group before `group` for that.
    pub(crate) fn set_all_dirty(&mut self, group: u64) {
        for page in 0..self.versions.len() as u32 {
            let oldest = self.dirty.entry(page).or_insert(group);
            *oldest = group.min(*oldest);
        }
    }

    /// Takes the pages to be written now, with their next versions; no others may be being written. A page with a change that is in the log only would lack it.
    pub(crate) fn take(&mut self) -> Vec<(u32, u64)> {
        let ready: Vec<u32> =
            self.dirty.keys().filter(|page| !self.logged.contains_key(page)).copied().collect();
        ready
            .into_iter()
            .map(|page| {
                let group = self.dirty.remove(&page).expect("found there");
                self.writing.insert(page, group);
                (page, self.versions[page as usize] + 1)
            })
            .collect()
    }

    /// The pages taken are durable on the members, or, if not, have to be written again: as the same version, since the one
    /// before is the last that is durable.
    pub(crate) fn end_writing(&mut self, durable: bool) {
        for (page, group) in std::mem::take(&mut self.writing) {
            if durable {
                self.versions[page as usize] += 1;
            } else {
                let oldest = self.dirty.entry(page).or_insert(group);
                *oldest = group.min(*oldest);
            }
        }
    }

    /// The oldest group that replay needs because of a page.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.dirty.values().chain(self.writing.values()).copied().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_needed_until_the_page_is_durable() {
        let mut pages = FormPages::new(vec![0, 4]);
        pages.note_logged(1, 70);
        assert_eq!((pages.take(), pages.oldest()), (Vec::new(), Some(70)), "not in the table yet");
        pages.note_applied(1);
        assert_eq!(pages.take(), [(1, 5)]);
        pages.note_logged(1, 90);
        pages.note_applied(1);
        assert_eq!(pages.oldest(), Some(70));
        pages.end_writing(true);
        assert_eq!(pages.oldest(), Some(90), "the page was changed while it was written");
        assert_eq!(pages.take(), [(1, 6)]);
        pages.end_writing(false);
        assert_eq!(pages.oldest(), Some(90));
        pages.set_all_dirty(60);
        assert_eq!((pages.take(), pages.oldest()), (vec![(0, 1), (1, 6)], Some(60)));
        pages.end_writing(true);
        assert_eq!(pages.oldest(), None);
    }
}
