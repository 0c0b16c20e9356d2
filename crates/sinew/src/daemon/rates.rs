//! Rates of a pool: its counters per second, over the last seconds.
//!
//! Counters are looked at once a second, which costs the shards next to nothing, and gives the control the occasion to tell
//! what has happened.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use sinew_core::io::Io;
use sinew_engine::control::events::Work;
use sinew_members::status::{CounterValues, ShardStatus};

use crate::pool::host::Open;
use crate::protocol::state::WorkState;

/// How often counters are looked at.
const LOOK_NS: u64 = 1_000_000_000;
/// Rates are averages over this many of those spans.
const SPANS: usize = 5;

/// Counters at the last few times.
#[derive(Default)]
pub(crate) struct Rates(RefCell<VecDeque<(u64, CounterValues)>>);

impl Rates {
    /// Looks at the counters until the pool is gone.
    pub(crate) async fn watch(&self, open: &Open) {
        while let Ok(counters) = open.control.observe().await {
            self.note(open.io.now(), counters);
            open.control.refresh_space();
            open.io.sleep(LOOK_NS).await;
        }
    }

    fn note(&self, now: u64, counters: CounterValues) {
        let mut seen = self.0.borrow_mut();
        seen.push_back((now, counters));
        if seen.len() > SPANS + 1 {
            seen.pop_front();
        }
    }

    /// Work that is under way: how much of it is done since it began and left, and when it will end at the present rate.
    pub(crate) fn work(&self, work: Work, done: u64, status: &ShardStatus) -> Option<WorkState> {
        let (counters, unit, left): (&[&str], _, _) = match work {
            Work::Rebuild => (&["chunks_rebuilt"], "chunks", Some(status.rebuild_chunks_left)),
            Work::Rebalance => (&["chunks_balanced"], "chunks", Some(status.balance_chunks_left)),
            Work::Scrub => (&["stripes_scrubbed"], "stripes", status.scrub_stripes_left),
            Work::Growth => (&["chunks_moved"], "chunks", status.growth_chunks_left),
            Work::Resync => (&["stripes_resynced"], "stripes", Some(status.resync_stripes_left)),
            Work::Conversion => {
                (&["stripes_promoted", "stripes_demoted"], "stripes", Some(status.conversions_left))
            }
        };
        let left = left.filter(|left| *left > 0)?;
        let rates = self.per_second();
        let sum =
            |rates: BTreeMap<String, f64>| counters.iter().filter_map(|name| rates.get(*name)).sum::<f64>();
        let rate = rates.map(sum).filter(|rate| *rate > 0.0);
        Some(WorkState {
            work: work.name().to_owned(),
            unit: unit.to_owned(),
            done,
            left,
            percent: done * 100 / (done + left),
            per_second: rate,
            seconds_left: rate.map(|rate| (left as f64 / rate).ceil() as u64),
        })
    }

    /// Per second, by the names of the counters; none before there are two looks.
    pub(crate) fn per_second(&self) -> Option<BTreeMap<String, f64>> {
        let seen = self.0.borrow();
        let ((then, before), (now, after)) = (seen.front()?, seen.back()?);
        if now == then {
            return None;
        }
        let seconds = (now - then) as f64 / 1e9;
        let pairs = after.named().into_iter().zip(before.named());
        let mut rates: BTreeMap<String, f64> = pairs
            .map(|((name, after), (_, before))| {
                let rate = after.saturating_sub(before) as f64 / seconds;
                (name.to_owned(), (rate * 10.0).round() / 10.0)
            })
            .collect();
        rates.insert("over_s".to_owned(), (seconds * 10.0).round() / 10.0);
        Some(rates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_seconds() {
        let rates = Rates::default();
        assert!(rates.per_second().is_none());
        for second in 0..20u64 {
            // 10 a second at first, then 300.
            let reads = if second < 10 { second * 10 } else { 100 + (second - 10) * 300 };
            rates.note(second * LOOK_NS, CounterValues { reads, ..CounterValues::default() });
        }
        let per_second = rates.per_second().expect("two looks");
        assert_eq!(per_second["reads"], 300.0);
        assert_eq!(per_second["over_s"], 5.0);
        assert_eq!(per_second["writes"], 0.0);
        let status = ShardStatus { scrub_stripes_left: Some(30), ..ShardStatus::default() };
        let scrub = rates.work(Work::Scrub, 10, &status).expect("a scrub is under way");
        assert_eq!((scrub.percent, scrub.seconds_left), (25, None));
        assert!(rates.work(Work::Rebuild, 10, &status).is_none());
    }
}
