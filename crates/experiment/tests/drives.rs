//! Arrays of SSDs beside their prediction from one drive, controllers, members that fail and are rebuilt, and the parts that a
//! drive may have or not.

use std::path::Path;
use std::sync::Arc;

use sinew_experiment::batch::{self, Observer, Options};
use sinew_experiment::plan::Plan;
use sinew_experiment::report;
use sinew_experiment::results::{FlashResult, Results, Simulated};

/// Small drives with much spare space, written at random.
const SMALL: &str = r#"
description = "small"
target = "member"
pace = { closed = { depth = 32 } }

[run]
duration_s = 0.5
warm_up_s = 0.5
interval_s = 0.25

[[members]]
model = "slc"
size = "32M"
pages = 8
spare = 1.0
aging = 1.5
drive = { protected = true }

[array]
level = "raid0"
chunk = "16K"

[pool]
battery = true

[[volumes]]
size = "32M"

[workload.source.generator]
arrival = "closed"
streams = [{ kind = "write", share = 1.0, sizes = { fixed = "4K" }, place = "uniform", footprint = "24M" }]
"#;

fn plan(text: &str) -> sinew_experiment::Result<Plan> {
    Plan::new("drives", text, Path::new(""), false)
}

fn execute(text: &str) -> Results {
    let options = Options { threads: 2, cache: None };
    let plan = plan(text).unwrap_or_else(|error| panic!("{error}"));
    batch::execute(&plan, &options, &(Arc::new(|_| {}) as Observer)).unwrap().results
}

fn figures(results: &Results, run: usize) -> &Simulated {
    results.runs[run].figures.simulated().unwrap()
}

fn flash(results: &Results, run: usize) -> &FlashResult {
    figures(results, run).members[0].flash.as_ref().unwrap()
}

#[test]
fn arrays_are_predicted_from_one_drive() {
    let case = |name: &str, set: &str| format!("[[cases]]\nname = \"{name}\"\nset = {{ {set} }}\n");
    let array = |level: &str, members: u32| {
        let depth = 32 * members;
        format!(
            "target = \"array\", \"members.0.count\" = {members}, \"array.level\" = \"{level}\", \"pace.closed.depth\" = {depth}"
        )
    };
    let cases = [
        case("drive", ""),
        case("reads", "\"workload.source.generator.streams.0.kind\" = \"read\""),
        case("RAID 0", &array("raid0", 3)),
        case("RAID 1", &array("raid1", 2)),
        case("RAID 5", &array("raid5", 4)),
    ];
    let reference = |name: &str| {
        format!(
            "[[references]]\nwhat = \"writes\"\nfigure = \"requests.write.iops\"\nof = {{ case = \"{name}\" }}\n\
             published = {{ block_writes = {{ writes = \"drive\", reads = \"reads\" }} }}\nsource = \"one drive\"\n"
        )
    };
    let references = ["drive", "RAID 0", "RAID 1", "RAID 5"].map(reference);
    let results = execute(&format!("{SMALL}{}{}", cases.concat(), references.concat()));
    let (write, read) = (
        figures(&results, 0).requests["write"].summary.iops,
        figures(&results, 1).requests["read"].summary.iops,
    );
    let expected = [write, 3.0 * write, write, 4.0 / (2.0 / write + 2.0 / read)];
    for (found, expected) in results.references.iter().zip(expected) {
        assert!((found.published[0] / expected - 1.0).abs() < 1e-9, "{found:?}: {expected}");
        let ratio = found.ours.unwrap().mean / expected;
        assert!((0.7..=1.3).contains(&ratio), "{:?}: {ratio} of the prediction", found.case);
    }
    let array = figures(&results, 4).array.unwrap();
    assert_eq!((array.level.name(), array.members), ("raid5", 4));
    let shares = flash(&results, 0);
    assert_eq!(shares.live_after.iter().sum::<u64>(), shares.live_before.iter().sum::<u64>());
    assert!(shares.live_after[1..].iter().sum::<u64>() > 0 && shares.erases_most >= shares.erases_least);

    let unknown = reference("drive").replace("reads = \"reads\"", "reads = \"read\"");
    let error = plan(&format!("{SMALL}{}{unknown}", cases.concat())).unwrap_err().to_string();
    assert!(error.contains("references.0.published.block_writes.reads: there is no case read"), "{error}");
}

