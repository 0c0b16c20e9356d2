//! What the command refuses, and whether it says what is wrong and what to do.

mod harness;

use std::os::unix::fs::{FileExt, PermissionsExt};

use harness::{Sandbox, text};

/// Asserts that a complaint says all of this.
#[track_caller]
fn says(complaint: &str, parts: &[&str]) {
    for part in parts {
        assert!(complaint.contains(part), "{part:?} is missing in: {complaint}");
    }
}

fn make_file(sandbox: &Sandbox, name: &str, byte: u8) {
    std::fs::write(sandbox.path(name), vec![byte; 64 << 20]).unwrap();
}

#[test]
fn foreign_files_are_not_overwritten() {
    let sandbox = Sandbox::new();
    make_file(&sandbox, "letters", 7);
    let create = ["pool", "create", "p", "letters", "b", "c"];
    let refused = sandbox.fails(&[&create[..], &["--size", "64M"]].concat());
    says(&refused, &["letters is not empty", "unknown data, the first at byte 0", "--force"]);
    assert!(!sandbox.path("b").exists(), "files made for a pool that was not made are left behind");
    assert_eq!(std::fs::read(sandbox.path("letters")).unwrap()[..10], [7; 10]);
    sandbox.ok(&[&create[..], &["--size", "64M", "--force"]].concat());
}

#[test]
fn a_benchmark_erases_foreign_files_only_with_force() {
    let sandbox = Sandbox::new();
    ["a", "b", "c"].into_iter().for_each(|name| make_file(&sandbox, name, 7));
    let bench = ["bench", "a", "b", "c", "--seconds", "0.1"];
    says(&sandbox.fails(&bench), &["a is not empty", "--force"]);
    assert_eq!(std::fs::read(sandbox.path("a")).unwrap(), vec![7; 64 << 20]);
    sandbox.ok(&[&bench[..], &["--force"]].concat());
}

/// A file of zeros with some bytes at one place.
fn make_file_with(sandbox: &Sandbox, name: &str, size: u64, offset: u64, bytes: &[u8]) {
    let file = std::fs::File::create(sandbox.path(name)).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// A GPT header in the last sector of a device whose size is no multiple of 4096.
const ODD_SIZE: u64 = (64 << 20) + 1536;

#[test]
fn what_lies_at_the_end_of_a_device_is_named_and_erased_with_force() {
    let sandbox = Sandbox::new();
    make_file_with(&sandbox, "gpt", ODD_SIZE, ODD_SIZE - 512, b"EFI PART");
    // Also where only a copy lies: the second header of LUKS2.
    let mut luks = [0; 264];
    luks[..6].copy_from_slice(b"SKUL\xba\xbe");
    luks[256..].copy_from_slice(&(4_u64 << 20).to_be_bytes());
    make_file_with(&sandbox, "luks", 64 << 20, 4 << 20, &luks);
    let create = |first: &str, force: &[&'static str]| {
        let args = ["pool", "create", "p", first, "b", "c", "--size", "64M"];
        sandbox.run(&[&args[..], force].concat())
    };
    for (name, found) in
        [("gpt", "a backup GPT header at byte 67109888"), ("luks", "a second LUKS2 header at byte 4194304")]
    {
        let refused = create(name, &[]);
        assert_eq!(refused.status.code(), Some(1));
        says(&text(&refused.stderr), &[name, "is not empty", found, "--force"]);
        assert!(create(name, &["--force"]).status.success());
        sandbox.ok(&["pool", "destroy", name, "b", "c", "--yes"]);
        // Nothing is left that a probe finds, neither of the pool nor of what was there before.
        assert!(create(name, &[]).status.success());
        sandbox.ok(&["pool", "destroy", name, "b", "c", "--yes"]);
    }
    let mut end = [1; 512];
    std::fs::File::open(sandbox.path("gpt")).unwrap().read_exact_at(&mut end, ODD_SIZE - 512).unwrap();
    assert_eq!(end, [0; 512]);
}

#[test]
fn a_running_pool_and_an_array_refuse_foreign_devices_too() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    make_file_with(&sandbox, "xfs", 64 << 20, 0, b"XFSB");
    let found = "an XFS file system at byte 0";
    says(&sandbox.fails(&["array", "create", "a", "xfs", "b", "--level", "1", "--size", "64M"]), &[found]);
    says(&sandbox.fails(&["bench", "xfs", "xfs2", "xfs3"]), &["xfs2"]);
    make_file_with(&sandbox, "xfs2", 64 << 20, 0, b"");
    make_file_with(&sandbox, "xfs3", 64 << 20, 0, b"");
    says(&sandbox.fails(&["bench", "xfs", "xfs2", "xfs3"]), &[found]);
    let server = sandbox.serve(&["."]);
    says(&sandbox.fails(&["member", "add", "xfs"]), &[found]);
    sandbox.ok(&["member", "offline", "1"]);
    says(&sandbox.fails(&["member", "replace", "1", "xfs"]), &[found]);
    sandbox.ok(&["member", "replace", "1", "xfs", "--force", "--wait"]);
    server.stop();
}

