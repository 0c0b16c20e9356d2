//! A set of free chunk numbers, and which of them the device has not discarded yet.

use std::ops::Range;

/// A set of numbers below a bound, handed out in rising order from where the last one was found.
pub(crate) struct FreeSet {
    words: Vec<u64>,
    count: u32,
    cursor: usize,
    /// Those that the device has not discarded since they were used.
    undiscarded: Vec<u64>,
    undiscarded_count: u32,
    undiscarded_cursor: u32,
}

fn place(number: u32) -> (usize, u64) {
    (number as usize / 64, 1 << (number % 64))
}

impl FreeSet {
    pub(crate) fn all(bound: u32) -> FreeSet {
        let mut words = vec![u64::MAX; bound.div_ceil(64) as usize];
        if !bound.is_multiple_of(64)
            && let Some(last) = words.last_mut()
        {
            *last = (1 << (bound % 64)) - 1;
        }
        let undiscarded = words.clone();
        FreeSet {
            words,
            count: bound,
            cursor: 0,
            undiscarded,
            undiscarded_count: bound,
            undiscarded_cursor: 0,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Numbers that the device has not discarded.
    pub(super) fn undiscarded(&self) -> u32 {
        self.undiscarded_count
    }

    fn forget_undiscarded(&mut self, number: u32) {
        let (word, bit) = place(number);
        if self.undiscarded[word] & bit != 0 {
            self.undiscarded[word] &= !bit;
            self.undiscarded_count -= 1;
        }
    }

    /// Takes a number out; false when it was not in.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        let present = self.words.get(word).is_some_and(|w| w & bit != 0);
        if present {
            self.words[word] &= !bit;
            self.count -= 1;
            self.forget_undiscarded(number);
        }
        present
    }

    /// Puts in a number that was used.
    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        assert!(self.words[word] & bit == 0, "freed twice: {number}");
        self.words[word] |= bit;
        self.count += 1;
        self.undiscarded[word] |= bit;
        self.undiscarded_count += 1;
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        self.take_below(u32::MAX)
    }

    /// Takes out a number below `end`, looked for from where the last one was found.
    pub(crate) fn take_below(&mut self, end: u32) -> Option<u32> {
        let words = (end.div_ceil(64) as usize).min(self.words.len());
        if words == 0 || self.count == 0 {
            return None;
        }
        // The word that the search starts in is looked at twice.
        for _ in 0..=words {
            self.cursor = if self.cursor < words { self.cursor } else { 0 };
            let first = self.cursor as u32 * 64;
            let number = first + self.words.get(self.cursor)?.trailing_zeros();
            if number < end.min(first + 64) {
                self.remove(number);
                return Some(number);
            }
            self.cursor += 1;
        }
        None
    }

    /// Takes out up to `most` consecutive numbers that the device has not discarded.
    pub(crate) fn take_undiscarded(&mut self, most: u32) -> Option<Range<u32>> {
        if self.undiscarded_count == 0 || most == 0 {
            return None;
        }
        let bound = self.words.len() as u32 * 64;
        let is_undiscarded = |set: &FreeSet, number: u32| {
            let (word, bit) = place(number);
            set.undiscarded[word] & bit != 0
        };
        while !is_undiscarded(self, self.undiscarded_cursor) {
            let word = self.undiscarded_cursor as usize / 64;
            let step = if self.undiscarded[word] == 0 { 64 - self.undiscarded_cursor % 64 } else { 1 };
            self.undiscarded_cursor = (self.undiscarded_cursor + step) % bound;
        }
        let first = self.undiscarded_cursor;
        let end = (first..bound.min(first.saturating_add(most))).find(|&n| !is_undiscarded(self, n));
        let taken = first..end.unwrap_or(bound.min(first.saturating_add(most)));
        for number in taken.clone() {
            self.remove(number);
        }
        self.undiscarded_cursor = taken.end % bound;
        Some(taken)
    }

    /// Puts back what `take_undiscarded` took.
    pub(crate) fn put_back(&mut self, taken: Range<u32>) {
        for number in taken {
            let (word, bit) = place(number);
            debug_assert!(self.words[word] & bit == 0);
            self.words[word] |= bit;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_told_once_and_together() {
        let mut set = FreeSet::all(200);
        assert_eq!((set.count(), set.undiscarded()), (200, 200));
        let mut told = Vec::new();
        while let Some(range) = set.take_undiscarded(64) {
            assert!(range.len() <= 64);
            told.extend(range.clone());
            assert!(set.count() < 200);
            set.put_back(range);
        }
        assert_eq!(told, (0..200).collect::<Vec<_>>());
        assert_eq!((set.count(), set.undiscarded()), (200, 0));
        // In use and free again: told again, and only that.
        let used: Vec<u32> = (0..5).map(|_| set.take().unwrap()).collect();
        assert_eq!(used, [0, 1, 2, 3, 4]);
        [1, 2, 4].into_iter().for_each(|n| set.insert(n));
        assert_eq!(set.undiscarded(), 3);
        let ranges: Vec<_> = std::iter::from_fn(|| set.take_undiscarded(64)).collect();
        assert_eq!(ranges, [1..3, 4..5]);
        assert_eq!(set.count(), 195);
    }

    #[test]
    fn numbers_are_taken_below_an_end() {
        let mut set = FreeSet::all(300);
        assert_eq!(set.take_below(0), None);
        let taken: Vec<u32> = std::iter::from_fn(|| set.take_below(70)).collect();
        assert_eq!(taken, (0..70).collect::<Vec<_>>());
        set.insert(3);
        assert_eq!((set.take_below(70), set.take_below(70), set.take_below(71)), (Some(3), None, Some(70)));
        assert_eq!((set.take(), set.count()), (Some(71), 228));
    }

    #[test]
    fn taken_chunks_are_not_taken_again() {
        let mut set = FreeSet::all(130);
        let taken = set.take_undiscarded(100).unwrap();
        assert_eq!(taken, 0..100);
        assert_eq!(set.take(), Some(100));
        assert!(!set.remove(5));
        set.put_back(taken);
        assert!(set.remove(5));
    }
}
