//! Recovery: from the content of the members to the state of a shard, reading a bounded amount.
//!
//! `groups` reads the rings of the active members and finds the newest group from which all groups that it needs can be
//! reached: each names the one before it. Groups on too few members are first copied to more, so that the next recovery
//! finds what this one has decided. Then the after-images of stripes that were being changed (see `replay`) are written to
//! their places once more, whatever a torn update left there. The other dirty blocks stay in the journal, and are destaged
//! before the shard is open (`finish`). In an array without a journal, dirty regions are resynced instead.

pub(crate) mod finish;
mod forms;
mod groups;
pub(crate) mod recover;
mod replay;
mod ring_group;
mod striped_groups;

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io, IoError};
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_format::model::config::Config;
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::recovery_report::RecoveryReport;

/// Attempts of a write for which a member has no space: a second.
const SPACE_ATTEMPTS: u32 = 50;

/// A recovery under way.
struct Recovery<I> {
    io: I,
    index: usize,
    config: Rc<Config>,
    layout: ShardLayout,
    members: Members<I>,
    report: RecoveryReport,
}

impl<I: Io> Recovery<I> {
    /// Writes what later recoveries depend on; waits a while for space.
    async fn write(&self, member: MemberId, offset: u64, data: Gather) -> Result<(), RecoverError> {
        for _ in 0..SPACE_ATTEMPTS {
            match self.members.write_at(member, offset, Rc::clone(&data)).await {
                Ok(()) => return Ok(()),
                Err(IoError::NoSpace) => {
                    self.io.mark(Mark::ArrayRecoverAwaitsSpace);
                    self.members.wait_for_space().await;
                }
                Err(_) => return Err(self.lost(member)),
            }
        }
        Err(RecoverError::NoSpace { shard: self.index, member })
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

    /// The active members of the layout.
    fn layout_members(&self) -> Vec<MemberId> {
        self.layout.member_ids().filter(|&m| self.members.is_active(m)).collect()
    }
}
