//! The report for people.

use std::fmt::Write;

use serde::Serialize;

use crate::findings::{Demand, Finding, demands, findings, rate};
use crate::judgement::{Limit, Measurement};
use crate::rate::PcieLink;
use crate::tree::{Drive, LinkState, Topology};

/// Everything known, for JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The tree.
    #[serde(flatten)]
    pub topology: Topology,
    /// The links that carry less than is asked for, by what sysfs says of them; the bottleneck first.
    pub oversubscribed: Vec<Demand>,
    /// The findings.
    pub findings: Vec<Finding>,
    /// What was measured, if anything was.
    pub measured: Option<Measured>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// The sets and their rates.
    pub sets: Vec<Measurement>,
    /// The limits that they show, the one that costs most first.
    pub limits: Vec<Limit>,
    /// Processors that were busy while all drives were read.
    pub busy_processors: Option<f64>,
}

impl Report {
    /// The report on a topology.
    pub fn new(topology: Topology, measured: Option<Measured>) -> Report {
        Report { oversubscribed: demands(&topology), findings: findings(&topology), topology, measured }
    }

    /// The text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.tree(0, 0, &mut text);
        text.push('\n');
        let _ = writeln!(text, "bottleneck  {}", self.bottleneck());
        if let Some(measured) = &self.measured {
            self.measurements(measured, &mut text);
        }
        for finding in &self.findings {
            let _ = writeln!(text, "\n{}: {}\n  to do: {}", finding.code, finding.found, finding.to_do);
        }
        text
    }

    /// The bottleneck by what sysfs says.
    fn bottleneck(&self) -> String {
        let topology = &self.topology;
        if let Some(demand) = self.oversubscribed.first() {
            let others = match demand.unknown {
                0 => String::new(),
                count => format!(", beside {count} drives of unknown speed"),
            };
            return format!(
                "the way up of {}: {} for drives that can ask for {}{others}",
                topology.describe(demand.node),
                rate(demand.carries),
                rate(demand.asked)
            );
        }
        let unknown = topology.drives.iter().filter(|drive| drive.bytes_per_s.is_none()).count();
        match unknown {
            0 => "none: every link carries what the drives below it can ask for".to_owned(),
            _ if unknown == topology.drives.len() => {
                "unknown: sysfs says nothing of the links; --measure reads from the drives to find out"
                    .to_owned()
            }
            _ => format!(
                "none among the known links; {unknown} of {} drives have an unknown speed",
                topology.drives.len()
            ),
        }
    }

    fn tree(&self, node: usize, depth: usize, text: &mut String) {
        let topology = &self.topology;
        let indent = "  ".repeat(depth);
        let name = if node == 0 { self.machine() } else { topology.describe(node) };
        let _ = writeln!(
            text,
            "{indent}{name}{}",
            link_text(topology.nodes[node].link, topology.nodes[node].bytes_per_s)
        );
        for drive in topology.drives.iter().filter(|drive| drive.node == node) {
            let _ = writeln!(text, "{indent}  {}", self.drive(drive));
        }
        for child in (0..topology.nodes.len()).filter(|child| topology.nodes[*child].parent == Some(node)) {
            self.tree(child, depth + 1, text);
        }
    }

    fn machine(&self) -> String {
        match self.topology.processors {
            Some(count) => format!("machine, {count} processors"),
            None => "machine, processors unknown".to_owned(),
        }
    }

    fn drive(&self, drive: &Drive) -> String {
        let kind = serde_name(drive.kind);
        let mut parts = vec![format!("{} {kind}", drive.name)];
        parts.extend(drive.model.clone());
        parts.push(drive.bytes.map_or("size unknown".to_owned(), size));
        parts.extend(drive.partition_of.as_ref().map(|whole| format!("partition of {whole}")));
        if !drive.made_of.is_empty() {
            parts.push(format!("on {}", drive.made_of.join(", ")));
        }
        parts.push(match (drive.bytes_per_s, self.topology.least_on_way(drive)) {
            (None, _) => "speed of its link unknown".to_owned(),
            (Some(own), Some(least)) if least < own => {
                format!("{}, at most {} on its way", rate(own), rate(least))
            }
            (Some(own), _) => rate(own),
        });
        parts.join(", ")
    }

    fn measurements(&self, measured: &Measured, text: &mut String) {
        let topology = &self.topology;
        text.push_str("\nmeasured\n");
        for Measurement { set, bytes_per_s } in &measured.sets {
            let name = match (set.nodes.last(), set.drives.first()) {
                (Some(node), _) => format!("{} drives below {}", set.drives.len(), topology.describe(*node)),
                (None, Some(drive)) => topology.drives[*drive].name.clone(),
                (None, None) => "no drive".to_owned(),
            };
            let _ = writeln!(text, "  {name}: {}", rate(*bytes_per_s));
        }
        for limit in &measured.limits {
            let names: Vec<_> = limit.nodes.iter().map(|node| topology.describe(*node)).collect();
            let _ = writeln!(
                text,
                "limit  {}: {} together, {} apart",
                names.join(", or "),
                rate(limit.bytes_per_s),
                rate(limit.apart_bytes_per_s)
            );
        }
        if measured.limits.is_empty() {
            text.push_str("limit  none: the drives give together what they give apart\n");
        }
        if let Some((busy, processors)) = measured.busy_processors.zip(topology.processors) {
            let _ = writeln!(text, "processors busy while all were read: {busy:.1} of {processors}");
        }
    }
}

/// Bytes for people, in the units of data sheets.
fn size(bytes: u64) -> String {
    match bytes {
        1_000_000_000.. => format!("{:.0} GB", bytes as f64 / 1e9),
        1_000_000.. => format!("{:.0} MB", bytes as f64 / 1e6),
        _ => format!("{bytes} B"),
    }
}

fn serde_name(kind: crate::tree::DriveKind) -> &'static str {
    use crate::tree::DriveKind as Kind;
    match kind {
        Kind::Nvme => "NVMe",
        Kind::Sata => "SATA",
        Kind::Sas => "SAS",
        Kind::Virtio => "virtio",
        Kind::Loop => "loop",
        Kind::Stacked => "stacked",
        Kind::Other => "of unknown kind",
    }
}

fn link_text(link: Option<LinkState>, bytes_per_s: Option<f64>) -> String {
    let show = |link: PcieLink| format!("{} GT/s x{}", link.gt_per_s, link.lanes);
    match link {
        None => bytes_per_s.map_or(String::new(), |bytes| format!(": {}", rate(bytes))),
        Some(LinkState { now: None, best: Some(best) }) => {
            format!(": link unknown now, at best {}", show(best))
        }
        Some(LinkState { now: None, best: None }) => ": link unknown".to_owned(),
        Some(LinkState { now: Some(now), best }) => {
            let at_best = match best {
                None => ", at best unknown".to_owned(),
                Some(best) if best == now => String::new(),
                Some(best) => format!(", at best {}", show(best)),
            };
            format!(": {}, {}{at_best}", show(now), rate(now.bytes_per_s()))
        }
    }
}
