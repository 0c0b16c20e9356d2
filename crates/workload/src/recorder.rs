//! Records latency and throughput of a run.

mod report;
mod spans;

use hdrhistogram::Histogram;

use crate::Kind;
use crate::replay::Done;
pub use report::{BucketReport, Distribution, KindReport, Report};
use report::{SCHEMA, histogram};
use spans::Spans;

/// Records completions in bounded memory, but for the latencies that occurred in each span of time.
#[derive(Debug)]
pub struct Recorder {
    start_ns: u64,
    end_ns: u64,
    kinds: [Option<Box<Meter>>; 4],
    late: Histogram<u64>,
    spans: Spans,
}

/// A latency, and the number of requests that had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyCount {
    /// The latency.
    pub latency_ns: u64,
    /// The number of requests.
    pub count: u64,
}

#[derive(Debug)]
struct Meter {
    errors: u64,
    bytes: u64,
    latency: Histogram<u64>,
    service: Histogram<u64>,
}

impl Meter {
    fn fresh() -> Box<Meter> {
        Box::new(Meter { errors: 0, bytes: 0, latency: histogram(), service: histogram() })
    }

    fn add(&mut self, other: &Meter) {
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("equal bounds");
        self.service.add(&other.service).expect("equal bounds");
    }
}

impl Recorder {
    /// A recorder of a run that starts at `start_ns`, in spans of `bucket_ns`.
    ///
    /// # Panics
    ///
    /// If a span has no length.
    pub fn new(start_ns: u64, bucket_ns: u64) -> Recorder {
        let (kinds, spans) = ([const { None }; 4], Spans::new(bucket_ns));
        Recorder { start_ns, end_ns: start_ns, kinds, late: histogram(), spans }
    }

    /// Records a completion; completions come in the order of their times.
    pub fn record(&mut self, done: &Done) {
        self.spans.advance(done.done_ns.saturating_sub(self.start_ns));
        self.end_ns = self.end_ns.max(done.done_ns);
        let request = &done.issue.request;
        let meter = self.kinds[request.kind.index()].get_or_insert_with(Meter::fresh);
        self.late.saturating_record(done.issue.late_ns());
        if !done.ok {
            meter.errors += 1;
            self.spans.error();
            return;
        }
        meter.bytes += request.len;
        meter.latency.saturating_record(done.latency_ns());
        meter.service.saturating_record(done.service_ns());
        self.spans.success(request.len, done.latency_ns());
    }

    /// The latencies of a kind so far, within 0.1 %.
    pub fn latencies(&self, kind: Kind) -> impl Iterator<Item = LatencyCount> {
        let recorded = self.kinds[kind.index()].iter().flat_map(|meter| meter.latency.iter_recorded());
        recorded
            .map(|step| LatencyCount { latency_ns: step.value_iterated_to(), count: step.count_at_value() })
    }

    /// The latencies of all kinds together.
    pub fn latency(&self) -> Distribution {
        let mut all = histogram();
        self.kinds.iter().flatten().for_each(|meter| all.add(&meter.latency).expect("equal bounds"));
        Distribution::of(&all)
    }

