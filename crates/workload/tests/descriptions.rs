//! Workloads described in TOML, opened and read.

use std::fs;
use std::path::Path;

use sinew_workload::fitted::{Like, LikeSpec};
use sinew_workload::{Features, Request, Result, Source, Workload};

fn open(text: &str, base: &Path) -> Result<Vec<Request>> {
    Workload::from_toml(text)?.open(base)?.requests.collect()
}

fn error(text: &str) -> String {
    open(text, Path::new("")).expect_err("refused").to_string()
}

#[test]
fn a_trace_is_transformed_in_the_documented_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines: String = (0..100).map(|i| format!("{}.5 0 {} 3 1\n", i * 100, i * 8 + 1)).collect();
    fs::write(dir.path().join("t.disksim"), format!("{lines}bad\n")).expect("written");
    let text = r#"
        from_s = 1.0
        to_s = 8.0
        requests = 5
        speed = 2.0
        align = 4096
        fold_into = "64K"
        volume = 9
        source.trace = { path = "t.disksim", format = "disksim", skip_bad = true }
    "#;
    let requests = open(text, dir.path()).expect("opens");
    let seen: Vec<_> = requests.iter().map(|r| (r.at_ns, r.offset, r.len, r.volume)).collect();
    // The tenth request comes a second after the first, at sector 81, which is block 10.
    let expected: Vec<_> = (0..5).map(|i| (i * 50_000_000, (10 + i) * 4096 % 65536, 4096, 9)).collect();
    assert_eq!(seen, expected);
    let whole = "source.trace = { path = 't.disksim', skip_bad = true }";
    let opened = Workload::from_toml(whole).and_then(|w| w.open(dir.path())).expect("opens");
    assert_eq!((opened.requests.count(), opened.traces[0].1.skipped()), (100, 1));
}

#[test]
fn every_source_can_be_described() {
    let text = r#"
        [[source.mix]]
        volume = 0
        source.like = { name = "exchange-like", volume_bytes = "1G", requests = 1000 }

        [[source.mix]]
        volume = 1
        [source.mix.source.generator]
        seed = 7
        requests = 500
        flush_every = 100
        arrival.on_off = { iops = 500, on_ms = 10, off_ms = 90 }
        [[source.mix.source.generator.streams]]
        kind = "write"
        share = 0.7
        sizes.fixed = "16K"
        place.zipf = { theta = 0.99 }
        footprint = "256M"
        [[source.mix.source.generator.streams]]
        kind = "read"
        share = 0.3
        sizes.choice = [{ bytes = 512, weight = 1 }, { bytes = "64K", weight = 3.5 }]
        place.hot_cold = {}
        sequential = 0.2
        footprint = "256M"
        align = 512
    "#;
    let requests = open(text, Path::new("")).expect("opens");
    let on = |volume| requests.iter().filter(|r| r.volume == volume).count();
    assert_eq!((on(0), on(1)), (1000, 500));
    assert!(requests.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
    let workload = Workload::from_toml(text).expect("parses");
    let again = toml::to_string(&workload).expect("writes");
    assert_eq!(Workload::from_toml(&again).expect("parses"), workload);
    assert_eq!(open(&again, Path::new("")).expect("opens"), requests);
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("", "missing field `source`"),
        ("source.trace = { path = 'x', formt = 'msr' }", "unknown field `formt`"),
        ("source.trace = { path = 'x', format = 'mrs' }", "unknown variant `mrs`, expected one of `msr`"),
        ("source.trase = { path = 'x' }", "unknown variant `trase`, expected one of `trace`"),
        ("source.like = { name = 'exchange', volume_bytes = 1 }", "expected one of `ycsb-load-like`"),
        ("source.like = { name = 'proxy-like', volume_bytes = '1X' }", "a size, for example 4096"),
        ("source.like = { name = 'proxy-like', volume_bytes = 4096 }", "sizes: requests of"),
        ("speed = 0\nsource.mix = []", "speed: 0 is not above 0"),
        ("align = 0\nsource.mix = []", "align: 0 bytes"),
        ("align = 4096\nfold_into = 5000\nsource.mix = []", "fold_into: 5000 bytes are not a multiple"),
        ("from_s = -1\nsource.mix = []", "from_s: -1 is not 0 or more"),
        ("source.trace = { path = 'no/such/file' }", "no/such/file: "),
    ];
    for (text, expected) in cases {
        let found = error(text);
        assert!(found.contains(expected), "{text}\n{found}");
    }
    // The place is shown.
    assert!(error("\nspeeed = 1\nsource.mix = []").contains("line 2, column 1"));
}

