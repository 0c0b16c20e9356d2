//! Signatures whose magic number is long enough to be believed, at a place that only the size of the device decides.

use super::finding::Finding;
use super::image::Image;

/// Where a magic number lies.
#[derive(Clone, Copy)]
enum At {
    /// At this byte.
    Start(u64),
    /// `plus` bytes after the position that lies `back` bytes before the end; the end is rounded down to a multiple of `unit`.
    End { unit: u64, back: u64, plus: u64 },
}

/// A field with a name: its first byte, and its length.
#[derive(Clone, Copy)]
struct Field(u64, usize);

struct Signature {
    kind: &'static str,
    at: At,
    magic: &'static [u8],
    name: Option<Field>,
}

const fn start(kind: &'static str, offset: u64, magic: &'static [u8]) -> Signature {
    Signature { kind, at: At::Start(offset), magic, name: None }
}

const fn named(kind: &'static str, offset: u64, magic: &'static [u8], name: Field) -> Signature {
    Signature { kind, at: At::Start(offset), magic, name: Some(name) }
}

const fn sectors_before_end(kind: &'static str, sectors: u64, magic: &'static [u8]) -> Signature {
    Signature { kind, at: At::End { unit: 512, back: sectors * 512, plus: 0 }, magic, name: None }
}

const fn drbd(magic: &'static [u8]) -> Signature {
    // The magic number follows five 64-bit fields of the size and generations, two reserved ones and the flags.
    let at = At::End { unit: 4096, back: 4096, plus: 60 };
    Signature { kind: "a DRBD metadata block", at, magic, name: None }
}

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
const PROMISE: &[u8] = b"Promise Technology, Inc.";

