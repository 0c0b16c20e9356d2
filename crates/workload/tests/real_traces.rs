//! Real traces, where SINEW_TRACES names the directory that they lie in; skipped, saying so, where it does not.
//!
//! The figures are those that were published with the traces.

use std::path::PathBuf;

use sinew_workload::fitted::cloudphysics::{CloudphysicsSpec, Row};
use sinew_workload::trace::{Format, ReadOptions, TraceReader};
use sinew_workload::{Features, Generator, Request, Result};

fn traces() -> Option<PathBuf> {
    let directory = std::env::var_os("SINEW_TRACES").map(PathBuf::from);
    if directory.is_none() {
        eprintln!("skipped: SINEW_TRACES does not name a directory of traces");
    }
    directory
}

fn read(directory: &std::path::Path, name: &str, format: Format) -> (Vec<Request>, u64) {
    let reader = TraceReader::open(directory.join(name), ReadOptions::default()).expect("a known format");
    assert_eq!(reader.format(), format, "{name}");
    let counts = reader.counts();
    let requests = reader.collect::<Result<Vec<_>>>().unwrap_or_else(|error| panic!("{error}"));
    (requests, counts.reordered())
}

fn features(requests: &[Request]) -> Features {
    Features::of(requests.iter().copied().map(Ok)).expect("no errors")
}

#[test]
fn each_trace_is_recognised_and_has_its_known_features() {
    let Some(directory) = traces() else { return };
    let cases = [
        ("cloudphysics_shift512.csv.gz", Format::Normalised, 113_872),
        ("cloudPhysicsIO.vscsi", Format::Vscsi, 113_872),
        ("heimdall-msr.cut.per_10k.rw_20_80.105.trace", Format::Heimdall, 10_000),
        ("heimdall-msr.cut.per_10k.most_thpt_rand_iops.1006.trace", Format::Heimdall, 10_000),
        ("msr-hm_0-sample.csv", Format::Msr, 1000),
        ("mqsim-wsrch-small.trace", Format::Mqsim, 24_783),
        ("mqsim-tpcc-small.trace", Format::Mqsim, 6999),
        ("tencent-cbs-sample.bz2", Format::Tencent, 50_000),
    ];
    for (name, format, count) in cases {
        let (requests, reordered) = read(&directory, name, format);
        let found = features(&requests);
        println!(
            "{name}: {:.1} s, read share {:.3}, sequential {:.3}, gap cv {:.1}, footprint {} MiB, {reordered} reordered",
            found.duration_ns as f64 / 1e9,
            found.read_share,
            found.sequential_share,
            found.gap_cv,
            found.footprint >> 20,
        );
        assert_eq!(requests.len(), count, "{name}");
    }
}

#[test]
fn both_forms_of_the_cloudphysics_trace_say_the_same() {
    let Some(directory) = traces() else { return };
    let (text, _) = read(&directory, "cloudphysics_shift512.csv.gz", Format::Normalised);
    let (binary, _) = read(&directory, "cloudPhysicsIO.vscsi", Format::Vscsi);
    // The text has its offsets moved by a sector.
    let same = |(t, b): (&Request, &Request)| {
        (t.at_ns, t.kind, t.offset, t.len) == (b.at_ns, b.kind, b.offset + 512, b.len)
    };
    assert!(text.iter().zip(&binary).all(same));
    let found = features(&binary);
    let write = found.write.expect("writes");
    assert!((1.0 - found.read_share - 0.587).abs() < 0.001, "{}", found.read_share);
    assert!((write.page_touches_mean - 3.1).abs() < 0.1, "{}", write.page_touches_mean);
}

