//! A group of the log in the making, and about to be written.

use std::rc::Rc;

use crate::addr::MemberId;
use crate::buf::{BLOCK_BYTES, Buf};
use crate::disk::group::{GroupHeader, GroupRecord};
use crate::io::Gather;
use crate::sync::Fulfil;
use crate::ticket::{AppendResult, Ticket};
use crate::volume::VolumeError;

use super::slice::Run;
use super::update::gather;

/// One group about to be written.
pub(super) struct Group {
    pub(super) header: GroupHeader,
    /// The head, and what goes with it.
    pub(super) data: Gather,
    /// Parity: a run of blocks for each member that has some, and where it begins in the group.
    pub(super) parity: Vec<(MemberId, u32, Gather)>,
    /// What it brings.
    pub(super) contents: Vec<(Run, Buf)>,
    pub(super) tickets: Vec<(Rc<Ticket>, u32, AppendResult)>,
    pub(super) states: Vec<Fulfil<Result<(), VolumeError>>>,
    /// Changes of the regions that its state has.
    pub(super) changes: Option<u64>,
}

/// A group in the making.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) records: Vec<GroupRecord>,
    pub(super) head_bytes: usize,
    pub(super) data: Vec<Buf>,
    /// Parity of after-images, and whose it is.
    pub(super) parity: Vec<(u8, Buf)>,
    pub(super) blocks: u32,
    pub(super) contents: Vec<(Run, Buf)>,
    pub(super) tickets: Vec<(Rc<Ticket>, u32, AppendResult)>,
}

impl Draft {
    /// Adds a record and its data; of an after-image, the parity that it has, P first.
    pub(super) fn push(&mut self, record: GroupRecord, data: impl IntoIterator<Item = Buf>) {
        self.head_bytes += record.encoded_len();
        self.blocks += record.data_blocks().expect("counted by who made it");
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

/// The parity with which a group of so many blocks ends, sorted by members: a run for each, and where it begins.
pub(super) fn parity_runs(parity: &[(u8, Buf)], blocks: u32) -> Vec<(MemberId, u32, Gather)> {
    let count =
        |bufs: &[(u8, Buf)]| (bufs.iter().map(|(_, buf)| buf.len()).sum::<usize>() / BLOCK_BYTES) as u32;
    let mut first = blocks - count(parity);
    let runs = parity.chunk_by(|a, b| a.0 == b.0).map(|run| {
        let at = first;
        first += count(run);
        (MemberId(run[0].0), at, gather(run.iter().map(|(_, buf)| buf)))
    });
    runs.collect()
}