#[test]
fn files_are_made_for_their_owner_and_never_among_devices() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let mode = std::fs::metadata(sandbox.path("m0")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let missing = ["/dev/sinew-no-such-device1", "/dev/sinew-no-such-device2", "/dev/sinew-no-such-device3"];
    let refused = sandbox.fails(&[&["pool", "create", "p"][..], &missing, &["--size", "64M"]].concat());
    says(&refused, &["there is no device /dev/sinew-no-such-device1"]);
    // By another name of the directory, too.
    std::os::unix::fs::symlink("/dev", sandbox.path("devices")).unwrap();
    let linked = ["devices/sinew-x1", "devices/sinew-x2", "devices/sinew-x3"];
    let refused = sandbox.fails(&[&["pool", "create", "p"][..], &linked, &["--size", "64M"]].concat());
    says(&refused, &["there is no device devices/sinew-x1"]);
    says(&sandbox.fails(&["bench", "--dir", "/dev", "--size", "64M"]), &["there is no device /dev/bench0"]);
}

#[test]
fn members_of_another_pool_are_not_taken() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    says(
        &sandbox.fails(&["pool", "create", "p", "m0", "m1", "m2"]),
        &["m0", "member of pool tank", "destroy"],
    );
    sandbox.ok(&["pool", "create", "other", "o0", "o1", "o2", "--size", "64M"]);
    let several = sandbox.fails(&["serve", "m0", "m1", "o2", "--unix", "s"]);
    says(&several, &["several pools", "tank", "other", "o2"]);
}

#[test]
fn wrong_members_are_named() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    make_file(&sandbox, "letters", 7);
    says(&sandbox.fails(&["serve", "letters", "--unix", "s"]), &["no pool found", "letters", "not a Sinew"]);
    let few = sandbox.fails(&["serve", "m0", "m1", "letters", "--unix", "s"]);
    says(&few, &["pool tank cannot be opened", "2 of its members", "m2", "m3", "letters"]);
    says(&sandbox.fails(&["serve", "nowhere", "--unix", "s"]), &["nowhere", "No such file"]);
    says(
        &sandbox.fails(&["serve", "/dev/null", "--unix", "s"]),
        &["/dev/null", "neither a file nor a block device"],
    );
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    says(&sandbox.fails(&["serve", "empty", "--unix", "s"]), &["empty", "no Sinew member"]);
    says(&sandbox.fails(&["pool", "find", "empty"]), &["no pool found in empty"]);
    says(
        &sandbox.fails(&["pool", "destroy", "letters", "--yes"]),
        &["letters is not a member", "nothing was changed"],
    );
    says(&sandbox.fails(&["pool", "destroy", "m0"]), &["tank", "--yes"]);
}

#[test]
fn duplicates_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    says(&sandbox.fails(&["serve", "m0", "./m0", "m1", "m2", "--unix", "s"]), &["the same"]);
    std::fs::copy(sandbox.path("m1"), sandbox.path("copy")).unwrap();
    let copies = sandbox.fails(&["serve", "m0", "m1", "copy", "m2", "m3", "--unix", "s"]);
    says(&copies, &["m1", "copy", "copies of the same member"]);
    says(&sandbox.ok(&["pool", "find", "."]), &["cannot be served", "copies"]);
    says(&sandbox.fails(&["pool", "create", "p", "x", "x", "y", "--size", "64M"]), &["x", "the same"]);
    assert!(!sandbox.path("x").exists());
}

