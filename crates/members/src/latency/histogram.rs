//! Histogram of recent latencies: four buckets for each power of two. All counts are halved from time to time, so that
//! old requests lose their weight.

/// Buckets for each doubling, as a power of two.
const FINE_BITS: u32 = 2;
/// The first bucket takes everything below 1 us, the last everything above 17 s.
const LOW_BITS: u32 = 10;
/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = 24 << FINE_BITS;
/// Requests after which all counts are halved.
const HALVED_AT: u32 = 2048;
/// This number of requests is kept, however old they are.
const KEPT: u32 = 128;

/// Latencies of one kind of request.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram { counts: [0; BUCKETS], total: 0 }
    }
}

/// The bucket of a latency.
pub(crate) fn bucket(ns: u64) -> usize {
    if ns < 1 << LOW_BITS {
        return 0;
    }
    let exponent = 63 - ns.leading_zeros();
    let fine = (ns >> (exponent - FINE_BITS)) as usize & ((1 << FINE_BITS) - 1);
    (((exponent - LOW_BITS) as usize) << FINE_BITS | fine).min(BUCKETS - 1)
}

/// The smallest latency above those of the bucket.
fn end_ns(bucket: usize) -> u64 {
    let (exponent, fine) = ((bucket >> FINE_BITS) as u32 + LOW_BITS, bucket as u64 & ((1 << FINE_BITS) - 1));
    ((1 << FINE_BITS) + fine + 1) << (exponent - FINE_BITS)
}

impl LatencyHistogram {
    /// Adds a request that took `ns` nanoseconds.
    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        if self.total >= HALVED_AT {
            self.halve();
        }
    }

    /// Halves the weight of everything so far.
    pub(crate) fn age(&mut self) {
        if self.total >= 2 * KEPT {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.total = 0;
        for count in &mut self.counts {
            *count /= 2;
            self.total += *count;
        }
    }

    /// Adds the histogram of another shard for the same member.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// Requests in the histogram.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The latency that a share of the requests did not exceed, at most a fifth too high; `None` without requests.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = (f64::from(self.total) * share).ceil().max(1.0) as u32;
        let mut below = 0;
        let found = self.counts.iter().position(|&count| {
            below += count;
            below >= wanted
        });
        found.filter(|_| self.total > 0).map(end_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_join_and_grow() {
        for b in 0..BUCKETS - 1 {
            assert_eq!(bucket(end_ns(b) - 1), b, "end of bucket {b}");
            assert_eq!(bucket(end_ns(b)), b + 1, "begin of bucket {}", b + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn it_forgets() {
        let mut histogram = LatencyHistogram::default();
        (0..10_000).for_each(|_| histogram.add(1_000_000));
        assert!(histogram.quantile_ns(0.5).is_some_and(|ns| ns > 1_000_000));
        (0..3 * HALVED_AT).for_each(|_| histogram.add(50_000));
        assert!(histogram.quantile_ns(0.9).is_some_and(|ns| ns < 70_000));
        assert!(LatencyHistogram::default().quantile_ns(0.5).is_none());
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_the_sorted_list(
            mut taken in prop::collection::vec(1024u64..1 << 33, 1..500), share in 0.01f64..1.0
        ) {
            let mut histogram = LatencyHistogram::default();
            taken.iter().for_each(|&ns| histogram.add(ns));
            taken.sort_unstable();
            let index = (taken.len() as f64 * share).ceil() as usize - 1;
            let (exact, found) = (taken[index], histogram.quantile_ns(share).unwrap());
            prop_assert!(found > exact && found <= exact + exact / 4 + 1, "{found} for {exact}");
        }
    }
}