/// Tolerances: shares 1 point, mean gap 5 %, mean size 5 % or with fewer than 100 000 requests of the kind 10 %, footprint
/// at most the working set.
#[test]
fn calibrated_generators_have_the_features_of_their_machines() {
    let Some(directory) = traces() else { return };
    let table = PathBuf::from("cloudphysics-block-features.csv");
    for machine in ["w12", "w36", "w61", "w76", "w93", "w105", "w106"] {
        let spec = CloudphysicsSpec {
            table: table.clone(),
            machine: machine.to_owned(),
            seed: 1,
            requests: Some(400_000),
            volume: 0,
        };
        let row = Row::find(&directory.join(&table), machine).expect("a row");
        let get = |column: &str| row.get(column).expect("a figure");
        let generator =
            Generator::new(&spec.generator(&directory).expect("a good row")).expect("a good spec");
        let found = Features::of(generator).expect("generators do not fail");
        let reads = get("read_block_req_count") / get("block_req_count");
        assert!((found.read_share - reads).abs() < 0.01, "{machine}: {} {reads}", found.read_share);
        let gap = found.gap_mean_ns / 1000.0 / get("iat_avg");
        println!("{machine}: mean gap {gap:.3} of the machine's");
        assert!((gap - 1.0).abs() < 0.05, "{machine}: {gap}");
        for (kind, name) in [(&found.read, "read"), (&found.write, "write")] {
            let kind = kind.as_ref().expect("both kinds occur");
            let size = kind.size_mean / get(&format!("{name}_size_avg"));
            let sequential = get(&format!("{name}_seq_count")) / get(&format!("{name}_block_req_count"));
            println!(
                "{machine} {name}: mean size {size:.3} of the machine's, sequential {:.3} for {sequential:.3}, \
                 footprint {} of {} MiB",
                kind.sequential_share,
                kind.footprint >> 20,
                get(&format!("{name}_wss")) as u64 >> 20,
            );
            let tolerance = if kind.requests < 100_000 { 0.1 } else { 0.05 };
            assert!((size - 1.0).abs() < tolerance, "{machine} {name}: {size}");
            assert!((kind.sequential_share - sequential).abs() < 0.01, "{machine} {name}");
            assert!(kind.footprint as f64 <= get(&format!("{name}_wss")) + 4096.0);
        }
    }
}

/// Over a whole week: footprints at least four fifths and no more than the machine's, touches of the page of the 99th percentile within a factor of 2.
#[test]
fn calibrated_generators_have_the_popularity_of_their_machines() {
    let Some(directory) = traces() else { return };
    for machine in ["w93", "w106"] {
        let table = PathBuf::from("cloudphysics-block-features.csv");
        let row = Row::find(&directory.join(&table), machine).expect("a row");
        let get = |column: &str| row.get(column).expect("a figure");
        let spec =
            CloudphysicsSpec { table, machine: machine.to_owned(), seed: 1, requests: None, volume: 0 };
        let generator =
            Generator::new(&spec.generator(&directory).expect("a good row")).expect("a good spec");
        let found = Features::of(generator).expect("generators do not fail");
        for (kind, name) in [(&found.read, "read"), (&found.write, "write")] {
            let kind = kind.as_ref().expect("both kinds occur");
            let footprint = kind.footprint as f64 / get(&format!("{name}_wss"));
            let pages = get(&format!("{name}_cache_req_count"));
            let top =
                f64::from(kind.page_touches_p99) / (pages * get(&format!("{name}_page_popularity_p99")));
            println!("{machine} {name}: footprint {footprint:.3}, touches at p99 {top:.2} of the machine's");
            assert!((0.8..=1.01).contains(&footprint), "{machine} {name}: {footprint}");
            assert!((0.5..=2.0).contains(&top), "{machine} {name}: {top}");
        }
    }
}

/// Every row of the table makes a generator.
#[test]
fn every_machine_can_be_calibrated() {
    let Some(directory) = traces() else { return };
    for number in 1..=106 {
        let machine = format!("w{number:02}");
        let table = PathBuf::from("cloudphysics-block-features.csv");
        let spec = CloudphysicsSpec { table, machine, seed: 1, requests: Some(10), volume: 0 };
        let made = spec.generator(&directory);
        assert!(made.is_ok(), "w{number:02}: {:?}", made.err());
    }
}
