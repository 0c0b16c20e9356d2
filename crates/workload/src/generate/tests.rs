//! Every kind of arrival, place and size gives what it says.

use proptest::prelude::*;

use super::*;
use crate::{ByteSize, Features, Problem};

const REQUESTS: u64 = 200_000;
const SPACE: u64 = 1 << 30;

fn writes(arrival: Arrival, sizes: Sizes, place: Place) -> GeneratorSpec {
    let streams = vec![StreamSpec::new(Kind::Write, 1.0, sizes, place, SPACE)];
    GeneratorSpec { seed: 1, requests: Some(REQUESTS), volume: 0, arrival, flush_every: None, streams }
}

fn all(spec: &GeneratorSpec) -> Vec<Request> {
    let generator = Generator::new(spec).expect("a good spec");
    generator.map(|r| r.expect("generators do not fail")).collect()
}

fn features(spec: &GeneratorSpec) -> Features {
    Features::of(Generator::new(spec).expect("a good spec")).expect("generators do not fail")
}

fn block() -> Sizes {
    Sizes::Fixed(ByteSize(4096))
}

fn close(found: f64, wanted: f64, tolerance: f64) -> bool {
    (found / wanted - 1.0).abs() <= tolerance
}

#[test]
fn equal_seeds_give_equal_streams() {
    let spec = writes(Arrival::Poisson { iops: 1e4 }, Sizes::mean(16384), Place::Zipf { theta: 0.9 });
    assert_eq!(all(&spec), all(&spec));
    assert_ne!(all(&spec), all(&GeneratorSpec { seed: 2, ..spec.clone() }));
    // Other sizes leave the arrivals as they were.
    let mut other = spec.clone();
    other.streams[0].sizes = block();
    assert!(all(&spec).iter().zip(all(&other)).all(|(a, b)| a.at_ns == b.at_ns));
}

/// Streams stay what they were when a dependency is updated. Nothing in this one depends on a platform's mathematics.
#[test]
fn a_stream_is_what_it_was() {
    let size = |bytes, weight| SizeWeight { bytes: ByteSize(bytes), weight };
    let sizes = Sizes::Choice(vec![size(4096, 1.0), size(65536, 3.0)]);
    let spec = writes(Arrival::Fixed { iops: 3000.0 }, sizes, Place::HotCold { places: 0.25, requests: 0.5 });
    let mixed =
        |hash, r: Request| [r.at_ns, r.offset, r.len].into_iter().fold(hash, |h, x| random::mix64(h ^ x));
    assert_eq!(all(&spec).into_iter().fold(0, mixed), 12_117_826_782_122_586_296);
}

#[test]
fn arrivals_have_their_rate_and_spread() {
    let phases = vec![Phase { iops: 9000.0, mean_ms: 5.0 }, Phase { iops: 1000.0, mean_ms: 5.0 }];
    let points = vec![(0.0, 10.0), (50.0, 100.0), (90.0, 300.0)];
    // (arrivals, coefficient of variation and its tolerance)
    let cases = [
        (Arrival::Fixed { iops: 3000.0 }, 3000.0, Some((0.0, 0.001))),
        (Arrival::Poisson { iops: 5000.0 }, 5000.0, Some((1.0, 0.02))),
        // Evenly between 0 and 2 h: variance 4 h^2 / 12.
        (Arrival::Uniform { gap_ms_max: 0.4 }, 5000.0, Some((1.0 / 3f64.sqrt(), 0.01))),
        (Arrival::Bursty { iops: 5000.0, cv: 4.0 }, 5000.0, Some((4.0, 0.2))),
        (Arrival::OnOff { iops: 5000.0, on_ms: 2.0, off_ms: 8.0 }, 5000.0, None),
        (Arrival::Mmpp { phases }, 5000.0, None),
        (Arrival::Measured { gaps_us: points, mean_us: 200.0 }, 5000.0, None),
    ];
    for (arrival, iops, spread) in cases {
        let found = features(&writes(arrival.clone(), block(), Place::Uniform));
        assert!(close(found.iops, iops, 0.04), "{arrival:?}: {} IOPS", found.iops);
        match spread {
            Some((cv, by)) => assert!((found.gap_cv - cv).abs() <= by, "{arrival:?}: {}", found.gap_cv),
            None => assert!(found.gap_cv > 1.1, "{arrival:?}: {}", found.gap_cv),
        }
    }
    let closed = all(&writes(Arrival::Closed, block(), Place::Uniform));
    assert!(closed.iter().all(|r| r.at_ns == 0));
}

#[test]
fn measured_gaps_have_the_measured_percentiles() {
    let points = vec![(0.0, 10.0), (50.0, 100.0), (90.0, 300.0)];
    let arrival = Arrival::Measured { gaps_us: points.clone(), mean_us: 200.0 };
    let requests = all(&writes(arrival, block(), Place::Uniform));
    let mut gaps: Vec<u64> = requests.windows(2).map(|w| w[1].at_ns - w[0].at_ns).collect();
    gaps.sort_unstable();
    for (percentile, us) in points {
        let found = gaps[(gaps.len() as f64 * percentile / 100.0) as usize] as f64 / 1000.0;
        assert!(close(found, us, 0.03), "p{percentile}: {found}");
    }
}

