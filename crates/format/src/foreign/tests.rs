//! Signatures at their places on devices of many sizes, and bytes that mean nothing.

use proptest::prelude::*;

use super::fixed::every_magic;
use super::*;

const MIB: u64 = 1 << 20;
/// A size that is no multiple of 4096, as partitions have.
const ODD: u64 = 24 * MIB + 3 * 512;

/// What is read of a device that holds these bytes at these places, and zeros elsewhere.
fn read(bytes: u64, content: &[(u64, &[u8])]) -> Vec<Extent> {
    let mut all: Vec<Extent> = extents(bytes)
        .into_iter()
        .map(|range| Extent { offset: range.start, bytes: vec![0; (range.end - range.start) as usize] })
        .collect();
    for &(at, data) in content {
        let holds = |extent: &&mut Extent| {
            at >= extent.offset && at + data.len() as u64 <= extent.offset + extent.bytes.len() as u64
        };
        let extent = all.iter_mut().find(holds).unwrap_or_else(|| panic!("byte {at} of {bytes} is not read"));
        extent.bytes[(at - extent.offset) as usize..][..data.len()].copy_from_slice(data);
    }
    all
}

fn told(bytes: u64, written: &[(u64, &[u8])]) -> String {
    content(bytes, &read(bytes, written)).to_string()
}

#[test]
fn zeros_are_no_content() {
    for bytes in [0, 1, 511, 4096, MIB, MIB + 1, 2 * MIB + 4095, ODD, 1 << 40, u64::MAX] {
        let mut sample = extents(bytes);
        sample.retain(|range| range.end - range.start <= 2 * MIB);
        let zeros: Vec<Extent> = sample
            .into_iter()
            .map(|range| Extent { offset: range.start, bytes: vec![0; (range.end - range.start) as usize] })
            .collect();
        assert!(content(bytes, &zeros).is_empty(), "{bytes}");
    }
}

#[test]
fn every_magic_number_of_the_table_is_read_and_recognized() {
    for bytes in [24 * MIB, ODD, 24 * MIB + 5, 1 << 40] {
        for (kind, offset, magic) in every_magic(bytes) {
            let found = content(bytes, &read(bytes, &[(offset, magic)])).findings;
            assert!(
                found.iter().any(|f| f.kind == kind && f.offset == offset),
                "{kind} at {offset} of {bytes}"
            );
        }
    }
}

#[test]
fn unknown_data_counts_at_both_ends_and_nowhere_else() {
    assert_eq!(told(ODD, &[(77, b"x")]), "unknown data, the first at byte 77");
    assert_eq!(told(ODD, &[(ODD - 1, b"x")]), format!("unknown data, the first at byte {}", ODD - 1));
    assert_eq!(told(ODD, &[(ODD - MIB, b"x"), (MIB - 1, b"y")]), "unknown data, the first at byte 1048575");
    let between = content(ODD, &read(ODD, &[(2 * MIB + 9, b"x")]));
    assert!(between.is_empty(), "{between}");
}

#[test]
fn md_superblocks_are_found_where_they_say_that_they_are() {
    let superblock = |at: u64| {
        let mut block = vec![0; 256];
        block[..4].copy_from_slice(&0xa92b_4efc_u32.to_le_bytes());
        block[4] = 1;
        block[32..40].copy_from_slice(b"host:vol");
        block[144..152].copy_from_slice(&(at / 512).to_le_bytes());
        block
    };
    let at_end = (ODD / 512 - 16) / 8 * 8 * 512;
    for (at, version) in [(0, "1.1"), (4096, "1.2"), (at_end, "1.0")] {
        let expected = format!("an md superblock (metadata {version}) \"host:vol\" at byte {at}");
        assert_eq!(told(ODD, &[(at, &superblock(at))]), expected);
        assert!(
            told(ODD, &[(at, &superblock(at + 512))]).starts_with("unknown data"),
            "a copy from elsewhere"
        );
    }
    let at = ODD / 65536 * 65536 - 65536;
    for magic in [0xa92b_4efc_u32.to_le_bytes(), 0xa92b_4efc_u32.to_be_bytes()] {
        assert_eq!(told(ODD, &[(at, &magic)]), format!("an md superblock (metadata 0.90) at byte {at}"));
    }
}

#[test]
fn both_headers_of_a_gpt_are_found_with_either_sector_size() {
    let header = b"EFI PART";
    let last = ODD - 512;
    assert_eq!(
        told(ODD, &[(512, header), (last, header)]),
        format!("a GPT at byte 512, a backup GPT header at byte {last}")
    );
    let size = 24 * MIB;
    assert_eq!(
        told(size, &[(4096, header), (size - 4096, header)]),
        format!("a GPT at byte 4096, a backup GPT header at byte {}", size - 4096)
    );
}

