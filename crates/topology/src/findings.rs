//! What is slower than it could be, and what to do.
//!
//! A finding needs files that say so: what is unknown is no finding.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::share::{known_limits, max_min};
use crate::tree::{Drive, DriveKind, NodeKind, Topology};

/// A finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The kind, in one word.
    pub code: &'static str,
    /// The drives and nodes that it is about, by name.
    pub about: Vec<String>,
    /// What was found.
    pub found: String,
    /// What to do.
    pub to_do: &'static str,
}

/// Demand above what a link carries that counts.
const OVERSUBSCRIBED_MIN: f64 = 1.05;

/// All findings: links first, then what is shared, then settings of drives.
pub fn findings(topology: &Topology) -> Vec<Finding> {
    let mut all = Vec::new();
    links(topology, &mut all);
    oversubscribed(topology, &mut all);
    shared(topology, &mut all);
    drives(topology, &mut all);
    all
}

fn finding(code: &'static str, about: Vec<String>, found: String, to_do: &'static str) -> Finding {
    Finding { code, about, found, to_do }
}

/// Bytes per second for people, in the units of data sheets.
pub(crate) fn rate(bytes_per_s: f64) -> String {
    if bytes_per_s >= 1e9 {
        format!("{:.2} GB/s", bytes_per_s / 1e9)
    } else {
        format!("{:.0} MB/s", bytes_per_s / 1e6)
    }
}

fn links(topology: &Topology, all: &mut Vec<Finding>) {
    for (index, node) in topology.nodes.iter().enumerate() {
        if let Some((now, best)) = node.link.and_then(|link| Some((link.now?, link.best?))) {
            let about = vec![node.name.clone()];
            let name = topology.describe(index);
            if now.lanes < best.lanes {
                let found = format!("{name} runs on {} lanes of {}", now.lanes, best.lanes);
                all.push(finding(
                    "link-narrow",
                    about.clone(),
                    found,
                    "reseat the device or its cable, or use a slot with all lanes",
                ));
            }
            if now.gt_per_s < best.gt_per_s {
                let found = format!("{name} runs at {} GT/s of {}", now.gt_per_s, best.gt_per_s);
                all.push(finding("link-slow", about, found, "look again under load, because power management slows idle links; if it stays, check riser, cable and firmware settings"));
            }
        }
        if let Some(errors) = node.link_errors.filter(|errors| errors.corrected > 0 || errors.uncorrected > 0)
        {
            let found = format!(
                "{} has had {} corrected and {} uncorrected link errors since the start",
                topology.describe(index),
                errors.corrected,
                errors.uncorrected
            );
            all.push(finding(
                "link-errors",
                vec![node.name.clone()],
                found,
                "watch whether they rise; if so, reseat or replace cable, riser or device",
            ));
        }
    }
    for drive in &topology.drives {
        let slower = drive.bytes_per_s.zip(drive.best_bytes_per_s).filter(|(now, best)| *now < best * 0.99);
        if let Some((now, best)) = slower.filter(|_| matches!(drive.kind, DriveKind::Sata | DriveKind::Sas)) {
            let found = format!("{} is linked at {} of {}", drive.name, rate(now), rate(best));
            all.push(finding(
                "drive-link-slow",
                vec![drive.name.clone()],
                found,
                "replace the cable, or use a faster port",
            ));
        }
    }
}

/// What the way up of a node is asked for, with what it carries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// The node.
    pub node: usize,
    /// Bytes per second that it carries.
    pub carries: f64,
    /// Bytes per second that the drives below may ask for, as far as the links below let them.
    pub asked: f64,
    /// Drives below whose rate is unknown, which are not counted.
    pub unknown: usize,
}

/// The nodes that carry less than is asked for, those that are full when all drives are read at once first. Nothing if all links
/// suffice as far as they are known.
pub fn demands(topology: &Topology) -> Vec<Demand> {
    let (node_limits, drive_limits) = known_limits(topology);
    let everything: Vec<usize> =
        (0..topology.drives.len()).filter(|&drive| drive_limits[drive].is_finite()).collect();
    let full = max_min(topology, &everything, &node_limits, &drive_limits).full;
    let mut demands: Vec<Demand> = Vec::new();
    for (node, carries) in
        topology.nodes.iter().enumerate().filter_map(|(i, node)| Some((i, node.bytes_per_s?)))
    {
        let below = topology.drives_below(node);
        let known: Vec<usize> =
            below.iter().copied().filter(|&drive| drive_limits[drive].is_finite()).collect();
        let mut without = node_limits.clone();
        // Without its own way up and those above.
        topology.way_up(node).for_each(|above| without[above] = f64::INFINITY);
        let asked: f64 = max_min(topology, &known, &without, &drive_limits).rates.iter().sum();
        if known.len() > 1 && asked > carries * OVERSUBSCRIBED_MIN {
            demands.push(Demand { node, carries, asked, unknown: below.len() - known.len() });
        }
    }
    let rank = |demand: &Demand| full.iter().position(|full| *full == demand.node).unwrap_or(usize::MAX);
    demands
        .sort_by(|a, b| rank(a).cmp(&rank(b)).then((b.asked / b.carries).total_cmp(&(a.asked / a.carries))));
    demands
}

