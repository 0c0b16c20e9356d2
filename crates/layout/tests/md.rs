//! Superblocks that mdadm and Linux wrote.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sinew_layout::md::{Array, MdError, MemberRole, SUPERBLOCK_BYTES, Superblock, Unsupported, Version};
use sinew_layout::{Level, Rotation};

struct Fixture {
    bytes: Vec<u8>,
    offset: u64,
}

fn fixtures() -> BTreeMap<String, Fixture> {
    let mut fixtures = BTreeMap::new();
    let text = include_str!("fixtures/superblocks.txt");
    let body: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    for block in body.split("\n\n") {
        let mut lines = block.lines();
        let head: Vec<&str> = lines.next().unwrap().split(' ').collect();
        let digits: String = lines.collect();
        let mut bytes: Vec<u8> = (0..digits.len() / 2)
            .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
            .collect();
        bytes.resize(SUPERBLOCK_BYTES, 0);
        let version = if head[1] == "0" { Version::V1_0 } else { Version::V1_2 };
        let offset = version.offset(head[2].parse::<u64>().unwrap() * 512).unwrap();
        fixtures.insert(head[0].to_owned(), Fixture { bytes, offset });
    }
    fixtures
}

fn block(name: &str) -> Superblock {
    let fixture = &fixtures()[name];
    Superblock::parse(&fixture.bytes, fixture.offset).unwrap()
}

fn blocks(name: &str, members: std::ops::Range<u32>) -> Vec<Superblock> {
    members.map(|i| block(&format!("{name}.{i}"))).collect()
}

