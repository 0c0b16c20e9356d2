//! Six kinds of machines: the tree, the links, the bottleneck and the findings of each.

mod machines;

use sinew_topology::discover::discover;
use sinew_topology::findings::{demands, findings};
use sinew_topology::report::Report;
use sinew_topology::sysfs::Sysfs;
use sinew_topology::tree::{DriveKind, NodeKind, Topology};

use machines::{Entry, Machine};

fn topology(machine: &Machine) -> Topology {
    let (_directory, sysfs) = machine.unpack();
    discover(&sysfs, &[]).unwrap()
}

fn codes(topology: &Topology) -> Vec<&'static str> {
    findings(topology).iter().map(|finding| finding.code).collect()
}

fn text(machine: &Machine) -> String {
    Report::new(topology(machine), None).text()
}

#[test]
fn a_desktop_has_its_bottleneck_at_the_chipset() {
    let found = topology(&machines::desktop());
    let kinds: Vec<_> = found.drives.iter().map(|drive| (drive.name.as_str(), drive.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("nvme0n1", DriveKind::Nvme),
            ("nvme1n1", DriveKind::Nvme),
            ("sda", DriveKind::Sata),
            ("sdb", DriveKind::Sata)
        ]
    );
    // 3.94 for the drive and 0.9 for both SATA drives, on 3.94 GB/s.
    let demands = demands(&found);
    assert_eq!(demands.len(), 1);
    let chipset = &found.nodes[demands[0].node];
    assert_eq!((chipset.name.as_str(), chipset.kind), ("0000:02:00.0", NodeKind::Switch));
    assert!((demands[0].asked - 4.84e9).abs() < 1.0 && (demands[0].carries - 3.94e9).abs() < 1.0);
    // The drive could run at 16 GT/s, its port cannot: no finding. The SATA drive at 3 Gb/s is one.
    assert_eq!(codes(&found), ["drive-link-slow", "oversubscribed", "mixed-models", "few-queues"]);
    let text = text(&machines::desktop());
    assert!(text.contains("bottleneck  the way up of switch 0000:02:00.0: 3.94 GB/s"), "{text}");
    assert!(text.contains("sdb is linked at 300 MB/s of 600 MB/s"), "{text}");
}

#[test]
fn two_switches_are_oversubscribed_three_times() {
    let found = topology(&machines::switches());
    assert_eq!(found.drives.len(), 24);
    let demands = demands(&found);
    let named: Vec<_> = demands.iter().map(|demand| found.nodes[demand.node].name.as_str()).collect();
    assert_eq!(named, ["0000:11:00.0", "0000:51:00.0"]);
    assert!(demands.iter().all(|demand| (demand.asked / demand.carries - 3.0).abs() < 1e-9));
    assert_eq!(found.drives_below(demands[0].node).len(), 12);
    let drive = &found.drives[0];
    assert_eq!((drive.bytes_per_s, found.least_on_way(drive)), (Some(3.94e9), Some(3.94e9)));
}

#[test]
fn a_degraded_link_is_found() {
    let found = topology(&machines::degraded());
    assert_eq!(codes(&found), ["link-narrow", "link-errors"]);
    let narrow = &findings(&found)[0];
    assert_eq!(narrow.about, ["0000:02:00.0"]);
    assert_eq!(narrow.found, "NVMe controller 0000:02:00.0 runs on 2 lanes of 4");
    assert!(demands(&found).is_empty());
}

#[test]
fn an_expander_has_its_bottleneck_at_the_wide_port() {
    let found = topology(&machines::expander());
    assert_eq!(found.drives.len(), 16);
    assert!(found.drives.iter().all(|drive| drive.kind == DriveKind::Sas));
    let demands = demands(&found);
    // 4 phys of 1.2 GB/s for 15 drives of 1.2 and one of 0.6 GB/s; 8 lanes of the HBA carry more than that.
    assert_eq!(found.nodes[demands[0].node].kind, NodeKind::Expander);
    assert!(
        (demands[0].carries - 4.8e9).abs() < 1.0 && (demands[0].asked - 18.6e9).abs() < 1.0,
        "{demands:?}"
    );
    assert_eq!(demands.len(), 1);
    let codes = codes(&found);
    assert!(codes.contains(&"drive-link-slow") && codes.contains(&"one-path"), "{codes:?}");
}

#[test]
fn two_sockets_are_told_apart() {
    let found = topology(&machines::sockets());
    let of = |numa: u32| found.drives.iter().filter(|drive| found.numa_of(drive) == Some(numa)).count();
    assert_eq!((of(0), of(1)), (4, 4));
    assert!(demands(&found).is_empty());
    assert!(codes(&found).contains(&"numa-split"));
    assert!(text(&machines::sockets()).contains("bottleneck  none: every link carries"));
}

