//! Composing a group of the log: from the queues to the bytes that are written.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io};
use sinew_core::sync::Fulfil;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GROUP_HEADER_BYTES, GroupHeader, GroupRecord, encode_head};
use sinew_format::model::array_shard_layout::Run;

use crate::journal::Journal;
use crate::journal::group::{Answer, BuiltGroup, ParityRun, concat};
use crate::journal::log::{Entry, WrittenTail};
use crate::journal::striped_group::StripedGroup;

/// Bytes of records in a group, but for a state, which may be larger.
const HEAD_BYTES_MAX: usize = 8 * BLOCK_BYTES;

/// A group that is being composed.
///
/// Its blocks are the head, the data, and the parity of after-images.
#[derive(Default)]
struct GroupBuilder {
    records: Vec<GroupRecord>,
    head_bytes: usize,
    data: Vec<Buf>,
    /// Parity of after-images, and its member.
    parity: Vec<(u8, Buf)>,
    blocks: u32,
    fillers: Vec<(Run, Buf)>,
    contents: Vec<(Run, Buf)>,
    answers: Vec<Answer>,
    image_answers: Vec<Answer>,
    form_answers: Vec<Fulfil<Result<u64, VolumeError>>>,
}

impl GroupBuilder {
    /// Adds a record and its data; of an after-image, the parity that it has, P first.
    fn push(&mut self, record: GroupRecord, data: impl IntoIterator<Item = Buf>) {
        self.head_bytes += record.encoded_len();
        self.blocks += record.data_blocks().expect("its maker counted them");
        if let GroupRecord::Drain { parity, .. } = &record {
            self.parity.extend(parity.iter().flatten().copied().zip(data));
        } else {
            for buf in data {
                let joined = self.data.last_mut().is_some_and(|last| last.join(&buf));
                if !joined {
                    self.data.push(buf);
                }
            }
        }
        self.records.push(record);
    }
}

impl<I: Io> Journal<I> {
    /// Takes as many entries off the queues as fit one group.
    pub(super) fn build_group(&self, clients: bool) -> Option<BuiltGroup> {
        let log = &self.log;
        let mut builder = GroupBuilder::default();
        self.take_images(&mut builder);
        let states = std::mem::take(&mut *log.states.borrow_mut());
        let is_old = log.next() - log.state.get() > log.ring / 4;
        let with_state = !states.is_empty() || is_old || self.bitmap.regions().changed();
        if with_state {
            let state = self.bitmap.encode(self.long_work());
            builder.push(GroupRecord::State(state), []);
        }
        if clients {
            self.take_queued(&mut builder);
        }
        // Merges that came too late leave nothing to write, but their requests wait for that answer.
        if builder.records.is_empty() {
            builder.answers.into_iter().for_each(|answer| answer.give(Ok(())));
            return None;
        }
        Some(self.seal(builder, with_state, states))
    }

