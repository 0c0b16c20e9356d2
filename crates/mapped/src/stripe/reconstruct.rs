//! Degraded reads: part of a data column from the other columns and parity.
//!
//! The result is verified. Columns that requests in flight have read already come from the read cache.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use crate::stripe::row::StripeRow;
use sinew_core::buf::Buf;
use sinew_core::ids::{ChunkAddr, SlotNo};
use sinew_core::io::Io;
use sinew_core::sync::{end_all, next_of};

impl<I: Io> Stripes<I> {
    /// Part of a data column from the other columns and parity, checked; `None` when it cannot be had.
    pub(super) async fn reconstruct_part(self: &Rc<Self>, part: ChunkPart) -> Option<Buf> {
        self.reconstruct_part_from(part, |_| true).await
    }

    /// As `reconstruct_part`, from homes of which that is true.
    pub(super) async fn reconstruct_part_from(
        self: &Rc<Self>,
        part: ChunkPart,
        usable: impl Fn(ChunkAddr) -> bool,
    ) -> Option<Buf> {
        if self.store.tables().stripe(part.stripe).state != StripeState::Parity {
            return None;
        }
        let width = self.store.geometry().data_columns + self.store.geometry().parity_columns();
        let mut columns: Vec<Option<Buf>> = (0..width).map(|column| self.held(part, column)).collect();
        if columns.iter().any(Option::is_some) {
            self.store.mark(Mark::ReadInHand);
        }
        let mut reads = self.read_others(part, &|column, home| columns[column].is_none() && usable(home));
        let waits_for_all = !self.store.members().may_hedge();
        while let Some((column, buf)) = next_of(&mut reads).await {
            columns[column] = buf;
            if (reads.is_empty() || !waits_for_all)
                && let Some(buf) = self.combine(part, &columns, None)
            {
                self.finish_in_background(reads);
                return Some(buf);
            }
        }
        // A block without a checksum may itself be silently wrong; the target's checksum tells when it is left out.
        let mut without = self.unchecked(part).into_iter();
        let found = without.find_map(|index| self.combine(part, &columns, Some(index)))?;
        self.store.mark(Mark::ReadReconstructedWithout);
        Some(found)
    }

    /// The same part of another data column, if a request in flight has read it.
    pub(crate) fn held(&self, part: ChunkPart, column: usize) -> Option<Buf> {
        if column == part.column || column >= self.store.geometry().data_columns {
            return None;
        }
        self.read_cache.find(ChunkPart { column, ..part })
    }

    /// Reads the same part of every other data column and of parity, where it can be; of data only what matches its checksums.
    fn read_others(
        self: &Rc<Self>,
        part: ChunkPart,
        wanted: &dyn Fn(usize, ChunkAddr) -> bool,
    ) -> Vec<(usize, Pin<Box<impl Future<Output = Option<Buf>> + use<I>>>)> {
        let width = self.store.geometry().data_columns + self.store.geometry().parity_columns();
        let home = |i| self.live_home(part.stripe, i).filter(|&home| i != part.column && wanted(i, home));
        let homes = (0..width).filter_map(|i| Some((i, home(i)?)));
        let read = |(column, home): (usize, ChunkAddr)| {
            let stripes = Rc::clone(self);
            let read = async move {
                // It may go on after the request has ended.
                let _slots = stripes.store.pin_slots(part.stripe).await.ok()?;
                let buf = stripes.store.members().read(home, part.offset, part.count).await.ok()?;
                let other = ChunkPart { column, ..part };
                (column >= stripes.store.geometry().data_columns || stripes.matches(other, &buf, home))
                    .then_some(buf)
            };
            (column, Box::pin(read))
        };
        homes.map(read).collect()
    }

    fn combine(&self, part: ChunkPart, others: &[Option<Buf>], leave_out: Option<usize>) -> Option<Buf> {
        let stripe = self.store.tables().stripe(part.stripe);
        if stripe.state != StripeState::Parity {
            return None;
        }
        let used = usize::from(stripe.columns);
        let row = StripeRow { columns: others, used, geometry: self.store.geometry() };
        let out = row.recover(part.column, leave_out)?;
        (self.mismatches(part, &out) == 0).then_some(out)
    }

    /// Columns of which some block of the part cannot be checked: parity, and data in slots never committed.
    fn unchecked(&self, part: ChunkPart) -> Vec<usize> {
        let tables = self.store.tables();
        let g = *self.store.geometry();
        let owned = |column: usize| {
            let first = g.slot(part.stripe, column, part.offset).0;
            (first..first + part.count).all(|slot| tables.owner(SlotNo(slot)).is_some())
        };
        (0..g.data_columns + g.parity_columns()).filter(|&i| i >= g.data_columns || !owned(i)).collect()
    }

    /// Lets reads end in a task of their own when enough others have succeeded. A late read keeps its buffer and its
    /// epoch until then.
    fn finish_in_background<T: 'static>(
        self: &Rc<Self>,
        mut reads: Vec<(usize, Pin<Box<impl Future<Output = T> + 'static>>)>,
    ) {
        if reads.is_empty() {
            return;
        }
        self.store.mark(Mark::RebuiltFromEnough);
        let epoch = self.store.epochs().pin_oldest();
        self.store.io().spawn(async move {
            end_all(&mut reads).await;
            drop(epoch);
        });
    }
}
