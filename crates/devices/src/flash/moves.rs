//! What cleaning has moved: until the source is erased, the content is in both places.

use std::ops::Range;

/// A granule that was moved.
#[derive(Clone, Copy, Debug)]
struct Move {
    from: u32,
    to: u32,
}

/// The granules that were moved from rows that are not erased yet: as many as are live in the rows being cleaned.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Vec<Move>);

impl Moves {
    /// Granules have been moved.
    #[inline]
    pub(super) fn add(&mut self, from: u32, to: u32, count: u32) {
        self.0.extend((0..count).map(|part| Move { from: from + part, to: to + part }));
    }

    /// Where the content of a granule was before, and still is.
    pub(super) fn source_of(&self, at: u32) -> Option<u32> {
        self.0.iter().rfind(|moved| moved.to == at).map(|moved| moved.from)
    }

    /// Granules are erased.
    pub(super) fn erased(&mut self, granules: &Range<u32>) {
        self.0.retain(|moved| !granules.contains(&moved.from));
    }
}
