//! Repair: rewriting content where it was found bad.

use std::rc::Rc;

use crate::marks::Mark;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::Buf;
use sinew_core::ids::ChunkAddr;
use sinew_core::io::Io;

impl<I: Io> Stripes<I> {
    /// Rewrites good content where it was bad, unless the chunk has another home by now.
    pub(super) async fn repair(self: &Rc<Self>, part: ChunkPart, bad: &[(usize, ChunkAddr)], good: &Buf) {
        if self.store.members().are_read_only() {
            return;
        }
        for &(index, home) in bad {
            if self.live_home(part.stripe, index) != Some(home) {
                self.store.mark(Mark::ReadRepairVoid);
                continue;
            }
            let written = self.store.members().write(home, part.offset, Rc::new([good.clone()])).await;
            self.store.note_unflushed(part.stripe);
            match written {
                Ok(()) => {
                    self.store.mark(Mark::ReadRepaired);
                    self.store.members().note_repair(home.member, u64::from(part.count));
                }
                Err(error) => {
                    self.store.mark(Mark::RepairFailed);
                    self.store.members().report_failure(home.member, error).await;
                }
            }
        }
    }
}
