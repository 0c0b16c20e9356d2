//! From the journal to the stripes, in rounds: the oldest groups' blocks, with what else lies in their stripes.
//!
//! A round reads and computes, appends the after-images, flushes, and only then changes stripes in place. That flush
//! also makes durable what the round before put in its place, so a round costs one. The tail of the log follows.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::Completion;
use sinew_core::coverage::Mark;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GroupRecord, PARITY_MAX};

use crate::ArrayShard;
use crate::journal::log::Entry;
use crate::stripe::update::{Prepared, runs_of};

/// Stripes of a round at most.
const STRIPES_MAX: usize = 128;

impl<I: Io> ArrayShard<I> {
    /// Keeps room in the log, for ever.
    pub(crate) async fn run_drainer(self: Rc<Self>) {
        loop {
            self.drainer.kicked().await;
            while self.wants_drain() || self.wants_tail() {
                // On a failed array nothing is tried: the log would ask for it again with every refusal.
                if !self.failed.get() && self.drain_once().await.is_ok() {
                    self.log.stuck.set(false);
                } else {
                    self.io.mark(Mark::ArrayDrainStuck);
                    self.drain_all.set(false);
                    self.log.stuck.set(true);
                    self.log.room.notify();
                    self.drained.notify();
                    break;
                }
            }
            self.drained.notify();
        }
    }

    async fn drain_once(self: &Rc<Self>) -> Result<(), VolumeError> {
        if self.wants_drain() {
            self.drain_round().await?;
            if self.is_crowded() { self.settle_tail().await } else { Ok(()) }
        } else {
            self.settle_tail().await
        }
    }

    fn wants_drain(&self) -> bool {
        let filled = self.log.used() > self.log.open_blocks() / 3;
        let wanted = self.drain_all.get() || self.wants_tail() || filled || self.pends_behind_gate();
        wanted && !self.pending.borrow().is_empty()
    }

    /// Whether groups that may be on too few members are still needed, or the tail keeps room occupied.
    pub(crate) fn wants_tail(&self) -> bool {
        self.log.tail_durable() < self.tail_wanted.get() || self.is_crowded()
    }

    /// Whether the tail keeps so much room occupied that clients will soon wait.
    fn is_crowded(&self) -> bool {
        self.log.used() > self.log.open_blocks() * 2 / 3
    }

    /// Brings everything that is in the journal now to its place.
    pub(crate) async fn drain_everything(&self) -> Result<(), VolumeError> {
        while !self.pending.borrow().is_empty() {
            self.drain_all.set(true);
            self.drainer.kick();
            self.drained.wait_once().await;
            if self.log.stuck.get() {
                return Err(VolumeError::Failed);
            }
        }
        self.drain_all.set(false);
        Ok(())
    }

    /// Brings everything to its place and has the members say so.
    pub(crate) async fn settle_all(&self) -> Result<(), VolumeError> {
        self.drain_everything().await?;
        self.flush().await?;
        self.regions.borrow_mut().clean(true);
        self.record_tail().await
    }

    /// Has the tail move up to what is still needed, and its old place become free.
    pub(crate) async fn settle_tail(&self) -> Result<(), VolumeError> {
        self.flush().await?;
        self.record_tail().await
    }

    /// Waits until the log needs no group from before the last change of members; false when that cannot be had now.
    pub(crate) async fn tail_past_changes(&self) -> bool {
        while self.has_log() && self.log.tail_durable() < self.tail_wanted.get() {
            if !self.wait_drained().await {
                return false;
            }
        }
        true
    }

    /// Waits until the drainer has done what it finds to do; false when it can do nothing.
    pub(crate) async fn wait_drained(&self) -> bool {
        self.drainer.kick();
        self.drained.wait_once().await;
        !self.log.stuck.get() && !self.failed.get()
    }

    async fn record_tail(&self) -> Result<(), VolumeError> {
        self.log.write_state().await?;
        self.flush().await
    }

