//! The tree from sysfs.
//!
//! The path of a block device after all links names everything between it and the processors: PCI functions by their
//! addresses, then what the drivers made. Root ports come first below a host bridge, then every second PCI function is the lower
//! end of a link: an endpoint, or the upstream port of a switch.

use std::path::{Component, Path, PathBuf};

use crate::rate::{PcieLink, serial_bytes_per_s};
use crate::sysfs::Sysfs;
use crate::tree::{Drive, DriveKind, LinkErrors, LinkState, Node, NodeKind, Topology};

/// Bytes of a sector in sysfs, whatever the drive says.
const SECTOR_BYTES: u64 = 512;
/// PCI class of a bridge between PCI buses, in the upper 16 of 24 bits.
const CLASS_BRIDGE: u32 = 0x0604;
/// The most components of a path, and so the deepest tree.
const DEPTH_MAX: usize = 128;

/// The topology of some drives, by the names of their block devices; of all but memory, loop and stacked devices if none are
/// given.
///
/// # Errors
/// A name that sysfs does not have; the error is that name.
pub fn discover(sysfs: &Sysfs, names: &[String]) -> Result<Topology, String> {
    let machine = node("machine".to_owned(), NodeKind::Machine, None);
    let processors = sysfs.text("devices/system/cpu/online").and_then(|list| count_of_list(&list));
    let mut found = Found {
        sysfs,
        topology: Topology { nodes: vec![machine], drives: Vec::new(), processors },
        paths: vec![PathBuf::new()],
    };
    if names.is_empty() {
        for name in sysfs.names("block") {
            let is_drive =
                !sysfs.resolve(Path::new("block").join(&name)).is_some_and(|path| is_virtual(&path));
            if is_drive || is_nvme_head(sysfs, &name) {
                found.drive(&name);
            }
        }
    }
    for name in names {
        let is_plain = Path::new(name).components().count() == 1 && !name.contains('/');
        if !is_plain || !found.drive(name) {
            return Err(name.clone());
        }
    }
    Ok(found.topology)
}

fn is_virtual(path: &Path) -> bool {
    path.starts_with("devices/virtual")
}

/// Whether a block device is the head of an NVMe namespace with several possible paths, which sysfs calls virtual.
fn is_nvme_head(sysfs: &Sysfs, name: &str) -> bool {
    sysfs
        .resolve(Path::new("block").join(name))
        .is_some_and(|path| path.to_string_lossy().contains("/nvme-subsystem/"))
}

fn node(name: String, kind: NodeKind, parent: Option<usize>) -> Node {
    Node { name, kind, parent, numa: None, driver: None, link: None, bytes_per_s: None, link_errors: None }
}

/// The number of entries of a list such as "0-3,6".
fn count_of_list(list: &str) -> Option<u32> {
    list.split(',').try_fold(0u32, |count, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

/// Whether a component of a path is the address of a PCI function, as 0000:03:00.0.
fn is_pci_address(name: &str) -> bool {
    let Some((bus, function)) = name.rsplit_once('.') else { return false };
    let parts: Vec<&str> = bus.split(':').collect();
    let hex = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_hexdigit());
    parts.len() == 3 && parts.iter().all(|part| hex(part)) && function.len() == 1 && hex(function)
}

struct Found<'a> {
    sysfs: &'a Sysfs,
    topology: Topology,
    /// The path of each node, by which it is found again.
    paths: Vec<PathBuf>,
}

