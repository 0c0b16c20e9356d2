//! The task that writes the log: one group at a time, so that there is no gap before an acknowledged group.
//!
//! Requests that come while a group is being written share the next one.

use std::collections::VecDeque;
use std::pin::pin;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Promise, Signal, join_all, promise};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_shard_layout::Run;
use sinew_members::members::Members;
use sinew_members::ring::striped::write_units;
use sinew_members::ring::writer::{LateCopies, ReplicatedRing, RingGroup, RingMarks, write_group};

use crate::journal::Journal;
use crate::journal::group::{Answer, BuiltGroup, ParityRun};
use crate::journal::log::Entry;

impl<I: Io> Journal<I> {
    /// Writes group after group, for ever.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            let clients = self.log_room().await;
            if self.state.has_failed() {
                self.refuse_all();
                continue;
            }
            let unwritten = self.log.unwritten.take();
            if let Some(group) = unwritten
                && self.append_group(group).await.is_err()
            {
                self.refuse_all();
                continue;
            }
            if let Some(group) = self.build_group(clients) {
                let _ = self.append_group(group).await;
            }
        }
    }

    /// Writes a group and answers its requests. A group whose write failed on every member may be on one of them all the
    /// same: it is written again, unchanged, before any other.
    async fn append_group(self: &Rc<Self>, mut group: BuiltGroup) -> Result<(), VolumeError> {
        let mut answers = std::mem::take(&mut group.answers);
        let mut image_answers = std::mem::take(&mut group.image_answers);
        if mutation::on(Mutation::AcknowledgeEarly) {
            answers.drain(..).chain(image_answers.drain(..)).for_each(|answer| answer.give(Ok(())));
        }
        let seq = group.header.seq;
        let (copies_written, copies) = promise();
        if !group.parity.is_empty() || !image_answers.is_empty() {
            let parity = group.parity.clone();
            self.state.io().spawn(Rc::clone(self).finish_images(seq, parity, image_answers, copies));
        }
        let written = self.write_group(&mut group).await;
        self.log.blocks_written.set(self.log.blocks_written.get() + u64::from(group.header.blocks));
        let states = std::mem::take(&mut group.states);
        let form_answers = std::mem::take(&mut group.form_answers);
        if written.is_ok() {
            self.add_dirty_blocks(seq, &group.fillers);
            self.add_dirty_blocks(seq, &group.contents);
            self.restore_given_up(&group.contents);
            self.log.last.set(seq);
            if let Some(changes) = group.changes {
                self.bitmap.set_written(changes);
            }
        } else {
            self.log.unwritten.replace(Some(group));
        }
        self.wake_destager();
        states.into_iter().for_each(|fulfil| fulfil.fulfil(written));
        form_answers.into_iter().for_each(|logged| logged.fulfil(written.map(|()| seq)));
        answers.into_iter().for_each(|answer| answer.give(written));
        copies_written.fulfil(written);
        written
    }

    /// Writes the parity of a group's images, and answers that they are appended once the copies of the group are written as
    /// well. Clients do not wait for the parity: nothing changes in its place before this answer.
    async fn finish_images(
        self: Rc<Self>,
        seq: u64,
        parity: Vec<ParityRun>,
        answers: Vec<Answer>,
        copies: Promise<Result<(), VolumeError>>,
    ) {
        self.log.parity_writes.set(self.log.parity_writes.get() + 1);
        self.write_parity((seq % self.log.ring) as u32, parity).await;
        let written = copies.await;
        answers.into_iter().for_each(|answer| answer.give(written));
        self.log.parity_writes.set(self.log.parity_writes.get() - 1);
        self.log.room.notify();
    }

    /// Waits for something to write and for room; returns whether there is room for clients' data.
    async fn log_room(&self) -> bool {
        let log = &self.log;
        log.work.wait(|| log.has_work().then_some(())).await;
        let free = || log.ring.saturating_sub(log.used());
        let for_clients = || log.used() <= log.open_blocks();
        self.wake_destager();
        log.room
            .wait(|| {
                if !log.queue.borrow().is_empty() && (for_clients() || log.is_stuck())
                    || self.state.has_failed()
                {
                    return Some(true);
                }
                if log.has_urgent() && free() >= log.room_needed() {
                    return Some(false);
                }
                self.state.mark(Mark::ArrayLogFull);
                None
            })
            .await
            && {
                if !for_clients() {
                    self.refuse_queued();
                }
                for_clients()
            }
    }

    fn refuse_queued(&self) {
        self.state.mark(Mark::ArrayLogRefused);
        let queued = std::mem::take(&mut *self.log.queue.borrow_mut());
        let error = self.room_error();
        queued.into_iter().for_each(|entry| entry.refuse(error));
    }

    /// A group waits for space: clients' data that is in no group yet is refused, as that to come is.
    fn refuse_for_space(&self) {
        let mut queue = self.log.queue.borrow_mut();
        let (refused, kept): (VecDeque<_>, _) =
            std::mem::take(&mut *queue).into_iter().partition(Entry::is_refused_by_full);
        *queue = kept;
        drop(queue);
        if !refused.is_empty() {
            self.state.mark(Mark::ArrayLogRefusedFull);
        }
        refused.into_iter().for_each(|entry| entry.refuse(VolumeError::NoSpace));
    }

    /// Nothing can be written: refuses every request, so that none waits for room in vain.
    fn refuse_all(&self) {
        self.refuse_queued();
        let images = std::mem::take(&mut *self.log.images.borrow_mut());
        images.into_iter().for_each(|entry| entry.refuse(VolumeError::Failed));
        let states = std::mem::take(&mut *self.log.states.borrow_mut());
        states.into_iter().for_each(|fulfil| fulfil.fulfil(Err(VolumeError::Failed)));
    }

    fn add_dirty_blocks(&self, seq: u64, contents: &[(Run, Buf)]) {
        let mut dirty = self.dirty.borrow_mut();
        for (run, data) in contents {
            for i in 0..run.blocks {
                let block = data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES);
                dirty.insert(seq, run.stripe, run.slot + i, block);
            }
        }
    }

    /// Clients have written blocks. The state groups that say so follow this group.
    fn restore_given_up(&self, contents: &[(Run, Buf)]) {
        if self.bitmap.regions().given_up().is_empty() {
            return;
        }
        let layout = self.state.layout();
        for (run, _) in contents {
            for block in (run.slot..run.slot + run.blocks).filter_map(|slot| layout.local(run.stripe, slot)) {
                self.bitmap.restore(block..block + 1);
            }
        }
    }

    /// Writes a group: striped if it is made for that, and if that fails or it is not, to f + 1 members.
    async fn write_group(self: &Rc<Self>, group: &mut BuiltGroup) -> Result<(), VolumeError> {
        if mutation::on(Mutation::SkipJournal) {
            return Ok(());
        }
        let turn = self.log.groups_written.get();
        self.log.groups_written.set(turn + 1);
        let is_striped = group.units.is_some();
        let is_written = match group.units.take() {
            Some(units) => {
                self.state.mark(Mark::ArrayLogStriped);
                write_units(self, turn, units).await
            }
            None => false,
        };
        let mut result = Ok(());
        if !is_written {
            let position = (group.header.seq % self.log.ring) as u32;
            let data = Rc::clone(&group.data);
            let copies = pin!(write_group(self, RingGroup { turn, position, data }));
            result = match self.state.members().full.unless_awaited(copies).await {
                Ok(result) => result,
                Err(copies) => {
                    self.refuse_for_space();
                    copies.await
                }
            };
        }
        if let Some(begun) = group.begun {
            let took = self.state.io().now().saturating_sub(begun);
            self.log.form_costs.note(is_striped, group.data_blocks, took);
        }
        result
    }

    /// Writes each parity of a group to its own member if that is active: a member that is out does not need it when it comes
    /// back.
    async fn write_parity(&self, position: u32, parity: Vec<ParityRun>) {
        let members = self.state.members();
        join_all(parity.into_iter().map(|run| async move {
            let stray = mutation::on(Mutation::StrayImageParity);
            let member = if stray { MemberId(u8::from(run.member.0 == 0)) } else { run.member };
            // A group that is written there without counting might come to lie on it.
            self.log.room.wait(|| (!self.log.late.contains(member)).then_some(())).await;
            let offset = self.offset(member, position + run.first);
            let mut waits = None;
            while members.is_active(member) {
                match members.write_at(member, offset, Rc::clone(&run.data)).await {
                    Ok(()) => return,
                    Err(IoError::NoSpace) => {
                        self.state.mark(Mark::ArrayLogAwaitsSpace);
                        waits.get_or_insert_with(|| members.full.begin_wait());
                        members.wait_for_space().await;
                    }
                    Err(error) => {
                        self.state.mark(Mark::ArrayLogMemberLost);
                        return members.report_failure(member, error).await;
                    }
                }
            }
        }))
        .await;
    }
}

