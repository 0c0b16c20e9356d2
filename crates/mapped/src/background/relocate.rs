//! Relocation of chunks: writes a chunk to a new or repaired place and records it once it is durable.
//! Rebuild, rebalance and the relief of full members share it.

use std::rc::Rc;

use crate::background::io_priority::IoPriority;
use crate::marks::Mark;
use crate::store::Store;
use crate::store::stripe_locks::StripeLock;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::{ChunkAddr, MemberId, StripeId};
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;

/// Chunks rebuilt with one flush.
pub(super) const CHUNKS_PER_ROUND: usize = 16;

/// A chunk written to its new home, to be recorded once durable.
pub(crate) struct Rebuilt<I: Io> {
    pub(super) _lock: Rc<StripeLock<I>>,
    pub(crate) stripe: StripeId,
    pub(crate) index: usize,
    pub(crate) home: ChunkAddr,
    /// The members' version before it was written.
    pub(crate) version: u64,
    /// The chunk was allocated for this; it is given back if the move is not recorded.
    pub(crate) is_new: bool,
}

/// Writes chunks to new places.
pub(crate) struct Relocator<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    priority: Rc<IoPriority<I>>,
}

impl<I: Io> Relocator<I> {
    pub(crate) fn new(stripes: Rc<Stripes<I>>, priority: Rc<IoPriority<I>>) -> Relocator<I> {
        Relocator { store: Rc::clone(stripes.store()), stripes, priority }
    }

    /// Members that hold a chunk which protects this one, or is protected by it, or will hold one when the batch is
    /// recorded.
    pub(super) fn members_to_avoid(
        &self,
        stripe: StripeId,
        index: usize,
        batch: &[Rebuilt<I>],
    ) -> Vec<MemberId> {
        if mutation::on(Mutation::ShareMember) {
            return Vec::new();
        }
        let tables = self.store.tables();
        let homes = tables.homes(stripe).iter().enumerate().filter_map(|(i, home)| Some((i, (*home)?)));
        let coming = batch.iter().filter(|r| r.stripe == stripe).map(|r| (r.index, r.home));
        let others =
            homes.chain(coming).filter(|&(i, _)| i != index && self.store.geometry().protect(i, index));
        others.map(|(_, home)| home.member).collect()
    }

    /// What the chunk should hold; `Some(None)` when that does not matter. `None` when it cannot be had.
    pub(super) async fn chunk_content(&self, stripe: StripeId, index: usize) -> Option<Option<Buf>> {
        let g = *self.store.geometry();
        let state = self.store.tables().stripe(stripe).state;
        if !g.is_parity(index) {
            let column =
                if index < g.data_columns { index } else { (index - g.mirror_index(0, 0)) % g.data_columns };
            return self.stripes.read_chunk(stripe, column).await.ok().map(Some);
        }
        if state != StripeState::Parity {
            return Some(None);
        }
        let columns = usize::from(self.store.tables().stripe(stripe).columns);
        let read = join_all((0..columns).map(|column| self.stripes.read_chunk(stripe, column))).await;
        let chunks = read.into_iter().map(|chunk| Some(vec![chunk.ok()?])).collect::<Option<Vec<_>>>()?;
        Some(Some(self.stripes.compute_parity(&chunks).swap_remove(index - g.parity_index(0))))
    }

    /// Writes a chunk's content, if it matters, to its new home; `is_new` if that was allocated for it.
    pub(super) async fn write_rebuilt(
        &self,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        home: ChunkAddr,
        is_new: bool,
        content: Option<Buf>,
    ) -> Option<Rebuilt<I>> {
        let version = self.store.members().version();
        let rebuilt = Rebuilt { _lock: Rc::clone(lock), stripe: lock.stripe(), index, home, version, is_new };
        if let Some(mut data) = content {
            let mut from = 0;
            if mutation::on(Mutation::RebuildShort) {
                from = 1;
                data = data.slice(BLOCK_BYTES, data.len() - BLOCK_BYTES);
            }
            if let Err(error) = self.store.members().write(home, from, Rc::new([data])).await {
                let is_full = error == IoError::NoSpace;
                self.store.mark(if is_full { Mark::RebuildNoSpace } else { Mark::RebuildMemberLost });
                self.store.members().report_failure(home.member, error).await;
                self.give_up(&rebuilt);
                return None;
            }
        }
        Some(rebuilt)
    }

    /// Writes a chunk of a whole stripe to the home allocated for it.
    pub(super) async fn move_chunk(
        &self,
        lock: &Rc<StripeLock<I>>,
        index: usize,
        home: ChunkAddr,
    ) -> Option<Rebuilt<I>> {
        self.store.throttle().pay(self.store.io(), CHUNK_BYTES).await;
        self.priority.yield_stripe_to_clients(lock.stripe(), CHUNK_BYTES).await;
        match self.chunk_content(lock.stripe(), index).await {
            Some(content) => self.write_rebuilt(lock, index, home, true, content).await,
            None => {
                self.store.allocator_mut().give_back([home]);
                None
            }
        }
    }

    pub(super) async fn record_rebuilt(&self, batch: Vec<Rebuilt<I>>) -> bool {
        let durable = mutation::on(Mutation::MoveUnflushed) || self.store.flush_pages().await;
        let mut records = Vec::new();
        for rebuilt in &batch {
            // The stripe is locked, but its member may be gone again, or back without what was written to it.
            if durable && !self.store.members().lost_since(rebuilt.home.member, rebuilt.version) {
                let index = rebuilt.index as u8;
                records.push(Record::Rehome { stripe: rebuilt.stripe, index, home: rebuilt.home });
            } else {
                self.store.mark(Mark::RebuildVoid);
                self.give_up(rebuilt);
            }
        }
        !records.is_empty() && self.store.journal().commit(records).await.is_ok()
    }

    /// Records moves of chunks, unless members have come or gone since `version`: what was whole may not be so any more.
    pub(super) async fn record_relocated(&self, batch: Vec<Rebuilt<I>>, version: u64) -> bool {
        if self.store.members().version() == version {
            return self.record_rebuilt(batch).await;
        }
        self.store.mark(Mark::RebuildVoid);
        batch.iter().for_each(|moved| self.give_up(moved));
        false
    }

    pub(crate) fn give_up(&self, rebuilt: &Rebuilt<I>) {
        if rebuilt.is_new {
            self.store.allocator_mut().give_back([rebuilt.home]);
        }
    }
}