    fn seal(
        &self,
        mut builder: GroupBuilder,
        with_state: bool,
        states: Vec<Fulfil<Result<(), VolumeError>>>,
    ) -> BuiltGroup {
        let log = &self.log;
        let begun = log.form_costs.measures().then(|| self.state.io().now());
        let data_blocks = (builder.data.iter().map(Buf::len).sum::<usize>() / BLOCK_BYTES) as u32;
        let striped = self.stripe_group(&builder.data, data_blocks);
        let head_bytes = builder.head_bytes + striped.as_ref().map_or(0, StripedGroup::head_bytes);
        let head_blocks = (GROUP_HEADER_BYTES + head_bytes).div_ceil(BLOCK_BYTES) as u32;
        let blocks = head_blocks + builder.blocks;
        let position = log.next() % log.ring;
        let skipped = if position + u64::from(blocks) > log.ring { log.ring - position } else { 0 };
        let seq = log.next() + skipped;
        if with_state {
            log.state.set(seq);
        }
        for record in &builder.records {
            if let GroupRecord::Form { stripes, .. } = record {
                self.forms.note_logged(each_stripe(stripes), seq);
            }
        }
        let tail = self.tail().min(seq);
        let header = GroupHeader {
            log: self.state.layout().geometry.log,
            shard: self.state.layout().index as u16,
            epoch: log.epoch,
            seq,
            before: log.last.get(),
            tail,
            flushed: log.flushed.get(),
            head_blocks,
            blocks,
        };
        // In the order of a group's parts: each member's parity is one run.
        builder.parity.sort_by_key(|(member, _)| *member);
        let all = builder.data.iter().chain(builder.parity.iter().map(|(_, buf)| buf));
        let mut crcs: Vec<u32> =
            all.flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES).map(crc32c)).collect();
        let head = encoded_head(&header, &builder.records, &crcs);
        let units = striped.map(|striped| {
            builder.records.push(striped.record());
            crcs.extend(striped.parity_blocks().map(|block| crc32c(block.bytes())));
            let head = encoded_head(&header, &builder.records, &crcs);
            let heads = self.state.layout().tolerates() + 1;
            striped.into_units((seq % log.ring) as u32, &head, heads)
        });
        log.next.set(seq + u64::from(blocks));
        assert!(log.used() <= log.ring, "a group would overwrite what is still needed: {}", log.waits());
        let mut tails = log.tails_written.borrow_mut();
        if tails.back().map_or(log.tail_durable(), |written| written.tail) != tail {
            tails.push_back(WrittenTail { group: seq, tail });
        }
        let parity = parity_runs(&builder.parity, blocks);
        let data: Gather = std::iter::once(head).chain(builder.data).collect();
        let changes = with_state.then(|| self.bitmap.regions().encoded());
        BuiltGroup {
            header,
            begun,
            data_blocks,
            data,
            units,
            parity,
            fillers: builder.fillers,
            contents: builder.contents,
            answers: builder.answers,
            image_answers: builder.image_answers,
            form_answers: builder.form_answers,
            states,
            changes,
        }
    }

    fn take_images(&self, builder: &mut GroupBuilder) {
        let mut images = self.log.images.borrow_mut();
        while let Some(entry) = images.front() {
            let (blocks, head_bytes) = match entry {
                Entry::Image { record, .. } | Entry::Form { record, .. } => {
                    (record.data_blocks().expect("its maker counted them"), record.encoded_len())
                }
                Entry::Data { run, .. } | Entry::Merge { run, .. } => {
                    (run.blocks, data_record(*run).encoded_len())
                }
            };
            let full = builder.blocks + blocks > self.log.group_blocks()
                || builder.head_bytes + head_bytes > HEAD_BYTES_MAX;
            if full && !builder.records.is_empty() {
                return;
            }
            match images.pop_front() {
                Some(Entry::Image { record, data, completion }) => {
                    if let GroupRecord::Changed { upto, .. } = record {
                        // No state in this group or a later one may say less.
                        self.progress.note_changed(upto);
                    }
                    builder.push(record, data);
                    builder.image_answers.push(Answer { completion, parts: 1, result: Ok(true) });
                }
                Some(Entry::Form { record, logged }) => {
                    builder.push(record, []);
                    builder.form_answers.push(logged);
                }
                Some(Entry::Merge { run, base, version, completion, .. }) => {
                    let content = self.merge_base(builder, run, base, version);
                    builder.answers.push(Answer { completion, parts: 1, result: Ok(content.is_some()) });
                    if let Some(content) = content {
                        builder.push(data_record(run), [content.clone()]);
                        builder.fillers.push((run, content));
                    }
                }
                Some(Entry::Data { .. }) | None => unreachable!("this queue has no other entries"),
            }
        }
    }

    fn take_queued(&self, builder: &mut GroupBuilder) {
        let mut queue = self.log.queue.borrow_mut();
        while builder.blocks < self.log.group_blocks()
            && builder.head_bytes < HEAD_BYTES_MAX
            && let Some(entry) = queue.pop_front()
        {
            match entry {
                Entry::Data { mut run, data, is_discard, completion } => {
                    let blocks = run.blocks.min(self.log.group_blocks() - builder.blocks);
                    let bytes = blocks as usize * BLOCK_BYTES;
                    if blocks < run.blocks {
                        let rest = Run { slot: run.slot + blocks, blocks: run.blocks - blocks, ..run };
                        let data = data.slice(bytes, data.len() - bytes);
                        let completion = Rc::clone(&completion);
                        queue.push_front(Entry::Data { run: rest, data, is_discard, completion });
                        run.blocks = blocks;
                    }
                    let data = data.slice(0, bytes);
                    builder.push(data_record(run), [data.clone()]);
                    builder.contents.push((run, data));
                    builder.answers.push(Answer { completion, parts: run.blocks, result: Ok(true) });
                }
                Entry::Merge { run, at, bytes, base, version, completion } => {
                    let Some(mut merged) = self.merge_base(builder, run, base, version) else {
                        self.state.mark(Mark::ArrayMergeMoved);
                        builder.answers.push(Answer { completion, parts: 1, result: Ok(false) });
                        continue;
                    };
                    merged.bytes_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
                    builder.push(data_record(run), [merged.clone()]);
                    builder.contents.push((run, merged));
                    builder.answers.push(Answer { completion, parts: 1, result: Ok(true) });
                }
                Entry::Image { .. } | Entry::Form { .. } => unreachable!("these have a queue of their own"),
            }
        }
    }

    /// A copy of the block's content once every entry before this one is written; `None` when the caller's is out of date.
    fn merge_base(&self, builder: &GroupBuilder, run: Run, base: Buf, version: u64) -> Option<Buf> {
        let covers = |(other, _): &&(Run, Buf)| {
            other.stripe == run.stripe && (other.slot..other.slot + other.blocks).contains(&run.slot)
        };
        if let Some((other, data)) = builder.contents.iter().rev().find(covers) {
            let from = (run.slot - other.slot) as usize * BLOCK_BYTES;
            return Some(Buf::copy_of(&data.bytes()[from..from + BLOCK_BYTES]));
        }
        let dirty = self.dirty.borrow();
        match dirty.get(run.stripe, run.slot) {
            Some(block) => Some(Buf::copy_of(block.data.bytes())),
            None if dirty.version() == version => Some(Buf::copy_of(base.bytes())),
            None => None,
        }
    }

    /// The oldest group that replay would need.
    fn tail(&self) -> u64 {
        let dirty = self.dirty.borrow_mut().oldest();
        let forms = self.forms.oldest().unwrap_or(u64::MAX);
        let first = self.pinned.oldest_or(self.log.state.get()).min(forms);
        dirty.map_or(first, |dirty| dirty.min(first))
    }
}

