//! The growth history of an array: its first number of members, and the members of each addition.
//!
//! FastScale, semi-round-robin and [`crate::spread`] need nothing else to address an array: t + 1 numbers after
//! t additions (FastScale, FAST '11, Table 4).

use crate::MEMBERS_MAX;

/// The most rows of a growing array: 128 TiB a member at 64 KiB a row, so that row arithmetic fits 32 bits.
pub const ROWS_MAX: u32 = 1 << 31;

/// The growth of an array. Members never leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Members at first and after each addition. Strictly ascending, never empty.
    members: Vec<u32>,
}

/// Why a history is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// An array of no members.
    #[error("an array needs at least {min} members to begin with, not {members}")]
    TooFew {
        /// The minimum.
        min: u32,
        /// The number given.
        members: u32,
    },
    /// An addition that adds nothing.
    #[error("an addition of 0 members")]
    NothingAdded,
    /// More members than an array can have.
    #[error("{0} members; an array can have {MEMBERS_MAX}")]
    TooMany(u64),
    /// No rows, or more than can be addressed.
    #[error("{0} rows; 1 to {ROWS_MAX} are possible")]
    Rows(u32),
}

impl History {
    /// An array that was made with `base` members.
    ///
    /// # Errors
    /// When there are too few members or more than an array can have.
    pub fn new(base: u32) -> Result<History, HistoryError> {
        if base == 0 {
            return Err(HistoryError::TooFew { min: 1, members: 0 });
        }
        check_members(u64::from(base))?;
        Ok(History { members: vec![base] })
    }

    /// Adds members.
    ///
    /// # Errors
    /// When nothing is added, or the array gets more members than it can have.
    pub fn add(&mut self, added: u32) -> Result<(), HistoryError> {
        if added == 0 {
            return Err(HistoryError::NothingAdded);
        }
        let members = u64::from(self.width()) + u64::from(added);
        check_members(members)?;
        self.members.push(members as u32);
        Ok(())
    }

    /// The same history with one more addition.
    ///
    /// # Errors
    /// As [`History::add`].
    pub fn with(mut self, added: u32) -> Result<History, HistoryError> {
        self.add(added)?;
        Ok(self)
    }

    /// The history without its last addition; none if there was no addition.
    pub fn before_last(&self) -> Option<History> {
        let before = &self.members[..self.additions()];
        (!before.is_empty()).then(|| History { members: before.to_vec() })
    }

    /// Members it was made with.
    pub fn base(&self) -> u32 {
        self.members[0]
    }

    /// Members it has now.
    pub fn width(&self) -> u32 {
        self.members[self.members.len() - 1]
    }

    /// Additions so far.
    pub fn additions(&self) -> usize {
        self.members.len() - 1
    }

    /// The additions, oldest first.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = Addition> {
        self.members.windows(2).map(|pair| Addition { old: pair[0], width: pair[1] })
    }
}

/// One addition of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    /// Members before.
    pub old: u32,
    /// Members after.
    pub width: u32,
}

fn check_members(members: u64) -> Result<(), HistoryError> {
    if members > u64::from(MEMBERS_MAX) { Err(HistoryError::TooMany(members)) } else { Ok(()) }
}

/// Refuses a number of rows that cannot be addressed.
pub(crate) fn check_rows(rows: u32) -> Result<(), HistoryError> {
    if (1..=ROWS_MAX).contains(&rows) { Ok(()) } else { Err(HistoryError::Rows(rows)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(History::new(0), Err(HistoryError::TooFew { min: 1, members: 0 }));
        assert_eq!(History::new(300), Err(HistoryError::TooMany(300)));
        assert_eq!(History::new(4).unwrap().with(0), Err(HistoryError::NothingAdded));
        assert_eq!(History::new(4).unwrap().with(252), Err(HistoryError::TooMany(256)));
        assert!(check_rows(0).is_err() && check_rows(ROWS_MAX).is_ok() && check_rows(ROWS_MAX + 1).is_err());
    }
}
