//! Generator, replay and recorder together, against queueing theory.

use sinew_workload::generate::{Arrival, Place, Sizes, StreamSpec};
use sinew_workload::{ByteSize, Generator, GeneratorSpec, Kind, Next, Pace, Recorder, Replay};

const SERVICE_NS: u64 = 100_000;

/// Poisson arrivals at a server of fixed service time S and load r wait for r S / (2 (1 - r)) on average (Pollaczek and
/// Khinchine). Within 3 %.
#[test]
fn an_open_loop_waits_as_theory_says() {
    for load in [0.3, 0.6, 0.8] {
        let iops = load * 1e9 / SERVICE_NS as f64;
        let sizes = Sizes::Fixed(ByteSize(4096));
        let spec = GeneratorSpec {
            seed: 11,
            requests: Some(400_000),
            volume: 0,
            arrival: Arrival::Poisson { iops },
            flush_every: None,
            streams: vec![StreamSpec::new(Kind::Read, 1.0, sizes, Place::Uniform, 1 << 30)],
        };
        let generator = Generator::new(&spec).expect("a good spec");
        let mut replay = Replay::new(generator, Pace::Timed { in_flight_max: Some(1) }, 0);
        let mut recorder = Recorder::new(0, 1_000_000_000);
        let (mut now, mut flying) = (0, None);
        loop {
            match replay.next(now).expect("generators do not fail") {
                Next::Issue(issue) => flying = Some(issue),
                Next::At(time) => now = time,
                Next::AfterCompletion => {
                    let issue = flying.take().expect("in flight");
                    now = issue.issued_ns + SERVICE_NS;
                    recorder.record(&replay.complete(issue, now, true));
                }
                Next::Done => break,
            }
        }
        let report = recorder.finish(now);
        let read = &report.kinds[&Kind::Read];
        let expected = SERVICE_NS as f64 * (1.0 + load / (2.0 * (1.0 - load)));
        assert!((read.latency.mean_ns / expected - 1.0).abs() < 0.03, "{load}: {}", read.latency.mean_ns);
        assert!((read.service.mean_ns / SERVICE_NS as f64 - 1.0).abs() < 0.001);
        assert!((read.iops / iops - 1.0).abs() < 0.02);
        assert_eq!(report.buckets.iter().map(|b| b.requests).sum::<u64>(), 400_000);
    }
}