fn data_record(Run { stripe, slot, blocks }: Run) -> GroupRecord {
    GroupRecord::Data { stripe, slot, blocks }
}

fn encoded_head(header: &GroupHeader, records: &[GroupRecord], crcs: &[u32]) -> Buf {
    let mut head = Buf::stale(header.head_blocks as usize * BLOCK_BYTES);
    encode_head(header, records, crcs, head.bytes_mut());
    head
}

/// The parity at the end of a group of `blocks` blocks, sorted by members: a run for each member, and where it begins.
fn parity_runs(parity: &[(u8, Buf)], blocks: u32) -> Vec<ParityRun> {
    let count =
        |bufs: &[(u8, Buf)]| (bufs.iter().map(|(_, buf)| buf.len()).sum::<usize>() / BLOCK_BYTES) as u32;
    let mut first = blocks - count(parity);
    let runs = parity.chunk_by(|a, b| a.0 == b.0).map(|run| {
        let at = first;
        first += count(run);
        ParityRun { member: MemberId(run[0].0), first: at, data: concat(run.iter().map(|(_, buf)| buf)) }
    });
    runs.collect()
}

/// Every stripe of runs of stripes.
pub(crate) fn each_stripe(runs: &[(u64, u32)]) -> impl Iterator<Item = u64> {
    runs.iter().flat_map(|&(first, count)| first..first + u64::from(count))
}