#[test]
fn places_have_their_skew() {
    let hits = |place, seen: fn(&[u32]) -> f64| {
        let mut counts = vec![0u32; (SPACE >> 12) as usize];
        let requests = all(&writes(Arrival::Closed, block(), place));
        requests.iter().for_each(|r| counts[(r.offset >> 12) as usize] += 1);
        counts.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        seen(&counts)
    };
    let top = |counts: &[u32]| f64::from(counts[0]) / REQUESTS as f64;
    // The most popular of n at theta 1 gets 1 / H(n), H(2^18) = ln 2^18 + 0.5772 = 13.05.
    assert!(close(hits(Place::Zipf { theta: 1.0 }, top), 1.0 / 13.05, 0.03));
    assert!(hits(Place::Uniform, top) < 1e-4);
    let fifth = |counts: &[u32]| {
        f64::from(counts[..counts.len() / 5].iter().sum::<u32>()) / f64::from(counts.iter().sum::<u32>())
    };
    // With three requests a place on average, the fullest fifth is not quite the hot one.
    let hot = hits(Place::HotCold { places: 0.2, requests: 0.8 }, fifth);
    assert!((0.8..0.86).contains(&hot), "{hot}");
    let walk = all(&writes(Arrival::Closed, block(), Place::Sequential));
    assert!(walk.windows(2).all(|w| w[1].offset == w[0].end()));
}

#[test]
fn mixed_kinds_keep_their_shares_and_runs() {
    let stream = |kind, share, sequential, mean| StreamSpec {
        sequential,
        ..StreamSpec::new(kind, share, Sizes::mean(mean), Place::Uniform, SPACE)
    };
    let streams = vec![
        stream(Kind::Read, 0.3, 0.7, 65536),
        stream(Kind::Write, 0.6, 0.1, 8192),
        stream(Kind::Discard, 0.1, 0.0, 1 << 20),
    ];
    let base = writes(Arrival::Poisson { iops: 100.0 }, block(), Place::Uniform);
    let found = features(&GeneratorSpec { streams, flush_every: Some(10), ..base });
    assert!((found.read_share - 0.3 / 0.9).abs() < 0.01, "{}", found.read_share);
    let [read, write, discard, flush] =
        [found.read, found.write, found.discard, found.flush].map(|kind| kind.expect("all kinds are there"));
    assert!((read.sequential_share - 0.7).abs() < 0.02, "{}", read.sequential_share);
    assert!((write.sequential_share - 0.1).abs() < 0.02, "{}", write.sequential_share);
    assert!(close(read.size_mean, 65536.0, 0.02) && close(write.size_mean, 8192.0, 0.02));
    assert!(close(discard.size_mean, (1 << 20) as f64, 1e-9));
    assert!(write.requests / 10 - flush.requests <= 1);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let good = writes(Arrival::Closed, block(), Place::Uniform);
    let with = |change: fn(&mut GeneratorSpec)| {
        let mut spec = good.clone();
        change(&mut spec);
        match Generator::new(&spec).expect_err("refused").problem() {
            Problem::Setting { name, .. } => *name,
            other => panic!("{other}"),
        }
    };
    assert_eq!(with(|s| s.streams[0].share = 0.9), "share");
    assert_eq!(with(|s| s.streams.clear()), "share");
    assert_eq!(with(|s| s.streams[0].kind = Kind::Flush), "kind");
    assert_eq!(with(|s| s.streams[0].footprint = ByteSize(0)), "footprint");
    assert_eq!(with(|s| s.streams[0].sizes = Sizes::Fixed(ByteSize(0))), "sizes");
    assert_eq!(with(|s| s.streams[0].sizes = Sizes::Choice(Vec::new())), "sizes");
    assert_eq!(with(|s| s.streams[0].sizes = Sizes::mean(2 << 20)), "mean");
    assert_eq!(with(|s| s.streams[0].place = Place::Zipf { theta: -1.0 }), "theta");
    assert_eq!(with(|s| s.streams[0].sequential = 1.5), "sequential");
    assert_eq!(with(|s| s.streams[0].align = ByteSize(0)), "align");
    assert_eq!(with(|s| s.arrival = Arrival::Poisson { iops: 0.0 }), "iops");
    assert_eq!(with(|s| s.arrival = Arrival::Bursty { iops: 1.0, cv: 0.5 }), "cv");
    assert_eq!(with(|s| s.arrival = Arrival::Mmpp { phases: Vec::new() }), "phases");
    assert_eq!(with(|s| s.flush_every = Some(0)), "flush_every");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn requests_stay_in_their_footprint(
        from in 0u64..100, blocks in 1u64..600, mean in 1u64..100, sequential in 0.0..1.0f64, kind in 0..4,
    ) {
        let place = [Place::Uniform, Place::Sequential, Place::Zipf { theta: 1.1 },
            Place::HotCold { places: 0.2, requests: 0.8 }][kind as usize];
        let (mean, footprint) = (mean.min(blocks) * 4096, blocks * 4096);
        let sizes = Sizes::Mean { mean: ByteSize(mean), max: ByteSize(footprint.min(100 * 4096)) };
        let mut stream = StreamSpec::new(Kind::Read, 1.0, sizes, place, footprint);
        (stream.from, stream.sequential) = (ByteSize(from * 4096), sequential);
        let spec = GeneratorSpec {
            requests: Some(2000), streams: vec![stream],
            ..writes(Arrival::Poisson { iops: 10.0 }, block(), place)
        };
        for r in all(&spec) {
            prop_assert!(r.len > 0 && r.offset >= from * 4096 && r.end() <= from * 4096 + footprint);
            prop_assert!(r.offset % 4096 == 0);
        }
    }
}
