//! Reading around members that are late, in a mapped pool: from another copy, or the rest of a parity stripe.

use std::rc::Rc;

use crate::addr::{Home, MemberId};
use crate::around::{self, Around, AroundPaths, Elsewhere, Found, ReadResult, Readings};
use crate::buf::Buf;
use crate::era::EraGuard;
use crate::io::Io;
use crate::mapped::MappedShard;
use crate::member::Members;
use crate::paths::Path;
use crate::read::ChunkPart;
use crate::tables::StripeState;
use crate::volume::VolumeError;

impl<I: Io> MappedShard<I> {
    /// Reads part of a data column, not waiting for a member that is late if it can be had otherwise.
    pub(crate) async fn read_around(self: &Rc<Self>, part: ChunkPart) -> Result<Buf, VolumeError> {
        let Some(copy) = self.next_copy(part, &[]) else {
            return Box::pin(self.read_part_without(part, Vec::new())).await;
        };
        match around::read(self, part, copy).await {
            Found::Elsewhere(buf) => Ok(buf),
            Found::There(Ok(buf)) if self.mismatches(part, &buf) == 0 => Ok(buf),
            Found::There(result) => Box::pin(self.accept(part, copy, result)).await,
        }
    }

    /// What a copy gave, or what can be had without it.
    async fn accept(
        self: &Rc<Self>,
        part: ChunkPart,
        copy: (usize, Home),
        result: ReadResult,
    ) -> Result<Buf, VolumeError> {
        match self.judge(part, copy.1, result).await {
            Some(buf) => Ok(buf),
            None => Box::pin(self.read_part_without(part, vec![copy])).await,
        }
    }
}

impl<I: Io> Around<I> for MappedShard<I> {
    type Part = ChunkPart;
    type Copy = (usize, Home);
    type Stay = EraGuard;
    const PATHS: AroundPaths = AroundPaths {
        around: Path::ReadAround,
        hedged: Path::ReadHedged,
        won: Path::ReadHedgeWon,
        lost: Path::ReadHedgeLost,
        too_dear: Path::AroundTooDear,
    };

    fn io(&self) -> &I {
        &self.io
    }

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn readings(&self) -> &Readings<Self, ChunkPart, (usize, Home)> {
        &self.readings
    }

    fn member(&self, _part: ChunkPart, copy: (usize, Home)) -> MemberId {
        copy.1.member
    }

    fn elsewhere(&self, part: ChunkPart, copy: (usize, Home)) -> Option<Elsewhere<(usize, Home)>> {
        let other = self.next_copy(part, &[copy]);
        if let Some(other) = other.filter(|(_, other)| self.members.responds(other.member)) {
            return Some(Elsewhere::Copy(other));
        }
        let stripe = self.tables.borrow().stripe(part.stripe);
        if stripe.state != StripeState::Parity {
            return None;
        }
        let g = &self.geometry;
        let parity = (0..g.parity_columns()).map(|p| g.parity_index(p));
        let others = (0..usize::from(stripe.columns)).filter(|&i| i != part.column).chain(parity);
        let others = others.filter(|&i| self.held(part, i).is_none());
        let (mut reads, mut in_flight, mut lost) = (0, 0, 1);
        for index in others {
            let home = self.live_home(part.stripe, index);
            match home.filter(|home| self.members.responds(home.member)) {
                Some(home) => {
                    reads += 1;
                    in_flight += self.members.in_flight(home.member);
                }
                None => lost += 1,
            }
        }
        (lost <= g.parity_columns()).then_some(Elsewhere::Rest { reads, in_flight })
    }

    async fn read_copy(self: Rc<Self>, part: ChunkPart, copy: (usize, Home)) -> ReadResult {
        self.members.read(copy.1, part.offset, part.count).await
    }

    async fn read_elsewhere(self: Rc<Self>, part: ChunkPart, way: Elsewhere<(usize, Home)>) -> Option<Buf> {
        // It may go on after the request has ended.
        let _era = self.stay();
        match way {
            Elsewhere::Copy((_, home)) => {
                let result = self.members.read(home, part.offset, part.count).await;
                self.judge(part, home, result).await
            }
            Elsewhere::Rest { .. } => {
                self.rebuild_part_from(part, |home| self.members.responds(home.member)).await
            }
        }
    }

    async fn judge_late(self: Rc<Self>, part: ChunkPart, copy: (usize, Home), result: ReadResult) {
        self.judge(part, copy.1, result).await;
    }

    fn stay(&self) -> EraGuard {
        self.eras.enter_oldest()
    }
}