impl<I: Io> ReplicatedRing<I> for Journal<I> {
    const MARKS: RingMarks = RingMarks {
        around: Mark::ArrayLogAround.name(),
        hedged: Mark::ArrayLogHedged.name(),
        too_dear: Mark::ArrayLogTooDear.name(),
        held_up: Mark::ArrayLogHeldUp.name(),
        member_lost: Mark::ArrayLogMemberLost.name(),
        refused: Mark::ArrayLogUnwritten.name(),
    };

    fn members(&self) -> &Members<I> {
        self.state.members()
    }

    fn late_copies(&self) -> &LateCopies {
        &self.log.late
    }

    fn room(&self) -> &Signal {
        &self.log.room
    }

    fn copies(&self) -> usize {
        self.state.layout().tolerates() + 1
    }

    /// The members of one stripe: an array that loses f + 1 of those is lost anyway.
    fn replica_sets(&self, turn: u64) -> Vec<Vec<MemberId>> {
        let layout = self.state.layout();
        let members = layout.geometry.members();
        let (mut sets, mut seen) = (Vec::new(), vec![false; members]);
        let first = turn % layout.stripes;
        for stripe in (first..layout.stripes).chain(0..first).take(members) {
            let set: Vec<MemberId> = layout.stripe_members(stripe).collect();
            let found = set.iter().filter(|m| !std::mem::replace(&mut seen[usize::from(m.0)], true)).count();
            if found > 0 {
                sets.push(set);
            }
            if seen.iter().all(|&seen| seen) {
                break;
            }
        }
        sets
    }

    fn ring_members(&self) -> Vec<MemberId> {
        self.state.layout().member_ids().collect()
    }

    fn offset(&self, _member: MemberId, position: u32) -> u64 {
        self.state.layout().log_offset(position)
    }
}
