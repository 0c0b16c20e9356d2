//! What a stripe has and lacks: chunks that can be read, chunks that are missing, and how many losses it has had.

use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;

impl<I: Io> Stripes<I> {
    /// Where a chunk can be read as it should be: its home, if it is complete there, on an active member. To be asked again
    /// after every wait: the member may have gone, and come back empty.
    pub(crate) fn live_home(&self, stripe: StripeId, index: usize) -> Option<ChunkAddr> {
        self.store
            .tables()
            .good_home(stripe, index)
            .filter(|home| self.store.members().is_active(home.member))
    }

    /// Indices of the homes a stripe should have.
    pub(crate) fn required(&self, stripe: StripeId) -> impl Iterator<Item = usize> + use<I> {
        let found = self.store.tables().stripe(stripe);
        let g = *self.store.geometry();
        let required = found.state.form().map(|form| g.required(usize::from(found.columns), form));
        required.into_iter().flatten()
    }

    /// Chunks of a stripe that are not at a good home on an active member.
    pub(crate) fn missing_chunks(&self, stripe: StripeId) -> usize {
        if self.store.tables().stripe(stripe).state == StripeState::Free {
            return 0;
        }
        self.required(stripe).filter(|&i| self.live_home(stripe, i).is_none()).count()
    }

    /// Losses a stripe has had, at its weakest place: copies missing of a column, or columns missing of those under parity.
    pub(crate) fn losses(&self, stripe: StripeId) -> usize {
        let g = *self.store.geometry();
        let found = self.store.tables().stripe(stripe);
        let missing = |i: usize| usize::from(self.live_home(stripe, i).is_none());
        let columns = 0..usize::from(found.columns);
        match found.state {
            StripeState::Free => 0,
            StripeState::Mirrored | StripeState::Pinned => {
                columns.map(|c| g.copies_of(c).map(missing).sum::<usize>()).max().unwrap_or(0)
            }
            StripeState::Parity => {
                columns.chain((0..g.parity_columns()).map(|p| g.parity_index(p))).map(missing).sum()
            }
        }
    }

    /// Whether every data and parity column of the stripe has a good home on an active member.
    pub(crate) fn is_whole(&self, stripe: StripeId) -> bool {
        let columns = usize::from(self.store.tables().stripe(stripe).columns);
        let parity =
            (0..self.store.geometry().parity_columns()).map(|p| self.store.geometry().parity_index(p));
        (0..columns).chain(parity).all(|i| self.live_home(stripe, i).is_some())
    }

    /// Whether moving the live blocks of a mirrored stripe writes less than its parity would be.
    pub(crate) fn is_sparse(&self, stripe: StripeId) -> bool {
        let g = self.store.geometry();
        let stripe = self.store.tables().stripe(stripe);
        let (k, m) = (g.data_columns as u32, g.parity_columns() as u32);
        stripe.live * (k + m) <= m * CHUNK_BLOCKS * u32::from(stripe.columns)
    }
}
