//! Sysfs trees of machines, written as a builder and unpacked into a directory.

use std::collections::BTreeMap;
use std::path::Path;

use sinew_topology::sysfs::Sysfs;

/// A file or a link of a tree.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    File(String),
    Link(String),
}

/// A machine: its entries by path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    pub(crate) entries: BTreeMap<String, Entry>,
}

/// Speed and width of a link now and at most.
#[derive(Clone, Copy)]
pub(crate) struct Link(pub &'static str, pub u32, pub &'static str, pub u32);

pub(crate) const GEN3: &str = "8.0 GT/s PCIe";
pub(crate) const GEN4: &str = "16.0 GT/s PCIe";

impl Machine {
    pub(crate) fn new(processors: &str) -> Machine {
        let mut machine = Machine::default();
        machine.file("devices/system/cpu/online", processors);
        machine
    }

    pub(crate) fn file(&mut self, path: impl Into<String>, content: impl Into<String>) {
        self.entries.insert(path.into(), Entry::File(content.into()));
    }

    /// A PCI function below a path.
    pub(crate) fn pci(&mut self, path: &str, class: &str, numa: i32, link: Option<Link>) {
        self.file(format!("{path}/class"), class);
        self.file(format!("{path}/numa_node"), numa.to_string());
        if let Some(Link(speed, width, max_speed, max_width)) = link {
            self.file(format!("{path}/current_link_speed"), speed);
            self.file(format!("{path}/current_link_width"), width.to_string());
            self.file(format!("{path}/max_link_speed"), max_speed);
            self.file(format!("{path}/max_link_width"), max_width.to_string());
        }
    }

    pub(crate) fn bridge(&mut self, path: &str, numa: i32, link: Link) {
        self.pci(path, "0x060400", numa, Some(link));
    }

    /// A block device in a directory of the tree, with its links from `block` and `class/block`.
    pub(crate) fn block(&mut self, at: &str, name: &str) {
        let path = format!("{at}/{name}");
        for (file, content) in [
            ("size", "1875385008"),
            ("queue/rotational", "0"),
            ("queue/scheduler", "[none] mq-deadline"),
            ("queue/write_cache", "write through"),
            ("queue/discard_max_bytes", "2199023255040"),
            ("mq/0/nr_tags", "1023"),
            ("mq/1/nr_tags", "1023"),
        ] {
            self.file(format!("{path}/{file}"), content);
        }
        self.entries.insert(format!("block/{name}"), Entry::Link(format!("../{path}")));
        self.entries.insert(format!("class/block/{name}"), Entry::Link(format!("../../{path}")));
    }

    /// An NVMe drive as a PCI function below a port.
    pub(crate) fn nvme(&mut self, port: &str, address: &str, number: u32, numa: i32, link: Link) {
        let path = format!("{port}/{address}");
        self.pci(&path, "0x010802", numa, Some(link));
        let controller = format!("{path}/nvme/nvme{number}");
        self.block(&controller, &format!("nvme{number}n1"));
        self.file(format!("{controller}/nvme{number}n1/device/model"), "Model A");
    }

    pub(crate) fn unpack(&self) -> (tempfile::TempDir, Sysfs) {
        let directory = tempfile::tempdir().unwrap();
        for (path, entry) in &self.entries {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                Entry::File(content) => std::fs::write(&path, format!("{content}\n")).unwrap(),
                Entry::Link(to) => std::os::unix::fs::symlink(Path::new(to), &path).unwrap(),
            }
        }
        let sysfs = Sysfs::new(directory.path()).unwrap();
        (directory, sysfs)
    }
}

/// A desktop: one NVMe drive at the processor, one and two SATA drives behind the chipset, whose way up has four lanes.
pub(crate) fn desktop() -> Machine {
    let mut machine = Machine::new("0-7");
    let root = "devices/pci0000:00";
    let direct = format!("{root}/0000:00:01.1");
    machine.bridge(&direct, -1, Link(GEN4, 4, GEN4, 4));
    machine.nvme(&direct, "0000:01:00.0", 0, -1, Link(GEN4, 4, GEN4, 4));
    let port = format!("{root}/0000:00:02.1");
    machine.bridge(&port, -1, Link(GEN3, 4, GEN4, 4));
    let chipset = format!("{port}/0000:02:00.0");
    machine.bridge(&chipset, -1, Link(GEN3, 4, GEN3, 4));
    let down = format!("{chipset}/0000:03:00.0");
    machine.bridge(&down, -1, Link(GEN3, 4, GEN3, 4));
    machine.nvme(&down, "0000:04:00.0", 1, -1, Link(GEN3, 4, GEN4, 4));
    let down = format!("{chipset}/0000:03:01.0");
    machine.bridge(&down, -1, Link(GEN3, 4, GEN3, 4));
    let ahci = format!("{down}/0000:05:00.0");
    machine.pci(&ahci, "0x010601", -1, Some(Link(GEN3, 4, GEN3, 4)));
    for (number, name, speed) in [(1, "sda", "6.0 Gbps"), (2, "sdb", "3.0 Gbps")] {
        let link = format!("{ahci}/ata{number}/link{number}/ata_link/link{number}");
        machine.file(format!("{link}/sata_spd"), speed);
        machine.file(format!("{link}/hw_sata_spd_limit"), "6.0 Gbps");
        let scsi = format!("{ahci}/ata{number}/host{number}/target{number}:0:0/{number}:0:0:0");
        machine.file(format!("{scsi}/model"), "SSD B");
        machine.block(&format!("{scsi}/block"), name);
        machine.entries.insert(format!("{scsi}/block/{name}/device"), Entry::Link("../..".to_owned()));
    }
    machine
}

