//! Members that stay away: after a while, what they held is rebuilt into the free space of the others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_format::model::config::MemberState;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

/// Which members are away, and since when.
#[derive(Default)]
pub(super) struct AbsentMembers {
    /// Nanoseconds after which a member counts as lost; none for never.
    rebuild_after: Cell<Option<u64>>,
    /// Of each member that is away, when a look first found it so.
    since: RefCell<BTreeMap<usize, u64>>,
}

impl AbsentMembers {
    /// The member is back.
    pub(super) fn forget(&self, member: usize) {
        self.since.borrow_mut().remove(&member);
    }

    /// Takes note of the members that are away now, and gives those that have been so for too long.
    fn update(&self, away: impl Iterator<Item = usize>, now: u64) -> Vec<usize> {
        let mut since = self.since.borrow_mut();
        *since = away.map(|member| (member, since.get(&member).copied().unwrap_or(now))).collect();
        let Some(after) = self.rebuild_after.get() else { return Vec::new() };
        since.iter().filter(|&(_, &since)| now - since >= after).map(|(&member, _)| member).collect()
    }
}

impl<I: Io> Control<I> {
    /// Sets after how many nanoseconds a member that failed or is missing counts as lost, so that what it held is rebuilt into
    /// the free space of the others; none for never. An opening begins the count anew. A member that an operator took offline
    /// is waited for without limit.
    ///
    /// # Errors
    /// When the pool is an array, which has a place for each member.
    pub fn set_rebuild_after(&self, after: Option<u64>) -> Result<(), ControlError> {
        if self.config.borrow().geometry.members_placed().is_some() {
            return Err(ControlError::NoEvacuation);
        }
        self.absent.rebuild_after.set(after);
        Ok(())
    }

    /// The time after which an absent member counts as lost, in nanoseconds; none for never.
    pub fn rebuild_after(&self) -> Option<u64> {
        self.absent.rebuild_after.get()
    }

    /// Begins to rebuild what members held that have been away for too long, one after the other. Without enough members, or
    /// room for it, nothing begins; the next look tries again.
    pub(super) async fn evacuate_absent(&self) {
        let due = {
            let config = self.config.borrow();
            let is_away = |state| matches!(state, MemberState::Failed | MemberState::Missing);
            let members = config.members.iter().enumerate();
            let away = members.filter(|(_, member)| is_away(member.state)).map(|(index, _)| index);
            self.absent.update(away, self.io.now())
        };
        for index in due {
            // The order under way may bring it back.
            if self.ordered.get() {
                return;
            }
            let member = MemberId(index as u8);
            let fits = self.ask_whether(|done| ControlRequest::FitsWithout { member, done }).await;
            if fits.is_ok_and(|fits| fits) {
                let _ = self.replace(index, None, false).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_away_is_counted_anew_after_each_return() {
        let absent = AbsentMembers::default();
        let mut at = |now: u64, away: &[usize]| absent.update(away.iter().copied(), now);
        assert!(at(0, &[1, 2]).is_empty(), "never is the default");
        absent.rebuild_after.set(Some(10));
        assert!(at(9, &[1, 2]).is_empty());
        assert_eq!(at(10, &[1, 2, 3]), [1, 2]);
        assert_eq!(at(11, &[2]), [2]);
        assert_eq!(at(19, &[1, 2]), [2], "member 1 was back");
        assert_eq!(at(29, &[1]), [1]);
    }
}