fn unsupported(name: &str) -> Unsupported {
    match Array::assemble(&[block(name)]) {
        Err(MdError::Unsupported(reason)) => reason,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn all_parse_and_encode_to_what_they_were() {
    for (name, fixture) in fixtures() {
        let block =
            Superblock::parse(&fixture.bytes, fixture.offset).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(block.encode()[..], fixture.bytes[..], "{name}");
    }
}

#[test]
fn the_four_rotations() {
    let names = ["left-asymmetric", "right-asymmetric", "left-symmetric", "right-symmetric"];
    for (name, rotation) in names.iter().zip(Rotation::ALL) {
        for (level, raid) in [(5, Level::Raid5(rotation)), (6, Level::Raid6(rotation))] {
            let array = Array::assemble(&[block(&format!("raid{level}-{name}"))]).unwrap();
            assert_eq!(array.geometry.level(), raid);
            assert_eq!((array.geometry.members(), array.geometry.chunk_bytes()), (5, 65536));
            assert_eq!(array.geometry.member_chunks(), 48);
            assert_eq!((array.missing(), array.resync_offset, array.has_bitmap), (4, None, false));
            let seat = array.seats[0].unwrap();
            assert_eq!((seat.index, seat.data_offset, seat.recovered), (0, 1 << 20, None));
        }
    }
}

#[test]
fn whole_arrays() {
    let zero = Array::assemble(&blocks("raid0", 0..4)).unwrap();
    assert_eq!(
        (zero.geometry.level(), zero.geometry.data_chunks(), zero.missing()),
        (Level::Raid0, 4 * 48, 0)
    );
    let mut five = blocks("raid5-v1.0", 0..4);
    five.reverse();
    let five = Array::assemble(&five).unwrap();
    assert_eq!(five.geometry.level(), Level::Raid5(Rotation::LeftSymmetric));
    // 12096 KiB, as /proc/mdstat had it.
    assert_eq!(five.geometry.data_chunks() * 64, 12096);
    let order: Vec<usize> = five.seats.iter().map(|seat| seat.unwrap().index).collect();
    assert_eq!(order, [3, 2, 1, 0]);
    assert_eq!(five.seats[0].unwrap().data_offset, 0);
    let one = Array::assemble(&blocks("raid1-v1.0-bitmap", 0..2)).unwrap();
    assert_eq!((one.geometry.level(), one.has_bitmap, one.missing()), (Level::Raid1, true, 0));
    assert_eq!(one.geometry.data_chunks() * u64::from(one.geometry.chunk_bytes()), 4032 << 10);
    let ten = Array::assemble(&[block("raid10-odd.0")]).unwrap();
    assert_eq!((ten.geometry.level(), ten.geometry.data_chunks()), (Level::Raid10 { copies: 2 }, 7680 / 64));
    let ten = Array::assemble(&[block("raid10-near3")]).unwrap();
    assert_eq!((ten.geometry.level(), ten.geometry.data_chunks()), (Level::Raid10 { copies: 3 }, 5120 / 64));
    assert!(Array::assemble(&[block("raid5-bitmap")]).unwrap().has_bitmap);
}

#[test]
fn states() {
    let degraded = Array::assemble(&blocks("degraded", 0..4)).unwrap();
    let order: Vec<Option<usize>> = degraded.seats.iter().map(|seat| seat.map(|seat| seat.index)).collect();
    assert_eq!(order, [Some(0), Some(1), None, Some(3)]);
    // The failed member by itself believes in the whole array; it is one that md would start, too.
    assert_eq!(Array::assemble(&blocks("degraded", 2..3)).unwrap().missing(), 3);
    assert_eq!(block("with-spare.3").role(), MemberRole::Spare);
    assert_eq!(Array::assemble(&[block("with-spare.0"), block("with-spare.3")]).unwrap().missing(), 2);
    // "Recovery Offset : 256 sectors", says mdadm.
    let recovering = Array::assemble(&[block("recovering.0"), block("recovering.2")]).unwrap();
    assert_eq!(recovering.seats[2].unwrap().recovered, Some(256 * 512));
    assert!(recovering.seats[0].unwrap().recovered.is_none());
    assert!(Array::assemble(&[block("resyncing")]).unwrap().resync_offset.is_some());
}

#[test]
fn what_cannot_be_used_is_named() {
    assert_eq!(unsupported("reshaping"), Unsupported::Reshape);
    assert_eq!(unsupported("journaled.0"), Unsupported::Journal);
    assert_eq!(unsupported("journaled.3"), Unsupported::Journal);
    assert_eq!(block("journaled.3").role(), MemberRole::Journal);
    assert_eq!(unsupported("ppl"), Unsupported::PartialParityLog);
    assert_eq!(unsupported("raid10-far"), Unsupported::FarCopies(0x201));
    assert_eq!(unsupported("raid10-offset"), Unsupported::FarCopies(0x10201));
    assert_eq!(unsupported("raid4"), Unsupported::Level(4));
    assert_eq!(unsupported("raid5-parity-first"), Unsupported::Layout { level: 5, layout: 4 });
    assert_eq!(unsupported("raid6-left-symmetric-6"), Unsupported::Layout { level: 6, layout: 18 });
    assert!(unsupported("raid4").to_string().contains("RAID 4"));
}

/// Changes bytes and mends the checksum, as a later md might have written them.
fn changed(name: &str, at: usize, bytes: &[u8]) -> Superblock {
    let mut raw = block(name).encode();
    raw[at..at + bytes.len()].copy_from_slice(bytes);
    let offset = fixtures()[name].offset;
    match Superblock::parse(&raw, offset) {
        Err(MdError::Checksum { computed, .. }) => raw[216..220].copy_from_slice(&computed.to_le_bytes()),
        other => panic!("{other:?}"),
    }
    Superblock::parse(&raw, offset).unwrap()
}

#[test]
fn features_that_the_fixtures_lack() {
    for (feature, reason) in [
        (8u32, Unsupported::BadBlocks),
        (16, Unsupported::Replacement),
        (64, Unsupported::Reshape),
        (128, Unsupported::BitmapRecovery),
        (256, Unsupported::Clustered),
        (1024, Unsupported::PartialParityLog),
        (1 << 20, Unsupported::Unknown(1 << 20)),
    ] {
        let block = changed("raid0.0", 8, &feature.to_le_bytes());
        assert_eq!(Array::assemble(&[block]), Err(reason.into()));
    }
    let smaller = changed("raid0.1", 136, &2048u64.to_le_bytes());
    assert_eq!(Array::assemble(&[block("raid0.0"), smaller]), Err(Unsupported::Zones.into()));
}

#[test]
fn strangers_and_doubles_are_refused() {
    let stranger = Array::assemble(&[block("raid0.0"), block("raid10-near3")]);
    assert_eq!(stranger, Err(MdError::Differs { index: 0, field: "array identity" }));
    let twice = Array::assemble(&[block("raid0.1"), block("raid0.1")]);
    assert_eq!(twice, Err(MdError::Twice { first: 0, second: 1, role: 1 }));
    assert_eq!(Array::assemble(&[]), Err(MdError::Empty));
}

#[test]
fn a_stale_member_is_left_out() {
    let mut members = blocks("raid5-v1.0", 0..4);
    let events = members[0].events();
    for member in &mut members[..3] {
        member.set_events(events + 2);
    }
    assert_eq!(Array::assemble(&members).unwrap().missing(), 1);
    members[3].set_events(events + 1);
    assert_eq!(Array::assemble(&members).unwrap().missing(), 0);
}

#[test]
fn damage_is_found() {
    let Fixture { bytes, offset } = &fixtures()["raid0.0"];
    assert_eq!(Superblock::parse(&bytes[..100], *offset), Err(MdError::Short(100)));
    assert_eq!(Superblock::parse(&[0; SUPERBLOCK_BYTES], *offset), Err(MdError::Magic(0)));
    let misplaced = Superblock::parse(bytes, 0);
    assert_eq!(misplaced, Err(MdError::Misplaced { says: 8, found: 0 }));
    let mut major = bytes.clone();
    major[4] = 0;
    assert_eq!(Superblock::parse(&major, *offset), Err(MdError::Major(0)));
    let mut many = bytes.clone();
    many[220..224].copy_from_slice(&2000u32.to_le_bytes());
    assert_eq!(Superblock::parse(&many, *offset), Err(MdError::Devices(2000)));
    assert_eq!(Version::V1_2.offset(6000), None);
    assert_eq!(Version::V1_0.offset(6000), None);
}

#[test]
fn updates_are_read_back() {
    let mut member = block("raid5-left-symmetric");
    member.set_events(77);
    member.set_resync_offset(Some(0));
    member.set_recovery_offset(Some(4096));
    member.set_updated_seconds(1_800_000_000);
    member.set_role_of(2, MemberRole::Faulty);
    let read = Superblock::parse(&member.encode(), 4096).unwrap();
    assert_eq!((read.events(), read.resync_offset(), read.recovery_offset()), (77, Some(0), Some(4096)));
    assert_eq!((read.updated_seconds(), read.role_of(2)), (1_800_000_000, MemberRole::Faulty));
    let mut again = read;
    again.set_recovery_offset(None);
    again.set_resync_offset(None);
    assert_eq!((again.recovery_offset(), again.resync_offset(), again.features()), (None, None, 0));
}

proptest! {
    #[test]
    fn one_changed_byte_is_noticed(at in 0usize..266, change in 1u8..) {
        let Fixture { bytes, offset } = &fixtures()["raid0.0"];
        let mut bytes = bytes.clone();
        bytes[at] ^= change;
        prop_assert!(Superblock::parse(&bytes, *offset).is_err());
    }

    #[test]
    fn garbage_does_no_harm(mut bytes in proptest::collection::vec(any::<u8>(), SUPERBLOCK_BYTES)) {
        bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
        bytes[144..152].copy_from_slice(&8u64.to_le_bytes());
        bytes[222..224].copy_from_slice(&[0, 0]);
        bytes[8..12].copy_from_slice(&[0; 4]);
        if let Err(MdError::Checksum { computed, .. }) = Superblock::parse(&bytes, 4096) {
            bytes[216..220].copy_from_slice(&computed.to_le_bytes());
        }
        if let Ok(block) = Superblock::parse(&bytes, 4096) {
            let _ = Array::assemble(&[block]);
        }
    }
}