/// A server with 24 NVMe drives behind two switches, each with 16 lanes up.
pub(crate) fn switches() -> Machine {
    let mut machine = Machine::new("0-63");
    for side in 0..2u32 {
        let bus = 0x40 * side + 0x10;
        let port = format!("devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0");
        machine.bridge(&port, 0, Link(GEN3, 16, GEN3, 16));
        let switch = format!("{port}/0000:{:02x}:00.0", bus + 1);
        machine.bridge(&switch, 0, Link(GEN3, 16, GEN4, 16));
        for drive in 0..12u32 {
            let down = format!("{switch}/0000:{:02x}:{drive:02x}.0", bus + 2);
            machine.bridge(&down, 0, Link(GEN3, 4, GEN4, 4));
            machine.nvme(
                &down,
                &format!("0000:{:02x}:00.0", bus + 3 + drive),
                side * 12 + drive,
                0,
                Link(GEN3, 4, GEN3, 4),
            );
        }
    }
    machine
}

/// Two drives, of which one runs on two lanes of four, and has link errors.
pub(crate) fn degraded() -> Machine {
    let mut machine = Machine::new("0-1");
    for (number, lanes) in [(0u32, 4), (1, 2)] {
        let port = format!("devices/pci0000:00/0000:00:0{}.0", number + 1);
        machine.bridge(&port, -1, Link(GEN4, lanes, GEN4, 4));
        machine.nvme(&port, &format!("0000:0{}:00.0", number + 1), number, -1, Link(GEN4, lanes, GEN4, 4));
    }
    let errors = "RxErr 7\nBadTLP 0\nTOTAL_ERR_COR 7";
    machine.file("devices/pci0000:00/0000:00:02.0/0000:02:00.0/aer_dev_correctable", errors);
    machine.file("devices/pci0000:00/0000:00:02.0/0000:02:00.0/aer_dev_fatal", "TOTAL_ERR_FATAL 0");
    machine
}

/// 16 SAS drives behind an expander at four phys of an HBA with eight lanes.
pub(crate) fn expander() -> Machine {
    let mut machine = Machine::new("0-15");
    let port = "devices/pci0000:00/0000:00:03.0";
    machine.bridge(port, 0, Link(GEN3, 8, GEN3, 16));
    let hba = format!("{port}/0000:05:00.0");
    machine.pci(&hba, "0x010700", 0, Some(Link(GEN3, 8, GEN3, 8)));
    let wide = format!("{hba}/host0/port-0:0");
    let phy = |machine: &mut Machine, port: &str, name: &str, rate: &str| {
        machine.file(format!("{port}/{name}/sas_phy/{name}/negotiated_linkrate"), rate);
        machine.file(format!("{port}/{name}/sas_phy/{name}/maximum_linkrate"), "12.0 Gbit");
    };
    (0..4).for_each(|i| phy(&mut machine, &wide, &format!("phy-0:{i}"), "12.0 Gbit"));
    for drive in 0..16u8 {
        let narrow = format!("{wide}/expander-0:0/port-0:0:{drive}");
        phy(
            &mut machine,
            &narrow,
            &format!("phy-0:0:{drive}"),
            if drive == 3 { "6.0 Gbit" } else { "12.0 Gbit" },
        );
        let scsi = format!("{narrow}/end_device-0:0:{drive}/target0:0:{drive}/0:0:{drive}:0");
        machine.block(&format!("{scsi}/block"), &format!("sd{}", char::from(b'a' + drive)));
    }
    machine
}

/// Two sockets with four drives each, at ports of their own.
pub(crate) fn sockets() -> Machine {
    let mut machine = Machine::new("0-95");
    for number in 0..8u32 {
        let numa = number / 4;
        let bus = if numa == 0 { 0x20 } else { 0xa0 };
        let port = format!("devices/pci0000:{bus:02x}/0000:{bus:02x}:0{}.0", number % 4 + 1);
        machine.bridge(&port, numa as i32, Link(GEN4, 4, GEN4, 4));
        machine.nvme(
            &port,
            &format!("0000:{:02x}:00.0", bus + 1 + number % 4),
            number,
            numa as i32,
            Link(GEN4, 4, GEN4, 4),
        );
    }
    machine
}

/// A virtual machine: virtio drives, no link files.
pub(crate) fn virtual_machine() -> Machine {
    let mut machine = Machine::new("0-1");
    for (number, name) in [(2, "vda"), (3, "vdb")] {
        let path = format!("devices/pci0000:00/0000:00:0{number}.0");
        machine.pci(&path, "0x010000", -1, None);
        machine.block(&format!("{path}/virtio{number}/block"), name);
    }
    machine.block("devices/virtual/block", "zram0");
    machine
}

pub(crate) fn all() -> Vec<(&'static str, Machine)> {
    vec![
        ("desktop", desktop()),
        ("switches", switches()),
        ("degraded", degraded()),
        ("expander", expander()),
        ("sockets", sockets()),
        ("virtual machine", virtual_machine()),
    ]
}
