//! Recovery: from what is on the members to a running shard of an array, reading a bounded amount.
//!
//! It reads the rings of the active members and takes the newest group from which all others that it needs can be
//! reached, each naming the one before it. Groups on too few members are written to more first, so that what one
//! recovery has decided the next one finds. Then the after-images of stripes that were being changed (`replay` says what
//! they come to) go to their places once more, whatever a torn update left there; the rest of the journal is drained as
//! always. Without a journal, regions that were dirty are resynced.

mod replay;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{Group, IMAGE_OF_P, decode_group, decode_header};
use sinew_format::model::config::Config;
use sinew_members::hedged_read::ReadSlots;
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::OpenShard;
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::Counters;
use sinew_members::throttle::Throttle;

use crate::ArrayShard;
use crate::journal::dirty_blocks::Pending;
use crate::journal::flush::Flushing;
use crate::journal::log::Log;
use crate::md_dirty::Writing;
use crate::recovery::replay::Replayed;
use crate::request::barrier::Gate;
use crate::reshape::chunks::Mover;
use crate::stripe::locks::Locks;
use sinew_format::model::array_shard_layout::ShardLayout;

/// Blocks of a ring read at once.
const READ_BLOCKS: usize = 256;
/// Places written at once.
const PUTS_AT_ONCE: usize = 64;

/// A group found, and the members that have it.
pub(crate) struct Found {
    pub(crate) group: Group,
    /// The head, and what goes with it.
    pub(crate) bytes: Buf,
    holders: Vec<MemberId>,
}

pub(crate) struct Recovery<I> {
    pub(crate) io: I,
    pub(crate) index: usize,
    config: Rc<Config>,
    pub(crate) slice: ShardLayout,
    pub(crate) members: Members<I>,
    pub(crate) report: RecoveryReport,
}

impl<I: Io> ArrayShard<I> {
    /// Opens shard `index` of an array on the present thread: recovers it and starts its tasks.
    pub(crate) async fn recover(
        open: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<ArrayShard<I>>),
    ) -> Result<(Rc<ArrayShard<I>>, RecoveryReport), RecoverError> {
        let OpenShard { io, index, config, devices, control } = open;
        let started = io.now();
        let geometry = *config.shape.array().expect("the pool is an array");
        let members = Members::new(io.clone(), index, control, &config.members, devices);
        let report = RecoveryReport::default();
        let slice = ShardLayout::new(geometry, index);
        let mut recovery = Recovery { io, index, config, slice, members, report };
        let chain = if geometry.md.is_none() { recovery.whole_chain().await? } else { Vec::new() };
        let mut replayed = recovery.replay(&chain).await?;
        if geometry.md.is_none() {
            // What is in the log now is what the next recovery goes by.
            recovery.flush().await?;
            recovery.put_images(&replayed.images).await?;
            recovery.flush().await?;
        }
        let mut report = recovery.report;
        for member in 0..geometry.members() {
            if !recovery.members.is_active(MemberId(member as u8)) && !mutation::on(Mutation::ForgetStale) {
                replayed.regions.lose(member);
            }
        }
        let shard = recovery.assemble(&chain, replayed);
        shard.judge();
        recovered(Rc::clone(&shard));
        shard.start();
        let settled = shard.settle_recovery().await;
        settled.map_err(|error| RecoverError::Damaged { shard: index, what: error.to_string() })?;
        shard.start_repair();
        report.elapsed_ns = shard.io.now() - started;
        Ok((shard, report))
    }

    /// Ends recovery: nothing is left in the journal, and nothing that was being written is in doubt.
    async fn settle_recovery(self: &Rc<Self>) -> Result<(), VolumeError> {
        // A failed array is read as far as that goes, and not written. Where there is no log there is nothing to settle.
        if self.failed.get() || !self.has_log() {
            return Ok(());
        }
        if !self.slice().geometry.journal && self.is_redundant() {
            let dirty: Vec<usize> = self.regions.borrow().dirty().ones().collect();
            // In use until they are resynced, so that no state says they are at rest.
            dirty.iter().for_each(|&region| self.regions.borrow_mut().begin(region));
            for &region in &dirty {
                self.io.mark(Mark::ArrayRecoverResynced);
                if !mutation::on(Mutation::SkipResync) {
                    self.resync_region(region).await;
                }
            }
            dirty.iter().for_each(|&region| self.regions.borrow_mut().end(region));
        }
        if !self.pending.borrow().is_empty() {
            self.io.mark(Mark::ArrayRecoverDrained);
        }
        self.settle_all().await
    }
}

impl<I: Io> Recovery<I> {
    /// The groups that replay needs, on as many members as they should be.
    async fn whole_chain(&mut self) -> Result<Vec<Found>, RecoverError> {
        let groups = self.read_groups().await;
        let chain = self.chain(groups)?;
        self.complete_copies(&chain).await?;
        Ok(chain)
    }

