//! Properties over random trees and random contents of files.

mod machines;

use proptest::prelude::*;
use sinew_topology::discover::discover;
use sinew_topology::judgement::{Limit, Measurement, limits, sets};
use sinew_topology::report::{Measured, Report};
use sinew_topology::share::max_min;
use sinew_topology::tree::{Drive, DriveKind, Node, NodeKind, Topology};

use machines::Entry;

fn node(name: String, parent: Option<usize>) -> Node {
    let kind = if parent.is_none() { NodeKind::Machine } else { NodeKind::Switch };
    Node { name, kind, parent, numa: None, driver: None, link: None, bytes_per_s: None, link_errors: None }
}

fn drive(name: String, node: usize) -> Drive {
    Drive {
        name,
        node,
        kind: DriveKind::Nvme,
        partition_of: None,
        made_of: Vec::new(),
        model: None,
        bytes: None,
        rotational: None,
        scheduler: None,
        write_cache: None,
        discards: None,
        queues: None,
        bytes_per_s: None,
        best_bytes_per_s: None,
    }
}

/// A random tree: each node below an earlier one, each drive at any node but the machine.
fn trees() -> impl Strategy<Value = Topology> {
    let parents = prop::collection::vec(any::<prop::sample::Index>(), 2..9);
    let homes = prop::collection::vec(any::<prop::sample::Index>(), 3..16);
    (parents, homes).prop_map(|(parents, homes)| {
        let mut nodes = vec![node("machine".to_owned(), None)];
        for (i, parent) in parents.iter().enumerate() {
            let parent = parent.index(nodes.len());
            nodes.push(node(format!("node {}", i + 1), Some(parent)));
        }
        let home = |(i, home): (usize, &prop::sample::Index)| {
            drive(format!("drive {i}"), 1 + home.index(nodes.len() - 1))
        };
        let drives = homes.iter().enumerate().map(home).collect();
        Topology { nodes, drives, processors: None }
    })
}

/// What a measurement of all sets would give, with `noise` of each result, from -1 to 1 times 5 %.
fn measure(topology: &Topology, nodes: &[f64], drives: &[f64], noise: &[f64]) -> Vec<Measurement> {
    let measured = |(set, noise): (_, &f64)| {
        let set: sinew_topology::judgement::Set = set;
        let sum: f64 = max_min(topology, &set.drives, nodes, drives).rates.iter().sum();
        Measurement { set, bytes_per_s: sum * (1.0 + 0.05 * noise) }
    };
    sets(topology).into_iter().zip(noise).map(measured).collect()
}

/// The rates of the drives of each node's subtree without a limit.
fn supply(topology: &Topology, node: usize, drives: &[f64]) -> f64 {
    topology.drives_below(node).iter().map(|&drive| drives[drive]).sum()
}

