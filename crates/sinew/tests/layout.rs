//! `sinew layout`: the places it shows are those of md and of FastScale, and long lists end when the reader closes the pipe.

mod harness;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use harness::{Sandbox, text};
use serde_json::{Value, json};

const FASTSCALE: [&str; 9] =
    ["layout", "--level", "raid0", "--members", "4", "--grow", "1,1,2", "--method", "fastscale"];

#[test]
fn a_new_array_is_drawn_row_by_row() {
    // As a fixture of the crate layout has it from md.
    let drawn = Sandbox::new().ok(&["layout", "--level", "raid5", "--members", "4", "--rows", "4"]);
    let wanted = "RAID 5, left-symmetric, 4 members: 4 rows, 12 blocks\n\n\
        row   m0  m1  m2  m3\n  0    0   1   2   P\n  1    4   5   P   3\n  2    8   P   6   7\n  3    P   9  10  11\n";
    assert_eq!(drawn, wanted);
}

#[test]
fn the_papers_example_grows_as_printed() {
    // Figure 2 of FastScale (FAST '11), 3 disks to 5: blocks 0, 3 and 7 go to disk 3, and 4, 8 and 11 to disk 4.
    let args = ["layout", "--level", "0", "--members", "3", "--grow", "2", "--method", "fastscale"];
    let shown = Sandbox::new().json(&[&args[..], &["--rows", "5", "--blocks", "0..15", "--json"]].concat());
    let on = |member: u64| -> Vec<u64> {
        let there = shown.as_array().unwrap().iter().filter(|entry| entry["member"] == member);
        there.map(|entry| entry["block"].as_u64().unwrap()).collect()
    };
    assert_eq!((on(3), on(4)), (vec![0, 3, 7], vec![4, 8, 11]));
    assert_eq!(shown[7], json!({ "block": 7, "member": 3, "chunk": 2, "role": "data" }));
}

#[test]
fn all_places_are_listed_once() {
    let sandbox = Sandbox::new();
    let list = |args: &str| -> Vec<Value> {
        let args = [vec!["layout", "--rows", "24", "--json"], args.split(' ').collect()].concat();
        sandbox.json(&args).as_array().unwrap().clone()
    };
    let arrays = [
        ("--level 0 --members 3", 3, 72, 0),
        ("--level 1 --members 2", 2, 24, 0),
        ("--level 10 --members 5", 5, 60, 0),
        ("--level 6 --members 5 --layout right-asymmetric", 5, 72, 48),
        ("--level 50 --members 9 --groups 3", 9, 144, 72),
        ("--level 60 --members 8", 8, 96, 96),
        ("--level 0 --members 4 --grow 1,1,2 --method fastscale", 8, 192, 0),
        ("--level 10 --members 4 --grow 2,2 --method fastscale", 8, 96, 0),
        ("--level 10 --members 4 --grow 1 --method round-robin", 5, 60, 0),
        ("--level 5 --members 4 --grow 1,1 --method spread", 6, 116, 24),
        ("--level 6 --members 6 --grow 2 --method restripe", 8, 144, 48),
    ];
    for (args, members, blocks, parity) in arrays {
        let entries = list(args);
        let places: BTreeSet<_> =
            entries.iter().map(|e| (e["member"].as_u64().unwrap(), e["chunk"].as_u64().unwrap())).collect();
        assert_eq!((entries.len(), places.len()), (members * 24, members * 24), "{args}");
        let numbers: BTreeSet<_> = entries.iter().filter_map(|e| e["block"].as_u64()).collect();
        assert_eq!((numbers.first(), numbers.last()), (Some(&0), Some(&(blocks - 1))), "{args}");
        assert_eq!(numbers.len() as u64, blocks, "{args}");
        let stripes = entries.iter().filter(|e| e["stripe"].is_u64());
        assert_eq!(
            stripes.inspect(|e| assert!(e["role"] == "P" || e["role"] == "Q")).count(),
            parity,
            "{args}"
        );
    }
    let semi = list("--level 10 --members 4 --grow 2 --method semi-round-robin");
    assert_eq!((semi.len(), &semi[1]["copy"], &semi[1]["chunk"]), (144, &json!(1), &Value::Null));
}

