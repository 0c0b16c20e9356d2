//! Writing: a client's changes to one shard's part of the volume.
//!
//! In an array with a journal, changes are appended to it, and that is all that a client waits for. In one without, changes
//! go to their stripes; changes that wait for the same stripe are carried out together, so that neighbours share one update
//! of the parity.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::ops::Range;
use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::Completion;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::model::array_shard_layout::Run;
use sinew_members::update_latency::ChangeParts;

use crate::journal::log::Entry;
use crate::request::Requests;
use crate::request::change::{Change, QueuedChange};
use crate::stripe::update::Updated;

/// Blocks of zeros written at once.
const ZERO_BLOCKS: u64 = 256;
/// Stripes discarded at once.
const STRIPES_DISCARDED: usize = 256;
/// Blocks of a discard that are looked at together.
const DISCARDED_BLOCKS: u64 = 1 << 16;

impl<I: Io> Requests<I> {
    /// Stores whole consecutive blocks.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the array has failed; [`VolumeError::NoSpace`] when members are full.
    pub(crate) async fn write(self: &Rc<Self>, local: u64, data: Buf) -> Result<(), VolumeError> {
        self.state.counters().writes.add(1);
        self.state.counters().written_bytes.add(data.len() as u64);
        self.write_blocks(local, data, false).await
    }

    /// Refuses new data while the log waits for space on its members; zeros may make some.
    fn require_space(&self) -> Result<(), VolumeError> {
        if self.state.members().full.is_awaited() {
            self.state.mark(Mark::ArrayWriteNoSpace);
            return Err(VolumeError::NoSpace);
        }
        Ok(())
    }

    async fn write_blocks(
        self: &Rc<Self>,
        local: u64,
        data: Buf,
        is_discard: bool,
    ) -> Result<(), VolumeError> {
        let _inside = self.stripes.enter_writing(local, (data.len() / BLOCK_BYTES) as u64).await;
        if !is_discard {
            self.require_space()?;
        }
        let runs = self.data_runs(local, data);
        runs.iter().for_each(|(run, _)| self.stripes.note_use(run.stripe, true));
        if self.state.layout().geometry.journal {
            if self.state.has_failed() {
                return Err(VolumeError::Failed);
            }
            let (completion, promise) = Completion::new(runs.iter().map(|(run, _)| run.blocks).sum());
            let entry =
                |(run, data)| Entry::Data { run, data, is_discard, completion: Rc::clone(&completion) };
            self.journal.append(runs.into_iter().map(entry));
            return promise.await.map(|_| ());
        }
        let mut stripes: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        for (run, data) in runs {
            stripes.entry(run.stripe).or_default().push(Change::Blocks { slot: run.slot, data });
        }
        let writes = stripes.into_iter().map(|(stripe, changes)| self.change_stripe(stripe, changes));
        // Waits for all parts even when one fails: no part of a request happens after its answer.
        join_all(writes).await.into_iter().collect()
    }

    /// The runs that blocks go to, with their data; neighbours in a stripe are joined.
    fn data_runs(&self, local: u64, data: Buf) -> Vec<(Run, Buf)> {
        let mut runs: Vec<(Run, Buf)> = Vec::with_capacity(1);
        let mut from = 0;
        for run in self.state.layout().runs(local, (data.len() / BLOCK_BYTES) as u64) {
            let bytes = run.blocks as usize * BLOCK_BYTES;
            let part = data.slice(from, bytes);
            from += bytes;
            if let Some((last, buf)) = runs.last_mut()
                && last.stripe == run.stripe
                && last.slot + last.blocks == run.slot
                && buf.join(&part)
            {
                last.blocks += run.blocks;
                continue;
            }
            runs.push((run, part));
        }
        runs
    }

