//! The last minutes of a pool: the latencies and the spikes of each member, and the bytes of clients, every few seconds.

use std::cell::RefCell;
use std::collections::VecDeque;

use sinew_core::io::Io;
use sinew_members::status::ShardStatus;

use crate::pool::host::Open;
use crate::protocol::answer::{HistoryView, MemberHistory};

/// Time between two samples.
const STEP_NS: u64 = 5_000_000_000;
/// Samples that are kept: ten minutes.
const SAMPLES_MAX: usize = 120;
const P99: f64 = 0.99;

/// One member at one time.
#[derive(Clone, Copy, Default)]
struct MemberSample {
    read_p99_us: Option<u64>,
    write_p99_us: Option<u64>,
    /// Since the pool was opened.
    spikes: u64,
}

/// A pool at one time. Bytes are counted since the pool was opened.
#[derive(Clone, Default)]
struct Sample {
    members: Vec<MemberSample>,
    read_bytes: u64,
    written_bytes: u64,
}

impl Sample {
    fn of(status: &ShardStatus) -> Sample {
        let us = |ns: Option<u64>| ns.map(|ns| ns / 1000);
        let member = |latency: &sinew_members::latency::MemberLatency| MemberSample {
            read_p99_us: us(latency.reads.quantile_ns(P99)),
            write_p99_us: us(latency.writes.quantile_ns(P99)),
            spikes: latency.spikes,
        };
        Sample {
            members: status.member_latency.iter().map(member).collect(),
            read_bytes: status.counters.read_bytes,
            written_bytes: status.counters.written_bytes,
        }
    }
}

/// Samples of the last minutes, the oldest first. The first one is only there to be compared with.
#[derive(Default)]
pub(super) struct Samples(RefCell<VecDeque<Sample>>);

impl Samples {
    /// Looks at the pool until it is gone.
    pub(super) async fn watch(&self, open: &Open) {
        while let Ok(status) = open.control.status().await {
            self.note(Sample::of(&status));
            open.io.sleep(STEP_NS).await;
        }
    }

    fn note(&self, sample: Sample) {
        let mut samples = self.0.borrow_mut();
        samples.push_back(sample);
        if samples.len() > SAMPLES_MAX + 1 {
            samples.pop_front();
        }
    }

    /// What was seen, with spikes and bytes as differences between neighbouring samples.
    pub(super) fn view(&self) -> HistoryView {
        let samples = self.0.borrow();
        let pairs = || samples.iter().zip(samples.iter().skip(1));
        let step_s = STEP_NS / 1_000_000_000;
        let rate = |of: fn(&Sample) -> u64| {
            pairs().map(|(before, after)| of(after).saturating_sub(of(before)) / step_s).collect()
        };
        let count = samples.back().map_or(0, |last| last.members.len());
        let member = |i: usize| {
            let at = |sample: &Sample| sample.members.get(i).copied().unwrap_or_default();
            MemberHistory {
                member: i,
                read_p99_us: pairs().map(|(_, after)| at(after).read_p99_us).collect(),
                write_p99_us: pairs().map(|(_, after)| at(after).write_p99_us).collect(),
                // Another device in the place of a member begins at 0.
                spikes: pairs()
                    .map(|(before, after)| at(after).spikes.saturating_sub(at(before).spikes))
                    .collect(),
            }
        };
        HistoryView {
            step_s,
            members: (0..count).map(member).collect(),
            read_bytes_per_s: rate(|sample| sample.read_bytes),
            written_bytes_per_s: rate(|sample| sample.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_ten_minutes_and_differences() {
        let samples = Samples::default();
        assert_eq!(samples.view(), HistoryView { step_s: 5, ..HistoryView::default() });
        for n in 0..200u64 {
            let member = MemberSample { read_p99_us: Some(n), write_p99_us: None, spikes: n / 2 };
            // The second member is added on the way.
            let members = if n < 150 { vec![member] } else { vec![member; 2] };
            samples.note(Sample { members, read_bytes: n * 50, written_bytes: 0 });
        }
        let view = samples.view();
        assert_eq!(view.members.len(), 2);
        assert_eq!(view.members[0].read_p99_us, (80..200).map(Some).collect::<Vec<_>>());
        assert_eq!(view.members[0].spikes[..4], [1, 0, 1, 0]);
        assert_eq!(view.members[1].read_p99_us[69..71], [None, Some(150)]);
        assert_eq!(view.read_bytes_per_s, vec![10; 120]);
        assert_eq!(view.members[0].write_p99_us, vec![None; 120]);
    }
}
