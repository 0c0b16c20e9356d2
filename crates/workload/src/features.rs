//! What a stream is like, so that traces and generators can be compared.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Kind, Request, Result};

/// The unit of footprints.
const PAGE_BYTES: u64 = 4096;
/// Spans in which requests are counted.
const DISPERSION_NS: [u64; 3] = [10_000_000, 100_000_000, 1_000_000_000];
/// Fewer spans do not say how they differ.
const SPANS_MIN: u64 = 20;
/// Pages that share one allocation: 2 MiB of a volume.
const GROUP_PAGES: u64 = 512;

/// The features of a stream. Of a kind that does not occur there is none. Sizes are in bytes, times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Features {
    /// All requests, flushes too.
    pub requests: u64,
    /// Volumes that occur.
    pub volumes: u64,
    /// From the first request to the last.
    pub duration_ns: u64,
    /// Requests per second; 0 if all come at once.
    pub iops: f64,
    /// Reads among reads and writes.
    pub read_share: f64,
    /// Among reads, writes and discards those that begin where the one before on the same volume ended.
    pub sequential_share: f64,
    /// Mean time between two requests that follow each other.
    pub gap_mean_ns: f64,
    /// The standard deviation of those times over their mean: 0 is regular, 1 Poisson, more is bursty.
    pub gap_cv: f64,
    /// Variance over mean of the number of requests in spans of 10 ms, 100 ms and 1 s: the index of dispersion for counts.
    /// Independent arrivals have 1; what grows with the span comes in bursts as long as that. None of few spans.
    pub dispersion: [Option<f64>; DISPERSION_NS.len()],
    /// Distinct bytes read or written, in whole 4 KiB pages.
    pub footprint: u64,
    /// The byte after the last one of any volume.
    pub span: u64,
    /// Reads.
    pub read: Option<KindFeatures>,
    /// Writes.
    pub write: Option<KindFeatures>,
    /// Discards.
    pub discard: Option<KindFeatures>,
    /// Flushes; of them only the number says something.
    pub flush: Option<KindFeatures>,
}

/// The features of the requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindFeatures {
    /// How many.
    pub requests: u64,
    /// All their bytes.
    pub bytes: u64,
    /// Mean size.
    pub size_mean: f64,
    /// Half are at most so large.
    pub size_p50: u64,
    /// Nine of ten are at most so large.
    pub size_p90: u64,
    /// The largest.
    pub size_max: u64,
    /// Those that begin where the one before on the same volume ended.
    pub sequential_share: f64,
    /// Distinct bytes, in whole 4 KiB pages.
    pub footprint: u64,
    /// How often a page that is touched is touched, on average.
    pub page_touches_mean: f64,
    /// How often the page is touched that is more popular than half of those touched.
    pub page_touches_p50: u32,
    /// The same for 99 of 100.
    pub page_touches_p99: u32,
}

type Group = Box<[u32; GROUP_PAGES as usize]>;

/// Counts of touches by page. Memory is a thousandth of the footprint, or more if it is scattered in small pieces.
#[derive(Debug, Default)]
struct Pages {
    groups: BTreeMap<(u32, u64), Group>,
}

impl Pages {
    fn touch(&mut self, request: &Request) {
        if request.len == 0 {
            return;
        }
        let (mut page, last) = (request.offset / PAGE_BYTES, (request.end() - 1) / PAGE_BYTES);
        while page <= last {
            let number = page / GROUP_PAGES;
            let fresh = || Box::new([0; GROUP_PAGES as usize]);
            let group = self.groups.entry((request.volume, number)).or_insert_with(fresh);
            let until = last.min((number + 1) * GROUP_PAGES - 1);
            for count in &mut group[(page % GROUP_PAGES) as usize..=(until % GROUP_PAGES) as usize] {
                *count = count.saturating_add(1);
            }
            page = until + 1;
        }
    }

    fn counts(&self) -> Vec<u32> {
        let mut counts: Vec<u32> =
            self.groups.values().flat_map(|group| group.iter().copied()).filter(|&n| n > 0).collect();
        counts.sort_unstable();
        counts
    }
}

