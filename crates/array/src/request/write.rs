//! Writing: a client's changes to one shard's part of the volume.
//!
//! With a journal they are appended to it, and that is all a client waits for. Without one they go to their stripes, and
//! writes that wait for the same stripe are carried out together: neighbours share one change of the parity.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::Completion;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_members::update_latency::ChangeParts;

use crate::ArrayShard;
use crate::journal::log::Entry;
use sinew_format::model::array_shard_layout::Run;

/// Blocks of zeros written at once.
const ZERO_BLOCKS: u64 = 256;

/// A change of a stripe.
enum Change {
    /// New content of consecutive slots.
    Blocks { slot: u32, data: Buf },
    /// New content of part of a block.
    Part { slot: u32, at: usize, bytes: Rc<[u8]> },
}

/// A change that waits for its stripe.
pub(crate) struct Queued {
    /// Since when.
    at: u64,
    change: Change,
    ticket: Rc<Completion>,
}

impl<I: Io> ArrayShard<I> {
    /// Stores whole consecutive blocks.
    pub(crate) async fn write(self: &Rc<Self>, local: u64, data: Buf) -> Result<(), VolumeError> {
        self.counters.writes.add(1);
        self.counters.written_bytes.add(data.len() as u64);
        self.write_blocks(local, data).await
    }

    async fn write_blocks(self: &Rc<Self>, local: u64, data: Buf) -> Result<(), VolumeError> {
        let _inside = self.enter_writing(local, (data.len() / BLOCK_BYTES) as u64).await;
        let runs = self.data_runs(local, data);
        if self.slice().geometry.journal {
            if self.failed.get() {
                return Err(VolumeError::Failed);
            }
            let (ticket, promise) = Completion::new(runs.iter().map(|(run, _)| run.blocks).sum());
            let entry = |(run, data)| Entry::Data { run, data, ticket: Rc::clone(&ticket) };
            self.log.append(runs.into_iter().map(entry));
            return promise.await.map(|_| ());
        }
        let mut stripes: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
        for (run, data) in runs {
            stripes.entry(run.stripe).or_default().push(Change::Blocks { slot: run.slot, data });
        }
        let writes = stripes.into_iter().map(|(stripe, changes)| self.change_stripe(stripe, changes));
        // All parts are waited for even when one fails: nothing of a request happens after its answer.
        join_all(writes).await.into_iter().collect()
    }

    /// The runs that blocks go to, with their data; those that follow one another in a stripe as one.
    fn data_runs(&self, local: u64, data: Buf) -> Vec<(Run, Buf)> {
        let mut runs: Vec<(Run, Buf)> = Vec::with_capacity(1);
        let mut from = 0;
        for run in self.slice().runs(local, (data.len() / BLOCK_BYTES) as u64) {
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
    pub(crate) async fn merge(
        self: &Rc<Self>,
        local: u64,
        at: usize,
        bytes: Rc<[u8]>,
    ) -> Result<(), VolumeError> {
        self.counters.merges.add(1);
        self.counters.written_bytes.add(bytes.len() as u64);
        let _inside = self.enter_writing(local, 1).await;
        let run = self.slice().runs(local, 1).next().expect("one block has one run");
        if !self.slice().geometry.journal {
            return self.change_stripe(run.stripe, vec![Change::Part { slot: run.slot, at, bytes }]).await;
        }
        loop {
            let version = self.pending.borrow().version();
            let base = self.read_run(run).await?;
            let (ticket, promise) = Completion::new(1);
            let bytes = Rc::clone(&bytes);
            self.log.append([Entry::Merge { run, at, bytes, base, version, ticket }]);
            if promise.await? {
                return Ok(());
            }
        }
    }

    /// Makes consecutive blocks zeros, the only way in which an array can forget them.
    pub(crate) async fn write_zeros(self: &Rc<Self>, local: u64, count: u64) -> Result<(), VolumeError> {
        self.counters.discards.add(1);
        let zeros = Buf::zeroed(count.min(ZERO_BLOCKS) as usize * BLOCK_BYTES);
        let (mut at, end) = (local, local + count);
        while at < end {
            let blocks = (end - at).min(ZERO_BLOCKS);
            self.write_blocks(at, zeros.slice(0, blocks as usize * BLOCK_BYTES)).await?;
            at += blocks;
        }
        Ok(())
    }

    /// Queues changes of a stripe and sees to it, unless somebody does already.
    async fn change_stripe(self: &Rc<Self>, stripe: u64, changes: Vec<Change>) -> Result<(), VolumeError> {
        let (ticket, promise) = Completion::new(changes.len() as u32);
        let at = self.io.now_coarse();
        let new = changes.into_iter().map(|change| Queued { at, change, ticket: Rc::clone(&ticket) });
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

    /// Carries out what is queued for a stripe; what is queued meanwhile is left to a task of its own.
    async fn change_queued(self: Rc<Self>, stripe: u64) {
        {
            let _held = self.locks.alone(stripe).await;
            let queued = self.queued.borrow_mut().get_mut(&stripe).map(std::mem::take).unwrap_or_default();
            let now = self.io.now_coarse();
            let changes = queued.len() as u64;
            let wait_ns = queued.iter().map(|queued| now - queued.at).sum();
            self.counters.stripe_changes.add(changes);
            self.counters.stripe_wait_ns.add(wait_ns);
            let parts = ChangeParts { changes, wait_ns, ..ChangeParts::default() };
            let result = match self.resolve(stripe, &queued).await {
                Ok(blocks) => self.update(stripe, blocks, now, parts).await,
                Err(error) => Err(error),
            };
            queued.iter().for_each(|queued| queued.ticket.done(1, result.map(|()| true)));
        }
        let more = self.queued.borrow().get(&stripe).is_some_and(|queue| !queue.is_empty());
        if more {
            let shard = Rc::clone(&self);
            self.io.spawn(async move { Box::pin(shard.change_queued(stripe)).await });
        } else {
            self.queued.borrow_mut().remove(&stripe);
        }
    }

    /// What changes come to, in their order: slots and their new content. The caller holds the stripe alone.
    async fn resolve(&self, stripe: u64, queued: &[Queued]) -> Result<Vec<(u32, Buf)>, VolumeError> {
        let block = |data: &Buf, i: usize| data.slice(i * BLOCK_BYTES, BLOCK_BYTES);
        if let [Queued { change: Change::Blocks { slot, data }, .. }] = queued {
            let blocks = data.len() / BLOCK_BYTES;
            return Ok((0..blocks).map(|i| (slot + i as u32, block(data, i))).collect());
        }
        let mut all: BTreeMap<u32, Buf> = BTreeMap::new();
        for Queued { change, .. } in queued {
            match change {
                Change::Blocks { slot, data } => {
                    all.extend((0..data.len() / BLOCK_BYTES).map(|i| (slot + i as u32, block(data, i))));
                }
                Change::Part { slot, at, bytes } => {
                    let mut content = match all.get(slot) {
                        Some(buf) => Buf::copy_of(buf.bytes()),
                        None => {
                            let run = Run { stripe, slot: *slot, blocks: 1 };
                            Buf::copy_of(self.read_locked(run).await?.bytes())
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