/// Sources: the headers of the Linux kernel for each file system; for the volume managers, and for RAID on controllers, the
/// tables of util-linux' libblkid.
const SIGNATURES: &[Signature] = &[
    start("a Sinew superblock that cannot be read", 64 << 10, b"SINEWSB\n"),
    start("a Sinew superblock that cannot be read", 512 << 10, b"SINEWSB\n"),
    named("an XFS file system", 0, b"XFSB", Field(108, 12)),
    named("a btrfs file system", (64 << 10) + 64, b"_BHRfS_M", Field((64 << 10) + 299, 256)),
    start("an F2FS file system", 1024, b"\x10\x20\xf5\xf2"),
    start("an F2FS file system", 5120, b"\x10\x20\xf5\xf2"),
    start("an exFAT file system", 3, b"EXFAT   "),
    start("an NTFS file system", 3, b"NTFS    "),
    // NTFS keeps a copy of its boot sector in the last sector.
    Signature {
        kind: "an NTFS file system",
        at: At::End { unit: 512, back: 512, plus: 3 },
        magic: b"NTFS    ",
        name: None,
    },
    start("an ReFS file system", 0, b"\0\0\0ReFS\0"),
    start("a BitLocker volume", 3, b"-FVE-FS-"),
    start("a JFS file system", 32 << 10, b"JFS1"),
    start("a ReiserFS file system", (64 << 10) + 52, b"ReIsErFs"),
    start("a ReiserFS file system", (64 << 10) + 52, b"ReIsEr2Fs"),
    start("a ReiserFS file system", (64 << 10) + 52, b"ReIsEr3Fs"),
    start("a Reiser4 file system", 64 << 10, b"ReIsEr4"),
    start("a GFS file system", 64 << 10, b"\x01\x16\x19\x70"),
    start("an OCFS2 file system", 1024, b"OCFSV2"),
    start("an OCFS2 file system", 2048, b"OCFSV2"),
    start("an OCFS2 file system", 4096, b"OCFSV2"),
    start("an OCFS2 file system", 8192, b"OCFSV2"),
    start("an Oracle ASM disk", 32, b"ORCLDISK"),
    start("an HFS+ file system", 1024, b"H+\0\x04"),
    start("an HFS+ file system", 1024, b"HX\0\x05"),
    start("an APFS container", 32, b"NXSB"),
    named("an ISO 9660 file system", (32 << 10) + 1, b"CD001", Field((32 << 10) + 40, 32)),
    start("a UDF file system", (32 << 10) + 1, b"BEA01"),
    start("a SquashFS file system", 0, b"hsqs"),
    start("an EROFS file system", 1024, b"\xe2\xe1\xf5\xe0"),
    start("a cramfs file system", 0, b"\x45\x3d\xcd\x28"),
    start("a zonefs file system", 0, b"SFOZ"),
    start("a VMFS file system", 2 << 20, b"\x5e\xf1\xab\x2f"),
    start("a VMFS volume", 1 << 20, b"\x0d\xd0\x01\xc0"),
    start("a bcache device", 4096 + 24, BCACHE),
    start("a bcachefs file system", 4096 + 24, BCACHEFS),
    start("a bcachefs file system", (2 << 20) + 24, BCACHEFS),
    Signature {
        kind: "a bcachefs file system",
        at: At::End { unit: 1, back: 1 << 20, plus: 24 },
        magic: BCACHEFS,
        name: None,
    },
    start("a Ceph BlueStore device", 0, b"bluestore block device"),
    start("a Stratis device", 512 + 4, STRATIS),
    start("a Stratis device", 9 * 512 + 4, STRATIS),
    start("a VDO volume", 0, b"dmvdo001"),
    start("a dm-verity hash tree", 0, b"verity\0\0"),
    start("a dm-integrity volume", 0, b"integrt\0"),
    start("a device-mapper snapshot", 0, b"SnAp"),
    drbd(b"\x83\x74\x02\x6b"),
    drbd(b"\x83\x74\x02\x6c"),
    drbd(b"\x83\x74\x02\x6d"),
    sectors_before_end("Intel RAID metadata (IMSM)", 2, b"Intel Raid ISM Cfg Sig. "),
    // The same with sectors of 4096 bytes.
    sectors_before_end("Intel RAID metadata (IMSM)", 16, b"Intel Raid ISM Cfg Sig. "),
    sectors_before_end("SNIA RAID metadata (DDF)", 1, b"\xde\x11\xde\x11"),
    sectors_before_end("SNIA RAID metadata (DDF)", 257, b"\xde\x11\xde\x11"),
    sectors_before_end("NVIDIA RAID metadata", 2, b"NVIDIA  "),
    sectors_before_end("LSI RAID metadata", 1, b"$XIDE$"),
    sectors_before_end("Promise RAID metadata", 16, PROMISE),
    sectors_before_end("Promise RAID metadata", 63, PROMISE),
    sectors_before_end("Promise RAID metadata", 255, PROMISE),
    sectors_before_end("Promise RAID metadata", 256, PROMISE),
    sectors_before_end("Promise RAID metadata", PROMISE_SECTORS_MAX, PROMISE),
    start("HighPoint RAID metadata", 4608 + 32, b"\xf0\x16\x78\x5a"),
    start("HighPoint RAID metadata", 4608 + 32, b"\xfd\x16\x78\x5a"),
];

/// The farthest place of Promise's metadata, in sectors before the end.
pub(super) const PROMISE_SECTORS_MAX: u64 = 3087;

impl At {
    fn offset(self, bytes: u64) -> Option<u64> {
        match self {
            At::Start(offset) => Some(offset),
            At::End { unit, back, plus } => (bytes / unit * unit).checked_sub(back)?.checked_add(plus),
        }
    }
}

/// The signatures of this table that a device has.
pub(super) fn find(image: &Image<'_>, found: &mut Vec<Finding>) {
    for signature in SIGNATURES {
        let Some(offset) = signature.at.offset(image.size()) else { continue };
        if image.has(offset, signature.magic) {
            let name = signature.name.and_then(|Field(at, len)| image.text(at, len));
            found.push(Finding::named(signature.kind, offset, name));
        }
    }
}

/// Kind, place and magic number of every row, on a device of this size.
#[cfg(test)]
pub(super) fn every_magic(bytes: u64) -> impl Iterator<Item = (&'static str, u64, &'static [u8])> {
    SIGNATURES.iter().filter_map(move |s| Some((s.kind, s.at.offset(bytes)?, s.magic)))
}