/// The limits when the way up of one node carries a part of what is below it, and all others suffice.
fn limits_with(
    topology: &Topology,
    limited: Option<(usize, f64)>,
    drives: &[f64],
    noise: &[f64],
) -> Vec<Limit> {
    let carries = |node: usize| match limited {
        Some((limited, part)) if limited == node => supply(topology, node, drives) * part,
        _ => supply(topology, node, drives) * 1.5 + 1.0,
    };
    let nodes: Vec<f64> = (0..topology.nodes.len()).map(carries).collect();
    limits(&measure(topology, &nodes, drives, noise))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_limiting_link_is_named(
        topology in trees(),
        chosen in any::<prop::sample::Index>(),
        part in 0.3..0.7f64,
        drives in prop::collection::vec(1.0..4.0f64, 16),
        noise in prop::collection::vec(-1.0..1.0f64, 64),
    ) {
        let joins: Vec<usize> = (1..topology.nodes.len()).filter(|&node| topology.drives_below(node).len() > 1).collect();
        prop_assume!(!joins.is_empty());
        let limited = joins[chosen.index(joins.len())];
        let found = limits_with(&topology, Some((limited, part)), &drives, &noise);
        prop_assert!(!found.is_empty(), "nothing limits");
        prop_assert!(found[0].nodes.contains(&limited), "{limited} limits, not {found:?}");
        // Others are named beside it only if they have the same drives, or if each step on the way between them adds too little to
        // tell.
        let below = supply(&topology, limited, &drives) * part;
        for &named in &found[0].nodes {
            let is_above = topology.way_up(limited).any(|above| above == named);
            let (low, high) = if is_above { (limited, named) } else { (named, limited) };
            prop_assert!(topology.way_up(low).any(|above| above == high), "{named} is beside {limited}");
            let mut carried = supply(&topology, low, &drives).min(below);
            let way: Vec<usize> = topology.way_up(low).take_while(|&node| node != high).chain([high]).collect();
            for step in way.windows(2) {
                let adds = supply(&topology, step[1], &drives) - supply(&topology, step[0], &drives);
                prop_assert!(adds < carried, "{named} is named beside {limited}, but node {} adds {adds} to {carried}", step[1]);
                carried = if is_above { carried + adds } else { below.min(carried + adds) };
            }
        }
    }

    #[test]
    fn links_that_suffice_are_not_named(
        topology in trees(),
        drives in prop::collection::vec(1.0..4.0f64, 16),
        noise in prop::collection::vec(-1.0..1.0f64, 64),
    ) {
        prop_assert_eq!(limits_with(&topology, None, &drives, &noise), vec![]);
    }

    #[test]
    fn shares_fill_links_and_exceed_none(
        topology in trees(),
        nodes in prop::collection::vec(0.5..20.0f64, 9),
        drives in prop::collection::vec(1.0..4.0f64, 16),
    ) {
        let everything: Vec<usize> = (0..topology.drives.len()).collect();
        let shares = max_min(&topology, &everything, &nodes, &drives);
        let through = |node: usize| topology.drives_below(node).iter().map(|&drive| shares.rates[drive]).sum::<f64>();
        for (node, carries) in nodes.iter().enumerate().take(topology.nodes.len()) {
            prop_assert!(through(node) <= carries * (1.0 + 1e-9));
            prop_assert!(!shares.full.contains(&node) || through(node) >= carries * (1.0 - 1e-9));
        }
        // Each drive has all it can give, or a full link that gives no other drive more.
        for drive in everything {
            let rate = shares.rates[drive];
            let is_fair = |node: usize| {
                let most = topology.drives_below(node).iter().map(|&other| shares.rates[other]).fold(0.0, f64::max);
                shares.full.contains(&node) && rate >= most * (1.0 - 1e-9)
            };
            prop_assert!(rate >= drives[drive] * (1.0 - 1e-9) || topology.way_up(topology.drives[drive].node).any(is_fair));
        }
    }
}

/// Contents that no file of sysfs should have, and some that it may.
fn contents() -> impl Strategy<Value = String> {
    let odd = [
        "",
        "0",
        "-1",
        "255",
        "Unknown",
        "<unknown>",
        "8.0 GT/s PCIe",
        "1e999 GT/s",
        "nan GT/s",
        "0x060400",
        "0xffffffffff",
        "99999999999999999999",
        "[none",
        "]none[",
        "0-18446744073709551615",
        "TOTAL_ERR_COR",
        "TOTAL_ERR_COR 18446744073709551615",
        "\u{0}\u{fffd}",
    ];
    prop_oneof![prop::sample::select(odd.to_vec()).prop_map(str::to_owned), ".{0,40}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn no_content_of_files_makes_it_panic(
        machine in 0usize..6,
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(contents())), 1..60),
    ) {
        let mut machine = machines::all().swap_remove(machine).1;
        let paths: Vec<String> = machine.entries.keys().cloned().collect();
        for (place, content) in changes {
            let path = &paths[place.index(paths.len())];
            match content {
                Some(content) => machine.entries.insert(path.clone(), Entry::File(content)),
                None => machine.entries.remove(path),
            };
        }
        let (_directory, sysfs) = machine.unpack();
        let topology = discover(&sysfs, &[]).unwrap();
        let measured: Vec<_> = sets(&topology).into_iter().map(|set| Measurement { set, bytes_per_s: 1e9 }).collect();
        let measured = Measured { limits: limits(&measured), sets: Vec::new(), busy_processors: Some(1.0) };
        let report = Report::new(topology, Some(measured));
        prop_assert!(report.text().starts_with("machine"));
        prop_assert!(!report.text().contains("NaN") && !report.text().contains("inf "));
        serde_json::to_string(&report).unwrap();
    }
}