impl Found<'_> {
    /// Adds a drive and the nodes above it; false if sysfs does not have it.
    fn drive(&mut self, name: &str) -> bool {
        let Some(entry) =
            ["class/block", "block"].iter().map(|at| Path::new(at).join(name)).find(|p| self.sysfs.exists(p))
        else {
            return false;
        };
        let Some(path) = self.sysfs.resolve(&entry) else { return false };
        let is_partition = self.sysfs.exists(path.join("partition"));
        let whole = if is_partition { path.parent().unwrap_or(&path).to_owned() } else { path.clone() };
        let way = self.real_way(&whole);
        let (node, way_kind, rates) = self.nodes_of(&way);
        let file_name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let kind = way_kind.unwrap_or_else(|| {
            let whole_name = file_name(&whole).unwrap_or_default();
            match () {
                () if whole_name.starts_with("loop") => DriveKind::Loop,
                () if !self.sysfs.names(whole.join("slaves")).is_empty() => DriveKind::Stacked,
                () => DriveKind::Other,
            }
        });
        let queue = whole.join("queue");
        let attribute = |name: &str| self.sysfs.text(queue.join(name));
        let flag = |name: &str| attribute(name).map(|text| text != "0");
        let model = ["device/model", "device/device/model", "device/name"];
        let drive = Drive {
            name: name.to_owned(),
            node,
            kind,
            partition_of: is_partition.then(|| file_name(&whole)).flatten(),
            made_of: match self.sysfs.text(whole.join("loop/backing_file")) {
                Some(file) => vec![file],
                None => self.sysfs.names(whole.join("slaves")),
            },
            model: model.iter().find_map(|at| self.sysfs.text(whole.join(at))),
            bytes: self
                .sysfs
                .number::<u64>(path.join("size"))
                .and_then(|size| size.checked_mul(SECTOR_BYTES)),
            rotational: flag("rotational"),
            scheduler: attribute("scheduler").map(|text| active_scheduler(&text)),
            write_cache: attribute("write_cache"),
            discards: flag("discard_max_bytes"),
            queues: Some(self.sysfs.names(whole.join("mq")).len() as u32).filter(|queues| *queues > 0),
            bytes_per_s: rates.0,
            best_bytes_per_s: rates.1,
        };
        self.topology.drives.push(drive);
        true
    }

    /// The path with the hardware in it. The head of an NVMe namespace is virtual: its first controller is the hardware.
    fn real_way(&self, whole: &Path) -> PathBuf {
        let Some(parent) =
            whole.parent().filter(|parent| parent.to_string_lossy().contains("/nvme-subsystem/"))
        else {
            return whole.to_owned();
        };
        let is_controller = |name: &&String| {
            name.strip_prefix("nvme")
                .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
        };
        let names = self.sysfs.names(parent);
        let controller = names.iter().find(is_controller);
        controller.and_then(|name| self.sysfs.resolve(parent.join(name))).unwrap_or_else(|| whole.to_owned())
    }

    /// The nodes along a path: the lowest one, the kind of drive that the path shows, and the rate of the drive's own link now
    /// and at best.
    fn nodes_of(&mut self, way: &Path) -> (usize, Option<DriveKind>, (Option<f64>, Option<f64>)) {
        let (mut at, mut path) = (0, PathBuf::new());
        // PCI functions since the host bridge: even ones are the upper ends of links.
        let mut functions = 0;
        let (mut kind, mut rates) = (None, (None, None));
        for component in way.components().take(DEPTH_MAX) {
            let Component::Normal(name) = component else { continue };
            let name = name.to_string_lossy().into_owned();
            path.push(&name);
            if name.starts_with("pci") {
                functions = 0;
            } else if is_pci_address(&name) {
                at = self.pci_function(&path, &name, at, functions);
                functions += 1;
            } else if name == "nvme" {
                kind = Some(DriveKind::Nvme);
            } else if name.starts_with("virtio") {
                kind = Some(DriveKind::Virtio);
            } else if is_numbered(&name, "ata") {
                (at, rates) = self.ata_port(&path, &name, at);
                kind = Some(DriveKind::Sata);
            } else if name.starts_with("expander-") {
                at = self.expander(&path, &name, at);
                kind = Some(DriveKind::Sas);
            } else if name.starts_with("end_device-") {
                (at, rates) = self.sas_port(&path, &name, at);
                kind = Some(DriveKind::Sas);
            }
        }
        let lowest = &self.topology.nodes[at];
        if kind == Some(DriveKind::Nvme) {
            let bytes = |link: Option<PcieLink>| link.map(PcieLink::bytes_per_s);
            rates = lowest.link.map_or((None, None), |link| (bytes(link.now), bytes(link.best)));
        }
        (at, kind, rates)
    }

    /// The node of a path, made by `make` if it is not known yet.
    fn known(&mut self, path: &Path, make: impl FnOnce(&Sysfs) -> Node) -> usize {
        if let Some(known) = self.paths.iter().position(|known| known == path) {
            return known;
        }
        let node = make(self.sysfs);
        self.topology.nodes.push(node);
        self.paths.push(path.to_owned());
        self.topology.nodes.len() - 1
    }

    fn pci_function(&mut self, path: &Path, name: &str, above: usize, functions: usize) -> usize {
        let numa = self.sysfs.number::<i64>(path.join("numa_node")).and_then(|node| u32::try_from(node).ok());
        let parent = match numa {
            Some(numa) if above == 0 => self.numa_node(numa),
            _ => above,
        };
        let class = self.sysfs.text(path.join("class")).and_then(|class| parse_hex(&class));
        let is_bridge = class.is_some_and(|class| class >> 8 == CLASS_BRIDGE);
        let is_lower_end = functions % 2 == 1;
        let kind = match (is_bridge, functions) {
            (true, 0) => NodeKind::RootPort,
            (true, _) if is_lower_end => NodeKind::Switch,
            (true, _) => NodeKind::SwitchPort,
            (false, _) if class.is_some_and(|class| class >> 8 == 0x0108) => NodeKind::NvmeController,
            (false, _) => NodeKind::Controller,
        };
        // An endpoint in the processor itself has a link file at most by courtesy; an endpoint elsewhere is the lower end.
        let has_link = is_lower_end || !is_bridge;
        let upper = is_lower_end.then(|| path.parent().map(Path::to_owned)).flatten();
        self.known(path, |sysfs| {
            let link = has_link.then(|| link_state(sysfs, path, upper.as_deref())).flatten();
            let driver = sysfs.resolve(path.join("driver"));
            Node {
                numa,
                driver: driver.and_then(|driver| Some(driver.file_name()?.to_string_lossy().into_owned())),
                link,
                bytes_per_s: link.and_then(|link| link.now).map(PcieLink::bytes_per_s),
                link_errors: link_errors(sysfs, path),
                ..node(name.to_owned(), kind, Some(parent))
            }
        })
    }

    fn numa_node(&mut self, numa: u32) -> usize {
        let path = PathBuf::from(format!("numa/{numa}"));
        self.known(&path, |_| Node {
            numa: Some(numa),
            ..node(format!("NUMA node {numa}"), NodeKind::NumaNode, Some(0))
        })
    }

    fn ata_port(&mut self, path: &Path, name: &str, above: usize) -> (usize, (Option<f64>, Option<f64>)) {
        let number = name.trim_start_matches("ata");
        let link = path.join(format!("link{number}/ata_link/link{number}"));
        let class = PathBuf::from(format!("class/ata_link/link{number}"));
        let speed = |file: &str| {
            let text = self.sysfs.text(link.join(file)).or_else(|| self.sysfs.text(class.join(file)));
            text.and_then(|text| serial_bytes_per_s(&text))
        };
        let rates = (speed("sata_spd"), speed("hw_sata_spd_limit").or_else(|| speed("sata_spd_limit")));
        let port = self.known(path, |_| Node {
            bytes_per_s: rates.0,
            ..node(name.to_owned(), NodeKind::AtaPort, Some(above))
        });
        (port, rates)
    }

    fn expander(&mut self, path: &Path, name: &str, above: usize) -> usize {
        let rate = path.parent().and_then(|port| self.phys(port)).map(|(now, _)| now);
        self.known(path, |_| Node {
            bytes_per_s: rate,
            ..node(name.to_owned(), NodeKind::Expander, Some(above))
        })
    }

    fn sas_port(&mut self, path: &Path, name: &str, above: usize) -> (usize, (Option<f64>, Option<f64>)) {
        let rates = path.parent().and_then(|port| self.phys(port));
        let now = rates.map(|(now, _)| now);
        let port = self.known(path, |_| Node {
            bytes_per_s: now,
            ..node(name.to_owned(), NodeKind::SasPort, Some(above))
        });
        (port, (now, rates.map(|(_, best)| best)))
    }

    /// The rate of a SAS port now and at best: the sum over its phys. Nothing if any of them is unknown.
    fn phys(&self, port: &Path) -> Option<(f64, f64)> {
        let names = self.sysfs.names(port);
        let phys = names.iter().filter(|name| name.starts_with("phy-"));
        let rates = phys.map(|phy| {
            let speed = |file: &str| {
                let at = [port.join(phy).join("sas_phy").join(phy), Path::new("class/sas_phy").join(phy)];
                at.iter().find_map(|at| serial_bytes_per_s(&self.sysfs.text(at.join(file))?))
            };
            let now = speed("negotiated_linkrate")?;
            Some((now, speed("maximum_linkrate").unwrap_or(now)))
        });
        let rates: Option<Vec<(f64, f64)>> = rates.collect();
        let sum = rates?.into_iter().reduce(|sum, rate| (sum.0 + rate.0, sum.1 + rate.1))?;
        Some(sum)
    }
}

fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix)
        .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

fn parse_hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// The link of a lower end; `upper` is the port above it.
fn link_state(sysfs: &Sysfs, lower: &Path, upper: Option<&Path>) -> Option<LinkState> {
    let at = |path: &Path, which: &str| {
        let text = |what: &str| sysfs.text(path.join(format!("{which}_link_{what}")));
        PcieLink::parse(&text("speed")?, &text("width")?)
    };
    let now = at(lower, "current").or_else(|| at(upper?, "current"));
    let ends = (at(lower, "max"), upper.and_then(|upper| at(upper, "max")));
    let best = match ends {
        (Some(lower), Some(upper)) => Some(lower.common(upper)),
        (lower, upper) => lower.or(upper),
    };
    (now.is_some() || best.is_some()).then_some(LinkState { now, best })
}

/// The totals of the error counters of a PCI function.
fn link_errors(sysfs: &Sysfs, path: &Path) -> Option<LinkErrors> {
    let total = |file: &str, line: &str| {
        let text = sysfs.text(path.join(file))?;
        text.lines().find_map(|found| found.trim().strip_prefix(line)?.trim().parse::<u64>().ok())
    };
    let corrected = total("aer_dev_correctable", "TOTAL_ERR_COR");
    let uncorrected = [("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"), ("aer_dev_fatal", "TOTAL_ERR_FATAL")];
    let uncorrected: Vec<u64> = uncorrected.iter().filter_map(|(file, line)| total(file, line)).collect();
    if corrected.is_none() && uncorrected.is_empty() {
        return None;
    }
    let uncorrected = uncorrected.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    Some(LinkErrors { corrected: corrected.unwrap_or(0), uncorrected })
}

/// The scheduler in brackets, or the only word.
fn active_scheduler(text: &str) -> String {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(active, _)| active);
    bracketed.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_addresses_and_schedulers_are_read() {
        assert_eq!(count_of_list("0-3,6"), Some(5));
        assert_eq!(count_of_list("0"), Some(1));
        for wrong in ["", "3-1", "a", "0-4294967295,1"] {
            assert_eq!(count_of_list(wrong), None, "{wrong}");
        }
        assert!(is_pci_address("0000:03:00.0") && is_pci_address("10000:e1:00.0"));
        assert!(!is_pci_address("pci0000:00") && !is_pci_address("0:0:0:0") && !is_pci_address("00:01.0"));
        assert_eq!(active_scheduler("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(active_scheduler("none"), "none");
    }
}
