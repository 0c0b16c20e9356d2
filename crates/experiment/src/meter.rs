//! Latencies of one kind of request: figures, a histogram, and how they changed over time; and of one volume.

use std::rc::Rc;

use hdrhistogram::Histogram;
use sinew_workload::{Done, Kind, KindReport, Recorder};

use crate::results::{KindResult, VolumeResult};

/// Two digits: values within 1 %, which keeps what is written out small.
const DIGITS: u8 = 2;

/// What completed of one kind.
pub(crate) struct Meter {
    kind: Kind,
    recorder: Recorder,
    /// Why the first request failed that did.
    first_error: Option<Rc<str>>,
}

impl Meter {
    /// Of a measurement that begins at `start_ns`, in spans of `interval_ns`.
    pub(crate) fn new(kind: Kind, start_ns: u64, interval_ns: u64) -> Meter {
        Meter { kind, recorder: Recorder::new(start_ns, interval_ns), first_error: None }
    }

    pub(crate) fn record(&mut self, done: &Done, error: Option<String>) {
        self.recorder.record(done);
        match error {
            Some(error) if self.first_error.is_none() => self.first_error = Some(error.into()),
            _ => {}
        }
    }

    /// Bytes of requests that succeeded are in the result; `None` when there was no request of the kind.
    pub(crate) fn finish(self, end_ns: u64) -> Option<KindResult> {
        let mut coarse = Histogram::<u64>::new(DIGITS).expect("so many digits are possible");
        for (latency_ns, count) in self.recorder.latencies(self.kind) {
            coarse.record_n(latency_ns, count).expect("it grows");
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

/// What completed of one volume.
pub(crate) struct VolumeMeter(Recorder);

impl VolumeMeter {
    pub(crate) fn new(start_ns: u64, duration_ns: u64) -> VolumeMeter {
        VolumeMeter(Recorder::new(start_ns, duration_ns.max(1)))
    }

    pub(crate) fn record(&mut self, done: &Done) {
        self.0.record(done);
    }

    pub(crate) fn finish(self, volume: u32, end_ns: u64) -> VolumeResult {
        let latency = self.0.latency();
        let mut kinds = self.0.finish(end_ns).kinds;
        let sum = |figure: fn(&KindReport) -> u64| kinds.values().map(figure).sum();
        let (requests, errors) = (sum(|kind| kind.requests), sum(|kind| kind.errors));
        let mut of = |kind| kinds.remove(&kind).map(|report| report.latency);
        let (read, write) = (of(Kind::Read), of(Kind::Write));
        VolumeResult { volume, requests, errors, latency, read, write }
    }
}
