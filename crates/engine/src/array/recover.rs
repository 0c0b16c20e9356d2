//! Recovery: from what is on the members to a running shard of an array, reading a bounded amount.
//!
//! It reads the rings of the active members and takes the newest group from which all others that it needs can be
//! reached, each naming the one before it. Groups on too few members are written to more first, so that what one
//! recovery has decided the next one finds. Then the after-images of stripes that were being changed go to their
//! places once more, whatever a torn update left there; the rest of the journal is drained as always. Without a
//! journal, regions that were dirty are resynced.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use async_channel::{Receiver, Sender};

use crate::addr::MemberId;
use crate::around::Readings;
use crate::buf::{BLOCK_BYTES, Buf};
use crate::disk::group::{GroupHeader, GroupRecord, IMAGE_OF_P, decode_group, decode_header};
use crate::disk::superblock::Config;
use crate::io::{DeviceId, Gather, Io};
use crate::member::Members;
use crate::paths::Path;
use crate::recover::{RecoverError, RecoveryReport};
use crate::sabotage::{self, Sabotage};
use crate::serve::Order;
use crate::shape::Shape;
use crate::shard::{Event, Shard};
use crate::status::Counters;
use crate::sync::join_all;
use crate::throttle::Throttle;
use crate::volume::VolumeError;

use super::ArrayShard;
use super::flush::Flushing;
use super::gate::Gate;
use super::locks::Locks;
use super::log::Log;
use super::md::Writing;
use super::mover::Mover;
use super::pending::Pending;
use super::regions::{LongWork, Regions};
use super::slice::Slice;

/// Blocks of a ring read at once.
const READ_BLOCKS: usize = 256;
/// Places written at once.
const PUTS_AT_ONCE: usize = 64;

/// A group found, and the members that have it.
struct Found {
    header: GroupHeader,
    records: Vec<GroupRecord>,
    bytes: Buf,
    holders: Vec<MemberId>,
}

/// What replay of the groups comes to.
struct Replayed {
    regions: Regions,
    work: LongWork,
    /// The last group with a state.
    state: u64,
    /// Content that is in no place yet: stripe and slot, with its versions and their groups, oldest first.
    data: BTreeMap<(u64, u32), Vec<(u64, Buf)>>,
    /// What belongs in places: stripe, unit as images have it, and offset.
    images: BTreeMap<(u64, u16, u32), Buf>,
    /// What does once the log says that the rows have changed.
    changing: BTreeMap<(u64, u16, u32), Buf>,
}

struct Recovery<I> {
    io: I,
    index: usize,
    config: Rc<Config>,
    slice: Slice,
    members: Members<I>,
    report: RecoveryReport,
}

