//! Breakdown of the latency of stripe updates in an array, by classes of total latency, so that the slowest updates can be
//! told from the others (FusionRAID, FAST '21, figure 3).

use crate::latency::{BUCKETS, bucket};

/// A number of updates, and the sums of what they waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeParts {
    /// Updates.
    pub changes: u64,
    /// Nanoseconds until the stripe was locked.
    pub wait_ns: u64,
    /// Nanoseconds for reads that parity needs.
    pub read_ns: u64,
    /// Nanoseconds until the region's bit of the write-intent bitmap was durable.
    pub mark_ns: u64,
    /// Nanoseconds for the writes.
    pub write_ns: u64,
}

impl ChangeParts {
    fn total_ns(&self) -> u64 {
        self.wait_ns + self.read_ns + self.mark_ns + self.write_ns
    }

    fn combine(&mut self, other: &ChangeParts, f: impl Fn(u64, u64) -> u64) {
        self.changes = f(self.changes, other.changes);
        self.wait_ns = f(self.wait_ns, other.wait_ns);
        self.read_ns = f(self.read_ns, other.read_ns);
        self.mark_ns = f(self.mark_ns, other.mark_ns);
        self.write_ns = f(self.write_ns, other.write_ns);
    }
}

/// Updates in classes of latency, the buckets of [`crate::latency::LatencyHistogram`]; empty until there is one.
#[derive(Clone, Debug, Default)]
pub struct UpdateLatency(Vec<ChangeParts>);

impl UpdateLatency {
    /// Notes updates that were carried out together.
    pub fn note(&mut self, parts: ChangeParts) {
        self.0.resize(BUCKETS, ChangeParts::default());
        self.0[bucket(parts.total_ns() / parts.changes.max(1))].combine(&parts, |a, b| a + b);
    }

    /// Adds another shard's.
    pub fn add(&mut self, other: &UpdateLatency) {
        self.0.resize(self.0.len().max(other.0.len()), ChangeParts::default());
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| mine.combine(theirs, |a, b| a + b));
    }

    /// The updates since `before`, an earlier state of the same shard.
    pub fn since(&self, before: &UpdateLatency) -> UpdateLatency {
        let mut since = self.clone();
        since.0.iter_mut().zip(&before.0).for_each(|(now, then)| now.combine(then, |a, b| a - b));
        since
    }

    /// The slowest `1 / one_in` of the updates, at least one. Of the class that belongs to it only in part, the share that is
    /// needed, with the class's average.
    pub fn slowest(&self, one_in: u64) -> Option<ChangeParts> {
        let all: u64 = self.0.iter().map(|class| class.changes).sum();
        let wanted = all.div_ceil(one_in);
        let mut found = ChangeParts::default();
        for class in self.0.iter().rev().filter(|class| class.changes > 0) {
            let taken = class.changes.min(wanted - found.changes);
            let part = |sum: u64| (u128::from(sum) * u128::from(taken) / u128::from(class.changes)) as u64;
            found.combine(class, |a, b| a + part(b));
        }
        (all > 0).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(changes: u64, write_ns: u64) -> ChangeParts {
        ChangeParts {
            changes,
            wait_ns: changes * 1000,
            write_ns: changes * write_ns,
            ..ChangeParts::default()
        }
    }

    #[test]
    fn the_slowest_are_told_from_the_others() {
        let mut waits = UpdateLatency::default();
        assert_eq!(waits.slowest(100), None);
        waits.note(parts(300, 100_000));
        let before = waits.clone();
        waits.note(parts(196, 100_000));
        waits.note(parts(3, 80_000_000));
        waits.note(parts(1, 900_000_000));
        // Five of 500: all that were long, and one of the others.
        let mut five = parts(3, 80_000_000);
        five.combine(&parts(1, 900_000_000), |a, b| a + b);
        five.combine(&parts(1, 100_000), |a, b| a + b);
        assert_eq!(waits.slowest(100), Some(five));
        assert_eq!(
            waits.since(&before).slowest(100),
            Some({
                let mut two = parts(1, 80_000_000);
                two.combine(&parts(1, 900_000_000), |a, b| a + b);
                two
            })
        );
        let mut both = before.clone();
        both.add(&waits.since(&before));
        assert_eq!(both.slowest(100), Some(five));
    }
}
