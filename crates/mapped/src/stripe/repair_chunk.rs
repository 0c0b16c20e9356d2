//! Repair of a whole chunk at its own home, for background jobs that need its content there.

use std::rc::Rc;

use crate::marks::Mark;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::Buf;
use sinew_core::ids::{ChunkAddr, StripeId};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;

impl<I: Io> Stripes<I> {
    /// Rewrites a whole data chunk, block by block, where a block is damaged, and gives its content as it is then; `None`
    /// when it cannot be mended, or is at this home no more.
    pub(crate) async fn repair_chunk(
        self: &Rc<Self>,
        stripe: StripeId,
        column: usize,
        index: usize,
        home: ChunkAddr,
    ) -> Option<Buf> {
        let _slots = self.store.pin_slots(stripe).await.ok()?;
        let mut is_lost = false;
        for offset in 0..CHUNK_BLOCKS {
            let part = ChunkPart { stripe, column, offset, count: 1 };
            let damaged = match self.read_home(home, offset, 1).await {
                Ok(buf) => self.mismatches(part, &buf) > 0,
                Err(_) => true,
            };
            if damaged {
                // All are tried, so that all that are lost are known.
                is_lost |= self.read_part_without(part, vec![(index, home)]).await.is_err();
            }
        }
        if is_lost {
            return None;
        }
        if self.live_home(stripe, index) != Some(home) {
            self.store.mark(Mark::ReadRepairVoid);
            return None;
        }
        let whole = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        self.read_home(home, 0, CHUNK_BLOCKS).await.ok().filter(|buf| self.mismatches(whole, buf) == 0)
    }

    /// The chunk exactly as it is at its own home, after mending it there if it was damaged. Mirrors are no substitute:
    /// in slots that were never committed they may differ.
    pub(crate) async fn read_repaired(self: &Rc<Self>, stripe: StripeId, column: usize) -> Option<Buf> {
        let _slots = self.store.pin_slots(stripe).await.ok()?;
        let home = self.store.tables().good_home(stripe, column)?;
        let part = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        match self.read_home(home, 0, CHUNK_BLOCKS).await {
            Ok(buf) if self.mismatches(part, &buf) == 0 => return Some(buf),
            Ok(buf) => self.store.members().note_checksum_error(home.member, self.mismatches(part, &buf)),
            Err(_) => {}
        }
        let mended = self.repair_chunk(stripe, column, column, home).await?;
        self.store.mark(Mark::ConvertMended);
        Some(mended)
    }
}