fn oversubscribed(topology: &Topology, all: &mut Vec<Finding>) {
    for demand in demands(topology) {
        let names: Vec<String> = topology
            .drives_below(demand.node)
            .iter()
            .map(|&drive| topology.drives[drive].name.clone())
            .collect();
        let found = format!(
            "{} drives below {} can ask for {}, and its way up carries {}: {:.1} times as much",
            names.len(),
            topology.describe(demand.node),
            rate(demand.asked),
            rate(demand.carries),
            demand.asked / demand.carries
        );
        let about = [topology.nodes[demand.node].name.clone()].into_iter().chain(names).collect();
        all.push(finding(
            "oversubscribed",
            about,
            found,
            "distribute the drives over more ports, switches or controllers",
        ));
    }
}

fn shared(topology: &Topology, all: &mut Vec<Finding>) {
    let count = topology.drives.len();
    let names = || topology.drives.iter().map(|drive| drive.name.clone()).collect::<Vec<_>>();
    if count > 1 {
        let joins = |node: &usize| {
            let kind = topology.nodes[*node].kind;
            matches!(kind, NodeKind::Switch | NodeKind::Controller | NodeKind::Expander)
        };
        // The lowest one that has all drives below: the higher ones follow from it.
        let common = (0..topology.nodes.len())
            .filter(joins)
            .filter(|&node| topology.drives_below(node).len() == count);
        if let Some(node) = common.max() {
            let found = format!("all {count} drives are below {}", topology.describe(node));
            all.push(finding(
                "one-path",
                names(),
                found,
                "its failure takes all drives: use a second one if the pool has to survive that",
            ));
        }
    }
    let mut by_numa: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for drive in &topology.drives {
        if let Some(numa) = topology.numa_of(drive) {
            by_numa.entry(numa).or_default().push(drive.name.clone());
        }
    }
    if by_numa.len() > 1 {
        let parts: Vec<_> =
            by_numa.iter().map(|(numa, names)| format!("{} on node {numa}", names.len())).collect();
        let found = format!("the drives are on {} NUMA nodes: {}", by_numa.len(), parts.join(", "));
        all.push(finding(
            "numa-split",
            names(),
            found,
            "give the server cores of all these nodes (`--cores`), or move the drives to one",
        ));
    }
    let mut by_whole: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for drive in &topology.drives {
        by_whole
            .entry(drive.partition_of.as_deref().unwrap_or(&drive.name))
            .or_default()
            .push(drive.name.clone());
    }
    for (whole, names) in by_whole.into_iter().filter(|(_, names)| names.len() > 1) {
        let found = format!("{} are on the same drive {whole}", names.join(", "));
        all.push(finding(
            "same-drive",
            names,
            found,
            "use one partition of a drive as a member: several fail together and share its speed",
        ));
    }
    mixed(topology, all);
}

fn mixed(topology: &Topology, all: &mut Vec<Finding>) {
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    topology
        .drives
        .iter()
        .filter_map(|drive| drive.model.as_deref())
        .for_each(|model| *models.entry(model).or_default() += 1);
    if models.len() > 1 {
        let parts: Vec<_> = models.iter().map(|(model, count)| format!("{count} {model}")).collect();
        let names = topology.drives.iter().map(|drive| drive.name.clone()).collect();
        let found = format!("the drives are of {} models: {}", models.len(), parts.join(", "));
        all.push(finding(
            "mixed-models",
            names,
            found,
            "the slowest sets the pace of an array; a mapped pool writes around slow members",
        ));
    }
}

fn drives(topology: &Topology, all: &mut Vec<Finding>) {
    type Concerns<'a> = &'a dyn Fn(&Drive) -> bool;
    let mut about = |code: &'static str, concerns: Concerns<'_>, what: &str, to_do: &'static str| {
        let names: Vec<String> =
            topology.drives.iter().filter(|d| concerns(d)).map(|d| d.name.clone()).collect();
        if !names.is_empty() {
            let found = format!("{}: {what}", names.join(", "));
            all.push(finding(code, names, found, to_do));
        }
    };
    let is_ssd = |drive: &Drive| drive.rotational == Some(false);
    about(
        "scheduler",
        &|d| is_ssd(d) && d.scheduler.as_deref().is_some_and(|name| name != "none"),
        "an I/O scheduler is active",
        "write none to queue/scheduler: Sinew orders its requests itself",
    );
    about(
        "rotational",
        &|d| d.rotational == Some(true) && !matches!(d.kind, DriveKind::Virtio | DriveKind::Loop),
        "a rotating disk",
        "use SSDs: latencies of a pool are those of its slowest members",
    );
    about(
        "no-discard",
        &|d| is_ssd(d) && d.discards == Some(false),
        "no discards",
        "leave part of the drive unused, so that it has space for cleaning",
    );
    about(
        "loop",
        &|d| d.kind == DriveKind::Loop,
        "a loop device",
        "use the file itself as a member: the loop adds a layer",
    );
    about(
        "stacked",
        &|d| d.kind == DriveKind::Stacked,
        "made of other devices",
        "use the drives below it as members",
    );
    if let Some(processors) = topology.processors {
        let few = |drive: &Drive| {
            drive.kind == DriveKind::Nvme && drive.queues.is_some_and(|queues| queues < processors)
        };
        about(
            "few-queues",
            &few,
            "fewer hardware queues than processors",
            "use no more shards than the drives have queues",
        );
    }
}
