//! The task that writes the log: one group at a time, so that there is no gap before an acknowledged group.
//!
//! Requests that come while a group is being written share the next one.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::array_shard_layout::Run;

use crate::journal::Journal;
use crate::journal::group::BuiltGroup;
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
    async fn append_group(&self, mut group: BuiltGroup) -> Result<(), VolumeError> {
        let acknowledged = mutation::on(Mutation::AcknowledgeEarly);
        let answers = std::mem::take(&mut group.answers);
        if acknowledged {
            answers.iter().for_each(|answer| answer.give(Ok(())));
        }
        let seq = group.header.seq;
        let written = self.write_group(&group).await;
        self.log.blocks_written.set(self.log.blocks_written.get() + u64::from(group.header.blocks));
        let states = std::mem::take(&mut group.states);
        if written.is_ok() {
            self.add_dirty_blocks(seq, group.contents);
            self.log.last.set(seq);
            if let Some(changes) = group.changes {
                self.bitmap.set_written(changes);
            }
        } else {
            self.state.mark(Mark::ArrayLogUnwritten);
            self.log.unwritten.replace(Some(group));
        }
        self.wake_destager();
        states.into_iter().for_each(|fulfil| fulfil.fulfil(written));
        if !acknowledged {
            answers.iter().for_each(|answer| answer.give(written));
        }
        written
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
        queued.into_iter().for_each(Entry::refuse);
    }

    /// Nothing can be written: refuses every request, so that none waits for room in vain.
    fn refuse_all(&self) {
        self.refuse_queued();
        let images = std::mem::take(&mut *self.log.images.borrow_mut());
        images.into_iter().for_each(Entry::refuse);
        let states = std::mem::take(&mut *self.log.states.borrow_mut());
        states.into_iter().for_each(|fulfil| fulfil.fulfil(Err(VolumeError::Failed)));
    }

    fn add_dirty_blocks(&self, seq: u64, contents: Vec<(Run, Buf)>) {
        let mut dirty = self.dirty.borrow_mut();
        for (run, data) in contents {
            for i in 0..run.blocks {
                let block = data.slice(i as usize * BLOCK_BYTES, BLOCK_BYTES);
                dirty.insert(seq, run.stripe, run.slot + i, block);
            }
        }
    }

    /// Writes a group to f + 1 active members, or to all that are left; a member that fails is replaced by another. Each
    /// parity goes to its own member if that is active: a member that is out does not need it when it comes back.
    async fn write_group(&self, group: &BuiltGroup) -> Result<(), VolumeError> {
        if mutation::on(Mutation::SkipJournal) {
            return Ok(());
        }
        let turn = self.log.groups_written.get();
        self.log.groups_written.set(turn + 1);
        let layout = self.state.layout();
        let position = (group.header.seq % self.log.ring) as u32;
        let (mut written, mut failed): (Vec<MemberId>, Vec<MemberId>) = (Vec::new(), Vec::new());
        let mut parity = &group.parity[..];
        loop {
            written.retain(|&m| self.state.members().is_active(m));
            let copies = self.choose_copies(turn, &written, &failed);
            let runs = parity.iter().filter(|run| self.state.members().is_active(run.member));
            let mut writes: Vec<(MemberId, u32, &Gather)> =
                runs.map(|run| (run.member, position + run.first, &run.data)).collect();
            if mutation::on(Mutation::StrayImageParity) {
                writes.iter_mut().for_each(|write| write.0 = MemberId(u8::from(write.0.0 == 0)));
            }
            let parities = writes.len();
            writes.extend(copies.iter().map(|&member| (member, position, &group.data)));
            if writes.is_empty() {
                return if written.is_empty() { Err(VolumeError::Failed) } else { Ok(()) };
            }
            let results = join_all(writes.iter().map(|&(member, at, data)| {
                self.state.members().write_at(member, layout.log_offset(at), Rc::clone(data))
            }));
            for (i, (&(member, ..), result)) in writes.iter().zip(results.await).enumerate() {
                match result {
                    Ok(()) if i < parities => {}
                    Ok(()) => written.push(member),
                    Err(error) => {
                        self.state.mark(Mark::ArrayLogMemberLost);
                        failed.push(member);
                        self.state.members().report_failure(member, error).await;
                    }
                }
            }
            parity = &[];
        }
    }

    /// Further members to write a group to, beside those that already have it.
    fn choose_copies(&self, turn: u64, written: &[MemberId], failed: &[MemberId]) -> Vec<MemberId> {
        let layout = self.state.layout();
        let wanted = if mutation::on(Mutation::OneJournalCopy) { 1 } else { layout.tolerates() + 1 };
        // Members of one stripe first: an array that loses all of those is lost anyway.
        let stripe = turn % layout.stripes;
        let all = (0..layout.geometry.members()).map(|m| MemberId(m as u8));
        let mut copies = Vec::with_capacity(wanted);
        for member in (0..layout.width(stripe)).map(|unit| layout.member(stripe, unit)).chain(all) {
            let known = written.contains(&member) || failed.contains(&member) || copies.contains(&member);
            if written.len() + copies.len() < wanted && !known && self.state.members().is_active(member) {
                copies.push(member);
            }
        }
        copies
    }
}
