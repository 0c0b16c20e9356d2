//! Striped groups at recovery: put together from the units in the rings of their members. A unit that is not there is made from the
//! others, as in a stripe of the array.

use std::collections::BTreeMap;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::group_striping::GroupStriping;
use sinew_format::log_group::Group;
use sinew_members::stripe_columns::StripeColumns;

use crate::marks::Mark;
use crate::recovery::Recovery;
use crate::recovery::ring_group::{MissingUnit, RingGroup};

impl<I: Io> Recovery<I> {
    /// The group of which `head` was found; `None` when too few of its units are there.
    pub(super) fn put_together(
        &self,
        mut head: RingGroup,
        rings: &BTreeMap<MemberId, Vec<u8>>,
    ) -> Option<RingGroup> {
        let striping = head.group.striping.as_ref()?;
        let read: Vec<Option<Buf>> = (0..striping.members().len())
            .map(|unit| self.unit_in_ring(&head.group, striping, unit, rings))
            .collect();
        let lost: Vec<usize> = (0..read.len()).filter(|&unit| read[unit].is_none()).collect();
        let is_right = |made: &Vec<Buf>| {
            lost.iter().zip(made).all(|(&unit, data)| head.group.has_unit(striping, unit, data.bytes()))
        };
        let Some(made) = make_units(striping, &read, &lost).filter(is_right) else {
            self.io.mark(Mark::ArrayRecoverStripedVoid);
            return None;
        };
        self.io.mark(Mark::ArrayRecoverStriped);
        let mut units = read;
        let mut missing = Vec::new();
        for (&unit, data) in lost.iter().zip(made) {
            self.io.mark(Mark::ArrayRecoverUnitMade);
            let member = MemberId(striping.members()[unit]);
            missing.push(MissingUnit { member, data: data.clone() });
            units[unit] = Some(data);
        }
        missing.retain(|unit| rings.contains_key(&unit.member) && !mutation::on(Mutation::LeaveUnitMissing));
        let data = units.iter().take(striping.columns()).flatten();
        let bytes: Vec<u8> = std::iter::once(&head.bytes).chain(data).flat_map(Buf::bytes).copied().collect();
        head.bytes = Buf::copy_of(&bytes);
        head.missing = missing;
        Some(head)
    }

    /// The content of a unit, if the ring of its member has it.
    fn unit_in_ring(
        &self,
        group: &Group,
        striping: &GroupStriping,
        unit: usize,
        rings: &BTreeMap<MemberId, Vec<u8>>,
    ) -> Option<Buf> {
        let ring = rings.get(&MemberId(striping.members()[unit]))?;
        let position = group.header.seq % u64::from(self.layout.geometry.log_blocks);
        let from = (position as usize + group.header.head_blocks as usize) * BLOCK_BYTES;
        let content = ring.get(from..)?.get(..striping.unit(unit).len() * BLOCK_BYTES)?;
        let is_right = group.has_unit(striping, unit, content) || mutation::on(Mutation::TrustUnit);
        is_right.then(|| Buf::copy_of(content))
    }
}

/// The lost units of a group, from the others; `None` when too many are lost.
fn make_units(striping: &GroupStriping, units: &[Option<Buf>], lost: &[usize]) -> Option<Vec<Buf>> {
    let (columns, parities) = (striping.columns(), striping.parities());
    let mut made: Vec<Vec<u8>> = lost.iter().map(|_| Vec::new()).collect();
    for row in 0..if lost.is_empty() { 0 } else { striping.rows() } {
        let at = row as usize * BLOCK_BYTES;
        let is_absent = |unit: usize| unit < columns && striping.data_block(unit, row).is_none();
        let mut known = StripeColumns::new(columns, parities);
        for (unit, content) in units.iter().enumerate() {
            match content {
                _ if is_absent(unit) => known.set_absent(unit),
                Some(content) => known.set(unit, &content.bytes()[at..at + BLOCK_BYTES]),
                None => {}
            }
        }
        let wanted: Vec<usize> = lost.iter().copied().filter(|&unit| !is_absent(unit)).collect();
        let mut recovered = known.recover(&wanted, BLOCK_BYTES).ok()?.into_iter();
        for (&unit, content) in lost.iter().zip(&mut made) {
            if !is_absent(unit) {
                content.extend_from_slice(recovered.next().expect("one for each that is wanted").bytes());
            }
        }
    }
    Some(made.iter().map(|content| Buf::copy_of(content)).collect())
}
