//! Numbers that are free, and which of those a device still takes for used.

use std::ops::Range;

/// A set of numbers below a bound, handed out in rising order from where the last one was found.
pub(crate) struct FreeSet {
    words: Vec<u64>,
    count: u32,
    cursor: usize,
    /// Those whose device has not been told that they are free.
    untold: Vec<u64>,
    untold_count: u32,
    untold_cursor: u32,
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
        let untold = words.clone();
        FreeSet { words, count: bound, cursor: 0, untold, untold_count: bound, untold_cursor: 0 }
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many the device has not been told of.
    pub(crate) fn untold(&self) -> u32 {
        self.untold_count
    }

    fn forget_untold(&mut self, number: u32) {
        let (word, bit) = place(number);
        if self.untold[word] & bit != 0 {
            self.untold[word] &= !bit;
            self.untold_count -= 1;
        }
    }

    /// Takes a number out; false when it was not in.
    pub(crate) fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = place(number);
        let present = self.words.get(word).is_some_and(|w| w & bit != 0);
        if present {
            self.words[word] &= !bit;
            self.count -= 1;
            self.forget_untold(number);
        }
        present
    }

    /// Puts in a number that was used.
    pub(crate) fn insert(&mut self, number: u32) {
        let (word, bit) = place(number);
        assert!(self.words[word] & bit == 0, "freed twice: {number}");
        self.words[word] |= bit;
        self.count += 1;
        self.untold[word] |= bit;
        self.untold_count += 1;
    }

    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        while self.words[self.cursor] == 0 {
            self.cursor = (self.cursor + 1) % self.words.len();
        }
        let number = self.cursor as u32 * 64 + self.words[self.cursor].trailing_zeros();
        self.remove(number);
        Some(number)
    }

    /// Takes out up to so many numbers, one after the other, that the device has not been told of.
    pub(crate) fn take_untold(&mut self, most: u32) -> Option<Range<u32>> {
        if self.untold_count == 0 || most == 0 {
            return None;
        }
        let bound = self.words.len() as u32 * 64;
        let is_untold = |set: &FreeSet, number: u32| {
            let (word, bit) = place(number);
            set.untold[word] & bit != 0
        };
        while !is_untold(self, self.untold_cursor) {
            let word = self.untold_cursor as usize / 64;
            let step = if self.untold[word] == 0 { 64 - self.untold_cursor % 64 } else { 1 };
            self.untold_cursor = (self.untold_cursor + step) % bound;
        }
        let first = self.untold_cursor;
        let end = (first..bound.min(first.saturating_add(most))).find(|&n| !is_untold(self, n));
        let taken = first..end.unwrap_or(bound.min(first.saturating_add(most)));
        for number in taken.clone() {
            self.remove(number);
        }
        self.untold_cursor = taken.end % bound;
        Some(taken)
    }

    /// Puts back what `take_untold` took.
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
        assert_eq!((set.count(), set.untold()), (200, 200));
        let mut told = Vec::new();
        while let Some(range) = set.take_untold(64) {
            assert!(range.len() <= 64);
            told.extend(range.clone());
            assert!(set.count() < 200);
            set.put_back(range);
        }
        assert_eq!(told, (0..200).collect::<Vec<_>>());
        assert_eq!((set.count(), set.untold()), (200, 0));
        // In use and free again: told again, and only that.
        let used: Vec<u32> = (0..5).map(|_| set.take().unwrap()).collect();
        assert_eq!(used, [0, 1, 2, 3, 4]);
        [1, 2, 4].into_iter().for_each(|n| set.insert(n));
        assert_eq!(set.untold(), 3);
        let ranges: Vec<_> = std::iter::from_fn(|| set.take_untold(64)).collect();
        assert_eq!(ranges, [1..3, 4..5]);
        assert_eq!(set.count(), 195);
    }

    #[test]
    fn what_is_taken_is_nobody_elses() {
        let mut set = FreeSet::all(130);
        let taken = set.take_untold(100).unwrap();
        assert_eq!(taken, 0..100);
        assert_eq!(set.take(), Some(100));
        assert!(!set.remove(5));
        set.put_back(taken);
        assert!(set.remove(5));
    }
}