#[derive(Debug, Default)]
struct KindMeter {
    bytes: u64,
    sequential: u64,
    sizes: BTreeMap<u64, u64>,
    pages: Pages,
}

impl KindMeter {
    fn features(&self) -> Option<KindFeatures> {
        let requests: u64 = self.sizes.values().sum();
        if requests == 0 {
            return None;
        }
        let size_at = |share: f64| {
            let rank = (requests as f64 * share).ceil() as u64;
            let mut seen = 0;
            let found = self.sizes.iter().find(|(_, n)| {
                seen += **n;
                seen >= rank
            });
            found.map_or(0, |(size, _)| *size)
        };
        let touches = self.pages.counts();
        let touches_at = |share: f64| {
            let rank = (touches.len() as f64 * share) as usize;
            touches.get(rank.min(touches.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        let touched: u64 = touches.iter().map(|&n| u64::from(n)).sum();
        Some(KindFeatures {
            requests,
            bytes: self.bytes,
            size_mean: self.bytes as f64 / requests as f64,
            size_p50: size_at(0.5),
            size_p90: size_at(0.9),
            size_max: self.sizes.last_key_value().map_or(0, |(size, _)| *size),
            sequential_share: self.sequential as f64 / requests as f64,
            footprint: touches.len() as u64 * PAGE_BYTES,
            page_touches_mean: ratio(touched as f64, touches.len() as f64),
            page_touches_p50: touches_at(0.5),
            page_touches_p99: touches_at(0.99),
        })
    }
}

/// 0 where there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Requests in spans of equal length, one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Spans that are over, and the sums of their counts and of the squares of those.
    spans: u64,
    sum: f64,
    squares: f64,
    /// Requests in the one that is not.
    now: f64,
}

impl Counts {
    fn add(&mut self, span: u64) {
        if span > self.spans {
            self.sum += self.now;
            self.squares += self.now * self.now;
            (self.spans, self.now) = (span, 0.0);
        }
        self.now += 1.0;
    }

    fn dispersion(&self) -> Option<f64> {
        let mean = self.sum / self.spans as f64;
        (self.spans >= SPANS_MIN).then(|| (self.squares / self.spans as f64 - mean * mean) / mean)
    }
}

/// Measures a stream as it passes.
#[derive(Debug, Default)]
pub struct FeatureMeter {
    kinds: [KindMeter; 4],
    /// Where the last request of each volume ended.
    ends: BTreeMap<u32, u64>,
    requests: u64,
    first_ns: u64,
    last_ns: u64,
    /// Welford's running mean and sum of squared deviations of the gaps.
    gap_mean: f64,
    gap_squares: f64,
    counts: [Counts; DISPERSION_NS.len()],
    span: u64,
}

impl FeatureMeter {
    /// Takes the next request into account.
    pub fn add(&mut self, request: &Request) {
        self.add_time(request.at_ns);
        let kind = &mut self.kinds[request.kind.index()];
        *kind.sizes.entry(request.len).or_default() += 1;
        if request.kind == Kind::Flush {
            return;
        }
        kind.bytes += request.len;
        let end = self.ends.insert(request.volume, request.end());
        kind.sequential += u64::from(end == Some(request.offset));
        kind.pages.touch(request);
        self.span = self.span.max(request.end());
    }

    fn add_time(&mut self, at_ns: u64) {
        if self.requests == 0 {
            self.first_ns = at_ns;
        } else {
            let gap = at_ns.saturating_sub(self.last_ns) as f64;
            let off = gap - self.gap_mean;
            self.gap_mean += off / self.requests as f64;
            self.gap_squares += off * (gap - self.gap_mean);
        }
        let since_ns = at_ns.saturating_sub(self.first_ns);
        self.counts.iter_mut().zip(DISPERSION_NS).for_each(|(counts, ns)| counts.add(since_ns / ns));
        self.requests += 1;
        self.last_ns = at_ns;
    }

    /// The features of what was added.
    pub fn features(&self) -> Features {
        let gaps = self.requests.saturating_sub(1) as f64;
        let [read, write, discard, flush] = [0, 1, 2, 3].map(|i| self.kinds[i].features());
        let count = |kind: &Option<KindFeatures>| kind.as_ref().map_or(0.0, |k| k.requests as f64);
        let (reads, writes) = (count(&read), count(&write));
        let sequential: u64 = self.kinds.iter().map(|kind| kind.sequential).sum();
        let duration_ns = self.last_ns - self.first_ns;
        Features {
            requests: self.requests,
            volumes: self.ends.len() as u64,
            duration_ns,
            iops: ratio(gaps, duration_ns as f64 / 1e9),
            read_share: ratio(reads, reads + writes),
            sequential_share: ratio(sequential as f64, reads + writes + count(&discard)),
            gap_mean_ns: self.gap_mean,
            gap_cv: ratio(ratio(self.gap_squares, gaps).sqrt(), self.gap_mean),
            dispersion: self.counts.map(|counts| counts.dispersion()),
            footprint: self.footprint(),
            span: self.span,
            read,
            write,
            discard,
            flush,
        }
    }

    /// Pages read or written.
    fn footprint(&self) -> u64 {
        let [read, write] = [Kind::Read, Kind::Write].map(|kind| &self.kinds[kind.index()].pages.groups);
        let in_group = |group: &Group| group.iter().filter(|&&n| n > 0).count() as u64;
        let mut pages: u64 = read.values().map(in_group).sum();
        for (place, written) in write {
            pages += match read.get(place) {
                None => in_group(written),
                Some(read) => {
                    written.iter().zip(read.iter()).filter(|(w, r)| **w > 0 && **r == 0).count() as u64
                }
            };
        }
        pages * PAGE_BYTES
    }
}

impl Features {
    /// The features of a whole stream.
    ///
    /// # Errors
    /// The first error of the stream.
    pub fn of(stream: impl Iterator<Item = Result<Request>>) -> Result<Features> {
        let mut meter = FeatureMeter::default();
        for request in stream {
            meter.add(&request?);
        }
        Ok(meter.features())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_stream_is_measured_by_hand() {
        let r = |at_ns, kind, offset, len| Ok(Request { at_ns, offset, len, volume: 0, kind });
        let stream = [
            r(0, Kind::Write, 0, 8192),
            r(1_000_000, Kind::Write, 8192, 4096),
            r(2_000_000, Kind::Read, 4096, 512),
            r(3_000_000, Kind::Read, GROUP_PAGES * PAGE_BYTES - 1, 2),
            r(4_000_000, Kind::Flush, 0, 0),
        ];
        let found = Features::of(stream.into_iter()).expect("no errors");
        assert_eq!((found.requests, found.volumes, found.duration_ns), (5, 1, 4_000_000));
        assert_eq!((found.iops, found.gap_cv, found.read_share), (1000.0, 0.0, 0.5));
        assert_eq!(found.footprint, 5 * PAGE_BYTES);
        let (read, write) = (found.read.expect("reads"), found.write.expect("writes"));
        assert_eq!((write.requests, write.bytes, write.size_mean), (2, 12288, 6144.0));
        assert_eq!((write.sequential_share, read.sequential_share), (0.5, 0.0));
        assert_eq!((write.size_p50, write.size_p90, write.size_max), (4096, 8192, 8192));
        assert_eq!((read.footprint, write.footprint), (3 * PAGE_BYTES, 3 * PAGE_BYTES));
        assert_eq!((write.page_touches_mean, found.flush.map(|f| f.requests)), (1.0, Some(1)));
        assert!(found.discard.is_none());
    }

    #[test]
    fn counts_in_spans_are_those_of_the_requests() {
        // Two, none, two, none... in spans of 10 ms; ten in each of 100 ms.
        let at = |i: u64| i / 2 * 20_000_000 + i % 2 * 1_000_000;
        let requests = (0..1001)
            .map(|i| Ok(Request { at_ns: at(i), offset: 0, len: 4096, volume: 0, kind: Kind::Read }));
        let found = Features::of(requests).expect("no errors").dispersion;
        assert_eq!(found, [Some(1.0), Some(0.0), None]);
    }

    #[test]
    fn of_nothing_there_are_no_features() {
        let found = Features::of(std::iter::empty()).expect("no errors");
        assert_eq!((found.requests, found.iops, found.footprint), (0, 0.0, 0));
    }
}
