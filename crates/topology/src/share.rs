//! Max-min fair rates: what drives get that all ask at once and share links.
//!
//! The rates of all drives rise together until a link is full; the drives behind it keep what they have, and the others go on.

use crate::tree::Topology;

/// The rates of drives that ask for as much as they can, and the nodes whose way up is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// The rate of each drive; infinite if nothing on its way limits it.
    pub rates: Vec<f64>,
    /// The nodes whose way up is full, in the order in which they filled.
    pub full: Vec<usize>,
}

/// The shares of the drives of a set. `node_limits` has the limit of the way up of each node, `drive_limits` that of each drive;
/// infinite where there is none.
pub fn max_min(topology: &Topology, set: &[usize], node_limits: &[f64], drive_limits: &[f64]) -> Shares {
    let mut rates = vec![0.0; topology.drives.len()];
    let mut rising: Vec<usize> = set.to_vec();
    let mut room = node_limits.to_vec();
    let mut full = Vec::new();
    let mut level = 0.0;
    while !rising.is_empty() {
        let mut users = vec![0usize; topology.nodes.len()];
        for &drive in &rising {
            topology.way_up(topology.drives[drive].node).for_each(|node| users[node] += 1);
        }
        // The least rise at which a link is full, or a drive gives all it has.
        let of_links =
            (0..users.len()).filter(|&node| users[node] > 0).map(|node| room[node] / users[node] as f64);
        let of_drives = rising.iter().map(|&drive| drive_limits[drive] - level);
        let rise = of_links.chain(of_drives).fold(f64::INFINITY, f64::min).max(0.0);
        if rise.is_infinite() {
            rising.iter().for_each(|&drive| rates[drive] = f64::INFINITY);
            break;
        }
        level += rise;
        for (node, users) in users.iter().enumerate().filter(|(_, users)| **users > 0) {
            room[node] -= rise * *users as f64;
            let is_full = room[node].is_finite() && room[node] <= node_limits[node] * 1e-12;
            if is_full && !full.contains(&node) {
                full.push(node);
            }
        }
        let stops = |drive: usize| {
            let blocked = topology.way_up(topology.drives[drive].node).any(|node| full.contains(&node));
            blocked || drive_limits[drive] <= level * (1.0 + 1e-12)
        };
        let before = rising.len();
        rising.retain(|&drive| {
            rates[drive] = level;
            !stops(drive)
        });
        if rising.len() == before {
            // Rounding left nothing full: what is left is below the precision of the numbers.
            break;
        }
    }
    Shares { rates, full }
}

/// The limits of the nodes and drives, as far as their links are known.
pub fn known_limits(topology: &Topology) -> (Vec<f64>, Vec<f64>) {
    let or_none = |limit: Option<f64>| limit.unwrap_or(f64::INFINITY);
    let nodes = topology.nodes.iter().map(|node| or_none(node.bytes_per_s)).collect();
    (nodes, topology.drives.iter().map(|drive| or_none(drive.bytes_per_s)).collect())
}
