//! Slots that leave memory and come back.

use sinew_core::ids::{SlotNo, StripeId};
use sinew_format::model::mapped_geometry::{MappedGeometry, Protection};

use super::{SLOT_BYTES, SlotTable, entries};

const SLOTS: u32 = 32;

/// Two stripes, of which the second has owners in its first slots.
fn table(has_checksums: bool) -> SlotTable {
    let geometry = MappedGeometry {
        protection: Protection::Parity1,
        data_columns: 2,
        shards: 1,
        checksums: has_checksums,
        journal_blocks: 64,
    };
    assert_eq!(geometry.slots_per_stripe(), SLOTS);
    let mut table = SlotTable::new(&geometry);
    table.grow(2);
    (0..2).for_each(|stripe| table.open(StripeId(stripe)));
    table.own(SlotNo(SLOTS), 700, &[1, 2, 3]);
    table
}

fn record(table: &SlotTable, stripe: StripeId) -> Vec<u8> {
    let mut record = vec![0xee; SLOTS as usize * SLOT_BYTES];
    table.encode(stripe, &mut record);
    record
}

#[test]
fn absent_slots_come_back_as_they_were() {
    for has_checksums in [true, false] {
        let mut table = table(has_checksums);
        let (stripe, all) = (StripeId(1), table.memory_bytes());
        let before = record(&table, stripe);
        table.evict(stripe);
        assert!(table.is_absent(stripe) && !table.is_absent(StripeId(0)));
        assert_eq!(table.present(), 1);
        assert_eq!(table.memory_bytes() < all, has_checksums, "fragments of owners are kept for others");
        table.fill(stripe, &before);
        assert_eq!((table.present(), table.memory_bytes()), (2, all));
        assert_eq!(record(&table, stripe), before);
        let checksum = if has_checksums { 2 } else { 0 };
        assert_eq!(table.owner(SlotNo(SLOTS + 1)), Some(701));
        assert_eq!(entries(&before).nth(1), Some((Some(701), checksum)));
        assert_eq!(table.owner(SlotNo(SLOTS + 3)), None);
    }
}

#[test]
fn what_was_written_while_slots_were_absent_is_kept() {
    let mut table = table(true);
    let stripe = StripeId(1);
    let page = record(&table, stripe);
    table.evict(stripe);
    table.own(SlotNo(SLOTS + 3), 40, &[9, 8]);
    assert!(table.is_absent(stripe));
    table.fill(stripe, &page);
    let owners: Vec<_> = (0..6).map(|i| table.owner(SlotNo(SLOTS + i))).collect();
    assert_eq!(owners, [Some(700), Some(701), Some(702), Some(40), Some(41), None]);
    assert_eq!(table.checksum(SlotNo(SLOTS + 3)), Some(9));
    // The page is older than the stripe when the stripe is opened again.
    table.evict(stripe);
    table.open(stripe);
    table.fill(stripe, &page);
    assert_eq!(table.owner(SlotNo(SLOTS)), None);
}

#[test]
#[should_panic(expected = "slots of stripe 1 are not in memory")]
fn absent_slots_are_not_taken_for_unwritten_ones() {
    let mut table = table(true);
    table.evict(StripeId(1));
    table.owner(SlotNo(SLOTS));
}
