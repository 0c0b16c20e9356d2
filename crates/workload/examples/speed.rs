//! How fast requests are read and generated, and blocks filled, on one core.
//!
//!     cargo run --release -p sinew-workload --example speed

use std::fmt::Write as _;
use std::io::Cursor;
use std::path::Path;
use std::time::Instant;

use sinew_workload::fitted::{Like, LikeSpec};
use sinew_workload::generate::{Arrival, Place, Sizes, StreamSpec};
use sinew_workload::trace::{ReadOptions, TraceReader};
use sinew_workload::{
    ByteSize, Content, ContentSpec, Error, FeatureMeter, Generator, GeneratorSpec, Kind, Next, Pace,
    Recorder, Replay, Request, Source, Workload,
};

const REQUESTS: u64 = 2_000_000;
const BLOCKS: u64 = 50_000;

fn main() {
    let like = LikeSpec { requests: Some(REQUESTS), ..LikeSpec::new(Like::Exchange, 1, 100 << 30) };
    let spec = like.generator().expect("good figures");
    let requests: Vec<Request> =
        Generator::new(&spec).expect("a good spec").map(|r| r.expect("no errors")).collect();

    println!("million requests per second, median (lowest, highest) of 5 runs of {REQUESTS} requests");
    for (name, bytes) in texts(&requests) {
        report(&format!("read {name}"), REQUESTS as f64 / 1e6, || {
            let reader = TraceReader::from_reader(name, Cursor::new(bytes.clone()), ReadOptions::default());
            assert_eq!(count(reader.expect("a known format")), REQUESTS);
        });
    }
    for (name, arrival, place) in [
        ("fixed rate, uniform, 4 KiB", Arrival::Fixed { iops: 1e5 }, Place::Uniform),
        ("Poisson, uniform, 4 KiB", Arrival::Poisson { iops: 1e5 }, Place::Uniform),
        ("Poisson, Zipf 0.99, 4 KiB", Arrival::Poisson { iops: 1e5 }, Place::Zipf { theta: 0.99 }),
        (
            "on and off, 80/20, 4 KiB",
            Arrival::OnOff { iops: 1e5, on_ms: 1.0, off_ms: 9.0 },
            Place::HotCold { places: 0.2, requests: 0.8 },
        ),
    ] {
        let sizes = Sizes::Fixed(ByteSize(4096));
        let streams = vec![StreamSpec::new(Kind::Write, 1.0, sizes, place, 1 << 40)];
        let spec = GeneratorSpec {
            seed: 1,
            requests: Some(REQUESTS),
            volume: 0,
            arrival,
            flush_every: None,
            streams,
        };
        report(&format!("generate {name}"), REQUESTS as f64 / 1e6, || {
            assert_eq!(count(Generator::new(&spec).expect("a good spec")), REQUESTS);
        });
    }
    let mut workload = Workload::new(Source::Like(like));
    (workload.speed, workload.align) = (Some(2.0), Some(ByteSize(4096)));
    (workload.fold_into, workload.volume) = (Some(ByteSize(1 << 30)), Some(1));
    report("generate exchange-like", REQUESTS as f64 / 1e6, || {
        assert_eq!(count(Generator::new(&spec).expect("a good spec")), REQUESTS);
    });
    report("the same with speed, align, fold, volume", REQUESTS as f64 / 1e6, || {
        assert_eq!(count(workload.open(Path::new("")).expect("opens").requests), REQUESTS);
    });
    report("features", REQUESTS as f64 / 1e6, || {
        let mut meter = FeatureMeter::default();
        requests.iter().for_each(|r| meter.add(r));
        assert_eq!(meter.features().requests, REQUESTS);
    });
    report("replay and record, closed, depth 1", REQUESTS as f64 / 1e6, || replay(&requests));

    println!("\nGiB of content per second, median (lowest, highest) of 5 runs of {BLOCKS} blocks of 4 KiB");
    for (name, spec) in
        [("random", ContentSpec::Random), ("compressible to half", ContentSpec::compressible(0.5))]
    {
        let content = Content::new(&spec, 1, Path::new("")).expect("a good spec");
        let mut block = [0; 4096];
        report(name, BLOCKS as f64 * 4096.0 / f64::from(1 << 30), || {
            (0..BLOCKS).for_each(|i| content.fill(0, i, 0, &mut block));
            std::hint::black_box(&block);
        });
    }
}

fn count(stream: impl Iterator<Item = Result<Request, Error>>) -> u64 {
    stream.fold(0, |n, r| n + u64::from(r.expect("no errors").len > 0))
}

fn report(name: &str, work: f64, mut run: impl FnMut()) {
    let rate = |_| {
        let start = Instant::now();
        run();
        work / start.elapsed().as_secs_f64()
    };
    let mut rates: Vec<f64> = (0..5).map(rate).collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:42} {:6.2} ({:.2}, {:.2})", rates[2], rates[0], rates[4]);
}

fn replay(requests: &[Request]) {
    let mut replay = Replay::new(requests.iter().copied().map(Ok), Pace::Closed { depth: 1 }, 0);
    let mut recorder = Recorder::new(0, 1_000_000_000);
    let mut now = 0;
    while let Next::Issue(issue) = replay.next(now).expect("no errors") {
        now += 80_000 + issue.number % 1000;
        recorder.record(&replay.complete(issue, now, true));
    }
    assert!(recorder.finish(now).kinds.contains_key(&Kind::Write));
}

/// The same requests in several formats.
fn texts(requests: &[Request]) -> Vec<(&'static str, Vec<u8>)> {
    let mut msr = String::new();
    let mut spc = String::new();
    let mut mqsim = String::new();
    let mut vscsi = Vec::new();
    for r in requests {
        let (read, sector) = (r.kind == Kind::Read, r.offset / 512);
        let ticks = 128_166_385_295_514_663 + r.at_ns / 100;
        let (name, letter) = if read { ("Read", 'R') } else { ("Write", 'W') };
        let seconds = r.at_ns as f64 / 1e9;
        writeln!(msr, "{ticks},hm,0,{name},{},{},2833", r.offset, r.len).expect("memory");
        writeln!(spc, "0,{sector},{},{letter},{seconds:.6}", r.len).expect("memory");
        writeln!(mqsim, "{} 0 {sector} {} {}", r.at_ns, r.len / 512, u8::from(read)).expect("memory");
        let opcode: u32 = if read { 0x28 } else { 0x2a };
        [0, r.len as u32, 1, 1 << 24 | opcode].iter().for_each(|word| vscsi.extend(word.to_le_bytes()));
        [sector, r.at_ns / 1000].iter().for_each(|word| vscsi.extend(word.to_le_bytes()));
    }
    vec![
        ("MSR Cambridge", msr.into_bytes()),
        ("SPC", spc.into_bytes()),
        ("MQSim", mqsim.into_bytes()),
        ("VSCSI, binary", vscsi),
    ]
}
