//! Parity counts of real traces, where SINEW_TRACES names the directory of the traces; skipped, with a message, where it does
//! not.

#[path = "../../devices/tests/parity/mod.rs"]
mod parity;

use std::collections::BTreeMap;
use std::path::PathBuf;

use parity::{Pages, both};
use sinew_devices::flash::{ParityReads, Redundancy, Striping};
use sinew_workload::Kind;
use sinew_workload::trace::{ReadOptions, TraceReader};

/// A multiple of the data pages of stripes of 8, 16 and 32: pages moved by it keep their stripes.
const ALIGNED: u64 = 7 * 15 * 31;

/// Pages that the writes of a trace touch, in groups that are numbered by their order of appearance.
fn pages(path: PathBuf) -> (Pages, u32) {
    let mut groups = BTreeMap::new();
    let mut pages = Vec::new();
    for request in TraceReader::open(path, ReadOptions::default()).expect("a known format") {
        let request = request.unwrap_or_else(|error| panic!("{error}"));
        if request.kind != Kind::Write {
            continue;
        }
        for page in request.offset / 4096..request.end().div_ceil(4096) {
            let new = groups.len() as u64;
            let group = *groups.entry((request.volume, page / ALIGNED)).or_insert(new);
            pages.push((request.at_ns, (group * ALIGNED + page % ALIGNED) as u32));
        }
    }
    (pages, (groups.len() as u64 * ALIGNED) as u32)
}

struct Row {
    wait_ms: u64,
    elastic_full: [u64; 3],
    elastic_partial: [u64; 3],
    raid5_parities: [u64; 3],
    raid5_reads: [u64; 3],
}

fn check(name: &str, data_pages: usize, rows: &[Row]) {
    let Some(directory) = std::env::var_os("SINEW_TRACES").map(PathBuf::from) else {
        eprintln!("skipped: SINEW_TRACES does not name a directory of traces");
        return;
    };
    let (pages, blocks) = pages(directory.join(name));
    assert_eq!(pages.len(), data_pages);
    for row in rows {
        for (i, units) in [8, 16, 32].into_iter().enumerate() {
            let striping = Striping::new(units, row.wait_ms * 1_000_000);
            let (expected, counted) = both(&pages, Redundancy::Elastic(striping), blocks);
            assert_eq!(expected, counted, "eSAP({units}), {} ms", row.wait_ms);
            assert_eq!((counted.full, counted.partial), (row.elastic_full[i], row.elastic_partial[i]));
            let (expected, counted) = both(&pages, Redundancy::Raid5(striping), blocks);
            assert_eq!(expected, counted, "RAID-5({units}), {} ms", row.wait_ms);
            assert_eq!((counted.full, counted.reads), (row.raid5_parities[i], row.raid5_reads[i]));
            let reconstruct = Striping { reads: ParityReads::Reconstruct, ..striping };
            let (expected, counted) = both(&pages, Redundancy::Raid5(reconstruct), blocks);
            assert_eq!(expected, counted, "RAID-5({units}) that reconstructs, {} ms", row.wait_ms);
            println!("{name} {units} {} ms: reconstruct-only reads {}", row.wait_ms, counted.reads);
        }
    }
}

#[test]
fn counts_of_an_msr_trace() {
    let elastic_full = [2037, 950, 460];
    let rows = [
        Row {
            wait_ms: 50,
            elastic_full,
            elastic_partial: [920, 1022, 1060],
            raid5_parities: [5302, 4836, 4577],
            raid5_reads: [11978, 14116, 14835],
        },
        Row {
            wait_ms: 200,
            elastic_full,
            elastic_partial: [382, 420, 439],
            raid5_parities: [5115, 4635, 4371],
            raid5_reads: [11550, 13622, 14310],
        },
    ];
    check("heimdall-msr.cut.per_10k.rw_20_80.105.trace", 14264, &rows);
}

#[test]
fn counts_of_a_cloudphysics_trace() {
    let elastic_full = [86907, 40556, 19624];
    let rows = [
        Row {
            wait_ms: 50,
            elastic_full,
            elastic_partial: [8993, 9786, 10169],
            raid5_parities: [108711, 64183, 43367],
            raid5_reads: [80425, 98639, 120641],
        },
        Row {
            wait_ms: 200,
            elastic_full,
            elastic_partial: [7257, 7877, 8204],
            raid5_parities: [107153, 62189, 41167],
            raid5_reads: [75275, 89351, 106157],
        },
    ];
    check("cloudphysics_shift512.csv.gz", 608352, &rows);
}
