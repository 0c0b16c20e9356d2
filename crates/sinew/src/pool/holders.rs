//! The users of a device or file: mounts, swap, device-mapper volumes, md arrays, loop devices, processes.
//!
//! For messages only. It reads /proc and /sys, never the device: a device that hangs does not answer. What this user may
//! not see is left out.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The holders of a device or file, in words.
pub(crate) fn of(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Ok(meta) = fs::metadata(&path) else { return Vec::new() };
    let mut found = Vec::new();
    if meta.file_type().is_block_device() {
        let number = Number::of(meta.rdev());
        for device in number.related() {
            device.add_holders(&mut found);
        }
        found.extend(processes_at(&path));
    } else {
        found.extend(swapped_at(&path).then(|| "it is a swap area in use".to_owned()));
        found.extend(loops_on(&path).map(|name| format!("loop device {name} is on it")));
        found.extend(lock_owners(Number::of(meta.dev()), meta.ino()));
    }
    found.sort();
    found.dedup();
    found
}

/// The number of a block device.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Number {
    major: u64,
    minor: u64,
}

impl Number {
    /// As `makedev(3)` packs it on Linux.
    fn of(device: u64) -> Number {
        Number {
            major: (device >> 8) & 0xfff | (device >> 32) & !0xfff,
            minor: device & 0xff | (device >> 12) & !0xff,
        }
    }

    fn parse(text: &str) -> Option<Number> {
        let (major, minor) = text.trim().split_once(':')?;
        Some(Number { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The directory of the device in /sys.
    fn directory(self) -> PathBuf {
        let link = PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor));
        link.canonicalize().unwrap_or(link)
    }

    /// The device itself, its partitions and, if it is a partition, its disk: each of them keeps the device from being opened
    /// exclusively.
    fn related(self) -> Vec<Block> {
        let directory = self.directory();
        let mut all = vec![Block { number: self, directory: directory.clone() }];
        let mut add = |directory: PathBuf| {
            let number = fs::read_to_string(directory.join("dev")).ok().and_then(|text| Number::parse(&text));
            all.extend(number.map(|number| Block { number, directory }));
        };
        if directory.join("partition").exists() {
            directory.parent().map(Path::to_owned).into_iter().for_each(&mut add);
        } else {
            let inside = names_in(&directory).into_iter().map(|name| directory.join(name));
            inside.filter(|inside| inside.join("partition").exists()).for_each(&mut add);
        }
        all
    }
}

/// A block device as the kernel shows it.
struct Block {
    number: Number,
    directory: PathBuf,
}

impl Block {
    fn add_holders(&self, found: &mut Vec<String>) {
        for holder in names_in(&self.directory.join("holders")) {
            found.push(holder_text(&holder));
        }
        for (number, source, point) in mounts() {
            let is_source = || source.canonicalize().is_ok_and(|source| source == self.node());
            if number == Some(self.number) || source.starts_with("/dev") && is_source() {
                found.push(format!("it is mounted at {point}"));
            }
        }
        if swapped_at(&self.node()) {
            found.push("it is a swap area in use".to_owned());
        }
    }

    /// Its node in /dev.
    fn node(&self) -> PathBuf {
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy().replace('!', "/");
        Path::new("/dev").join(name)
    }
}

/// A device that is built on others, in words.
fn holder_text(name: &str) -> String {
    let read = |file: &str| fs::read_to_string(format!("/sys/block/{name}/{file}")).ok();
    match name {
        _ if name.starts_with("dm-") => {
            let volume = read("dm/name").unwrap_or_default();
            let kind = match read("dm/uuid").unwrap_or_default() {
                uuid if uuid.starts_with("LVM-") => "LVM volume",
                uuid if uuid.starts_with("CRYPT-") => "encrypted volume",
                uuid if uuid.starts_with("mpath-") => "multipath device",
                _ => "device-mapper volume",
            };
            format!("{kind} {} ({name}) is on it", volume.trim())
        }
        _ if name.starts_with("md") => format!("md array {name} is on it"),
        _ => format!("{name} is on it"),
    }
}

/// Device number, source and mount point of every mount.
fn mounts() -> Vec<(Option<Number>, PathBuf, String)> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(2);
        let number = Number::parse(fields.next()?);
        let point = unescape(fields.nth(1)?);
        Some((number, PathBuf::from(unescape(right.split(' ').nth(1)?)), point))
    };
    text.lines().filter_map(mount).collect()
}

/// Blanks and some other characters are written as three octal digits behind a backslash.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

fn swapped_at(path: &Path) -> bool {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut areas = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    areas.any(|area| Path::new(&unescape(area)).canonicalize().is_ok_and(|area| area == path))
}

/// The loop devices whose backing file this is.
fn loops_on(path: &Path) -> impl Iterator<Item = String> {
    let names = names_in(Path::new("/sys/block")).into_iter().filter(|name| name.starts_with("loop"));
    names.filter(move |name| {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        backing.is_ok_and(|backing| Path::new(backing.trim_end_matches('\n')) == path)
    })
}

/// Processes with a lock on a file, by the number of its file system's device and its inode.
fn lock_owners(device: Number, inode: u64) -> Vec<String> {
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    let owner = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // Those that wait for a lock have an arrow in front.
        let [_, "FLOCK", _, _, pid, file, ..] = fields.as_slice() else { return None };
        let mut parts = file.split(':');
        let number = Number {
            major: u64::from_str_radix(parts.next()?, 16).ok()?,
            minor: u64::from_str_radix(parts.next()?, 16).ok()?,
        };
        let is_it = number == device && parts.next()?.parse() == Ok(inode);
        is_it.then(|| process_text(pid))
    };
    text.lines().filter_map(owner).collect()
}

/// Processes that have a device open.
fn processes_at(path: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let is_process = |name: &String| name.bytes().all(|b| b.is_ascii_digit()) && *name != own;
    let has_open = |pid: &String| {
        let descriptors = PathBuf::from(format!("/proc/{pid}/fd"));
        let names = names_in(&descriptors);
        names.into_iter().any(|name| fs::read_link(descriptors.join(name)).is_ok_and(|link| link == path))
    };
    let processes = names_in(Path::new("/proc")).into_iter().filter(is_process);
    processes.filter(has_open).map(|pid| process_text(&pid)).collect()
}

fn process_text(pid: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("process {pid} ({}) has it open", name.trim())
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn device_numbers_are_taken_apart_as_the_kernel_packs_them() {
        // 259:1048575 and 8:17.
        assert!(Number::of(0x0ff1_03ff | 0xff00_0000) == Number { major: 0x103, minor: 0xfffff });
        assert!(Number::of(0x811) == Number { major: 8, minor: 17 });
        assert!(Number::parse("8:17\n") == Some(Number { major: 8, minor: 17 }));
    }

    #[test]
    fn the_owner_of_a_lock_on_a_file_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(of(file.path()).is_empty());
        let lock = fs::File::open(file.path()).expect("the file opens");
        lock.lock().expect("the lock is free");
        let own = format!("process {} ", std::process::id());
        let holders = of(file.path());
        assert!(
            holders.len() == 1 && holders[0].starts_with(&own),
            "{holders:?}, descriptor {}",
            lock.as_raw_fd()
        );
    }
}
