//! A sparse array from `u32` to `u32` in which stretches of consecutive values are small.
//!
//! The block map of a pool is one word per block when every block went its own way, but most data is written in
//! sequence and stays so. Indices are looked at in aligned groups of [`GROUP_INDICES`]. A group that holds v, v+1, v+2 …
//! costs one word, and so does an empty one; any other costs one word and a *fragment*, a slot of 64 bytes in a slab. A
//! group is always in its smallest form. Groups live in pages of [`PAGE_INDICES`] indices, as many as fit a durable
//! page when each needs a word; a page without entries that was never written to or was dropped costs one pointer.
//!
//! Reads and writes take constant time per group. Memory is allocated for a new page and, 64 KiB at a time, for the
//! slab; nothing but the two directories ever moves. Dropped fragments are reused, not given back.

mod fragments;
mod group;

use sinew_format::model::mapped_geometry::{PAGE_INDICES, VALUE_LIMIT};

use fragments::{Fragment, Fragments, VACANT};
pub(crate) use group::GROUP_INDICES;
use group::{EMPTY, Group};

/// Stands for no entry where all values of a group are given.
pub(crate) const NO_VALUE: u32 = VACANT;

const PAGE_GROUPS: usize = (PAGE_INDICES / GROUP_INDICES) as usize;

type Page = [u32; PAGE_GROUPS];

/// The array. See the module for what it costs.
#[derive(Debug, Default)]
pub(crate) struct RunMap {
    pages: Vec<Option<Box<Page>>>,
    pages_present: usize,
    fragments: Fragments,
}

impl RunMap {
    /// An array without entries.
    pub(crate) fn new() -> RunMap {
        RunMap::default()
    }

    /// The value at `index`.
    pub(crate) fn get(&self, index: u32) -> Option<u32> {
        let (page, group, offset) = split(index);
        match Group::of(self.pages.get(page)?.as_ref()?[group]) {
            Group::Empty => None,
            Group::Run(first) => Some(first + offset),
            Group::Mixed(place) => value(self.fragments.get(place)[offset as usize]),
        }
    }

    /// Puts `value` at `index`, or nothing, and returns what was there.
    ///
    /// # Panics
    /// When the value is not below [`VALUE_LIMIT`].
    pub(crate) fn set(&mut self, index: u32, value: Option<u32>) -> Option<u32> {
        let old = self.get(index);
        if old != value {
            match value {
                Some(value) => self.set_run(index, 1, value),
                None => self.clear_run(index, 1, |_, _, _| {}),
            }
        }
        old
    }

    /// Puts `first_value`, `first_value + 1` … at `count` indices from `index` on.
    ///
    /// # Panics
    /// When a value is not below [`VALUE_LIMIT`] or the indices pass the end.
    pub(crate) fn set_run(&mut self, index: u32, count: u32, first_value: u32) {
        assert!(u64::from(first_value) + u64::from(count) <= u64::from(VALUE_LIMIT), "value out of range");
        let mut value = first_value;
        for (page, group, offset, len) in pieces(index, count) {
            let word = &mut self.page_mut(page)[group];
            let before = Group::of(*word);
            if len == GROUP_INDICES {
                *word = value;
                if let Group::Mixed(place) = before {
                    self.fragments.free(place);
                }
            } else if !matches!(before, Group::Run(first) if first + offset == value) {
                let place = self.fragments.unfold(before);
                let fragment = self.fragments.get_mut(place);
                for (slot, value) in fragment[offset as usize..][..len as usize].iter_mut().zip(value..) {
                    *slot = value;
                }
                let after = fold(fragment, place);
                self.replace(page, group, place, after);
            }
            value += len;
        }
    }

    /// Removes what is at `count` indices from `index` on, and tells each stretch of consecutive values within a group
    /// that it removes, in order, as `removed(index, count, first_value)`.
    ///
    /// # Panics
    /// When the indices pass the end.
    pub(crate) fn clear_run(&mut self, index: u32, count: u32, mut removed: impl FnMut(u32, u32, u32)) {
        assert!(u64::from(index) + u64::from(count) <= 1 << 32, "indices pass the end");
        let (mut at, mut left) = (index, count);
        while left > 0 {
            let (page, group, offset) = split(at);
            let Some(Some(words)) = self.pages.get_mut(page) else {
                // Nothing in all of the page.
                let skipped = left.min(PAGE_INDICES - group as u32 * GROUP_INDICES - offset);
                (at, left) = (at.wrapping_add(skipped), left - skipped);
                continue;
            };
            let len = left.min(GROUP_INDICES - offset);
            let before = Group::of(words[group]);
            match before {
                Group::Empty => {}
                Group::Run(first) => removed(at, len, first + offset),
                Group::Mixed(place) => {
                    let stretch = &self.fragments.get(place)[offset as usize..][..len as usize];
                    tell_stretches(stretch, at, &mut removed);
                }
            }
            match before {
                Group::Empty => {}
                _ if len == GROUP_INDICES => {
                    words[group] = EMPTY;
                    if let Group::Mixed(place) = before {
                        self.fragments.free(place);
                    }
                }
                _ => {
                    let place = self.fragments.unfold(before);
                    let fragment = self.fragments.get_mut(place);
                    fragment[offset as usize..][..len as usize].fill(VACANT);
                    let after = fold(fragment, place);
                    self.replace(page, group, place, after);
                }
            }
            (at, left) = (at.wrapping_add(len), left - len);
        }
    }

