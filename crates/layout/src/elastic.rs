//! Elastic stripes: where the further copies of a stripe's data columns lie (Elastic RAID, 2022, section 3.1).
//!
//! A *bloated* stripe of n data columns and m parity columns has 1 + m slots. Slot 0 holds the stripe as RAID 5 or 6 has it.
//! Each further slot has a place for one more copy of every data column. The copy in slot j lies j members after the column,
//! so the copies of a column are on members of their own, and the copies of one member's chunks are on the next members.
//!
//! The paper interleaves the slots of a stripe on each member. Here a slot is an area of its own, behind slot 0 and with the
//! same chunk numbers: slot 0 keeps the layout of an ordinary array, and unused chunks are long runs that one discard covers.

use crate::geometry::{Home, Level, Role};
use crate::grown::{Grown, Place};

/// The place of the copy of a column in slot `slot`. `column` is its place in slot 0, in a row of `members` members with
/// `area_chunks` chunks per slot on each.
pub fn copy_home(column: Home, slot: u32, members: u32, area_chunks: u64) -> Home {
    Home { member: (column.member + slot) % members, chunk: u64::from(slot) * area_chunks + column.chunk }
}

/// An array as it lies in all its slots, for reports. An array that is not elastic has slot 0 only.
pub struct Slots<'a> {
    array: &'a Grown,
    count: u32,
    mirrored: bool,
}

impl<'a> Slots<'a> {
    /// An array that is not elastic.
    pub fn one(array: &'a Grown) -> Slots<'a> {
        Slots { array, count: 1, mirrored: false }
    }

    /// An elastic array, of which all stripes are mirrored, or all have parity; `None` if its level cannot be elastic.
    pub fn elastic(array: &'a Grown, mirrored: bool) -> Option<Slots<'a>> {
        let may_be = matches!(array.level(), Level::Raid5(_) | Level::Raid6(_));
        may_be.then_some(Slots { array, count: 1 + array.parities(), mirrored })
    }

    /// The array in slot 0.
    pub fn array(&self) -> &'a Grown {
        self.array
    }

    /// Number of slots.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Copies of each block.
    pub fn copies(&self) -> u32 {
        if self.mirrored { self.count } else { self.array.copies() }
    }

    /// The place of a copy of a block.
    pub fn place(&self, block: u64, copy: u32) -> Place {
        if !self.mirrored || copy == 0 {
            return self.array.place(block, copy);
        }
        let Place { member, chunk } = self.array.place(block, 0);
        let chunk = chunk.expect("levels with parity define it");
        let members = self.array.row_members(chunk);
        copy_home(Home { member, chunk }, copy, members, u64::from(self.array.rows())).into()
    }

    /// The role of a place: a row of a slot on a member. `None` where the array does not define it.
    pub fn role(&self, slot: u32, row: u64, member: u32) -> Option<Role> {
        let members = self.array.row_members(row);
        if slot == 0 {
            let role = self.array.role(Home { member, chunk: row })?;
            let is_parity = matches!(role, Role::P { .. } | Role::Q { .. });
            return Some(if self.mirrored && is_parity { Role::Unused } else { role });
        }
        if !self.mirrored || member >= members {
            return Some(Role::Unused);
        }
        let column = Home { member: (member + members - slot % members) % members, chunk: row };
        Some(match self.array.role(column)? {
            Role::Data { logical, .. } => Role::Data { logical, copy: slot },
            _ => Role::Unused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grown::Method;
    use crate::history::History;
    use crate::{Geometry, Level, Rotation};

    #[test]
    fn places_and_roles_agree_in_every_slot_also_of_grown_arrays() {
        let level = Level::Raid6(Rotation::LeftSymmetric);
        let history = History::new(5).unwrap().with(2).unwrap();
        let grown = Grown::new(level, history, Method::Spread, 33).unwrap();
        for array in [Grown::fresh(level, 5, 20).unwrap(), grown] {
            let slots = Slots::elastic(&array, true).unwrap();
            assert_eq!((slots.count(), slots.copies()), (3, 3));
            let mut data = 0;
            for block in 0..array.blocks() {
                for copy in 0..3 {
                    let Place { member, chunk } = slots.place(block, copy);
                    let (slot, row) =
                        (chunk.unwrap() / u64::from(array.rows()), chunk.unwrap() % u64::from(array.rows()));
                    assert_eq!(
                        slots.role(slot as u32, row, member),
                        Some(Role::Data { logical: block, copy })
                    );
                    data += 1;
                }
            }
            let (rows, members) = (u64::from(array.rows()), array.members());
            let in_slot = |slot| (0..rows).flat_map(move |row| (0..members).map(move |m| (slot, row, m)));
            let all = (0..3).flat_map(in_slot);
            let is_data = |&(slot, row, member): &(u32, u64, u32)| {
                matches!(slots.role(slot, row, member), Some(Role::Data { .. }))
            };
            assert_eq!(all.filter(is_data).count(), data, "no other place holds data");
        }
    }
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
