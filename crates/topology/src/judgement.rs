//! Which sets of drives to read from, and which link limits them.
//!
//! Each drive is read alone, then the drives below each node that joins several ways. If the sets below a node gave more one by
//! one than together, something from this node upwards limits them. It is the way up of the node itself if the drives beside it
//! still add to what the node above carries, and else a node above. Measurements that cannot tell the two apart name both.

use serde::Serialize;

use crate::tree::Topology;

/// What is lost when drives are read together, at least, before a link counts as the limit.
const LOSS_MIN: f64 = 0.1;
/// What the drives beside a set must give, as a part of what the set gave, to tell its way up from the one above.
const BESIDE_MIN: f64 = 0.3;

/// A set of drives to read from together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Set {
    /// The highest and the lowest node that have exactly these drives below, and those between: a measurement cannot tell
    /// them apart. Empty for a drive alone.
    pub nodes: Vec<usize>,
    /// The drives.
    pub drives: Vec<usize>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The set.
    pub set: Set,
    /// Bytes per second of all its drives together.
    pub bytes_per_s: f64,
}

/// A limit that was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The nodes whose way up is the limit, one of them: several if measurements cannot tell which.
    pub nodes: Vec<usize>,
    /// Bytes per second that it carries.
    pub bytes_per_s: f64,
    /// Bytes per second of the same drives one by one, or set by set below it.
    pub apart_bytes_per_s: f64,
}

/// The sets to measure: each drive, then the drives below each node that joins several, from the drives up to the machine.
pub fn sets(topology: &Topology) -> Vec<Set> {
    let alone = (0..topology.drives.len()).map(|drive| Set { nodes: Vec::new(), drives: vec![drive] });
    let mut sets: Vec<Set> = alone.collect();
    // Each node comes after its parent, so nodes with the same drives are met from the highest to the lowest.
    let mut joined: Vec<Set> = Vec::new();
    for node in 0..topology.nodes.len() {
        let drives = topology.drives_below(node);
        match joined.iter_mut().find(|set| set.drives == drives) {
            _ if drives.len() < 2 => {}
            Some(set) => set.nodes.push(node),
            None => joined.push(Set { nodes: vec![node], drives }),
        }
    }
    joined.sort_by_key(|set| set.drives.len());
    sets.extend(joined);
    sets
}

/// The limits that measurements show, the one that costs most first. Sets that were not measured are left out.
pub fn limits(measured: &[Measurement]) -> Vec<Limit> {
    let mut found: Vec<(usize, Limit)> = Vec::new();
    for (index, joined) in measured.iter().enumerate().filter(|(_, m)| !m.set.nodes.is_empty()) {
        let apart: f64 = parts(measured, &joined.set).iter().map(|part| part.bytes_per_s).sum();
        if joined.bytes_per_s < apart * (1.0 - LOSS_MIN) {
            let limit = Limit {
                nodes: joined.set.nodes.clone(),
                bytes_per_s: joined.bytes_per_s,
                apart_bytes_per_s: apart,
            };
            found.push((index, limit));
        }
    }
    // A set that something above limits is that limit's, not its own.
    let all = found.clone();
    for (index, limit) in &mut found {
        let mut below = *index;
        while let Some(above) = next_above(measured, below) {
            let (low, high) = (&measured[below], &measured[above]);
            let beside: f64 = parts(measured, &high.set)
                .iter()
                .filter(|part| !part.set.drives.iter().all(|drive| low.set.drives.contains(drive)))
                .map(|part| part.bytes_per_s)
                .sum();
            let adds = high.bytes_per_s - low.bytes_per_s;
            if beside >= BESIDE_MIN * low.bytes_per_s {
                if adds > beside / 2.0 {
                    break;
                }
                *limit =
                    all.iter().find(|(i, _)| *i == above).map_or_else(|| limit.clone(), |(_, l)| l.clone());
            } else {
                // Too little beside it to tell: either way up may be the limit.
                for node in &high.set.nodes {
                    if !limit.nodes.contains(node) {
                        limit.nodes.push(*node);
                    }
                }
            }
            below = above;
        }
    }
    let mut limits: Vec<Limit> = Vec::new();
    for (_, limit) in found {
        let is_known = limits.iter().any(|known| known.nodes == limit.nodes);
        if !is_known {
            limits.push(limit);
        }
    }
    let lost = |limit: &Limit| limit.apart_bytes_per_s - limit.bytes_per_s;
    limits.sort_by(|a, b| lost(b).total_cmp(&lost(a)));
    limits
}

/// The largest measured sets that make up a set: what it would give if its own way up were no limit.
fn parts<'m>(measured: &'m [Measurement], set: &Set) -> Vec<&'m Measurement> {
    let mut left: Vec<usize> = set.drives.clone();
    let mut smaller: Vec<&Measurement> =
        measured.iter().filter(|part| part.set.drives.len() < set.drives.len()).collect();
    smaller.sort_by_key(|part| std::cmp::Reverse(part.set.drives.len()));
    let mut parts = Vec::new();
    for part in smaller {
        if part.set.drives.iter().all(|drive| left.contains(drive)) {
            left.retain(|drive| !part.set.drives.contains(drive));
            parts.push(part);
        }
    }
    parts
}

/// The smallest measured set that contains another one and more.
fn next_above(measured: &[Measurement], below: usize) -> Option<usize> {
    let drives = &measured[below].set.drives;
    let contains = |other: &Measurement| {
        other.set.drives.len() > drives.len() && drives.iter().all(|drive| other.set.drives.contains(drive))
    };
    let above = (0..measured.len()).filter(|&other| contains(&measured[other]));
    above.min_by_key(|&other| measured[other].set.drives.len())
}
