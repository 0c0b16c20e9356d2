//! Volume managers and RAID whose signature needs more than a magic number: md, LUKS, LVM, ZFS.

use super::finding::Finding;
use super::image::Image;

/// The volume managers and arrays that a device belongs to.
pub(super) fn find(image: &Image<'_>, found: &mut Vec<Finding>) {
    md_1(image, found);
    found.extend(md_0(image));
    luks(image, found);
    found.extend(lvm(image));
    zfs(image, found);
}

const MD_MAGIC: u32 = 0xa92b_4efc;

/// md's superblocks of version 1: major version and place are in them. Damaged ones count too. Source:
/// `include/uapi/linux/raid/md_p.h`.
fn md_1(image: &Image<'_>, found: &mut Vec<Finding>) {
    let at_end = (image.size() / 512).checked_sub(16).map(|sector| (sector & !7) * 512);
    let places = [
        ("an md superblock (metadata 1.1)", Some(0)),
        ("an md superblock (metadata 1.2)", Some(4096)),
        ("an md superblock (metadata 1.0)", at_end),
    ];
    for (kind, at) in places {
        let Some(at) = at else { continue };
        let is_md = image.le32(at) == Some(MD_MAGIC)
            && image.le32(at.saturating_add(4)) == Some(1)
            && image.le64(at.saturating_add(144)) == Some(at / 512);
        if is_md {
            found.push(Finding::named(kind, at, image.text(at + 32, 32)));
        }
    }
}

/// md's superblock of version 0.90 or 0.91, in the byte order of the machine that wrote it: in the last whole 64 KiB.
fn md_0(image: &Image<'_>) -> Option<Finding> {
    const RESERVED: u64 = 64 << 10;
    let at = (image.size() / RESERVED).checked_sub(1)? * RESERVED;
    let little = (image.le32(at)? == MD_MAGIC).then(|| image.le32(at + 4)).flatten();
    let big = (image.be32(at)? == MD_MAGIC).then(|| image.be32(at + 4)).flatten();
    (little.or(big)? == 0).then(|| Finding::new("an md superblock (metadata 0.90)", at))
}

/// The header of LUKS 1 or 2, and the second header of LUKS 2 at one of the places where cryptsetup looks for it. Source:
/// the LUKS2 On-Disk Format Specification.
fn luks(image: &Image<'_>, found: &mut Vec<Finding>) {
    if image.has(0, b"LUKS\xba\xbe") {
        let is_first = image.has(6, &[0, 1]);
        let name = image.text(24, 48).filter(|_| !is_first);
        let kind = if is_first { "a LUKS header" } else { "a LUKS2 header" };
        found.push(Finding::named(kind, 0, name));
    }
    for at in LUKS2_SECOND_HEADERS {
        if image.has(at, b"SKUL\xba\xbe") && image.be64(at + 256) == Some(at) {
            found.push(Finding::named("a second LUKS2 header", at, image.text(at + 24, 48)));
        }
    }
}

/// Where the second header of LUKS 2 can lie.
pub(super) const LUKS2_SECOND_HEADERS: [u64; 9] =
    [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// The label of an LVM2 physical volume, in one of the first four sectors.
fn lvm(image: &Image<'_>) -> Option<Finding> {
    let mut sectors = (0..4).map(|sector| sector * 512);
    let at = sectors.find(|&at| image.has(at, b"LABELONE") && image.has(at + 24, b"LVM2 001"))?;
    Some(Finding::new("an LVM2 physical volume", at + 24))
}

/// ZFS writes four labels of 256 KiB: two at the start, two at the end of the last whole 256 KiB. Each has a list of
/// attributes in XDR at 16 KiB, and a ring of uberblocks in its second half. Source: the ZFS On-Disk Specification.
fn zfs(image: &Image<'_>, found: &mut Vec<Finding>) {
    const LABEL: u64 = 256 << 10;
    let end = image.size() / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    for at in labels.into_iter().flatten() {
        if let Some(name) = zfs_attributes(image, at + (16 << 10)) {
            found.push(Finding::named("a ZFS label", at + (16 << 10), name));
        } else if let Some(uberblock) = zfs_uberblock(image, at + LABEL / 2) {
            found.push(Finding::new("a ZFS uberblock", uberblock));
        }
    }
}

/// The name of the pool in a label, if the label has the attributes of one.
fn zfs_attributes(image: &Image<'_>, at: u64) -> Option<Option<String>> {
    let list = image.get(at, 112 << 10)?;
    let is_xdr = list[0] == 1 && list[1] <= 1;
    if !is_xdr || find_bytes(list, b"pool_guid").is_none() {
        return None;
    }
    // The name, its type (9, string), the number of values, the length of the text.
    const NAME: &[u8] = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01";
    let text = find_bytes(list, NAME).map(|found| at + (found + NAME.len()) as u64);
    let name = text.and_then(|text| {
        let len = usize::try_from(image.be32(text)?).ok()?;
        image.text(text + 4, len.min(256))
    });
    Some(name)
}

fn find_bytes(within: &[u8], wanted: &[u8]) -> Option<usize> {
    within.windows(wanted.len()).position(|window| window == wanted)
}

/// The first uberblock of a ring, in either byte order.
fn zfs_uberblock(image: &Image<'_>, ring: u64) -> Option<u64> {
    const MAGIC: u64 = 0x00ba_b10c;
    let mut slots = (0..128).map(|slot| ring + slot * 1024);
    slots.find(|&at| image.le64(at) == Some(MAGIC) || image.be64(at) == Some(MAGIC))
}
