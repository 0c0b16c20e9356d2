//! `sinew topology` on a tree in a directory: text, JSON, and errors that say what to do.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::Sandbox;

/// A tree with one NVMe drive at a root port.
fn tree(root: &Path) {
    let function = root.join("devices/pci0000:00/0000:00:01.0/0000:01:00.0");
    let drive = function.join("nvme/nvme0/nvme0n1");
    fs::create_dir_all(&drive).unwrap();
    fs::create_dir_all(root.join("block")).unwrap();
    for (file, content) in [
        (function.join("class"), "0x010802"),
        (function.join("current_link_speed"), "8.0 GT/s PCIe"),
        (function.join("current_link_width"), "2"),
        (function.join("max_link_speed"), "16.0 GT/s PCIe"),
        (function.join("max_link_width"), "4"),
        (function.parent().unwrap().join("class"), "0x060400"),
        (drive.join("size"), "2048"),
    ] {
        fs::write(file, content).unwrap();
    }
    symlink("../devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1", root.join("block/nvme0n1"))
        .unwrap();
}

#[test]
fn a_tree_is_shown_as_text_and_json() {
    let directory = tempfile::tempdir().unwrap();
    tree(directory.path());
    let sysfs = directory.path().to_str().unwrap();
    let sandbox = Sandbox::new();
    let shown = sandbox.ok(&["topology", "--sysfs", sysfs]);
    assert!(
        shown.contains("NVMe controller 0000:01:00.0: 8 GT/s x2, 1.97 GB/s, at best 16 GT/s x4"),
        "{shown}"
    );
    assert!(shown.contains("nvme0n1 NVMe, 1 MB"), "{shown}");
    assert!(shown.contains("link-narrow") && shown.contains("link-slow"), "{shown}");
    let json = sandbox.json(&["topology", "--sysfs", sysfs, "/dev/nvme0n1", "--json"]);
    assert_eq!(json["drives"][0]["bytes"], 2048 * 512);
    assert_eq!(
        (&json["processors"], &json["measured"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(json["findings"][0]["code"], "link-narrow");
}

#[test]
fn errors_say_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let sysfs = directory.path().to_str().unwrap();
    let sandbox = Sandbox::new();
    let error = sandbox.fails(&["topology", "--sysfs", sysfs]);
    assert!(error.contains("no sysfs tree"), "{error}");
    tree(directory.path());
    let error = sandbox.fails(&["topology", "--sysfs", sysfs, "/dev/sdz"]);
    assert!(error.contains("no block device sdz"), "{error}");
    let error = sandbox.misused(&["topology", "--sysfs", sysfs, "--measure"]);
    assert!(error.contains("--measure"), "{error}");
    fs::remove_file(directory.path().join("block/nvme0n1")).unwrap();
    let error = sandbox.fails(&["topology", "--sysfs", sysfs]);
    assert!(error.contains("no drives"), "{error}");
}
