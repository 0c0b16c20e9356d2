//! Records that go to the journal at the same time as the data that they speak of.
//!
//! They are applied, and count, once all copies of the data are written; until then no later record counts either. If the
//! data is late, or a write fails, they are taken back by another record. After a crash the checksums tell what has landed.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use crate::shard::MappedShard;
use crate::store::journal::CommitResult;
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, Lsn, SlotNo};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Promise;
use sinew_format::journal_block::Record;

/// Records on their way beside their data, by the requests they are of: what takes all of them back must fit into the blocks
/// of the ring that are kept for such, 286 to each.
const BESIDE_MAX: u32 = 512;

/// Whether the data that a record speaks of has reached all its places.
#[derive(Default)]
pub(crate) struct Landing {
    /// None: not known yet.
    landed: Cell<Option<bool>>,
    /// The record is in a block.
    recorded: Cell<bool>,
}

impl Landing {
    pub(crate) fn is_settled(&self) -> bool {
        self.landed.get().is_some()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.landed.get() == Some(false)
    }

    pub(crate) fn set_recorded(&self) {
        self.recorded.set(true);
    }
}

/// Records on their way to the journal beside their data.
pub(crate) struct Beside {
    landing: Rc<Landing>,
    committed: Promise<CommitResult>,
    /// The slots they are about, and the first block that may have them.
    first: SlotNo,
    slots: u32,
    since: Lsn,
}

impl Beside {
    /// What takes them back.
    fn voids(&self) -> Vec<Record> {
        let most = u32::from(u8::MAX);
        let parts = (0..self.slots).step_by(most as usize);
        parts
            .map(|done| Record::Void {
                slot: SlotNo(self.first.0 + done),
                count: (self.slots - done).min(most) as u8,
                since: self.since,
            })
            .collect()
    }
}

impl<I: Io> MappedShard<I> {
    /// Has records about so many slots go to the journal while their data is written, unless too many do.
    pub(crate) fn record_beside(
        &self,
        records: impl FnOnce() -> Vec<Record>,
        first: SlotNo,
        slots: u32,
    ) -> Option<Beside> {
        let (count, since) = (self.journal.beside.get(), self.journal.next());
        if count >= BESIDE_MAX {
            return None;
        }
        self.journal.beside.set(count + 1);
        let landing = Rc::default();
        let committed = self.journal.commit_beside(records(), &landing);
        Some(Beside { landing, committed, first, slots, since })
    }

    /// It is known what became of the data.
    fn settle_landing(&self, landing: &Landing, landed: bool) {
        landing.landed.set(Some(landed));
        self.journal.beside.set(self.journal.beside.get() - 1);
    }

    /// All data of records is written: they count now, and go to the journal if they have not been sent beside. Resolves when
    /// they are applied.
    pub(crate) async fn commit_landed(
        self: &Rc<Self>,
        beside: Option<Beside>,
        records: impl FnOnce() -> Vec<Record>,
    ) -> CommitResult {
        let Some(beside) = beside else { return self.journal.commit(records()).await };
        self.settle_landing(&beside.landing, true);
        self.apply_settled();
        beside.committed.await
    }

    /// The data has not landed, so what was recorded of it does not hold. No flush counts before that is recorded, too: what
    /// is flushed is trusted by recovery.
    pub(crate) fn take_back(self: &Rc<Self>, beside: Option<Beside>) {
        let Some(beside) = beside else { return };
        self.settle_landing(&beside.landing, false);
        if beside.landing.recorded.get() {
            self.io.mark(Mark::RecordVoided);
            if !mutation::on(Mutation::ForgetVoid) {
                self.commit_marks(beside.voids());
            }
        } else {
            self.io.mark(Mark::RecordWithdrawn);
        }
        self.apply_settled();
    }

    /// What comes of writes to these homes, unless they are late.
    pub(crate) async fn in_time<T>(
        &self,
        homes: &[Home],
        mut writes: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let late_ns = homes.iter().map(|home| self.members.latency.late_ns(home.member)).max().unwrap_or(0);
        let mut alarm = self.members.deadlines.at(self.io.now_coarse() + late_ns);
        poll_fn(|cx| match writes.as_mut().poll(cx) {
            Poll::Ready(results) => Poll::Ready(Some(results)),
            Poll::Pending if alarm.poll(cx, self.io.now_coarse()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
