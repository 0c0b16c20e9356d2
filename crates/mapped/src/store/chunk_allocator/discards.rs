//! Which free chunks are discarded, and when: chunks that were in use, once enough of them are free to lie together.

use std::ops::Range;

use super::ChunkAllocator;
use sinew_core::ids::MemberId;

/// Free chunks of a member are discarded once this part of it, and this many chunks, are not discarded yet: then they
/// lie together.
const DISCARD_PART: u32 = 64;
const DISCARD_CHUNKS_LEAST: u32 = 8;
/// At most this many chunks, and this part of the free ones, are discarded at one time.
const DISCARD_AT_ONCE: u32 = 256;
const DISCARD_AT_ONCE_PART: u32 = 16;

impl ChunkAllocator {
    /// Whether enough of the free chunks of a member were in use lately, or may have been, to discard them; any is enough while
    /// physical space is low.
    pub(crate) fn is_worth_discarding(&self, member: MemberId, is_low: bool) -> bool {
        let entry = &self.members[usize::from(member.0)];
        let least = if is_low { 0 } else { (entry.chunks_all / DISCARD_PART).max(DISCARD_CHUNKS_LEAST) };
        entry.usable && entry.chunks.undiscarded() > least
    }

    /// Takes consecutive free chunks to be discarded; `give_back_discarded` ends that.
    pub(crate) fn take_undiscarded(&mut self, member: MemberId) -> Option<Range<u32>> {
        let chunks = &mut self.members[usize::from(member.0)].chunks;
        let most = (chunks.count() / DISCARD_AT_ONCE_PART).min(DISCARD_AT_ONCE);
        chunks.take_undiscarded(most)
    }

    /// Chunks are free again that the device has discarded, or will not discard.
    pub(crate) fn give_back_discarded(&mut self, member: MemberId, chunks: Range<u32>) {
        self.members[usize::from(member.0)].chunks.put_back(chunks);
    }
}