impl<I: Io> ArrayShard<I> {
    /// Opens shard `index` of an array on the present thread: recovers it and starts its tasks.
    pub(crate) async fn open(
        io: I,
        index: usize,
        config: Rc<Config>,
        devices: &[Option<DeviceId>],
        control: Sender<Event>,
        mailbox: Receiver<Order>,
    ) -> Result<(Rc<ArrayShard<I>>, RecoveryReport), RecoverError> {
        let started = io.now();
        let Shape::Array(geometry) = config.shape else { unreachable!("the caller looked") };
        let members = Members::new(io.clone(), index, control, &config.members, devices);
        let report = RecoveryReport::default();
        let slice = Slice::new(geometry, index);
        let mut recovery = Recovery { io, index, config, slice, members, report };
        let chain = if geometry.md.is_none() { recovery.whole_chain().await? } else { Vec::new() };
        let mut replayed = recovery.replay(&chain)?;
        let growing = recovery.slice.growth().is_some() || recovery.slice.changing().is_some();
        if growing && usize::from(replayed.work.moving_to) == geometry.members() {
            recovery.slice.set_moved(replayed.work.moved);
        }
        if geometry.md.is_none() {
            recovery.put_images(&replayed.images).await?;
            recovery.flush().await?;
        }
        let mut report = recovery.report;
        for member in 0..geometry.members() {
            if !recovery.members.is_active(MemberId(member as u8)) && !sabotage::on(Sabotage::ForgetStale) {
                replayed.regions.lose(member);
            }
        }
        let shard = recovery.assemble(&chain, replayed);
        shard.judge();
        shard.io.spawn(Shard::Array(Rc::clone(&shard)).run_mailbox(mailbox));
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
                self.io.reach(Path::ArrayRecoverResynced);
                if !sabotage::on(Sabotage::SkipResync) {
                    self.resync_region(region).await;
                }
            }
            dirty.iter().for_each(|&region| self.regions.borrow_mut().end(region));
        }
        if !self.pending.borrow().is_empty() {
            self.io.reach(Path::ArrayRecoverDrained);
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
                match groups.get_mut(&found.header.seq) {
                    Some(known) if known.header.epoch > found.header.epoch => {}
                    Some(known) if known.header == found.header => known.holders.push(member),
                    _ => drop(groups.insert(found.header.seq, found)),
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
                self.io.reach(Path::ArrayRecoverRingLost);
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
        let (header, records) = decode_group(bytes).ok()?;
        Some(Found { header, records, bytes: Buf::copy_of(bytes), holders: vec![member] })
    }

    /// The groups that replay needs, in order: those of the newest group that all of its own are there for. A newer one
    /// without them says nothing, since what it no longer needs may be in a group that is missing.
    fn chain(&self, mut groups: BTreeMap<u64, Found>) -> Result<Vec<Found>, RecoverError> {
        let mut newest: Vec<(u64, u64)> = groups.values().map(|g| (g.header.epoch, g.header.seq)).collect();
        newest.sort_unstable();
        let flushed = groups.values().map(|g| g.header.flushed).max().unwrap_or(0);
        let whole = newest.iter().rev().find_map(|&(_, seq)| chain_of(&groups, seq));
        let chain = whole.unwrap_or_default();
        if chain.last() != newest.last().map(|(_, seq)| seq) {
            self.io.reach(Path::ArrayRecoverGroupVoid);
        }
        match chain.last() {
            Some(last) if *last >= flushed => {}
            None if newest.is_empty() => {}
            _ => return Err(RecoverError::JournalGap { shard: self.index, lsn: flushed }),
        }
        Ok(chain.iter().map(|seq| groups.remove(seq).expect("found in there")).collect())
    }

    /// Writes groups that are on too few members to more of them.
    async fn complete_copies(&mut self, chain: &[Found]) -> Result<(), RecoverError> {
        let active = self.layout_members();
        let copies = (self.slice.tolerates() + 1).min(active.len());
        for group in chain {
            self.report.blocks_replayed += u64::from(group.header.blocks);
            let offset =
                self.slice.log_offset((group.header.seq % u64::from(self.slice.geometry.log_blocks)) as u32);
            let more = active.iter().filter(|m| !group.holders.contains(m));
            for &member in more.take(copies.saturating_sub(group.holders.len())) {
                self.io.reach(Path::ArrayRecoverCopied);
                self.write(member, offset, Rc::new([group.bytes.clone()])).await?;
            }
        }
        self.flush().await
    }

    fn replay(&mut self, chain: &[Found]) -> Result<Replayed, RecoverError> {
        let geometry = self.slice.geometry;
        let mut replayed = Replayed {
            regions: Regions::new(self.slice.regions(), geometry.members(), geometry.zeroed),
            work: LongWork::default(),
            state: 0,
            data: BTreeMap::new(),
            images: BTreeMap::new(),
            changing: BTreeMap::new(),
        };
        for group in chain {
            let mut at = group.header.head_blocks as usize * BLOCK_BYTES;
            for record in &group.records {
                let blocks = record.data_blocks().unwrap_or(0) as usize;
                let data = group.bytes.slice(at, blocks * BLOCK_BYTES);
                at += data.len();
                self.replay_record(group.header.seq, record, &data, &mut replayed)?;
            }
        }
        Ok(replayed)
    }

    fn damaged(&self, what: &str) -> RecoverError {
        RecoverError::Damaged { shard: self.index, what: what.to_owned() }
    }

    fn replay_record(
        &mut self,
        seq: u64,
        record: &GroupRecord,
        data: &Buf,
        replayed: &mut Replayed,
    ) -> Result<(), RecoverError> {
        let slice = &self.slice;
        let block = |i: usize| data.slice(i * BLOCK_BYTES, BLOCK_BYTES);
        let in_stripe = |runs: &[(u32, u32)], limit: u32| {
            runs.iter().all(|&(first, count)| first.checked_add(count).is_some_and(|end| end <= limit))
        };
        match record {
            GroupRecord::State(bytes) => {
                let decoded = Regions::decode(bytes, slice.regions(), slice.geometry.members());
                let (regions, work) = decoded.map_err(|error| self.damaged(&error.to_string()))?;
                (replayed.regions, replayed.work, replayed.state) = (regions, work, seq);
            }
            GroupRecord::Data { stripe, slot, blocks } => {
                if *stripe >= slice.stripes || !in_stripe(&[(*slot, *blocks)], slice.stripe_slots()) {
                    return Err(self.damaged("the journal names blocks that the array does not have"));
                }
                for i in 0..*blocks {
                    replayed.data.entry((*stripe, slot + i)).or_default().push((seq, block(i as usize)));
                }
            }
            GroupRecord::Drain { stripe, upto, slots, offsets, parity } => {
                let possible = *stripe < slice.stripes
                    && in_stripe(slots, slice.stripe_slots())
                    && in_stripe(offsets, slice.chunk_blocks)
                    && usize::from(*parity) < 1 << slice.m;
                if !possible {
                    return Err(self.damaged("the journal names a stripe that the array does not have"));
                }
                self.report.records_verified += 1;
                for slot in slots.iter().flat_map(|&(first, count)| first..first + count) {
                    replayed.take_data(*stripe, slot, *upto, slice.chunk_blocks);
                }
                for p in (0..slice.m).filter(|p| parity >> p & 1 == 0) {
                    for offset in offsets.iter().flat_map(|&(first, count)| first..first + count) {
                        replayed.images.remove(&(*stripe, IMAGE_OF_P + p as u16, offset));
                    }
                }
                let columns = (0..slice.m).filter(|p| parity >> p & 1 == 1);
                let places = columns.flat_map(|p| {
                    let offsets = offsets.iter().flat_map(|&(first, count)| first..first + count);
                    offsets.map(move |offset| (IMAGE_OF_P + p as u16, offset))
                });
                for (i, (unit, offset)) in places.enumerate() {
                    replayed.images.insert((*stripe, unit, offset), block(i));
                }
            }
            GroupRecord::Image { stripe, unit, offset, blocks } => {
                let is_unit =
                    usize::from(*unit) < slice.k || usize::from(unit.wrapping_sub(IMAGE_OF_P)) < slice.m;
                if *stripe >= slice.stripes
                    || !is_unit
                    || !in_stripe(&[(*offset, *blocks)], slice.chunk_blocks)
                {
                    return Err(self.damaged("the journal names a row that the array does not have"));
                }
                for i in 0..*blocks {
                    replayed.changing.insert((*stripe, *unit, offset + i), block(i as usize));
                }
            }
            GroupRecord::Changed { to, upto, rows } => {
                (replayed.work.moved, replayed.work.moving_to) = (*upto, *to);
                let changed = |row: u64| {
                    rows.iter().any(|&(first, count)| {
                        (u64::from(first)..u64::from(first) + u64::from(count)).contains(&row)
                    })
                };
                // Their places have other roles now, and what there was is in them.
                replayed.images.retain(|&(row, _, _), _| !changed(row));
                replayed.data.retain(|&(row, _), _| !changed(row));
                let changing = std::mem::take(&mut replayed.changing);
                let images = changing.into_iter().filter(|&((row, _, _), _)| changed(row));
                for (place, buf) in images {
                    self.io.reach(Path::ArrayRecoverChanged);
                    replayed.images.insert(place, buf);
                }
            }
        }
        Ok(())
    }

    /// Writes what belongs in places to every member that is there.
    async fn put_images(&self, images: &BTreeMap<(u64, u16, u32), Buf>) -> Result<(), RecoverError> {
        if sabotage::on(Sabotage::SkipReplay) {
            return Ok(());
        }
        let images: Vec<_> = images.iter().collect();
        if !images.is_empty() {
            self.io.reach(Path::ArrayRecoverImage);
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

    async fn write(&self, member: MemberId, offset: u64, data: Gather) -> Result<(), RecoverError> {
        let written = self.members.write_at(member, offset, data).await;
        written.map_err(|_| self.lost(member))
    }

    fn lost(&self, member: MemberId) -> RecoverError {
        self.io.reach(Path::ArrayRecoverMemberLost);
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
                (last.header.seq, last.header.seq + u64::from(last.header.blocks), first.header.seq)
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
            change_waits: RefCell::default(),
            throttle: Throttle::default(),
            locks: Locks::default(),
            readings: Readings::default(),
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
    let mut header = groups.get(&last)?.header;
    let tail = header.tail;
    while header.seq > tail {
        let before = groups.get(&header.before)?.header;
        if before.epoch > header.epoch {
            return None;
        }
        header = before;
        chain.push(header.seq);
    }
    chain.reverse();
    (header.seq == tail).then_some(chain)
}

impl Replayed {
    /// The newest content of a slot in groups up to `upto` goes to its place; what is older is forgotten.
    fn take_data(&mut self, stripe: u64, slot: u32, upto: u64, chunk_blocks: u32) {
        let Some(versions) = self.data.get_mut(&(stripe, slot)) else { return };
        let count = versions.partition_point(|(seq, _)| *seq <= upto);
        let taken = match sabotage::on(Sabotage::ReplayOutOfOrder) {
            true => versions.drain(..count).next(),
            false => versions.drain(..count).next_back(),
        };
        if let Some((_, data)) = taken {
            let unit = (slot / chunk_blocks) as u16;
            self.images.insert((stripe, unit, slot % chunk_blocks), data);
        }
    }
}