#[test]
fn a_description_made_in_code_is_the_same() {
    let like = LikeSpec { requests: Some(100), ..LikeSpec::new(Like::TpcC, 3, 1 << 30) };
    let made = Workload::new(Source::Like(like)).open(Path::new("")).expect("opens");
    let text = "source.like = { name = 'tpc-c-like', seed = 3, volume_bytes = '1G', requests = 100 }";
    let made: Vec<Request> = made.requests.collect::<Result<_>>().expect("generators do not fail");
    assert_eq!(made, open(text, Path::new("")).expect("opens"));
    let in_a_table = format!("name = 'some experiment'\n[workload]\n{text}");
    assert_eq!(made, open(&in_a_table, Path::new("")).expect("opens"));
}

#[test]
fn seeds_are_added_to_everywhere() {
    let text = "source.mix = [{ source.like = { name = 'proxy-like', seed = SEED, volume_bytes = '1G', requests = 9 } }]";
    let with = |seed: &str| Workload::from_toml(&text.replace("SEED", seed)).expect("a good description");
    let mut moved = with("5");
    moved.add_to_seeds(2);
    assert_eq!(moved, with("7"));
}

/// A table in the shape of CloudPhysics', its figures made up.
#[test]
fn a_generator_is_calibrated_by_a_row_of_a_table() {
    let percentiles =
        [0, 1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99, 100];
    let mut columns: Vec<(String, String)> = [
        ("read_block_req_count", 20_000.0),
        ("write_block_req_count", 60_000.0),
        ("read_seq_count", 10_000.0),
        ("write_seq_count", 6_000.0),
        ("wss", 96e6),
        ("read_wss", 64e6),
        ("write_wss", 64e6),
        ("read_page_popularity_p50", 1e-6),
        ("read_page_popularity_p99", 1e-6),
        ("write_page_popularity_p50", 1e-6),
        ("write_page_popularity_p99", 2e-5),
        ("read_size_avg", 20_000.0),
        ("write_size_avg", 10_000.0),
        ("iat_avg", 800.0),
    ]
    .map(|(name, value)| (name.to_owned(), format!("{value:?}")))
    .to_vec();
    for p in percentiles {
        let (read, write) = (if p <= 60 { 4096 } else { 65536 }, if p <= 80 { 4096 } else { 32768 });
        columns.push((format!("read_size_p{p}"), read.to_string()));
        columns.push((format!("write_size_p{p}"), write.to_string()));
        columns.push((format!("iat_p{p}"), (p * p / 10).to_string()));
    }
    columns.push(("workload".to_owned(), "w0".to_owned()));
    let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("t.csv"), format!("{}\n{}\n", names.join(","), values.join(",")))
        .expect("written");
    let text = "source.cloudphysics = { table = 't.csv', machine = 'w0' }";
    let found = Features::of(open(text, dir.path()).expect("opens").into_iter().map(Ok)).expect("no errors");
    let (read, write) = (found.read.expect("reads"), found.write.expect("writes"));
    assert_eq!(found.requests, 80_000);
    assert!((found.read_share - 0.25).abs() < 0.01, "{}", found.read_share);
    assert!((read.sequential_share - 0.5).abs() < 0.02 && (write.sequential_share - 0.1).abs() < 0.02);
    assert!((write.size_mean / 1e4 - 1.0).abs() < 0.05 && write.size_p50 == 4096, "{}", write.size_mean);
    assert!((found.gap_mean_ns / 8e5 - 1.0).abs() < 0.05, "{}", found.gap_mean_ns);
    assert!(found.footprint <= 96_000_000 && found.span <= 96_000_000);
    let absent = error("source.cloudphysics = { table = 'absent.csv', machine = 'w0' }");
    assert!(absent.starts_with("absent.csv: "), "{absent}");
    let other = open("source.cloudphysics = { table = 't.csv', machine = 'w1' }", dir.path());
    assert!(other.expect_err("no such row").to_string().contains("has no row w1"));
}