#[test]
fn a_virtual_machine_says_unknown_and_never_zero() {
    let found = topology(&machines::virtual_machine());
    let names: Vec<_> = found.drives.iter().map(|drive| drive.name.as_str()).collect();
    assert_eq!(names, ["vda", "vdb"]);
    assert!(found.drives.iter().all(|drive| drive.bytes_per_s.is_none() && drive.kind == DriveKind::Virtio));
    assert!(found.nodes.iter().all(|node| node.bytes_per_s.is_none() && node.link.is_none()));
    let text = text(&machines::virtual_machine());
    assert!(text.contains("bottleneck  unknown") && text.contains("speed of its link unknown"), "{text}");
    assert!(!text.contains("0 MB/s") && !text.contains("x0"), "{text}");
    let json = serde_json::to_value(Report::new(found, None)).unwrap();
    assert!(
        json["drives"][0]["bytes_per_s"].is_null() && json["oversubscribed"].as_array().unwrap().is_empty()
    );
}

#[test]
fn the_head_of_an_nvme_namespace_leads_to_its_controller() {
    let mut machine = machines::degraded();
    let head = "devices/virtual/nvme-subsystem/nvme-subsys0";
    machine.block(head, "nvme7n1");
    let controller = "../../../pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0";
    machine.entries.insert(format!("{head}/nvme0"), Entry::Link(controller.to_owned()));
    let found = topology(&machine);
    let drive = found.drives.iter().find(|drive| drive.name == "nvme7n1").unwrap();
    assert_eq!((drive.kind, found.nodes[drive.node].name.as_str()), (DriveKind::Nvme, "0000:01:00.0"));
}

#[test]
fn drives_are_chosen_by_name_and_partitions_of_one_are_found() {
    let mut machine = machines::sockets();
    let whole = "devices/pci0000:20/0000:20:01.0/0000:21:00.0/nvme/nvme0/nvme0n1";
    for part in ["nvme0n1p1", "nvme0n1p2"] {
        machine.file(format!("{whole}/{part}/partition"), "1");
        machine.file(format!("{whole}/{part}/size"), "2048");
        machine.entries.insert(format!("class/block/{part}"), Entry::Link(format!("../../{whole}/{part}")));
    }
    let (_directory, sysfs) = machine.unpack();
    let found = discover(&sysfs, &["nvme0n1p1".to_owned(), "nvme0n1p2".to_owned()]).unwrap();
    assert_eq!(found.drives[0].partition_of.as_deref(), Some("nvme0n1"));
    assert_eq!(found.drives[0].bytes, Some(2048 * 512));
    assert!(codes(&found).contains(&"same-drive"));
    assert_eq!(discover(&sysfs, &["sdz".to_owned()]), Err("sdz".to_owned()));
    assert_eq!(discover(&sysfs, &["../nvme0n1".to_owned()]), Err("../nvme0n1".to_owned()));
}

#[test]
fn links_out_of_a_copy_are_not_followed() {
    let mut machine = machines::virtual_machine();
    machine.entries.insert("block/sdx".to_owned(), Entry::Link("/sys/block".to_owned()));
    machine.entries.insert("block/sdy".to_owned(), Entry::Link("nowhere".to_owned()));
    let names: Vec<_> = topology(&machine).drives.into_iter().map(|drive| drive.name).collect();
    assert_eq!(names, ["vda", "vdb"]);
}

#[test]
fn the_machine_of_the_test_can_be_reported_on() {
    let Ok(sysfs) = Sysfs::new("/sys".as_ref()) else { return };
    let report = Report::new(discover(&sysfs, &[]).unwrap(), None);
    assert!(report.text().starts_with("machine"));
    serde_json::to_string(&report).unwrap();
}

#[test]
fn every_report_has_the_same_drives_in_text_and_json() {
    for (name, machine) in machines::all() {
        let report = Report::new(topology(&machine), None);
        let (text, json) = (report.text(), serde_json::to_value(&report).unwrap());
        assert_eq!(text.matches("\nbottleneck  ").count(), 1, "{name}");
        let drives = json["drives"].as_array().unwrap();
        assert!(!drives.is_empty(), "{name}");
        for drive in drives {
            let shown = format!("  {} ", drive["name"].as_str().unwrap());
            assert!(text.contains(&shown), "{name}:{shown}");
        }
        for finding in json["findings"].as_array().unwrap() {
            assert!(text.contains(finding["to_do"].as_str().unwrap()), "{name}: {finding}");
        }
    }
}
