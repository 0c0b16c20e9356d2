//! Several streams at once, merged by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Boxed, Request, Result};

/// Merges streams by time; requests due at the same time come in the order of the streams. Volumes are left as they
/// are: put each stream on its own with [`crate::Requests::onto`] first.
pub struct Mix {
    streams: Vec<Boxed>,
    /// The next request of each stream.
    heads: Vec<Option<Request>>,
    /// When, and which stream.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream whose head was handed out last, not refilled yet.
    taken: Vec<usize>,
}

impl Mix {
    /// A mix of these.
    pub fn new(streams: Vec<Boxed>) -> Mix {
        let (heads, taken) = (vec![None; streams.len()], (0..streams.len()).collect());
        Mix { streams, heads, order: BinaryHeap::new(), taken }
    }

    fn refill(&mut self) -> Result<()> {
        while let Some(i) = self.taken.pop() {
            if let Some(next) = self.streams[i].next() {
                let request = next?;
                self.heads[i] = Some(request);
                self.order.push(Reverse((request.at_ns, i)));
            }
        }
        Ok(())
    }
}

impl Iterator for Mix {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.refill() {
            return Some(Err(error));
        }
        let Reverse((_, i)) = self.order.pop()?;
        self.taken.push(i);
        self.heads[i].take().map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Requests};

    #[test]
    fn streams_are_merged_by_time_then_by_number() {
        let every = |step: u64, volume| -> Boxed {
            let make = move |i| Ok(Request { at_ns: i * step, offset: 0, len: 1, volume, kind: Kind::Read });
            Box::new((0..4u64).map(make).onto(volume))
        };
        let mixed = Mix::new(vec![every(10, 0), every(15, 1), Box::new(std::iter::empty())]);
        let seen: Vec<_> = mixed.map(|r| r.map(|r| (r.at_ns, r.volume)).expect("no errors")).collect();
        assert_eq!(seen, [(0, 0), (0, 1), (10, 0), (15, 1), (20, 0), (30, 0), (30, 1), (45, 1)]);
    }
}