#[test]
fn a_controller_limits_its_members() {
    let array =
        SMALL.replace("target = \"member\"", "target = \"array\"").replace("pages", "count = 4\npages");
    let cases = r#"
[[cases]]
name = "none"

[[cases]]
name = "one"
set = { controllers = [{ members = 4, iops = 5000 }] }

[[cases]]
name = "two"
set = { controllers = [{ members = 2, iops = 5000 }, { members = 2, bandwidth = "10M" }] }
"#;
    let results = execute(&format!("{array}{cases}"));
    let iops = |run| figures(&results, run).requests["write"].summary.iops;
    assert!(iops(0) > 12_000.0 && (iops(1) / 5000.0 - 1.0).abs() < 0.03, "{} {}", iops(0), iops(1));
    // Each controller has half of the requests; the slower one has 2560 writes of 4 KiB per second.
    assert!((iops(2) / 5120.0 - 1.0).abs() < 0.1, "{}", iops(2));
    let controllers = &figures(&results, 2).controllers;
    assert!(controllers[1].inward_busy > 0.95 && controllers[0].commands_busy < 0.7, "{controllers:?}");
    assert!(figures(&results, 0).controllers.is_empty());
    let many = cases.replace("members = 4", "members = 5");
    let error = plan(&format!("{array}{many}")).unwrap_err().to_string();
    assert!(error.contains("5 members are behind controllers, but there are 4"), "{error}");
}

#[test]
fn a_member_that_fails_is_rebuilt_and_the_rate_goes_into_the_arithmetic() {
    let file = SMALL
        .replace("target = \"member\"", "target = \"array\"")
        .replace("pages", "count = 6\npages")
        .replace("duration_s = 0.5", "duration_s = 20")
        .replace("closed = { depth = 32 }", "timed = {}")
        .replace("arrival = \"closed\"", "arrival = { poisson = { iops = 200.0 } }")
        .replace("level = \"raid0\"", "level = \"raid5\"\njournal = true");
    let fails = r#"
[fails]
member = 1
at_s = 0.2
replace = "new"
to_the_end = true
loss = { members = 5, survives = 1, mttf_hours = 1e6, mission_years = 10, used = "1T" }

[[cases]]
name = "new"

[[cases]]
name = "spare"
set = { "fails.replace" = "spare" }

[[cases]]
name = "pool, free space"
set = { target = "pool", "array.journal" = false, "array.level" = "raid0", "pool.protection" = "parity1", "pool.width" = 3, "volumes.0.size" = "24M", "volumes.0.fill" = true, "fails.replace" = "free_space" }
"#;
    let results = execute(&format!("{file}{fails}"));
    for run in 0..3 {
        let rebuilt = figures(&results, run).rebuilt.as_ref().unwrap();
        let took = rebuilt.took_ns.unwrap();
        assert!(rebuilt.bytes > 4 << 20 && took > 1_000_000, "{rebuilt:?}");
        let rate = rebuilt.bytes_per_s.unwrap();
        assert!((rate * took as f64 / 1e9 / rebuilt.bytes as f64 - 1.0).abs() < 1e-9);
        let loss = rebuilt.loss.as_ref().unwrap();
        assert!((loss.rebuild_hours * 3600.0 * rate / (1u64 << 40) as f64 - 1.0).abs() < 1e-9, "{loss:?}");
        assert!(loss.loss > 0.0 && loss.mttdl_years > 0.0);
        assert_eq!(figures(&results, run).requests["write"].summary.errors, 0);
    }
    assert!(report::text(&results).contains("P(pool lost)"));

    let error_of = |from: &str, to: &str| {
        plan(&format!("{file}{}", fails.replacen(from, to, 1))).unwrap_err().to_string()
    };
    assert!(error_of("member = 1", "member = 5").contains("fails.member: there is no member 5"));
    assert!(error_of("replace = \"new\"", "replace = \"free_space\"").contains("only an array has spares"));
    assert!(
        error_of("used = \"1T\"", "used = \"1T\", rebuild_hours = 3")
            .contains("the rate of the rebuild is measured")
    );
    assert!(error_of("at_s = 0.2", "at_s = 21").contains("fails.at_s"));
}

