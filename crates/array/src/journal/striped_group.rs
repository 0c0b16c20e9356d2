//! Striped groups: the data of a large group of the log is dealt over the members of one stripe of the array, with parity, as in
//! the journal of Elastic RAID (section 4). The head is on f + 1 of these members, so as many may be lost as of the stripe.
//!
//! A group with little data goes to f + 1 members whole, which is fewer writes. So does a larger one where copies have been
//! faster lately (`form_costs`), and each group while a member of the stripe is out, full or in a spike.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::group_striping::GroupStriping;
use sinew_format::log_group::GroupRecord;
use sinew_layout::parity;
use sinew_members::ring::striped::{RingUnit, striping_set};

use crate::journal::Journal;
use crate::journal::group::concat;

/// Data blocks from which a group may be striped.
const STRIPED_BLOCKS: u32 = 4;

/// The data of a group, dealt.
pub(super) struct StripedGroup {
    striping: GroupStriping,
    /// The data, block by block.
    blocks: Vec<Buf>,
    /// The parity columns.
    parity: Vec<Buf>,
}

impl StripedGroup {
    fn new(striping: GroupStriping, data: &[Buf]) -> StripedGroup {
        let blocks: Vec<Buf> = data.iter().flat_map(Buf::blocks).collect();
        let column_bytes = striping.rows() as usize * BLOCK_BYTES;
        let mut parity: Vec<Buf> = (0..striping.parities()).map(|_| Buf::stale(column_bytes)).collect();
        let mut columns: Vec<_> =
            parity.iter_mut().map(|column| column.bytes_mut().chunks_exact_mut(BLOCK_BYTES)).collect();
        let (mut data, mut of_row) = (Vec::new(), Vec::new());
        for row in 0..striping.rows() {
            data.clear();
            data.extend(
                (0..striping.columns()).map(|column| {
                    striping.data_block(column, row).map(|block| blocks[block as usize].bytes())
                }),
            );
            of_row.clear();
            of_row.extend(columns.iter_mut().flat_map(Iterator::next));
            parity::compute(&data, &mut of_row);
        }
        drop((columns, of_row, data));
        StripedGroup { striping, blocks, parity }
    }

    /// Bytes that the head has more than that of copies.
    pub(super) fn head_bytes(&self) -> usize {
        self.record().encoded_len() + 4 * self.striping.parity_blocks() as usize
    }

    /// The record that says how the data is dealt.
    pub(super) fn record(&self) -> GroupRecord {
        GroupRecord::Striped {
            members: self.striping.members().to_vec(),
            parities: self.striping.parities() as u8,
        }
    }

    /// The parity, block by block.
    pub(super) fn parity_blocks(&self) -> impl Iterator<Item = Buf> {
        self.parity.iter().flat_map(Buf::blocks)
    }

    /// What each member gets of a group at this position of the ring: the first `heads` members have the head before their data.
    pub(super) fn into_units(self, position: u32, head: &Buf, heads: usize) -> Vec<RingUnit> {
        let columns = self.striping.columns();
        let units = self.striping.members().iter().enumerate().map(|(unit, &member)| {
            let has_head = unit < heads;
            let range = self.striping.unit(unit);
            let content = match unit.checked_sub(columns) {
                None => &self.blocks[range.start as usize..range.end as usize],
                Some(_) if mutation::on(Mutation::LoseUnit) => &[],
                Some(p) => &self.parity[p..=p],
            };
            let head_blocks = (head.len() / BLOCK_BYTES) as u32;
            RingUnit {
                member: MemberId(member),
                position: if has_head { position } else { position + head_blocks },
                data: concat(has_head.then_some(head).into_iter().chain(content)),
            }
        });
        units.filter(|unit| !unit.data.is_empty()).collect()
    }
}

impl<I: Io> Journal<I> {
    /// Deals the data of a group over members; `None` where copies are better, or the only way.
    pub(super) fn stripe_group(&self, data: &[Buf], blocks: u32) -> Option<StripedGroup> {
        let layout = self.state.layout();
        let is_faster = || self.log.form_costs.choose_striped(blocks);
        if layout.m == 0 || blocks < STRIPED_BLOCKS || !is_faster() {
            return None;
        }
        let set = striping_set(self, self.log.groups_written.get())?;
        if set.len() < layout.m + 2 {
            return None;
        }
        let members = set.into_iter().map(|member| member.0).collect();
        Some(StripedGroup::new(GroupStriping::new(members, layout.m, blocks)?, data))
    }
}