    /// Changes some bytes inside one block. Concurrent changes of the same block each take effect whole.
    ///
    /// # Errors
    /// As for [`Requests::write`].
    pub(crate) async fn merge(
        self: &Rc<Self>,
        local: u64,
        at: usize,
        bytes: Rc<[u8]>,
    ) -> Result<(), VolumeError> {
        self.state.counters().merges.add(1);
        self.state.counters().written_bytes.add(bytes.len() as u64);
        let _inside = self.stripes.enter_writing(local, 1).await;
        self.require_space()?;
        let run = self.state.layout().runs(local, 1).next().expect("one block has one run");
        self.stripes.note_use(run.stripe, true);
        if !self.state.layout().geometry.journal {
            return self.change_stripe(run.stripe, vec![Change::Part { slot: run.slot, at, bytes }]).await;
        }
        loop {
            let version = self.journal.dirty().version();
            let base = self.stripes.read_run(run).await?;
            if self.stripes.is_given_up(local..local + 1) {
                return Err(VolumeError::Failed);
            }
            self.require_space()?;
            let (completion, promise) = Completion::new(1);
            let bytes = Rc::clone(&bytes);
            self.journal.append([Entry::Merge { run, at, bytes, base, version, completion }]);
            if promise.await? {
                return Ok(());
            }
        }
    }

    /// Discards consecutive blocks. In an elastic array whole stripes become empty; elsewhere zeros are written.
    ///
    /// # Errors
    /// As for [`Requests::write`].
    pub(crate) async fn discard(self: &Rc<Self>, local: u64, count: u64) -> Result<(), VolumeError> {
        self.state.counters().discards.add(1);
        if !self.state.layout().is_elastic() {
            return self.write_zeros(local, count).await;
        }
        // Where no row has grown, consecutive blocks fill a stripe before the next one begins.
        let window = DISCARDED_BLOCKS.next_multiple_of(u64::from(self.state.layout().stripe_slots()));
        let (mut at, end) = (local, local + count);
        while at < end {
            let upto = ((at / window + 1) * window).min(end);
            for rest in self.empty_whole_stripes(at, upto - at).await? {
                self.write_zeros(rest.start, rest.end - rest.start).await?;
            }
            at = upto;
        }
        Ok(())
    }

    /// Makes the stripes empty that have no other blocks than these; returns the blocks of other stripes.
    async fn empty_whole_stripes(&self, local: u64, count: u64) -> Result<Vec<Range<u64>>, VolumeError> {
        // Rows do not change meanwhile.
        let _inside = self.stripes.enter_writing(local, count).await;
        let layout = self.state.layout();
        let mut blocks: BTreeMap<u64, u64> = BTreeMap::new();
        for run in layout.runs(local, count) {
            *blocks.entry(run.stripe).or_default() += u64::from(run.blocks);
        }
        blocks.retain(|&stripe, blocks| {
            *blocks == layout.columns(stripe) as u64 * u64::from(layout.chunk_blocks)
        });
        let stripes: Vec<u64> = blocks.keys().copied().collect();
        for some in stripes.chunks(STRIPES_DISCARDED) {
            self.stripes.make_empty(some).await?;
            let (of_some, mut at) = (|stripe| some.binary_search(&stripe).is_ok(), local);
            for run in layout.runs(local, count) {
                let end = at + u64::from(run.blocks);
                if of_some(run.stripe) {
                    self.stripes.restore(at..end);
                }
                at = end;
            }
        }
        let (mut rest, mut at): (Vec<Range<u64>>, u64) = (Vec::new(), local);
        for run in layout.runs(local, count) {
            let end = at + u64::from(run.blocks);
            match rest.last_mut() {
                _ if blocks.contains_key(&run.stripe) => {}
                Some(last) if last.end == at => last.end = end,
                _ => rest.push(at..end),
            }
            at = end;
        }
        Ok(rest)
    }

    async fn write_zeros(self: &Rc<Self>, local: u64, count: u64) -> Result<(), VolumeError> {
        let zeros = Buf::zeroed(count.min(ZERO_BLOCKS) as usize * BLOCK_BYTES);
        let (mut at, end) = (local, local + count);
        while at < end {
            let blocks = (end - at).min(ZERO_BLOCKS);
            self.write_blocks(at, zeros.slice(0, blocks as usize * BLOCK_BYTES), true).await?;
            at += blocks;
        }
        Ok(())
    }