    /// Adds what another recorder of the same run recorded, on another thread for example. The result is as if one had
    /// recorded all.
    ///
    /// # Panics
    ///
    /// If the runs started at different times or have spans of different lengths.
    pub fn merge(&mut self, other: Recorder) {
        assert_eq!(self.start_ns, other.start_ns, "recorders of different runs");
        self.end_ns = self.end_ns.max(other.end_ns);
        for (mine, theirs) in self.kinds.iter_mut().zip(other.kinds) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => mine.add(&theirs),
                (mine @ None, theirs) => *mine = theirs,
                (Some(_), None) => {}
            }
        }
        self.late.add(&other.late).expect("equal bounds");
        self.spans.merge(other.spans);
    }

    /// The report of a run that ended at `end_ns`, or with the last completion if that was later.
    pub fn finish(mut self, end_ns: u64) -> Report {
        self.end_ns = self.end_ns.max(end_ns);
        let seconds = (self.end_ns - self.start_ns) as f64 / 1e9;
        let per_s = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let kind_report = |meter: &Meter| KindReport {
            requests: meter.latency.len() + meter.errors,
            errors: meter.errors,
            bytes: meter.bytes,
            iops: per_s(meter.latency.len()),
            bytes_per_s: per_s(meter.bytes),
            latency: Distribution::of(&meter.latency),
            service: Distribution::of(&meter.service),
        };
        let kinds = Kind::ALL.into_iter().zip(&self.kinds);
        let kinds = kinds.filter_map(|(kind, meter)| Some((kind, kind_report(meter.as_deref()?)))).collect();
        let Recorder { start_ns, end_ns, late, spans, .. } = self;
        let (late, bucket_ns) = (Distribution::of(&late), spans.length_ns());
        Report { schema: SCHEMA, start_ns, end_ns, kinds, late, bucket_ns, buckets: spans.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Issue, Request};

    fn done(kind: Kind, due_ns: u64, issued_ns: u64, done_ns: u64, ok: bool) -> Done {
        let request = Request { at_ns: 0, offset: 0, len: 4096, volume: 0, kind };
        Done { issue: Issue { number: 0, request, due_ns, issued_ns }, done_ns, ok }
    }

    fn near(found: u64, wanted: u64) -> bool {
        found.abs_diff(wanted) * 1000 <= wanted
    }

    #[test]
    fn percentiles_and_rates_are_right() {
        let mut recorder = Recorder::new(1000, 1_000_000);
        for i in 1..=10_000u64 {
            let due = 1000 + i * 100;
            recorder.record(&done(Kind::Write, due, due + 5, 1000 + 1_000_100 + i * 200, true));
        }
        recorder.record(&done(Kind::Read, 1000, 1000, 5_001_000, false));
        let together = recorder.latency();
        let report = recorder.finish(0);
        assert_eq!(together, report.kinds[&Kind::Write].latency, "the read failed");
        let write = &report.kinds[&Kind::Write];
        // Latency rises from 1 000 200 by 100 each.
        let latency = &write.latency;
        assert!(near(latency.p50_ns, 1_500_100) && near(latency.p99_ns, 1_990_100));
        assert!(near(latency.p99_9_ns, 1_999_100) && near(latency.p99_99_ns, 2_000_000));
        assert!(near(latency.min_ns, 1_000_200) && near(latency.max_ns, 2_000_100));
        assert!(near(latency.mean_ns as u64, 1_500_150) && near(latency.slowest_mean_ns as u64, 1_995_150));
        assert!(near(write.service.max_ns, 2_000_095));
        assert_eq!((write.requests, write.bytes), (10_000, 40_960_000));
        assert_eq!((report.end_ns, write.iops), (5_001_000, 2e6));
        let read = &report.kinds[&Kind::Read];
        assert_eq!((read.requests, read.errors, read.bytes, read.latency.max_ns), (1, 1, 0, 0));
        let starts: Vec<_> = report.buckets.iter().map(|b| (b.from_ns, b.requests, b.errors)).collect();
        assert_eq!(
            starts,
            [(1_000_000, 4999, 0), (2_000_000, 5000, 0), (3_000_000, 1, 0), (5_000_000, 0, 1)]
        );
    }

    /// However completions are dealt over recorders, the report is that of one recorder.
    #[test]
    fn merged_recorders_report_as_one() {
        let all: Vec<Done> = (0..3000u64)
            .map(|i| {
                let kind = Kind::ALL[(i % 4) as usize];
                let done_ns = 500 + i * 7 + 3000 * u64::from(i > 2000);
                done(kind, done_ns - i % 400, done_ns - i % 100, done_ns, i % 50 != 7)
            })
            .collect();
        let recorded = |part: &mut dyn Iterator<Item = &Done>| {
            let mut recorder = Recorder::new(0, 1000);
            part.for_each(|done| recorder.record(done));
            recorder
        };
        let whole = recorded(&mut all.iter()).finish(0);
        for parts in 1..5 {
            let mut merged = Recorder::new(0, 1000);
            for part in 0..parts {
                // One after the other in the last case, else in turn.
                let mine = |(i, _): &(usize, &Done)| {
                    if parts < 4 { i % parts == part } else { i * 4 / 3000 == part }
                };
                merged.merge(recorded(&mut all.iter().enumerate().filter(mine).map(|(_, done)| done)));
            }
            assert_eq!(merged.finish(0), whole, "{parts} parts");
        }
        assert!(whole.buckets.len() > 15 && whole.late.max_ns > 250);
    }

    #[test]
    fn a_report_is_json_and_back() {
        let mut recorder = Recorder::new(0, 10);
        recorder.record(&done(Kind::Flush, 3, 4, 9, true));
        let report = recorder.finish(100);
        let back: Report = serde_json::from_str(&report.to_json()).expect("the same schema");
        assert_eq!(back, report);
        assert!(report.to_json().contains("\"flush\"") && report.to_json().contains("\"p99_99_ns\": 6"));
    }

    #[test]
    fn nothing_recorded_is_an_empty_report() {
        let report = Recorder::new(5, 10).finish(5);
        assert!(report.kinds.is_empty() && report.buckets.is_empty());
    }
}
