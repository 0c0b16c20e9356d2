//! Hedged reads of a mapped pool: when a member is late, from another copy or from the rest of a parity stripe.

use std::rc::Rc;

use crate::marks::Mark;
use crate::store::epoch_reclaim::EpochGuard;
use crate::store::tables::StripeState;
use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::Buf;
use sinew_core::ids::{ChunkAddr, MemberId};
use sinew_core::io::Io;
use sinew_members::hedged_read::{Alternate, HedgeMarks, HedgedSource, ReadResult, ReadSlots};
use sinew_members::members::Members;

impl<I: Io> HedgedSource<I> for Stripes<I> {
    type Part = ChunkPart;
    type Copy = (usize, ChunkAddr);
    type ReadGuard = EpochGuard;
    const MARKS: HedgeMarks = HedgeMarks {
        around: Mark::ReadAround.name(),
        hedged: Mark::ReadHedged.name(),
        won: Mark::ReadHedgeWon.name(),
        lost: Mark::ReadHedgeLost.name(),
        too_dear: Mark::AroundTooDear.name(),
    };

    fn io(&self) -> &I {
        self.store.io()
    }

    fn members(&self) -> &Members<I> {
        self.store.members()
    }

    fn read_slots(&self) -> &ReadSlots<Self, ChunkPart, (usize, ChunkAddr)> {
        &self.read_slots
    }

    fn member(&self, _part: ChunkPart, copy: (usize, ChunkAddr)) -> MemberId {
        copy.1.member
    }

    fn alternate(&self, part: ChunkPart, copy: (usize, ChunkAddr)) -> Option<Alternate<(usize, ChunkAddr)>> {
        let other = self.next_copy(part, &[copy]);
        if let Some(other) = other.filter(|(_, other)| self.store.members().responds(other.member)) {
            return Some(Alternate::Mirror(other));
        }
        let stripe = self.store.tables().stripe(part.stripe);
        if stripe.state != StripeState::Parity {
            return None;
        }
        let g = self.store.geometry();
        let parity = (0..g.parity_columns()).map(|p| g.parity_index(p));
        let others = (0..usize::from(stripe.columns)).filter(|&i| i != part.column).chain(parity);
        let others = others.filter(|&i| self.held(part, i).is_none());
        let (mut reads, mut in_flight, mut lost) = (0, 0, 1);
        for index in others {
            let home = self.live_home(part.stripe, index);
            match home.filter(|home| self.store.members().responds(home.member)) {
                Some(home) => {
                    reads += 1;
                    in_flight += self.store.members().in_flight(home.member);
                }
                None => lost += 1,
            }
        }
        (lost <= g.parity_columns()).then_some(Alternate::Reconstruct { reads, in_flight })
    }

    async fn read_copy(self: Rc<Self>, part: ChunkPart, copy: (usize, ChunkAddr)) -> ReadResult {
        self.store.members().read(copy.1, part.offset, part.count).await
    }

    async fn read_alternate(
        self: Rc<Self>,
        part: ChunkPart,
        way: Alternate<(usize, ChunkAddr)>,
    ) -> Option<Buf> {
        // It may go on after the request has ended.
        let _epoch = self.read_guard();
        let _slots = self.store.pin_slots(part.stripe).await.ok()?;
        match way {
            Alternate::Mirror((_, home)) => {
                let result = self.store.members().read(home, part.offset, part.count).await;
                self.classify_read(part, home, result).await
            }
            Alternate::Reconstruct { .. } => {
                self.reconstruct_part_from(part, |home| self.store.members().responds(home.member)).await
            }
        }
    }

    async fn late_read_done(self: Rc<Self>, part: ChunkPart, copy: (usize, ChunkAddr), result: ReadResult) {
        if let Ok(_slots) = self.store.pin_slots(part.stripe).await {
            self.classify_read(part, copy.1, result).await;
        }
    }

    fn read_guard(&self) -> EpochGuard {
        self.store.epochs().pin_oldest()
    }
}
