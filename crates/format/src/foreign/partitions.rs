//! Partition tables: MBR, GPT with the backup header at the end, and the labels of Apple, Sun, SGI and BSD.

use super::finding::Finding;
use super::image::Image;

/// Sizes of a sector that a table may have been written for.
const SECTORS: [u64; 2] = [512, 4096];

/// The partition tables of a device.
pub(super) fn find(image: &Image<'_>, found: &mut Vec<Finding>) {
    let is_gpt = |at: u64| image.has(at, b"EFI PART");
    found.extend(SECTORS.into_iter().filter(|&at| is_gpt(at)).map(|at| Finding::new("a GPT", at)));
    let last =
        SECTORS.into_iter().filter_map(|sector| (image.size() / sector).checked_sub(1).map(|n| n * sector));
    found.extend(last.filter(|&at| is_gpt(at)).map(|at| Finding::new("a backup GPT header", at)));
    found.extend(mbr(image));
    found.extend(others(image));
}

/// The signature 55 AA, believed if the four entries are those of partitions, and one is used. The boot sector of a file
/// system has the same signature.
fn mbr(image: &Image<'_>) -> Option<Finding> {
    if !image.has(510, b"\x55\xaa") {
        return None;
    }
    let mut used = 0;
    for entry in (0..4).map(|i| 446 + 16 * i) {
        let (status, kind) = (image.u8(entry)?, image.u8(entry + 4)?);
        let sectors = image.le32(entry + 12)?;
        if !matches!(status, 0 | 0x80) || (kind == 0) != (sectors == 0) {
            return None;
        }
        used += u32::from(kind != 0);
    }
    (used > 0).then(|| Finding::new("an MBR partition table", 510))
}

fn others(image: &Image<'_>) -> Option<Finding> {
    const BSD: &[u8] = b"\x57\x45\x56\x82";
    let rows: [(&'static str, u64, &[u8]); 5] = [
        ("an Apple partition map", 512, b"PM\0\0"),
        ("a Sun disk label", 508, b"\xda\xbe"),
        ("an SGI disk label", 0, b"\x0b\xe5\xa9\x41"),
        ("a BSD disk label", 512, BSD),
        ("a BSD disk label", 64, BSD),
    ];
    let is_sun = |at| {
        // All words of the sector cancel out.
        let words = image.get(at - 508, 512)?.chunks_exact(2);
        Some(words.fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]])) == 0)
    };
    let row = rows
        .into_iter()
        .find(|&(_, at, magic)| image.has(at, magic) && (magic.len() > 2 || is_sun(at) == Some(true)))?;
    Some(Finding::new(row.0, row.1))
}
