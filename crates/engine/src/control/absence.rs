//! Which members are away, and for how long.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Which members are away, and since when.
#[derive(Default)]
pub(super) struct AbsentMembers {
    /// Nanoseconds after which a member counts as lost; none for never.
    pub(super) rebuild_after: Cell<Option<u64>>,
    /// Of each member that is away, when a look first found it so.
    since: RefCell<BTreeMap<usize, u64>>,
}

impl AbsentMembers {
    /// The member is back.
    pub(super) fn forget(&self, member: usize) {
        self.since.borrow_mut().remove(&member);
    }

    /// Takes note of the members that are away now, and gives those that have been so for too long.
    pub(super) fn update(&self, away: impl Iterator<Item = usize>, now: u64) -> Vec<usize> {
        let mut since = self.since.borrow_mut();
        *since = away.map(|member| (member, since.get(&member).copied().unwrap_or(now))).collect();
        let Some(after) = self.rebuild_after.get() else { return Vec::new() };
        since.iter().filter(|&(_, &since)| now - since >= after).map(|(&member, _)| member).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_away_is_counted_anew_after_each_return() {
        let absent = AbsentMembers::default();
        let at = |now: u64, away: &[usize]| absent.update(away.iter().copied(), now);
        assert!(at(0, &[1, 2]).is_empty(), "never is the default");
        absent.rebuild_after.set(Some(10));
        assert!(at(9, &[1, 2]).is_empty());
        assert_eq!(at(10, &[1, 2, 3]), [1, 2]);
        assert_eq!(at(11, &[2]), [2]);
        assert_eq!(at(19, &[1, 2]), [2], "member 1 was back");
        assert_eq!(at(29, &[1]), [1]);
    }
}
