//! The tree: machine, NUMA nodes, ports, switches, controllers, drives.

use serde::Serialize;

use crate::rate::PcieLink;

/// A machine's I/O topology.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    /// The nodes; the first is the machine, and each comes after its parent.
    pub nodes: Vec<Node>,
    /// The drives.
    pub drives: Vec<Drive>,
    /// Processors that are online.
    pub processors: Option<u32>,
}

/// A node between drives and processors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// The name: a PCI address, an ATA port, an expander.
    pub name: String,
    /// The kind.
    pub kind: NodeKind,
    /// The node above; nothing for the machine.
    pub parent: Option<usize>,
    /// The NUMA node, as the device says.
    pub numa: Option<u32>,
    /// The driver of a controller.
    pub driver: Option<String>,
    /// The PCIe link to the node above, if that is a link of its own.
    pub link: Option<LinkState>,
    /// Bytes per second that the way up carries; nothing if that is unknown or not limited by a link.
    pub bytes_per_s: Option<f64>,
    /// Corrected and uncorrected errors of the link since the machine started (AER).
    pub link_errors: Option<LinkErrors>,
}

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// The machine.
    Machine,
    /// A NUMA node.
    NumaNode,
    /// A PCIe root port.
    RootPort,
    /// The upstream port of a PCIe switch, or of a chipset.
    Switch,
    /// A downstream port of it.
    SwitchPort,
    /// The controller of an NVMe drive.
    NvmeController,
    /// A controller with several drives: an HBA or an ATA controller.
    Controller,
    /// A SATA port.
    AtaPort,
    /// A SAS expander.
    Expander,
    /// A SAS port of one drive.
    SasPort,
}

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinkState {
    /// As it runs now; nothing if unknown. Power management may lower the speed of an idle link.
    pub now: Option<PcieLink>,
    /// The best that both ends allow; of one end if only that is known.
    pub best: Option<PcieLink>,
}

/// Errors of a link since the machine started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LinkErrors {
    /// Corrected by a repetition.
    pub corrected: u64,
    /// Not corrected.
    pub uncorrected: u64,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drive {
    /// The name of the block device.
    pub name: String,
    /// The node that it hangs at.
    pub node: usize,
    /// The kind.
    pub kind: DriveKind,
    /// The whole drive, if this is a partition of one.
    pub partition_of: Option<String>,
    /// The file of a loop device, or the devices of a stacked one.
    pub made_of: Vec<String>,
    /// The model.
    pub model: Option<String>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Whether the kernel takes it for a rotating disk.
    pub rotational: Option<bool>,
    /// The active I/O scheduler.
    pub scheduler: Option<String>,
    /// `write back` if a flush is needed after writes, `write through` if not.
    pub write_cache: Option<String>,
    /// Whether it can discard.
    pub discards: Option<bool>,
    /// Hardware queues.
    pub queues: Option<u32>,
    /// Bytes per second of its own link: the most it can be read with.
    pub bytes_per_s: Option<f64>,
    /// The best that its own link allows, if that is known.
    pub best_bytes_per_s: Option<f64>,
}

/// The kind of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// NVMe.
    Nvme,
    /// SATA.
    Sata,
    /// SAS.
    Sas,
    /// Of a hypervisor.
    Virtio,
    /// A loop device.
    Loop,
    /// Made of other devices: device mapper, md.
    Stacked,
    /// Anything else.
    Other,
}

impl Topology {
    /// The nodes from one up to the machine, itself included.
    pub fn way_up(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |node| self.nodes[*node].parent)
    }

    /// The drives below a node, by number.
    pub fn drives_below(&self, node: usize) -> Vec<usize> {
        let is_below = |drive: &Drive| self.way_up(drive.node).any(|above| above == node);
        (0..self.drives.len()).filter(|&drive| is_below(&self.drives[drive])).collect()
    }

    /// The least bytes per second on the way from a drive to the processors; nothing if nothing on it is known.
    pub fn least_on_way(&self, drive: &Drive) -> Option<f64> {
        let links = self.way_up(drive.node).filter_map(|node| self.nodes[node].bytes_per_s);
        links.chain(drive.bytes_per_s).reduce(f64::min)
    }

    /// The NUMA node of a drive.
    pub fn numa_of(&self, drive: &Drive) -> Option<u32> {
        self.way_up(drive.node).find_map(|node| self.nodes[node].numa)
    }

    /// A node for people: its kind and name.
    pub fn describe(&self, node: usize) -> String {
        let Node { name, kind, .. } = &self.nodes[node];
        match kind {
            NodeKind::Machine => "the machine".to_owned(),
            NodeKind::NumaNode => name.clone(),
            NodeKind::RootPort => format!("root port {name}"),
            NodeKind::Switch => format!("switch {name}"),
            NodeKind::SwitchPort => format!("switch port {name}"),
            NodeKind::NvmeController => format!("NVMe controller {name}"),
            NodeKind::Controller => match &self.nodes[node].driver {
                Some(driver) => format!("controller {name} ({driver})"),
                None => format!("controller {name}"),
            },
            NodeKind::AtaPort => format!("SATA port {name}"),
            NodeKind::Expander | NodeKind::SasPort => name.clone(),
        }
    }
}
