//! A group of the log in the making, and about to be written.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::{AppendResult, Completion};
use sinew_core::ids::MemberId;
use sinew_core::io::Gather;
use sinew_core::sync::Fulfil;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::{GroupHeader, GroupRecord};

use crate::stripe::update::gather;
use sinew_format::model::array_shard_layout::Run;

/// One group about to be written.
pub(crate) struct Group {
    pub(crate) header: GroupHeader,
    /// The head, and what goes with it.
    pub(crate) data: Gather,
    /// Parity: a run of blocks for each member that has some, and where it begins in the group.
    pub(crate) parity: Vec<(MemberId, u32, Gather)>,
    /// What it brings.
    pub(crate) contents: Vec<(Run, Buf)>,
    pub(crate) tickets: Vec<(Rc<Completion>, u32, AppendResult)>,
    pub(crate) states: Vec<Fulfil<Result<(), VolumeError>>>,
    /// Changes of the regions that its state has.
    pub(crate) changes: Option<u64>,
}

/// A group in the making.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) records: Vec<GroupRecord>,
    pub(crate) head_bytes: usize,
    pub(crate) data: Vec<Buf>,
    /// Parity of after-images, and whose it is.
    pub(crate) parity: Vec<(u8, Buf)>,
    pub(crate) blocks: u32,
    pub(crate) contents: Vec<(Run, Buf)>,
    pub(crate) tickets: Vec<(Rc<Completion>, u32, AppendResult)>,
}

impl Draft {
    /// Adds a record and its data; of an after-image, the parity that it has, P first.
    pub(crate) fn push(&mut self, record: GroupRecord, data: impl IntoIterator<Item = Buf>) {
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
pub(crate) fn parity_runs(parity: &[(u8, Buf)], blocks: u32) -> Vec<(MemberId, u32, Gather)> {
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
