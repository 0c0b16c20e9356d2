//! Whether commits overlap: credit that writes in time earn, and that late data costs.
//!
//! An overlapped commit saves its own write the time of a journal write. If its data is late, it holds up every record
//! behind it. So commits overlap only while data is rarely late.

use std::cell::Cell;

/// Writes in time that make up for one that is late.
const IN_TIME_PER_LATE: u32 = 512;
/// Credit that may be saved up, in writes.
const CREDIT_MAX: u32 = 4 * IN_TIME_PER_LATE;

/// The credit of one shard.
pub(crate) struct OverlapCredit(Cell<u32>);

impl Default for OverlapCredit {
    fn default() -> OverlapCredit {
        OverlapCredit(Cell::new(CREDIT_MAX))
    }
}

impl OverlapCredit {
    /// Whether a commit may overlap.
    pub(crate) fn allows(&self) -> bool {
        self.0.get() >= IN_TIME_PER_LATE
    }

    /// Notes whether a write was in time.
    pub(crate) fn note(&self, in_time: bool) {
        self.0.set(match in_time {
            true => (self.0.get() + 1).min(CREDIT_MAX),
            false => self.0.get().saturating_sub(IN_TIME_PER_LATE),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_writes_end_overlapping_until_enough_are_in_time() {
        let credit = OverlapCredit::default();
        let late = (0..).take_while(|_| {
            credit.note(false);
            credit.allows()
        });
        assert_eq!(late.count() as u32, CREDIT_MAX / IN_TIME_PER_LATE - 1);
        let in_time = (0..).take_while(|_| {
            credit.note(true);
            !credit.allows()
        });
        assert_eq!(in_time.count() as u32, IN_TIME_PER_LATE - 1);
    }
}
