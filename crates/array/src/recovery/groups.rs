//! Reading the rings: the groups of the log that replay needs, and copying them to as many members as should have them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::log_group::{Group, GroupHeader, decode_group, decode_header};
use sinew_members::open_error::RecoverError;
use sinew_members::ring::copies::write_copies;
use sinew_members::ring::reader::{Region, RegionMarks, Unit, read_regions};

use crate::recovery::Recovery;
use crate::recovery::ring_group::{MissingUnit, RingGroup};

const READ_MARKS: RegionMarks = RegionMarks {
    unit_by_unit: Mark::ArrayRecoverRingPiecewise.name(),
    unit_lost: Mark::ArrayRecoverRingLost.name(),
};

impl<I: Io> Recovery<I> {
    /// The groups that replay needs, after making sure that each is on as many members as it should be.
    ///
    /// # Errors
    /// When groups are missing, or a member fails.
    pub(super) async fn whole_chain(&mut self) -> Result<Vec<RingGroup>, RecoverError> {
        let groups = self.read_groups().await;
        let chain = self.chain(groups)?;
        self.complete_copies(&chain).await?;
        Ok(chain)
    }

    /// Every intact group on the active members; of several with one number, the one with the highest epoch. A group whose copies
    /// were written since it could not be striped counts as its copies, where these are whole.
    async fn read_groups(&mut self) -> BTreeMap<u64, RingGroup> {
        let rings = self.read_rings().await;
        let mut groups: BTreeMap<u64, RingGroup> = BTreeMap::new();
        let mut heads: BTreeMap<(u64, u64), RingGroup> = BTreeMap::new();
        for (&member, ring) in &rings {
            for at in 0..ring.len() / BLOCK_BYTES {
                let Some(group) = self.group_at(ring, at, member) else { continue };
                let header = group.group.header;
                if group.group.striping.is_some() {
                    match heads.get_mut(&(header.seq, header.epoch)) {
                        Some(known) => known.holders.push(member),
                        None => drop(heads.insert((header.seq, header.epoch), group)),
                    }
                    continue;
                }
                match groups.get_mut(&header.seq) {
                    Some(known) if known.group.header.epoch > header.epoch => {}
                    Some(known) if known.group.header == header => known.holders.push(member),
                    _ => drop(groups.insert(header.seq, group)),
                }
            }
        }
        for ((seq, epoch), head) in heads {
            let is_known = groups.get(&seq).is_some_and(|known| known.group.header.epoch >= epoch);
            if let Some(group) = (!is_known).then_some(head).and_then(|head| self.put_together(head, &rings))
            {
                groups.insert(seq, group);
            }
        }
        groups
    }

    /// The ring of each active member of the layout, with zeros for blocks that cannot be read.
    async fn read_rings(&mut self) -> BTreeMap<MemberId, Vec<u8>> {
        let bytes = self.layout.geometry.log_blocks as usize * BLOCK_BYTES;
        let mut rings: BTreeMap<MemberId, Vec<u8>> =
            self.layout_members().into_iter().map(|member| (member, vec![0; bytes])).collect();
        let region = Region { offset: self.layout.log_offset(0), bytes: bytes as u64 };
        let regions = self.layout_members().into_iter().map(|member| (member, region));
        let block = |Unit { member, at, data }: Unit| {
            let ring = rings.get_mut(&member).expect("every member of the layout has one");
            ring[at as usize..][..data.len()].copy_from_slice(data.bytes());
        };
        self.report.bytes_read += read_regions(&self.members, regions, BLOCK_BYTES, READ_MARKS, block).await;
        rings
    }

    /// The group at a place of a ring. A ring also holds clients' data, which may look like a group, but does not know the log's
    /// identity.
    fn group_at(&self, ring: &[u8], at: usize, member: MemberId) -> Option<RingGroup> {
        let header = decode_header(&ring[at * BLOCK_BYTES..][..BLOCK_BYTES]).ok()?;
        let ours = header.log == self.layout.geometry.log
            && usize::from(header.shard) == self.index
            && header.seq % u64::from(self.layout.geometry.log_blocks) == at as u64;
        let bytes = ring[at * BLOCK_BYTES..].get(..header.blocks as usize * BLOCK_BYTES).filter(|_| ours)?;
        let group = decode_group(bytes).ok()?;
        let shared = group.shared_blocks() as usize * BLOCK_BYTES;
        let bytes = Buf::copy_of(&bytes[..shared]);
        Some(RingGroup { group, bytes, holders: vec![member], missing: Vec::new() })
    }