    /// Queues changes of a stripe, and carries them out unless another task is at work on the stripe.
    async fn change_stripe(self: &Rc<Self>, stripe: u64, changes: Vec<Change>) -> Result<(), VolumeError> {
        let (completion, promise) = Completion::new(changes.len() as u32);
        let at = self.state.io().now_coarse();
        let new =
            changes.into_iter().map(|change| QueuedChange { at, change, completion: Rc::clone(&completion) });
        let leads = match self.queued.borrow_mut().entry(stripe) {
            MapEntry::Occupied(mut queue) => {
                queue.get_mut().extend(new);
                false
            }
            MapEntry::Vacant(queue) => {
                queue.insert(new.collect());
                true
            }
        };
        if leads {
            Rc::clone(self).change_queued(stripe).await;
        }
        promise.await.map(|_| ())
    }

    /// Carries out the changes queued for a stripe. Changes queued meanwhile are left to a task of their own.
    async fn change_queued(self: Rc<Self>, stripe: u64) {
        let (queued, updated) = {
            let _lock = self.stripes.lock_exclusive(stripe).await;
            let queued = self.queued.borrow_mut().get_mut(&stripe).map(std::mem::take).unwrap_or_default();
            let now = self.state.io().now_coarse();
            let changes = queued.len() as u64;
            let wait_ns = queued.iter().map(|queued| now - queued.at).sum();
            self.state.counters().stripe_changes.add(changes);
            self.state.counters().stripe_wait_ns.add(wait_ns);
            let parts = ChangeParts { changes, wait_ns, ..ChangeParts::default() };
            let updated = match self.resolve(stripe, &queued).await {
                Ok(blocks) => self.stripes.update(stripe, blocks, now, parts).await,
                Err(error) => Err(error),
            };
            (queued, updated)
        };
        let more = self.queued.borrow().get(&stripe).is_some_and(|queue| !queue.is_empty());
        if more {
            let shard = Rc::clone(&self);
            self.state.io().spawn(async move { Box::pin(shard.change_queued(stripe)).await });
        } else {
            self.queued.borrow_mut().remove(&stripe);
        }
        let result = match updated {
            Ok(Updated::Written) => Ok(true),
            Ok(Updated::RolledBack(places)) => {
                // Content that a place still has might appear after a crash, although it was refused.
                self.stripes.settle(&places).await.and(Err(VolumeError::NoSpace))
            }
            Err(error) => Err(error),
        };
        queued.iter().for_each(|queued| queued.completion.done(1, result));
    }

    /// The result of changes, applied in their order: slots and their new content. The caller holds the stripe's lock,
    /// exclusively.
    async fn resolve(&self, stripe: u64, queued: &[QueuedChange]) -> Result<Vec<(u32, Buf)>, VolumeError> {
        let block = |data: &Buf, i: usize| data.slice(i * BLOCK_BYTES, BLOCK_BYTES);
        if let [QueuedChange { change: Change::Blocks { slot, data }, .. }] = queued {
            let blocks = data.len() / BLOCK_BYTES;
            return Ok((0..blocks).map(|i| (slot + i as u32, block(data, i))).collect());
        }
        let mut all: BTreeMap<u32, Buf> = BTreeMap::new();
        for QueuedChange { change, .. } in queued {
            match change {
                Change::Blocks { slot, data } => {
                    all.extend((0..data.len() / BLOCK_BYTES).map(|i| (slot + i as u32, block(data, i))));
                }
                Change::Part { slot, at, bytes } => {
                    let mut content = match all.get(slot) {
                        Some(buf) => Buf::copy_of(buf.bytes()),
                        None => {
                            let run = Run { stripe, slot: *slot, blocks: 1 };
                            Buf::copy_of(self.stripes.read_content(run).await?.bytes())
                        }
                    };
                    content.bytes_mut()[*at..*at + bytes.len()].copy_from_slice(bytes);
                    all.insert(*slot, content);
                }
            }
        }
        Ok(all.into_iter().collect())
    }
}
