//! Small writes: appended to the columns of an open mirrored stripe, packed unless the policy says otherwise.
//!
//! All pieces queued when the appender looks go out as runs of up to one chunk, or half of one while few are on their way: one
//! member write per copy of each run, and one commit. Consecutive runs use different members. The records of a client's run
//! are committed while its data is written (`overlapped_commit`), if that is soon.
//!
//! A run goes to a column whose members respond, of these to that with the least load. While every column with room has a
//! spiking member, or one with requests in flight, the appender opens another stripe and continues the first one later; when
//! every column has a spiking member and no other stripe can be opened, the run takes the least bad column. A run that is
//! late is written again elsewhere, as is one whose member failed, and its stripe stays in use until the late write has
//! ended. A run never has fewer copies than it should.

use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::data_status::DataStatus;
use crate::store::overlapped_commit::OverlappedCommit;
use crate::stripe::Stripes;
use crate::stripe::appender::{Appender, RUNS_IN_FLIGHT_MAX, Run};
use crate::stripe::piece::Piece;
use sinew_core::completion::Completion;
use sinew_core::ids::{ChunkAddr, MemberId, SlotNo};
use sinew_core::io::{Gather, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Batches, join_all};
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_format::model::stripe_form::StripeClass;

/// Runs in flight at which the records of a run hold up hardly any others.
const RUNS_NEARLY_ALONE: u32 = 2;

impl<I: Io> Stripes<I> {
    /// The task that writes the queued pieces of a class of volumes. It never ends.
    pub(crate) async fn run_appender(self: Rc<Self>, class: StripeClass) {
        let appender = self.appender(class);
        let mut batches = Batches::default();
        loop {
            let ready = || {
                let in_flight = appender.in_flight.get();
                let may_start =
                    self.are_few(in_flight) || in_flight < RUNS_IN_FLIGHT_MAX && self.is_enough(appender);
                (!appender.queue.borrow().is_empty() && may_start).then_some(())
            };
            appender.work.wait(ready).await;
            batches.fill(|| appender.queue.borrow().len(), CHUNK_BLOCKS as usize).await;
            if let Some(stripe) = self.cut_stripe(appender) {
                appender.in_flight.set(appender.in_flight.get() + 1);
                self.store.io().spawn(Rc::clone(&self).write_coalesced(stripe));
                continue;
            }
            let mut chosen = self.choose(appender);
            let is_opened = match chosen {
                Some(column) => self.open_beside(appender, column),
                None if !appender.open.borrow().is_empty() => self.open_around(appender),
                None => {
                    if let Err(error) = self.open_mirrored(appender).await {
                        self.store.mark(Mark::AppendRefused);
                        appender.fail_all(error);
                        continue;
                    }
                    true
                }
            };
            if is_opened {
                chosen = self.choose(appender);
            }
            let chosen = chosen.or_else(|| {
                self.store.mark(Mark::AppendToSpiking);
                self.choose_least_bad(appender)
            });
            if let Some(run) = chosen.and_then(|chosen| self.cut_run(appender, chosen)) {
                appender.in_flight.set(appender.in_flight.get() + 1);
                self.store.io().spawn(Rc::clone(&self).write_run(run));
            }
        }
    }

    /// Writes a run to all its copies and records it. When a member fails, the pieces are queued again, in front.
    async fn write_run(self: Rc<Self>, run: Run) {
        let Run { class, stripe, slot, offset, mut homes, pieces, opening } = run;
        let appender = self.appender(class);
        self.store.note_unflushed(stripe);
        if mutation::on(Mutation::OneDataCopy) {
            homes.truncate(1);
        }
        if mutation::on(Mutation::AcknowledgeEarly) {
            pieces.iter().for_each(|(piece, ticket)| ticket.done(piece.blocks(), Ok(true)));
        }
        let data: Gather = pieces.iter().map(|(piece, _)| piece.data.clone()).collect();
        let version = self.store.members().version();
        let writes = homes.iter().map(|&home| self.store.members().write(home, offset, Rc::clone(&data)));
        let mut writes = pin!(join_all(writes));
        let mut overlapped = self.begin_run_commit(appender, &homes, slot, &pieces, &opening);
        let is_overlapped = overlapped.is_some();
        let in_time = self.await_run(appender, &homes, writes.as_mut(), &mut overlapped).await;
        let (results, pieces) = match in_time {
            Some(results) => (results, Some(pieces)),
            None => {
                self.requeue_late_run(appender, slot, pieces).await;
                (writes.await, None)
            }
        };
        // A flush that began meanwhile took the stripe for covered; it is not.
        self.store.note_unflushed(stripe);
        let failed = homes.is_empty()
            || results.iter().any(Result::is_err)
            || homes.iter().any(|home| self.store.members().lost_since(home.member, version));
        if failed {
            self.store.abort(overlapped.take());
        }
        let is_full = results.contains(&Err(IoError::NoSpace));
        for (home, result) in homes.iter().zip(results) {
            if let Err(error) = result {
                self.store.members().report_failure(home.member, error).await;
            }
        }
        let Some(pieces) = pieces else {
            self.store.unshare(stripe);
            return;
        };
        let mut refused = Vec::new();
        if is_full {
            self.store.mark(Mark::RunNoSpace);
            refused = pieces;
        } else if failed {
            self.store.mark(Mark::RunMemberLost);
            appender.queue_again(pieces);
        } else {
            self.record(slot, pieces, overlapped).await;
        }
        self.store.unshare(stripe);
        appender.run_ended();
        if refused.is_empty() {
            return;
        }
        let settled = if is_overlapped { self.store.settle_aborted().await } else { Ok(()) };
        let refusal = settled.and(Err(VolumeError::NoSpace));
        refused.into_iter().for_each(|(piece, ticket)| ticket.done(piece.blocks(), refusal));
    }