    async fn drain_round(self: &Rc<Self>) -> Result<(), VolumeError> {
        // Less where there is little room: a round that a crash cuts short leaves its images there.
        let free = u64::from(self.slice().geometry.log_blocks) - self.log.used();
        let offsets_max = free as usize / 4 / self.slice().m.max(1);
        let chunk_blocks = self.slice().chunk_blocks;
        let chosen = match self.pends_behind_gate() {
            true => self.pending.borrow().choose_of(&self.gate.closed(), chunk_blocks, offsets_max),
            false => self.pending.borrow_mut().choose(chunk_blocks, offsets_max, STRIPES_MAX),
        };
        let mut held = Vec::with_capacity(chosen.len());
        for &stripe in chosen.keys() {
            held.push(self.locks.alone(stripe).await);
        }
        let (upto, version) = (self.log.last(), self.members.version());
        let mut seqs: Vec<Vec<(u32, u64)>> = Vec::with_capacity(chosen.len());
        let mut work = Vec::with_capacity(chosen.len());
        for (stripe, slots) in chosen {
            let pending = self.pending.borrow();
            let found = |&slot: &u32| Some((slot, pending.get(stripe, slot)?.clone()));
            let found: Vec<_> = slots.iter().filter_map(found).collect();
            let taken: Vec<(u32, u64)> = found.iter().map(|(slot, pended)| (*slot, pended.seq)).collect();
            // The after-images are made of these, whatever newer content comes meanwhile.
            let oldest = self.draining.get().into_iter().chain(taken.iter().map(|(_, seq)| *seq)).min();
            self.draining.set(oldest);
            seqs.push(taken);
            work.push((stripe, found.into_iter().map(|(slot, pended)| (slot, pended.data)).collect()));
        }
        let prepared = join_all(work.into_iter().map(|(stripe, blocks)| self.prepare(stripe, blocks))).await;
        let prepared: Vec<Prepared> = prepared.into_iter().collect::<Result<_, _>>()?;
        if self.members.version() != version {
            self.io.mark(Mark::ArrayDrainVoid);
            return Ok(());
        }
        let uses: Vec<_> = prepared.iter().map(|p| self.use_region(p.stripe)).collect();
        let regions: Vec<usize> = prepared.iter().map(|p| self.slice().region(p.stripe)).collect();
        self.mark_on_flush(&regions);
        if !mutation::on(Mutation::SkipAfterImage) {
            self.append_images(&prepared, upto).await?;
        }
        self.flush().await?;
        if self.members.version() == version {
            self.set_marked(&regions);
        }
        // From here on replay would change the stripes, so the round is carried out, with the members there are.
        self.mark(&regions).await?;
        let put = join_all(prepared.iter().map(|p| self.put(p))).await;
        drop(uses);
        put.into_iter().collect::<Result<(), _>>()?;
        self.settle(&prepared, &seqs);
        Ok(())
    }

    /// What was put in its place is no longer read from the journal; there it stays until the next flush.
    fn settle(&self, prepared: &[Prepared], seqs: &[Vec<(u32, u64)>]) {
        let mut pending = self.pending.borrow_mut();
        for (stripe, slots) in prepared.iter().zip(seqs) {
            for &(slot, seq) in slots {
                pending.settle(stripe.stripe, slot, seq);
            }
            self.counters.blocks_drained.add(slots.len() as u64);
        }
        let oldest = [self.draining.take(), self.unsettled.get()].into_iter().flatten().min();
        if !mutation::on(Mutation::SettleEarly) {
            self.unsettled.set(oldest);
        }
    }

    async fn append_images(&self, prepared: &[Prepared], upto: u64) -> Result<(), VolumeError> {
        let images: Vec<(GroupRecord, Vec<Buf>)> =
            prepared.iter().flat_map(|p| self.images(p, upto)).collect();
        if images.is_empty() {
            return Ok(());
        }
        let (ticket, promise) = Completion::new(images.len() as u32);
        let entry = |(record, data)| Entry::Drain { record, data, ticket: Rc::clone(&ticket) };
        self.log.append_drains(images.into_iter().map(entry));
        promise.await.map(|_| ())
    }

    /// A stripe's after-image, in parts that fit groups. Also where no parity can be written: what older after-images say
    /// of it is void then, since it comes back by rebuild.
    fn images(&self, prepared: &Prepared, upto: u64) -> Vec<(GroupRecord, Vec<Buf>)> {
        let mut written: Vec<(usize, &Buf)> =
            prepared.parity.iter().enumerate().filter_map(|(p, buf)| Some((p, buf.as_ref()?))).collect();
        if mutation::on(Mutation::LoseImageParity) {
            written.clear();
        }
        let slice = self.slice();
        let mut parity = [None; PARITY_MAX];
        for (p, _) in &written {
            parity[*p] = Some(slice.member(prepared.stripe, slice.columns(prepared.stripe) + *p).0);
        }
        let per_part = (self.log.group_blocks() as usize / written.len().max(1)).max(1);
        let mut offsets: Vec<u32> =
            prepared.blocks.iter().map(|(slot, _)| slot % slice.chunk_blocks).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let parts = offsets.chunks(per_part).enumerate().map(|(i, offsets)| {
            let slots = prepared.blocks.iter().map(|(slot, _)| *slot);
            let slots = slots.filter(|slot| offsets.binary_search(&(slot % slice.chunk_blocks)).is_ok());
            let from = i * per_part * BLOCK_BYTES;
            let data = written.iter().map(|(_, buf)| buf.slice(from, offsets.len() * BLOCK_BYTES));
            let record = GroupRecord::Drain {
                stripe: prepared.stripe,
                upto,
                slots: runs_of(slots),
                offsets: runs_of(offsets.iter().copied()),
                parity,
            };
            (record, data.collect())
        });
        parts.collect()
    }
}