#[test]
fn statistics_tell_what_each_addition_moved() {
    let sandbox = Sandbox::new();
    let stats = |args: &[&str]| sandbox.json(&[args, &["--rows", "6720", "--stats", "--json"]].concat());
    let fast = stats(&[&FASTSCALE[..], &["--against", "none"]].concat());
    let moved: Vec<f64> =
        fast["additions"].as_array().unwrap().iter().map(|a| a["moved"].as_f64().unwrap()).collect();
    for (moved, least) in moved.iter().zip([1.0 / 5.0, 1.0 / 6.0, 2.0 / 8.0]) {
        assert!((moved - least).abs() < 1e-3, "{moved} and {least}");
    }
    assert_eq!((&fast["data_cv"], &fast["parity_cv"]), (&json!(0.0), &Value::Null));
    assert_eq!(fast["members"][7], json!({ "member": 7, "data": 6720, "parity": 0 }));
    // All blocks that there were, but for those that never moved.
    let elsewhere = fast["against"]["elsewhere"].as_f64().unwrap();
    assert!(elsewhere > 0.4 && elsewhere < 0.6, "{elsewhere}");

    let spread = stats(&["layout", "--level", "5", "--members", "4", "--grow", "1", "--method", "spread"]);
    assert_eq!(
        (&spread["additions"][0]["moved"], &spread["additions"][0]["parity_written"]),
        (&json!(0.25), &json!(0.75))
    );
    let shown = sandbox.ok(&[&FASTSCALE[..], &["--stats", "--against", "4"]].concat());
    assert!(shown.contains("4 to 5") && shown.contains("array that grew by 4"), "{shown}");
}

#[test]
fn a_list_ends_when_the_reader_closes_the_pipe() {
    let sandbox = Sandbox::new();
    for how in [&[][..], &["--json"], &["--blocks", "0..9000000000"]] {
        let args = [&["layout", "--level", "6", "--members", "8", "--rows", "2000000000"], how].concat();
        let mut child = sandbox.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.nth(3).unwrap().is_ok(), "it comes at once, for it is not gathered first");
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    }
}

#[test]
fn an_elastic_array_is_drawn_slot_by_slot() {
    let sandbox = Sandbox::new();
    let args = ["layout", "--level", "5", "--members", "4", "--rows", "2", "--elastic", "--form", "mirrored"];
    let drawn = sandbox.ok(&args);
    let expected = "\
RAID 5, left-symmetric, 4 members, elastic, all stripes mirrored: 2 rows, 6 blocks

row  slot  m0  m1  m2  m3
  0     0   0   1   2   -
  0     1   -   0   1   2
  1     0   4   5   -   3
  1     1   3   4   5   -
";
    assert_eq!(drawn, expected);
    let with_parity = sandbox.ok(&args[..8]);
    assert!(with_parity.contains("  0     0   0   1   2   P\n  0     1   -   -   -   -"), "{with_parity}");
    let json = sandbox.ok(&[&args[..], &["--json", "--blocks", "3..4"]].concat());
    let copies: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let places: Vec<_> =
        copies.iter().map(|copy| (copy["member"].as_u64(), copy["chunk"].as_u64())).collect();
    assert_eq!(places, [(Some(3), Some(1)), (Some(0), Some(3))], "{json}");
}

fn layout(args: &str) -> Vec<&str> {
    [vec!["layout", "--members", "4"], args.split(' ').collect()].concat()
}

#[test]
fn what_cannot_be_shown_is_explained() {
    let sandbox = Sandbox::new();
    let fails = |args: &str, parts: &[&str]| {
        let complaint = sandbox.fails(&layout(args));
        assert!(parts.iter().all(|part| complaint.contains(part)), "{complaint}");
    };
    fails(
        "--level 5 --grow 1 --method fastscale",
        &["RAID 5", "does not grow by fastscale", "restripe or spread"],
    );
    fails("--level 50 --grow 4 --method restripe", &["RAID 50", "only made new"]);
    fails("--level 10 --grow 1 --method fastscale", &["whole sets of 2", "round-robin"]);
    fails("--level 0 --grow 252 --method fastscale", &["256 members", "255"]);
    fails("--level 0 --grow 1,0 --method fastscale", &["an addition of 0 members"]);
    fails("--level 50 --groups 3", &["4 members do not divide into 3"]);
    fails("--level 0 --rows 0", &["0 rows"]);
    fails("--level 10 --elastic", &["cannot be elastic", "5 and 6"]);
    fails("--level 5 --elastic --form empty", &["--form parity"]);
    fails("--level 0 --blocks 60..65", &["64 blocks", "--rows"]);
    fails("--level 0 --stats --against 1", &["--grow and --method"]);
    assert!(sandbox.misused(&layout("--level 0 --grow 1")).contains("--method"));
    assert!(sandbox.misused(&layout("--level 0 --blocks 5..5")).contains("0..100"));
    assert!(sandbox.misused(&layout("--level 0 --stats --against some")).contains("1,1,2, or none"));
}