    /// The longest stretch from `index` on, of at most `max` indices, that holds nothing (`None`) or consecutive values
    /// (the first of them). Its length is 0 only when `max` is, and ends with the indices.
    pub(crate) fn get_run(&self, index: u32, max: u32) -> (Option<u32>, u32) {
        let first = self.get(index);
        let max = (u64::from(u32::MAX - index) + 1).min(u64::from(max)) as u32;
        let mut len = 0;
        while len < max {
            let expected = first.map(|first| first + len);
            let reach = self.mark(index + len, expected);
            len += reach.0.min(max - len);
            if !reach.1 {
                break;
            }
        }
        (first, len)
    }

    /// How many indices from `index` on, within its group or absent page, hold consecutive values from `expected` on, or
    /// nothing; and whether that is all of them.
    fn mark(&self, index: u32, expected: Option<u32>) -> (u32, bool) {
        let (page, group, offset) = split(index);
        let Some(Some(words)) = self.pages.get(page) else {
            let rest = PAGE_INDICES - group as u32 * GROUP_INDICES - offset;
            return if expected.is_none() { (rest, true) } else { (0, false) };
        };
        let rest = GROUP_INDICES - offset;
        match (Group::of(words[group]), expected) {
            (Group::Empty, None) => (rest, true),
            (Group::Run(first), Some(expected)) if first + offset == expected => (rest, true),
            (Group::Mixed(place), _) => {
                let slots = &self.fragments.get(place)[offset as usize..];
                let reach = match expected {
                    Some(expected) => {
                        slots.iter().zip(expected..).take_while(|(slot, value)| *slot == value).count()
                    }
                    None => slots.iter().take_while(|slot| **slot == VACANT).count(),
                } as u32;
                (reach, reach == rest)
            }
            _ => (0, false),
        }
    }

    /// The pages that may have entries are those before this one.
    pub(crate) fn pages_end(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Whether page `page`, the indices from `page * PAGE_INDICES` on, has no entries.
    #[cfg(test)]
    pub(crate) fn page_is_empty(&self, page: u32) -> bool {
        let words = self.pages.get(page as usize).and_then(Option::as_ref);
        words.is_none_or(|words| words.iter().all(|&word| word == EMPTY))
    }

    /// Removes all entries of page `page` and gives its memory back.
    pub(crate) fn drop_page(&mut self, page: u32) {
        if let Some(words) = self.pages.get_mut(page as usize).and_then(Option::take) {
            self.pages_present -= 1;
            for word in *words {
                if let Group::Mixed(place) = Group::of(word) {
                    self.fragments.free(place);
                }
            }
        }
    }

    /// Gives page `page` these values, group by group; [`NO_VALUE`] is no entry.
    pub(crate) fn fill_page(
        &mut self,
        page: u32,
        groups: impl Iterator<Item = [u32; GROUP_INDICES as usize]>,
    ) {
        for (first, values) in (page * PAGE_INDICES..).step_by(GROUP_INDICES as usize).zip(groups) {
            self.set_group(first, values);
        }
    }

    /// Gives the aligned group of indices that begins at `index` these values; [`NO_VALUE`] is no entry.
    pub(crate) fn set_group(&mut self, index: u32, values: [u32; GROUP_INDICES as usize]) {
        let (page, group, _) = split(index);
        if let Group::Mixed(place) = Group::of(self.page_mut(page)[group]) {
            self.fragments.free(place);
        }
        let after = match fold(&values, 0) {
            Group::Mixed(_) => Group::Mixed(self.fragments.insert(values)),
            small => small,
        };
        self.page_mut(page)[group] = after.word();
    }

    /// The entries of page `page`, index and value, in order.
    pub(crate) fn page_entries(&self, page: u32) -> impl Iterator<Item = (u32, u32)> {
        let words = self.pages.get(page as usize).and_then(Option::as_ref);
        let groups = words.into_iter().flat_map(|words| words.iter().enumerate());
        groups.filter(|(_, word)| **word != EMPTY).flat_map(move |(group, &word)| {
            let start = page * PAGE_INDICES + group as u32 * GROUP_INDICES;
            (0..GROUP_INDICES).filter_map(move |offset| {
                let value = match Group::of(word) {
                    Group::Empty => None,
                    Group::Run(first) => Some(first + offset),
                    Group::Mixed(place) => value(self.fragments.get(place)[offset as usize]),
                };
                Some((start + offset, value?))
            })
        })
    }

    /// The values of the aligned group of indices that begins at `index`; those without an entry are [`NO_VALUE`].
    pub(crate) fn group(&self, index: u32) -> [u32; GROUP_INDICES as usize] {
        let (page, group, _) = split(index);
        match self.pages.get(page).and_then(Option::as_ref) {
            Some(words) => self.values(words[group]),
            None => [VACANT; GROUP_INDICES as usize],
        }
    }

    /// Brings the values of a range into the processor's cache. They lie anywhere in memory: read one after the other each
    /// costs the wait for memory, read at the same time all cost it about once.
    pub(crate) fn warm(&self, index: u32, count: u32) {
        let words =
            pieces(index, count).filter_map(|(page, group, ..)| Some(self.pages.get(page)?.as_ref()?[group]));
        let firsts = words.map(|word| match Group::of(word) {
            Group::Mixed(place) => self.fragments.get(place)[0],
            Group::Empty | Group::Run(_) => 0,
        });
        std::hint::black_box(firsts.fold(0, |all, first| all ^ first));
    }

    /// All values of page `page`, group by group.
    pub(crate) fn page_groups(&self, page: u32) -> impl Iterator<Item = [u32; GROUP_INDICES as usize]> {
        let words = self.pages.get(page as usize).and_then(Option::as_ref);
        (0..PAGE_GROUPS).map(move |group| {
            words.map_or([VACANT; GROUP_INDICES as usize], |words| self.values(words[group]))
        })
    }

    fn values(&self, word: u32) -> [u32; GROUP_INDICES as usize] {
        match Group::of(word) {
            Group::Empty => [VACANT; GROUP_INDICES as usize],
            Group::Run(first) => std::array::from_fn(|offset| first + offset as u32),
            Group::Mixed(place) => *self.fragments.get(place),
        }
    }

    /// Bytes of heap memory in use, free fragments included.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<Option<Box<Page>>>()
            + self.pages_present * size_of::<Page>()
            + self.fragments.memory_bytes()
    }