    /// The results of a run's writes; `None` when they are late and the run is to be written again elsewhere.
    async fn await_run<T>(
        &self,
        appender: &Appender,
        homes: &[ChunkAddr],
        mut writes: Pin<&mut impl Future<Output = T>>,
        overlapped: &mut Option<OverlappedCommit>,
    ) -> Option<T> {
        if !self.store.members().may_hedge() {
            return Some(writes.await);
        }
        self.store.members().latency.earn();
        loop {
            let in_time = self.store.await_in_time(homes, writes.as_mut()).await;
            if in_time.is_some() {
                return in_time;
            }
            // Its records hold up those of other requests.
            self.store.abort(overlapped.take());
            // If it cannot be written again now, it may be after the same time once more.
            if self.may_write_again(appender, homes) {
                return None;
            }
        }
    }

    /// Queues the pieces of a run that is late again, to be written elsewhere.
    async fn requeue_late_run(
        self: &Rc<Self>,
        appender: &Appender,
        first: SlotNo,
        pieces: Vec<(Piece, Rc<Completion>)>,
    ) {
        self.store.mark(Mark::RunHedged);
        if mutation::on(Mutation::CountLateRun) {
            self.record(first, pieces, None).await;
        } else {
            appender.queue_again(pieces);
        }
        appender.run_ended();
    }

    /// Commits the records of a client's run while its data is written, if hardly any other records wait for that, or its
    /// members have so little to do that it takes hardly longer than the commit. Not those of a stripe's first slot while no
    /// block has the record that opens the stripe: an abort record of that slot would cancel the opening as well.
    fn begin_run_commit(
        &self,
        appender: &Appender,
        homes: &[ChunkAddr],
        first: SlotNo,
        pieces: &[(Piece, Rc<Completion>)],
        opening: &DataStatus,
    ) -> Option<OverlappedCommit> {
        let is_clients = pieces.iter().all(|(piece, _)| piece.is_clients());
        let is_first = first.0.is_multiple_of(self.store.geometry().slots_per_stripe());
        let would_cancel = is_first && !opening.is_recorded() && !mutation::on(Mutation::AbortOpening);
        let slots = pieces.iter().map(|(piece, _)| piece.blocks()).sum();
        let members = self.store.members();
        let is_soon = |home: &ChunkAddr| members.blocks_in_flight(home.member) + slots <= CHUNK_BLOCKS;
        let holds_up_few = appender.in_flight.get() <= RUNS_NEARLY_ALONE || homes.iter().all(is_soon);
        if !is_clients
            || would_cancel
            || !holds_up_few
            || !members.may_hedge()
            || mutation::on(Mutation::AcknowledgeEarly)
        {
            return None;
        }
        self.store.begin_overlapped_commit(homes, || records_of(first, pieces), first, slots)
    }

    /// Whether a run that is late may be written again: other members respond and are not busy, nothing waits for them, and not
    /// too much is done twice. Where all are busy the load is why it is late.
    fn may_write_again(&self, appender: &Appender, homes: &[ChunkAddr]) -> bool {
        let members = self.store.members();
        let is_idle = |&m: &MemberId| members.takes_new(m) && members.responds(m) && !members.is_busy(m);
        let late = homes.iter().filter(|home| members.burden(home.member).stragglers > 0);
        let mut late = late.map(|home| home.member).peekable();
        let is_possible = late.peek().is_some()
            && appender.queue.borrow().is_empty()
            && members.ids().filter(is_idle).count() >= homes.len();
        if !is_possible || !members.latency.spend(homes.len()) {
            self.store.mark(Mark::AroundTooDear);
            return false;
        }
        late.for_each(|member| members.latency.note(member, |watch| watch.hedges += 1));
        true
    }

    /// Records a run whose data is written, unless an overlapped commit has, and tells the requests that wait.
    pub(crate) async fn record(
        self: &Rc<Self>,
        first: SlotNo,
        pieces: Vec<(Piece, Rc<Completion>)>,
        overlapped: Option<OverlappedCommit>,
    ) {
        let committed = self.store.finish_commit(overlapped, || records_of(first, &pieces)).await;
        if mutation::on(Mutation::AcknowledgeEarly) {
            return;
        }
        let mut slot = first;
        for (piece, ticket) in pieces {
            let held = piece.is_clients() || self.store.tables().lookup(piece.block) == Some(slot);
            ticket.done(piece.blocks(), committed.map(|()| held));
            slot.0 += piece.blocks();
        }
    }
}

/// The records that say that a run's pieces are at its slots.
fn records_of(first: SlotNo, pieces: &[(Piece, Rc<Completion>)]) -> Vec<Record> {
    let mut records = Vec::with_capacity(pieces.len());
    let mut slot = first;
    for (piece, _) in pieces {
        piece.records(slot, &mut records);
        slot.0 += piece.blocks();
    }
    records
}
