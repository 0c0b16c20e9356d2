//! Columns that requests in flight have already read. A reconstruction takes them from here instead of reading them
//! again, so that for a full-stripe read only parity remains to be read.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::stripe::part::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::StripeId;

/// What requests of one shard have read, by stripes: by stripes, since reads of many scattered blocks have many parts.
#[derive(Default)]
pub(crate) struct ReadCache(RefCell<BTreeMap<StripeId, Vec<(ChunkPart, Buf)>>>);

/// What one request has read, until it ends.
pub(crate) struct CachedParts<'a> {
    all: &'a ReadCache,
    parts: RefCell<Vec<ChunkPart>>,
}

impl ReadCache {
    /// A request begins that reads several parts.
    pub(crate) fn hold(&self) -> CachedParts<'_> {
        CachedParts { all: self, parts: RefCell::default() }
    }

    /// The same blocks of a column, if a request has read them.
    pub(crate) fn find(&self, part: ChunkPart) -> Option<Buf> {
        let holds = |held: &ChunkPart| {
            held.column == part.column
                && held.offset <= part.offset
                && part.offset + part.count <= held.offset + held.count
        };
        let all = self.0.borrow();
        let (held, buf) = all.get(&part.stripe)?.iter().find(|(held, _)| holds(held))?;
        let from = (part.offset - held.offset) as usize * BLOCK_BYTES;
        Some(buf.slice(from, part.count as usize * BLOCK_BYTES))
    }
}

impl CachedParts<'_> {
    /// A part was read, and is right.
    pub(crate) fn add(&self, part: ChunkPart, buf: &Buf) {
        self.all.0.borrow_mut().entry(part.stripe).or_default().push((part, buf.clone()));
        self.parts.borrow_mut().push(part);
    }
}

impl Drop for CachedParts<'_> {
    fn drop(&mut self) {
        let mut all = self.all.0.borrow_mut();
        for part in self.parts.get_mut() {
            let held = all.get_mut(&part.stripe).expect("it is held until now");
            let mine = held.iter().position(|(held, _)| held == part).expect("it is held until now");
            held.swap_remove(mine);
            if held.is_empty() {
                all.remove(&part.stripe);
            }
        }
    }
}