#[test]
fn parts_of_a_drive_show_in_its_figures() {
    let cases = r#"
[[cases]]
name = "plain"

[[cases]]
name = "mapping on flash"
set = { "members.0.drive" = { mapping_memory = "32K" }, "members.0.size" = "64M", "volumes.0.size" = "64M", "workload.source.generator.streams.0.footprint" = "64M" }

[[cases]]
name = "SLC cache"
set = { "members.0.drive" = { slc_cache = { erase_blocks = 8, bits = 2 } } }

[[cases]]
name = "wear levelling"
set = { "members.0.drive" = { wear_spread = 2 }, "workload.source.generator.streams.0.footprint" = "2M" }

[[cases]]
name = "eSAP"
set = { "members.0.redundancy" = { scheme = "esap", wait_ms = 50 } }
"#;
    let results = execute(&format!("{SMALL}{cases}"));
    let parts = |run| {
        let flash = flash(&results, run);
        [flash.mapping_reads, flash.mapping_blocks, flash.slc_blocks, flash.levelled].map(|count| count > 0)
    };
    assert_eq!(parts(0), [false; 4]);
    assert_eq!(parts(1), [true, true, false, false]);
    assert_eq!(parts(2), [false, false, true, false]);
    assert_eq!(parts(3), [false, false, false, true]);
    for run in [0, 4] {
        let flash = flash(&results, run);
        let model = flash.model.unwrap();
        // What is cleaned and what is programmed in a run do not quite belong to each other.
        let balance = model.page_writes / flash.programmed_blocks as f64;
        assert!((balance - 1.0).abs() < 0.05, "{run}: {balance}");
        assert!(model.random_page_writes.is_some() && flash.pe_cycles > 0.0);
    }
    let small = cases.replace("\"32K\"", "\"16K\"");
    let error = plan(&format!("{SMALL}{small}"));
    let error = match error {
        Err(error) => error.to_string(),
        Ok(plan) => {
            let options = Options { threads: 1, cache: None };
            let failed = batch::execute(&plan, &options, &(Arc::new(|_| {}) as Observer)).unwrap_err();
            std::error::Error::source(&failed).map_or(failed.to_string(), ToString::to_string)
        }
    };
    assert!(error.contains("a mapping cache has at least 8 pages, not 4"), "{error}");
}

/// What blocks compress to is programmed and moved, and the less it fills the flash, the less is moved.
#[test]
fn cleaning_moves_what_blocks_compress_to() {
    let cases = r#"
[sweep]
"content.tagged.ratio" = [0.45, 0.25]

[[cases]]
name = "whole blocks"

[[cases]]
name = "granules"
set = { "members.0.drive" = { protected = true, granule = 512 } }
"#;
    let thin = SMALL
        .replace("model = \"slc\"", "model = \"datacenter\"")
        .replace("aging = 1.5\n", "physical = \"20M\"\nlengths = \"tagged\"\n")
        .replace("spare = 1.0", "spare = 0.15")
        .replace("target = \"member\"", "target = \"member\"\ncontent = { tagged = { ratio = 0.5 } }")
        .replace("size = \"32M\"\n\n[work", "size = \"32M\"\nfill = true\n\n[work");
    let results = execute(&format!("{thin}{cases}"));
    assert_eq!(results.runs.len(), 4);
    let amplification: Vec<_> = (0..4).map(|run| flash(&results, run).write_amplification.unwrap()).collect();
    // Without granules the flash does not know what is stored.
    assert_eq!(amplification[0], amplification[1]);
    assert!(amplification[0] > 1.0, "{amplification:?}");
    // A block takes four granules of 512 bytes, or two.
    assert!(
        amplification[2] > 0.5 && (0.25..amplification[2] * 0.5).contains(&amplification[3]),
        "{amplification:?}"
    );
    let moved = |run| flash(&results, run).victim_live.unwrap();
    assert!(moved(2) > moved(3) && moved(0) > 0.0, "{} {}", moved(2), moved(3));
}

#[test]
fn lengths_are_of_members_with_physical_space() {
    let error_of = |from: &str, to: &str| plan(&SMALL.replace(from, to)).unwrap_err().to_string();
    let new = "aging = 1.5";
    assert!(error_of(new, "lengths = \"zlib\"").contains("members.0.lengths"));
    assert!(error_of(new, "physical = \"16M\"\nlengths = \"gzip\"").contains("gzip"));
    assert!(
        error_of(new, "physical = \"16M\"\nlengths = \"tagged\"").contains("only content that is tagged")
    );
    let drive = "drive = { protected = true }";
    assert!(error_of(drive, "drive = { granule = 512 }").contains("members.0.drive.granule"));
    assert!(error_of(drive, "physical = \"16M\"\ndrive = { granule = 512 }").contains("leave out `aging`"));
    assert!(error_of(drive, "drive = { granule = 600 }").contains("128, 256, 512"));
    let text = SMALL.replace("aging = 1.5", "physical = \"16M\"").replace(drive, "drive = { granule = 512 }");
    let failed = batch::execute(
        &plan(&text).unwrap(),
        &Options { threads: 1, cache: None },
        &(Arc::new(|_| {}) as Observer),
    );
    let failed = std::error::Error::source(&failed.unwrap_err()).unwrap().to_string();
    assert!(failed.contains("one block at a time"), "{failed}");
}
