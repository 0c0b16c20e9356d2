//! Physical space of files: the file system's, which other files share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use sinew_core::physical::{Domain, Physical, PhysicalSource};

/// File systems that write changed blocks to new places, so that even a file without holes needs free space
/// (linux/magic.h; ZFS from its own sources).
const COPY_ON_WRITE: [libc::c_long; 3] =
    [libc::BTRFS_SUPER_MAGIC, 0x2fc1_2fc1, 0xca45_1a4e_u32 as libc::c_long];

/// The physical space of a file; `None` if writes to it need none, because it has no holes and is changed in place.
pub(crate) fn file_space(file: &File) -> Option<Physical> {
    let (meta, stat) = (file.metadata().ok()?, statfs_of(file).ok()?);
    // st_blocks counts units of 512 bytes, whatever the block size (stat(2)).
    let used = meta.blocks() * 512;
    if used >= meta.len() && !COPY_ON_WRITE.contains(&stat.f_type) {
        return None;
    }
    // Only root may use the blocks that a file system reserves. What btrfs does not call available is for its metadata, or lacks
    // room for copies.
    // SAFETY: a system call without arguments that cannot fail.
    let takes_all = unsafe { libc::geteuid() } == 0 && stat.f_type != libc::BTRFS_SUPER_MAGIC;
    let free = if takes_all { stat.f_bfree } else { stat.f_bavail };
    let free = free.saturating_mul(u64::try_from(stat.f_bsize).unwrap_or(0));
    Some(Physical { used, free: Some(free), domain: Domain(meta.dev()), source: PhysicalSource::FileSystem })
}

/// What the file system of a file tells of itself.
///
/// # Errors
/// When the operating system refuses.
pub(crate) fn statfs_of(file: &File) -> io::Result<libc::statfs> {
    // SAFETY: statfs is plain integers, for which zeros are a value.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills a structure that outlives the call.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_sparse_file_shares_the_space_of_its_file_system() {
        let files = [tempfile::tempfile().expect("a file"), tempfile::tempfile().expect("a file")];
        files.iter().for_each(|file| file.set_len(1 << 20).expect("a sparse file"));
        let [first, second] = files.each_ref().map(|file| file_space(file).expect("it has holes"));
        assert_eq!((first.source, first.domain), (PhysicalSource::FileSystem, second.domain));
        assert!(first.free.is_some());
        files[0].write_all_at(&[1; 65536], 0).expect("a write");
        files[0].sync_all().expect("a flush");
        let written = file_space(&files[0]).expect("it still has holes");
        assert!((65536..1 << 20).contains(&written.used), "{written:?}");
    }

    #[test]
    fn a_file_without_holes_that_is_changed_in_place_needs_no_space() {
        let file = tempfile::tempfile().expect("a file");
        if COPY_ON_WRITE.contains(&statfs_of(&file).expect("statfs").f_type) {
            return;
        }
        file.write_all_at(&[1; 65536], 0).expect("a write");
        file.sync_all().expect("a flush");
        assert_eq!(file_space(&file), None);
    }
}
