//! Latencies of the requests of one kind, with a histogram and a time series; and of the requests to one volume.

use std::rc::Rc;

use hdrhistogram::Histogram;
use sinew_workload::{Done, Kind, KindReport, LatencyCount, Recorder};

use crate::results::simulated::{KindResult, VolumeResult};

/// The significant digits of the histogram in the results. Two are exact to 1 % and keep the JSON small.
const DIGITS: u8 = 2;

/// The completed requests of one kind.
pub(crate) struct KindHistogram {
    kind: Kind,
    recorder: Recorder,
    /// The message of the first error.
    first_error: Option<Rc<str>>,
}

impl KindHistogram {
    /// A histogram for a measurement that begins at `start_ns`, with a time series of intervals of `interval_ns`.
    pub(crate) fn new(kind: Kind, start_ns: u64, interval_ns: u64) -> KindHistogram {
        KindHistogram { kind, recorder: Recorder::new(start_ns, interval_ns), first_error: None }
    }

    /// Records a completed request, and the message of its error if it failed.
    pub(crate) fn record(&mut self, done: &Done, error: Option<String>) {
        self.recorder.record(done);
        match error {
            Some(error) if self.first_error.is_none() => self.first_error = Some(error.into()),
            _ => {}
        }
    }

    /// The result, at the end of measurement; nothing if there was no request.
    pub(crate) fn finish(self, end_ns: u64) -> Option<KindResult> {
        let mut coarse = Histogram::<u64>::new(DIGITS).expect("at most five digits are allowed");
        for LatencyCount { latency_ns, count } in self.recorder.latencies(self.kind) {
            coarse.record_n(latency_ns, count).expect("the histogram grows by itself");
        }
        let mut report = self.recorder.finish(end_ns);
        let summary = report.kinds.remove(&self.kind)?;
        let histogram = coarse.iter_recorded();
        Some(KindResult {
            summary,
            first_error: self.first_error.map(|error| error.to_string()),
            histogram: histogram.map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
            series: report.buckets,
        })
    }
}

/// The completed requests of one volume.
pub(crate) struct VolumeHistogram(Recorder);

impl VolumeHistogram {
    /// A histogram for a measurement that begins at `start_ns`.
    pub(crate) fn new(start_ns: u64, duration_ns: u64) -> VolumeHistogram {
        VolumeHistogram(Recorder::new(start_ns, duration_ns.max(1)))
    }

    /// Records a completed request.
    pub(crate) fn record(&mut self, done: &Done) {
        self.0.record(done);
    }

    /// The result, at the end of measurement.
    pub(crate) fn finish(self, volume: u32, end_ns: u64) -> VolumeResult {
        let latency = self.0.latency();
        let mut kinds = self.0.finish(end_ns).kinds;
        let sum = |figure: fn(&KindReport) -> u64| kinds.values().map(figure).sum();
        let (requests, errors) = (sum(|kind| kind.requests), sum(|kind| kind.errors));
        let mut of = |kind| {
            let report = kinds.remove(&kind);
            (report.as_ref().map_or(0, |report| report.requests), report.map(|report| report.latency))
        };
        let ((reads, read), (writes, write)) = (of(Kind::Read), of(Kind::Write));
        VolumeResult { volume, requests, errors, latency, reads, writes, read, write }
    }
}
