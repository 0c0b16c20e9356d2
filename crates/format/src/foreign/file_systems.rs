//! File systems and swap whose magic number is too short, or whose place too uncertain, for the table: ext2 to ext4, FAT,
//! NILFS2, swap.

use super::finding::Finding;
use super::image::Image;

/// Where an ext superblock begins.
const EXT: u64 = 1024;

/// The file systems and swap areas of a device.
pub(super) fn find(image: &Image<'_>, found: &mut Vec<Finding>) {
    found.extend(ext(image));
    found.extend(fat(image));
    found.extend(nilfs2(image, 1024));
    if let Some(copy) = (image.size() / 512).checked_sub(8) {
        found.extend(nilfs2(image, copy * 512));
    }
    found.extend(swap(image));
}

/// Magic number 0xef53, believed if the superblock counts inodes and has a possible block size. The features tell the
/// generation: `fs/ext4/ext4.h`.
fn ext(image: &Image<'_>) -> Option<Finding> {
    const JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    // Extents, 64-bit block numbers, flexible block groups, checksums in the superblock and others that ext3 has not.
    const INCOMPAT_EXT3: u32 = 0x2 | 0x4 | 0x8 | 0x10;
    const RO_COMPAT_EXT3: u32 = 0x1 | 0x2 | 0x4;
    let is_ext = image.le16(EXT + 56)? == 0xef53 && image.le32(EXT)? > 0 && image.le32(EXT + 24)? <= 6;
    if !is_ext {
        return None;
    }
    let (compat, incompat) = (image.le32(EXT + 92)?, image.le32(EXT + 96)?);
    let kind = match image.le32(EXT + 100)? & !RO_COMPAT_EXT3 {
        _ if incompat & JOURNAL_DEVICE != 0 => "an ext journal",
        0 if incompat & !INCOMPAT_EXT3 == 0 && compat & JOURNAL == 0 => "an ext2 file system",
        0 if incompat & !INCOMPAT_EXT3 == 0 => "an ext3 file system",
        _ => "an ext4 file system",
    };
    Some(Finding::named(kind, EXT + 56, image.text(EXT + 120, 16)))
}

/// A boot sector that jumps, ends in 55 AA, has a possible sector and cluster size, and names FAT.
fn fat(image: &Image<'_>) -> Option<Finding> {
    let sector = image.le16(11)?;
    let cluster = image.u8(13)?;
    let jumps = matches!(image.u8(0)?, 0xeb | 0xe9);
    let sizes = sector.is_power_of_two() && (512..=4096).contains(&sector) && cluster.is_power_of_two();
    if !jumps || !sizes || !image.has(510, b"\x55\xaa") {
        return None;
    }
    let name = |at| image.text(at, 11).filter(|name| name != "NO NAME");
    if image.has(82, b"FAT32") {
        return Some(Finding::named("a FAT file system", 82, name(71)));
    }
    image.has(54, b"FAT").then(|| Finding::named("a FAT file system", 54, name(43)))
}

/// Revision 2, a possible size of the superblock, and magic number 0x3434: `include/uapi/linux/nilfs2_ondisk.h`.
fn nilfs2(image: &Image<'_>, at: u64) -> Option<Finding> {
    let is_nilfs2 =
        image.le32(at)? == 2 && image.le16(at + 6)? == 0x3434 && (64..=1024).contains(&image.le16(at + 8)?);
    is_nilfs2.then(|| Finding::named("a NILFS2 file system", at + 6, image.text(at + 168, 80)))
}

/// The magic number ends the first page, whose size is that of the machine that made the area.
fn swap(image: &Image<'_>) -> Option<Finding> {
    const MAGICS: [&[u8]; 2] = [b"SWAPSPACE2", b"SWAP-SPACE"];
    const HIBERNATED: [&[u8]; 4] = [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND", b"LINHIB0001"];
    let places = [4, 8, 16, 32, 64].map(|kib| (kib << 10) - 10);
    places.into_iter().find_map(|at| {
        if MAGICS.iter().any(|magic| image.has(at, magic)) {
            return Some(Finding::named("a swap area", at, image.text(1052, 16)));
        }
        let hibernated = HIBERNATED.iter().any(|magic| image.has(at, magic));
        hibernated.then(|| Finding::new("a swap area with a hibernated system", at))
    })
}