#[test]
fn an_mbr_needs_partitions() {
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(b"\x55\xaa");
    assert!(told(ODD, &[(0, &sector)]).starts_with("unknown data"));
    sector[446 + 4] = 0x83;
    sector[446 + 12] = 1;
    assert_eq!(told(ODD, &[(0, &sector)]), "an MBR partition table at byte 510");
    sector[446] = 7;
    assert!(told(ODD, &[(0, &sector)]).starts_with("unknown data"), "no partition has status 7");
}

#[test]
fn the_second_luks_header_is_found_without_the_first() {
    for at in volumes::LUKS2_SECOND_HEADERS {
        let mut header = vec![0; 512];
        header[..6].copy_from_slice(b"SKUL\xba\xbe");
        header[24..28].copy_from_slice(b"home");
        header[256..264].copy_from_slice(&at.to_be_bytes());
        assert_eq!(told(ODD, &[(at, &header)]), format!("a second LUKS2 header \"home\" at byte {at}"));
    }
}

/// A ZFS label as the on-disk specification describes it: XDR, big-endian, attributes `name` and `pool_guid`.
fn zfs_label(pool: &str) -> Vec<u8> {
    let mut list = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut pair = |name: &str, kind: u32, value: &[u8]| {
        let start = list.len();
        list.extend([0; 8]);
        list.extend((name.len() as u32).to_be_bytes());
        list.extend(name.bytes());
        list.resize(list.len().next_multiple_of(4), 0);
        list.extend(kind.to_be_bytes());
        list.extend(1_u32.to_be_bytes());
        list.extend(value);
        list.resize(list.len().next_multiple_of(4), 0);
        let len = (list.len() - start) as u32;
        list[start..start + 4].copy_from_slice(&len.to_be_bytes());
    };
    let text = [&(pool.len() as u32).to_be_bytes()[..], pool.as_bytes()].concat();
    pair("name", 9, &text);
    pair("pool_guid", 8, &7_u64.to_be_bytes());
    list
}

#[test]
fn all_four_labels_of_zfs_are_found() {
    let label = zfs_label("tank");
    let end = ODD / (256 << 10) * (256 << 10);
    let places = [0, 256 << 10, end - (512 << 10), end - (256 << 10)].map(|at| at + (16 << 10));
    let written = places.map(|at| (at, &label[..]));
    let [a, b, c, d] = places;
    assert_eq!(told(ODD, &written), format!("a ZFS label \"tank\" at bytes {a}, {b}, {c} and {d}"));
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let at = end - (128 << 10) + 3 * 1024;
    assert_eq!(told(ODD, &[(at, &uberblock)]), format!("a ZFS uberblock at byte {at}"));
}

#[test]
fn names_cannot_control_a_terminal() {
    let mut superblock = [0; 120];
    superblock[..4].copy_from_slice(b"XFSB");
    superblock[108..].copy_from_slice(b"\x1b[2Jevil\x07\0\0\0");
    assert_eq!(told(ODD, &[(0, &superblock)]), "an XFS file system \"[2Jevil\" at byte 0");
}

/// Short pieces that lead into each branch of the search.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<Vec<u8>> = every_magic(ODD)
        .map(|(_, _, magic)| magic.to_vec())
        .chain([
            zfs_label("p"),
            b"EFI PART".to_vec(),
            b"\x55\xaa".to_vec(),
            b"\x53\xef".to_vec(),
            b"\xfc\x4e\x2b\xa9\x01\0\0\0".to_vec(),
            b"LABELONE".to_vec(),
            b"LUKS\xba\xbe\0\x02".to_vec(),
        ])
        .collect();
    prop_oneof![prop::sample::select(known), prop::collection::vec(any::<u8>(), 1..64)]
}

proptest! {
    #[test]
    fn no_content_makes_the_search_panic(
        size in prop_oneof![0..2 * MIB, Just(ODD), any::<u64>()],
        offsets in prop::collection::vec((any::<u64>(), prop::collection::vec(piece(), 0..20)), 0..4),
    ) {
        let extents: Vec<Extent> =
            offsets.into_iter().map(|(offset, pieces)| Extent { offset, bytes: pieces.concat() }).collect();
        let _ = content(size, &extents).to_string();
    }

    #[test]
    fn signatures_among_nonsense_make_no_panic(
        pieces in prop::collection::vec((0..2 * MIB - 8192, piece()), 0..40),
    ) {
        let size = 2 * MIB - 7;
        let mut all = read(size, &[]);
        for (at, bytes) in pieces {
            let at = at as usize;
            let end = (at + bytes.len()).min(all[0].bytes.len());
            all[0].bytes[at..end].copy_from_slice(&bytes[..end - at]);
        }
        let _ = content(size, &all).to_string();
    }

    #[test]
    fn what_is_read_lies_on_the_device_in_order(size in prop_oneof![0..64 * MIB, any::<u64>()]) {
        let all = extents(size);
        prop_assert!(all.iter().all(|range| range.start <= range.end && range.end <= size));
        prop_assert!(all.iter().all(|range| range.start % ALIGN == 0));
        prop_assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
    }
}
