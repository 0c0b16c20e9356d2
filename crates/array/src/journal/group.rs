//! A group of the log that is ready to be written.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::completion::{AppendResult, Completion};
use sinew_core::ids::MemberId;
use sinew_core::io::Gather;
use sinew_core::sync::Fulfil;
use sinew_core::volume::VolumeError;
use sinew_format::log_group::GroupHeader;
use sinew_format::model::array_shard_layout::Run;
use sinew_members::ring::striped::RingUnit;

/// A group that is ready to be written.
pub(super) struct BuiltGroup {
    pub(super) header: GroupHeader,
    /// When it was begun to be built, if the time that it takes is measured.
    pub(super) begun: Option<u64>,
    /// Data blocks that f + 1 members get, or that are striped.
    pub(super) data_blocks: u32,
    /// The head and the data, which go to f + 1 members.
    pub(super) data: Gather,
    /// The same in units of a striped group, which are tried first.
    pub(super) units: Option<Vec<RingUnit>>,
    /// A run for each member that gets parity.
    pub(super) parity: Vec<ParityRun>,
    /// Zeros for blocks that were given up, or what was written to them since; older than clients' data.
    pub(super) fillers: Vec<(Run, Buf)>,
    /// Clients' data: the slots and their new content.
    pub(super) contents: Vec<(Run, Buf)>,
    pub(super) answers: Vec<Answer>,
    /// To the tasks that append images.
    pub(super) image_answers: Vec<Answer>,
    /// To the tasks that change forms: the number of the group.
    pub(super) form_answers: Vec<Fulfil<Result<u64, VolumeError>>>,
    pub(super) states: Vec<Fulfil<Result<(), VolumeError>>>,
    /// Changes of the regions that its state has.
    pub(super) changes: Option<u64>,
}

/// The answer to requests that a group carries, given once the group is written.
pub(super) struct Answer {
    pub(super) completion: Rc<Completion>,
    /// Parts of the request that are in the group.
    pub(super) parts: u32,
    pub(super) result: AppendResult,
}

impl Answer {
    /// Tells the request how the write of the group went.
    pub(super) fn give(self, written: Result<(), VolumeError>) {
        self.completion.done(self.parts, written.and(self.result));
    }
}

/// The parity of a group that one member gets.
#[derive(Clone)]
pub(super) struct ParityRun {
    pub(super) member: MemberId,
    /// The block of the group at which the run begins.
    pub(super) first: u32,
    pub(super) data: Gather,
}

/// The buffers as one write, those that follow one another in memory as one.
pub(crate) fn concat<'a>(bufs: impl Iterator<Item = &'a Buf>) -> Gather {
    let mut joined: Vec<Buf> = Vec::with_capacity(1);
    for buf in bufs {
        if !joined.last_mut().is_some_and(|last| last.join(buf)) {
            joined.push(buf.clone());
        }
    }
    joined.into()
}