    /// Every intact group on the active members; of several with one number the one of the highest epoch.
    async fn read_groups(&mut self) -> BTreeMap<u64, Found> {
        let mut groups: BTreeMap<u64, Found> = BTreeMap::new();
        for member in self.layout_members() {
            let ring = self.read_ring(member).await;
            for at in 0..ring.len() / BLOCK_BYTES {
                let Some(found) = self.group_at(&ring, at, member) else { continue };
                let header = found.group.header;
                match groups.get_mut(&header.seq) {
                    Some(known) if known.group.header.epoch > header.epoch => {}
                    Some(known) if known.group.header == header => known.holders.push(member),
                    _ => drop(groups.insert(header.seq, found)),
                }
            }
        }
        groups
    }

    fn layout_members(&self) -> Vec<MemberId> {
        let all = (0..self.slice.geometry.members()).map(|m| MemberId(m as u8));
        all.filter(|&m| self.members.is_active(m)).collect()
    }

    /// A member's ring; what cannot be read counts as not there.
    async fn read_ring(&mut self, member: MemberId) -> Vec<u8> {
        let blocks = self.slice.geometry.log_blocks as usize;
        let mut ring = vec![0; blocks * BLOCK_BYTES];
        for first in (0..blocks).step_by(READ_BLOCKS) {
            let count = READ_BLOCKS.min(blocks - first);
            let offset = self.slice.log_offset(first as u32);
            if let Ok(buf) = self.members.read_at(member, offset, count * BLOCK_BYTES).await {
                self.report.bytes_read += buf.len() as u64;
                ring[first * BLOCK_BYTES..][..buf.len()].copy_from_slice(buf.bytes());
            } else {
                self.io.mark(Mark::ArrayRecoverRingLost);
            }
        }
        ring
    }

    /// The group at a place of a ring. Clients' data is there, too, and may look like one, but for the log's identity.
    fn group_at(&self, ring: &[u8], at: usize, member: MemberId) -> Option<Found> {
        let header = decode_header(&ring[at * BLOCK_BYTES..][..BLOCK_BYTES]).ok()?;
        let ours = header.log == self.slice.geometry.log
            && usize::from(header.shard) == self.index
            && header.seq % u64::from(self.slice.geometry.log_blocks) == at as u64;
        let bytes = ring[at * BLOCK_BYTES..].get(..header.blocks as usize * BLOCK_BYTES).filter(|_| ours)?;
        let group = decode_group(bytes).ok()?;
        let shared = group.shared_blocks() as usize * BLOCK_BYTES;
        Some(Found { group, bytes: Buf::copy_of(&bytes[..shared]), holders: vec![member] })
    }

    /// The groups that replay needs, in order: those of the newest group that all of its own are there for. A newer one
    /// without them says nothing, since what it no longer needs may be in a group that is missing.
    fn chain(&self, mut groups: BTreeMap<u64, Found>) -> Result<Vec<Found>, RecoverError> {
        let mut newest: Vec<(u64, u64)> =
            groups.values().map(|g| (g.group.header.epoch, g.group.header.seq)).collect();
        newest.sort_unstable();
        let flushed = groups.values().map(|g| g.group.header.flushed).max().unwrap_or(0);
        let whole = newest.iter().rev().find_map(|&(_, seq)| chain_of(&groups, seq));
        let chain = whole.unwrap_or_default();
        if chain.last() != newest.last().map(|(_, seq)| seq) {
            self.io.mark(Mark::ArrayRecoverGroupVoid);
        }
        match chain.last() {
            Some(last) if *last >= flushed => {}
            None if newest.is_empty() => {}
            _ => return Err(RecoverError::JournalGap { shard: self.index, lsn: flushed }),
        }
        Ok(chain.iter().map(|seq| groups.remove(seq).expect("found in there")).collect())
    }

    /// Writes groups that are on too few members to more of them. Of parity each member has only its own.
    async fn complete_copies(&mut self, chain: &[Found]) -> Result<(), RecoverError> {
        let active = self.layout_members();
        let copies = (self.slice.tolerates() + 1).min(active.len());
        for found in chain {
            self.report.blocks_replayed += u64::from(found.group.header.blocks);
            let offset = self.ring_offset(&found.group, 0);
            let more = active.iter().filter(|m| !found.holders.contains(m));
            for &member in more.take(copies.saturating_sub(found.holders.len())) {
                self.io.mark(Mark::ArrayRecoverCopied);
                self.write(member, offset, Rc::new([found.bytes.clone()])).await?;
            }
        }
        Ok(())
    }

    /// Where a block of a group lies on each member that has it.
    pub(crate) fn ring_offset(&self, group: &Group, block: u32) -> u64 {
        let position = group.header.seq % u64::from(self.slice.geometry.log_blocks);
        self.slice.log_offset(position as u32 + block)
    }