#[test]
fn a_served_pool_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.make_pool("tank");
    let server = sandbox.serve(&["."]);
    let all = ["m0", "m1", "m2", "m3"];
    says(
        &sandbox.fails(&[&["serve", "--unix", "s"], &all[..]].concat()),
        &["m0 is in use", "(sinew) has it open"],
    );
    says(&sandbox.fails(&[&["pool", "destroy", "--yes"], &all[..]].concat()), &["in use"]);
    says(&sandbox.fails(&[&["pool", "create", "p", "--force"], &all[..]].concat()), &["in use"]);
    says(&sandbox.ok(&["pool", "find", "."]), &["pool tank", "in use by a server"]);
    sandbox.ok(&["pool", "create", "p", "o0", "o1", "o2", "--size", "64M"]);
    says(
        &sandbox.fails(&["serve", "o0", "o1", "o2", "--unix", "nbd.sock"]),
        &["nbd.sock is in use by another server"],
    );
    std::fs::write(sandbox.path("file"), "text").unwrap();
    says(&sandbox.fails(&["serve", "o0", "o1", "o2", "--unix", "file"]), &["not a socket"]);
    assert_eq!(server.status()["health"], "healthy");
    server.stop();
}

#[test]
fn impossible_pools_are_explained() {
    let sandbox = Sandbox::new();
    let create = |args: &[&str]| sandbox.fails(&[&["pool", "create", "p"], args].concat());
    says(&create(&["a", "b", "c"]), &["a does not exist", "--size"]);
    says(
        &create(&["a", "b", "--size", "64M"]),
        &["3 to 255 members", "2 with --protection mirror", "2 given"],
    );
    says(&create(&["a", "b", "c", "--size", "1M"]), &["too few for a member", "at least"]);
    says(&create(&["a", "b", "c", "--size", "64M", "--data-columns", "5"]), &["5+1", "the pool has 3"]);
    says(&create(&["a", "b", "c", "--size", "64M", "--shards", "99"]), &["1 to 64 shards"]);
    says(&create(&["a", "b", "c", "--size", "64M", "--volume", "v:100T"]), &["all volumes together"]);
    assert!(!sandbox.path("a").exists());
    says(&sandbox.fails(&["pool", "create", "a/b", "a", "b", "c"]), &["cannot be a pool's name"]);
}

#[test]
fn volumes_have_plain_names_and_sizes_that_fit() {
    let sandbox = Sandbox::new();
    let server = sandbox.up("data");
    assert_eq!(server.status()["volumes"][0]["name"], "vol0");
    for name in ["a b", "../../x", "ü", "", "-v"] {
        says(&sandbox.fails(&["volume", "create", "--", name, "1M"]), &["letters", "digits"]);
    }
    says(&sandbox.fails(&["volume", "create", "v", "4097"]), &["multiple of 4096"]);
    says(&sandbox.fails(&["volume", "create", "v", "1T"]), &["MiB are left", "add members"]);
    sandbox.ok(&["volume", "create", "vm-101_disk.0:a+b", "1M"]);
    server.stop();
}

#[test]
fn wrong_arguments_are_usage_errors() {
    let sandbox = Sandbox::new();
    says(&sandbox.misused(&["volume", "create", "v", "lots"]), &["lots is not a size", "64K"]);
    says(&sandbox.misused(&["pool", "create", "p", "a", "--protection", "raid9"]), &["raid9", "parity1"]);
    says(&sandbox.misused(&["pool", "create", "p", "a", "--volume", "v"]), &["NAME:SIZE"]);
    says(&sandbox.misused(&["serve", "a", "--cores", "3-1"]), &["not a range of cores"]);
    says(&sandbox.misused(&["frobnicate"]), &["unrecognized"]);
    says(&sandbox.misused(&[]), &["Usage"]);
}

#[test]
fn the_network_is_not_let_in_unasked() {
    let sandbox = Sandbox::new();
    let refused = sandbox.fails(&["serve", "a", "--tcp", "0.0.0.0:10809"]);
    says(&refused, &["other machines", "127.0.0.1:10809", "--public"]);
    says(&sandbox.fails(&["up", "d", "--tcp", "[::]:10809"]), &["other machines"]);
}

#[test]
fn without_a_server_one_is_told_how_to_start_it() {
    let sandbox = Sandbox::new();
    says(&sandbox.fails(&["pool", "status"]), &["no pool is served", "sinew up"]);
    says(
        &sandbox.fails(&["volume", "list", "--pool", "tank"]),
        &["no pool is served", "tank.sock", "sinew serve"],
    );
    let wrong = sandbox.fails(&["scrub", "--control", "nowhere"]);
    says(&wrong, &["nowhere"]);
}