    /// Returns, oldest first, the chain of groups that ends in the newest group whose chain back to its tail is complete. A
    /// newer group with a broken chain is ignored: a missing group may hold content that the newer one no longer repeats.
    fn chain(&self, mut groups: BTreeMap<u64, RingGroup>) -> Result<Vec<RingGroup>, RecoverError> {
        let mut newest: Vec<(u64, u64)> =
            groups.values().map(|g| (g.group.header.epoch, g.group.header.seq)).collect();
        newest.sort_unstable();
        let flushed = groups.values().map(|g| g.group.header.flushed).max().unwrap_or(0);
        let whole = newest.iter().rev().find_map(|&(_, seq)| chain_of(&groups, seq));
        let chain = whole.unwrap_or_default();
        if chain.last() != newest.last().map(|(_, seq)| seq) {
            self.io.mark(Mark::ArrayRecoverGroupVoid);
        }
        match chain.last() {
            Some(last) if *last >= flushed => {}
            None if newest.is_empty() => {}
            _ => {
                return Err(RecoverError::JournalGap { shard: self.index, lsn: flushed });
            }
        }
        Ok(chain.iter().map(|seq| groups.remove(seq).expect("found in there")).collect())
    }

    /// Copies groups that are on too few members to more of them, and writes missing units of striped ones; without parity of
    /// after-images, which is on its own members only.
    async fn complete_copies(&mut self, chain: &[RingGroup]) -> Result<(), RecoverError> {
        let active = self.layout_members();
        for found in chain {
            self.report.blocks_replayed += u64::from(found.group.header.blocks);
            let offset = self.ring_offset(&found.group, 0);
            let striping = found.group.striping.as_ref();
            let may_hold = |m: &&MemberId| striping.is_none_or(|striping| striping.members().contains(&m.0));
            let copies = (self.layout.tolerates() + 1).min(active.iter().filter(may_hold).count());
            let missing = copies.saturating_sub(found.holders.len());
            if missing > 0 {
                self.io.mark(Mark::ArrayRecoverCopied);
                let more = active.iter().filter(may_hold).filter(|m| !found.holders.contains(m));
                let places = more.map(|&member| (member, offset)).collect();
                let shared = found.bytes.slice(0, found.group.shared_blocks() as usize * BLOCK_BYTES);
                let written = write_copies(&self.members, places, missing, &shared).await;
                written.map_err(|member| self.lost(member))?;
            }
            let offset = self.ring_offset(&found.group, found.group.header.head_blocks);
            for MissingUnit { member, data } in &found.missing {
                let written = write_copies(&self.members, vec![(*member, offset)], 1, data).await;
                written.map_err(|member| self.lost(member))?;
            }
        }
        Ok(())
    }

    /// The place of a group's block on each member that has it.
    pub(super) fn ring_offset(&self, group: &Group, block: u32) -> u64 {
        let position = group.header.seq % u64::from(self.layout.geometry.log_blocks);
        self.layout.log_offset(position as u32 + block)
    }
}

/// The numbers of the groups from the tail of the group `last` up to itself; `None` when one is missing. The tail is the place
/// of a group, or one at the end of the ring where no group fitted: then the next group is the first.
fn chain_of(groups: &BTreeMap<u64, RingGroup>, last: u64) -> Option<Vec<u64>> {
    let mut chain = vec![last];
    let mut header = groups.get(&last)?.group.header;
    let tail = header.tail;
    while header.before >= tail {
        let before = groups.get(&header.before)?.group.header;
        if !precedes(&before, &header) {
            return None;
        }
        header = before;
        chain.push(header.seq);
    }
    chain.reverse();
    Some(chain)
}

/// Whether this is the group that the later one names, and not one with its number from another opening. Of an earlier opening
/// only the last group that its recovery found precedes a group, and that one was made durable before anything was appended.
fn precedes(before: &GroupHeader, header: &GroupHeader) -> bool {
    match before.epoch.cmp(&header.epoch) {
        Ordering::Equal => true,
        Ordering::Less => before.seq <= header.flushed || mutation::on(Mutation::TrustOldGroup),
        Ordering::Greater => false,
    }
}