    /// Writes what belongs in places to every member that is there.
    async fn put_images(&self, images: &BTreeMap<(u64, u16, u32), Buf>) -> Result<(), RecoverError> {
        if mutation::on(Mutation::SkipReplay) {
            return Ok(());
        }
        let images: Vec<_> = images.iter().collect();
        if !images.is_empty() {
            self.io.mark(Mark::ArrayRecoverImage);
        }
        for some in images.chunks(PUTS_AT_ONCE) {
            let writes = some.iter().map(|((stripe, unit, offset), buf)| {
                let unit = match unit.checked_sub(IMAGE_OF_P) {
                    None => usize::from(*unit),
                    Some(p) => self.slice.columns(*stripe) + usize::from(p),
                };
                let (member, chunk) = self.slice.home(*stripe, unit);
                let at = chunk + u64::from(*offset) * BLOCK_BYTES as u64;
                let active = self.members.is_active(member);
                let data: Gather = Rc::new([(*buf).clone()]);
                async move { if active { self.write(member, at, data).await } else { Ok(()) } }
            });
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    pub(crate) async fn write(
        &self,
        member: MemberId,
        offset: u64,
        data: Gather,
    ) -> Result<(), RecoverError> {
        let written = self.members.write_at(member, offset, data).await;
        written.map_err(|_| self.lost(member))
    }

    fn lost(&self, member: MemberId) -> RecoverError {
        self.io.mark(Mark::ArrayRecoverMemberLost);
        RecoverError::MemberFailed { shard: self.index, member }
    }

    async fn flush(&self) -> Result<(), RecoverError> {
        for member in self.layout_members() {
            let flushed = self.members.flush(member).await;
            flushed.map_err(|_| self.lost(member))?;
        }
        Ok(())
    }

    fn assemble(self, chain: &[Found], replayed: Replayed) -> Rc<ArrayShard<I>> {
        let ring = self.slice.geometry.log_blocks;
        let mut pending = Pending::default();
        let mut newest: Vec<(u64, u64, u32, Buf)> = Vec::new();
        for ((stripe, slot), mut versions) in replayed.data {
            let Some((seq, data)) = versions.pop() else { continue };
            newest.push((seq, stripe, slot, data));
        }
        newest.sort_by_key(|&(seq, stripe, slot, _)| (seq, stripe, slot));
        for (seq, stripe, slot, data) in newest {
            pending.insert(seq, stripe, slot, data);
        }
        // Numbers begin at one turn of the ring, so that 0 stands for no group.
        let (last, next, tail) = match (chain.first(), chain.last()) {
            (Some(first), Some(last)) => {
                let last = last.group.header;
                (last.seq, last.seq + u64::from(last.blocks), first.group.header.seq)
            }
            _ => (0, u64::from(ring), u64::from(ring)),
        };
        let mover = Mover::default();
        mover.resume(self.slice.moved());
        let state = if replayed.state > 0 { replayed.state } else { tail };
        Rc::new(ArrayShard {
            log: Log::new(
                ring,
                self.slice.geometry.client_blocks(),
                self.config.epoch,
                last,
                next,
                tail,
                state,
            ),
            io: self.io,
            slice: RefCell::new(Rc::new(self.slice)),
            members: self.members,
            counters: Counters::default(),
            update_latency: RefCell::default(),
            throttle: Throttle::default(),
            locks: Locks::default(),
            read_slots: ReadSlots::default(),
            queued: RefCell::default(),
            regions: RefCell::new(replayed.regions),
            writing: Writing::default(),
            pending: RefCell::new(pending),
            draining: Cell::new(None),
            unsettled: Cell::new(None),
            settling: Cell::new(None),
            flushing: Flushing::default(),
            drainer: Default::default(),
            drained: Default::default(),
            tail_wanted: Cell::new(next),
            drain_all: Cell::new(false),
            rebuilder: Default::default(),
            scrubber: Default::default(),
            sweeper: Default::default(),
            mover,
            gate: Gate::default(),
            changing_images: Cell::new(None),
            scrub_next: Cell::new(replayed.work.scrub),
            scrub_orders: Cell::new(0),
            closing: Cell::new(false),
            failed: Cell::new(false),
        })
    }
}

/// The groups from the tail of the group `last` up to itself, by number; `None` when one is missing.
fn chain_of(groups: &BTreeMap<u64, Found>, last: u64) -> Option<Vec<u64>> {
    let mut chain = vec![last];
    let mut header = groups.get(&last)?.group.header;
    let tail = header.tail;
    while header.seq > tail {
        let before = groups.get(&header.before)?.group.header;
        if before.epoch > header.epoch {
            return None;
        }
        header = before;
        chain.push(header.seq);
    }
    chain.reverse();
    (header.seq == tail).then_some(chain)
}
