//! Elastic stripes: where the further copies of a stripe's data columns lie (Elastic RAID, 2022, section 3.1).
//!
//! A *bloated* stripe of n data columns and m parity columns has 1 + m slots. Slot 0 holds the stripe as RAID 5 or 6 has it.
//! Each further slot has a place for one more copy of every data column. The copy in slot j lies j members after the column,
//! so the copies of a column are on members of their own, and the copies of one member's chunks are on the next members.
//!
//! The paper interleaves the slots of a stripe on each member. Here a slot is an area of its own, behind slot 0 and with the
//! same chunk numbers: slot 0 keeps the layout of an ordinary array, and unused chunks are long runs that one discard covers.

use crate::geometry::Home;

/// The place of the copy of a column in slot `slot`. `column` is its place in slot 0, in an array of `members` members with
/// `area_chunks` chunks per slot on each.
pub fn copy_home(column: Home, slot: u32, members: u32, area_chunks: u64) -> Home {
    Home { member: (column.member + slot) % members, chunk: u64::from(slot) * area_chunks + column.chunk }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Geometry, Level, Rotation};
    use std::collections::BTreeSet;

    #[test]
    fn any_two_places_differ_and_copies_of_a_column_are_on_members_of_their_own() {
        for (level, members, slots) in
            [(Level::Raid5(Rotation::LeftSymmetric), 4, 1), (Level::Raid6(Rotation::RightAsymmetric), 5, 2)]
        {
            let layout = Geometry::new(level, members, 4096, 40 * 4096).unwrap();
            let mut places = BTreeSet::new();
            for stripe in 0..layout.stripes() {
                for parity in layout.parity(stripe) {
                    assert!(places.insert((parity.member, parity.chunk)));
                }
                for column in 0..layout.members() - layout.parities() {
                    let first = layout.column_home(stripe, column);
                    let copies =
                        (0..=slots).map(|slot| copy_home(first, slot, members, layout.member_chunks()));
                    let on: BTreeSet<u32> = copies.clone().map(|home| home.member).collect();
                    assert_eq!(on.len() as u32, slots + 1);
                    for home in copies {
                        assert!(home.chunk < u64::from(slots + 1) * layout.member_chunks());
                        assert!(places.insert((home.member, home.chunk)), "a place is used twice");
                    }
                }
            }
        }
    }

    #[test]
    fn with_a_member_lost_the_others_read_equally_for_it() {
        // Chained declustering: the copies of a member's columns lie on the next member, and its own reads can go on to the
        // member after that.
        let layout = Geometry::new(Level::Raid5(Rotation::LeftSymmetric), 4, 4096, 40 * 4096).unwrap();
        let mut copies = [0; 4];
        for stripe in 0..layout.stripes() {
            for column in 0..3 {
                let first = layout.column_home(stripe, column);
                copies[copy_home(first, 1, 4, 40).member as usize] += 1;
            }
        }
        assert_eq!(copies, [30; 4]);
    }
}
