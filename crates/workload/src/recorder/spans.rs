//! What completed in each span of time.
//!
//! The span under way has a whole histogram; those that are over keep only the values that occurred, which is exact and
//! small, so that the spans of several recorders can be merged.

use hdrhistogram::Histogram;

use super::report::{BucketReport, Distribution, histogram};

/// The spans of a run so far.
#[derive(Debug)]
pub(super) struct Spans {
    length_ns: u64,
    current: Span,
    latency: Histogram<u64>,
    /// In order; none is empty.
    closed: Vec<Span>,
}

#[derive(Debug, Default)]
struct Span {
    /// How many spans after the start.
    number: u64,
    errors: u64,
    bytes: u64,
    /// Latencies and how often each occurred.
    latency: Vec<(u64, u64)>,
}

impl Spans {
    pub(super) fn new(length_ns: u64) -> Spans {
        assert!(length_ns > 0, "spans of no length");
        Spans { length_ns, current: Span::default(), latency: histogram(), closed: Vec::new() }
    }

    pub(super) fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Goes on to the span of this time, counted from the start of the run.
    pub(super) fn advance(&mut self, ns: u64) {
        let number = ns / self.length_ns;
        if number > self.current.number {
            self.close(number);
        }
    }

    pub(super) fn success(&mut self, bytes: u64, latency_ns: u64) {
        self.current.bytes += bytes;
        self.latency.saturating_record(latency_ns);
    }

    pub(super) fn error(&mut self) {
        self.current.errors += 1;
    }

    /// Ends the span under way and begins another.
    fn close(&mut self, next: u64) {
        let mut span = std::mem::replace(&mut self.current, Span { number: next, ..Span::default() });
        if self.latency.is_empty() && span.errors == 0 {
            return;
        }
        let recorded = self.latency.iter_recorded();
        span.latency = recorded.map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        self.latency.reset();
        self.closed.push(span);
    }

    /// Adds the spans of another recorder of the same run.
    pub(super) fn merge(&mut self, mut other: Spans) {
        assert_eq!(self.length_ns, other.length_ns, "spans of different lengths");
        let next = self.current.number.max(other.current.number) + 1;
        self.close(next);
        other.close(next);
        let mut both: Vec<Span> = self.closed.drain(..).chain(other.closed).collect();
        both.sort_by_key(|span| span.number);
        for span in both {
            match self.closed.last_mut() {
                Some(last) if last.number == span.number => {
                    last.errors += span.errors;
                    last.bytes += span.bytes;
                    last.latency.extend(span.latency);
                }
                _ => self.closed.push(span),
            }
        }
    }

    pub(super) fn finish(mut self) -> Vec<BucketReport> {
        self.close(self.current.number + 1);
        let Spans { length_ns, mut latency, closed, .. } = self;
        let report = |span: Span| {
            latency.reset();
            span.latency.iter().for_each(|(ns, count)| latency.saturating_record_n(*ns, *count));
            let found = Distribution::of(&latency);
            BucketReport {
                from_ns: span.number * length_ns,
                requests: latency.len(),
                errors: span.errors,
                bytes: span.bytes,
                latency_mean_ns: found.mean_ns,
                latency_p50_ns: found.p50_ns,
                latency_p99_ns: found.p99_ns,
                latency_max_ns: found.max_ns,
            }
        };
        closed.into_iter().map(report).collect()
    }
}