    /// Bytes of the pages and of the fragments in use.
    pub(crate) fn used_bytes(&self) -> usize {
        self.pages_present * size_of::<Page>() + self.fragments.used() * size_of::<Fragment>()
    }

    fn page_mut(&mut self, page: usize) -> &mut Page {
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| {
            self.pages_present += 1;
            Box::new([EMPTY; PAGE_GROUPS])
        })
    }

    /// Writes a group's new form and frees its fragment when that does without.
    fn replace(&mut self, page: usize, group: usize, place: u32, after: Group) {
        self.page_mut(page)[group] = after.word();
        if !matches!(after, Group::Mixed(_)) {
            self.fragments.free(place);
        }
    }
}

/// Page, group within the page and offset within the group.
fn split(index: u32) -> (usize, usize, u32) {
    let in_page = index % PAGE_INDICES;
    ((index / PAGE_INDICES) as usize, (in_page / GROUP_INDICES) as usize, index % GROUP_INDICES)
}

/// The range cut at the edges of groups: page, group, offset and length of each piece.
fn pieces(index: u32, count: u32) -> impl Iterator<Item = (usize, usize, u32, u32)> {
    let end = u64::from(index) + u64::from(count);
    assert!(end <= 1 << 32, "indices pass the end");
    let mut at = u64::from(index);
    std::iter::from_fn(move || {
        let (page, group, offset) = (at < end).then(|| split(at as u32))?;
        let len = u64::from(GROUP_INDICES - offset).min(end - at) as u32;
        at += u64::from(len);
        Some((page, group, offset, len))
    })
}

/// The smallest form of the group in `fragment`, which is at `place`.
fn fold(fragment: &Fragment, place: u32) -> Group {
    let first = fragment[0];
    if first == VACANT {
        if fragment.iter().all(|&slot| slot == VACANT) { Group::Empty } else { Group::Mixed(place) }
    } else if fragment.iter().zip(first..).all(|(&slot, value)| slot == value) {
        Group::Run(first)
    } else {
        Group::Mixed(place)
    }
}

fn value(slot: u32) -> Option<u32> {
    (slot != VACANT).then_some(slot)
}

/// Calls `tell(index, count, first_value)` for each stretch of consecutive values in `slots`, which begin at `index`.
fn tell_stretches(slots: &[u32], index: u32, tell: &mut impl FnMut(u32, u32, u32)) {
    let mut from = 0;
    while from < slots.len() {
        let first = slots[from];
        if first == VACANT {
            from += 1;
            continue;
        }
        let len = slots[from..].iter().zip(first..).take_while(|(slot, value)| *slot == value).count();
        tell(index + from as u32, len as u32, first);
        from += len;
    }
}

#[cfg(test)]
mod tests;
