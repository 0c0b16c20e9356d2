//! Groups: the unit in which a shard of an array appends to its log. One or more head blocks, then the data blocks.
//!
//! The head has a CRC32C of itself and one for each data block, so any member's copy shows
//! whether the group is torn. The parity of after-images comes last. Each block of it is on one member only, so its
//! presence is checked separately. So is that of the data of a striped group, which each member has a part of.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::checksum::{crc32c, is_sealed, seal};

use crate::codec::{DecodeError, Reader, Writer};
use crate::group_striping::{GroupStriping, PARITY_MAX};
use crate::model::form::Form;
use sinew_core::ids::Uuid;

const MAGIC: u32 = u32::from_le_bytes(*b"SNLG");
/// Bytes of a head before its records.
pub const GROUP_HEADER_BYTES: usize = 96;
/// Where the CRC of the head is.
const CRC_AT: usize = GROUP_HEADER_BYTES - 4;
/// The limit of sequence numbers, which count up by one.
const COUNT_LIMIT: u64 = 1 << 62;

/// The fixed fields of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The identity of the array's logs, which only its superblocks contain.
    pub log: Uuid,
    /// The shard it belongs to.
    pub shard: u16,
    /// The epoch in which it was written.
    pub epoch: u64,
    /// Its first block, counted over the life of the log; its place is this modulo the length of the log.
    pub seq: u64,
    /// The group before it; 0 for the first.
    pub before: u64,
    /// The oldest group that replay still needs.
    pub tail: u64,
    /// The last group that was known durable, with all before it, when this was written; 0 for none.
    pub flushed: u64,
    /// Head blocks.
    pub head_blocks: u32,
    /// All blocks.
    pub blocks: u32,
}

/// A record of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// The state of the shard's regions and of its long work, whole.
    State(Vec<u8>),
    /// New content of consecutive slots of a stripe, block by block in the data.
    Data {
        /// The stripe.
        stripe: u64,
        /// The first slot.
        slot: u32,
        /// How many.
        blocks: u32,
    },
    /// An after-image: the new blocks with which a stripe is about to be updated in place and, behind the data, the
    /// parity that matches them.
    Drain {
        /// The stripe.
        stripe: u64,
        /// The blocks are those of groups up to this one.
        upto: u64,
        /// Runs of slots whose new content is written in place: first, count.
        slots: Vec<(u32, u32)>,
        /// Offsets within the chunk that have new parity: first, count.
        offsets: Vec<(u32, u32)>,
        /// The members of P and Q, which have them in place and, at these offsets, in the log; `None` if a column is not
        /// written.
        parity: [Option<u8>; PARITY_MAX],
    },
    /// The image of a part of a unit of a row that a growth is about to change. It is replayed if `Changed` follows it.
    Image {
        /// The row, which is a stripe.
        stripe: u64,
        /// The column, or 65,534 for P and 65,535 for Q.
        unit: u16,
        /// The first block within the chunk.
        offset: u32,
        /// How many.
        blocks: u32,
    },
    /// Rows of a growth have changed. Of the records before this one, only their images apply to them.
    Changed {
        /// Members that the array grows to.
        to: u8,
        /// All rows below this key have changed.
        upto: u64,
        /// The rows that this record adds to them: first, count.
        rows: Vec<(u32, u32)>,
    },
    /// Stripes of an elastic array have changed their form. After-images of them before this record do not apply, and if they
    /// are empty now, neither does their data.
    Form {
        /// The form that they have now.
        to: Form,
        /// Runs of stripes: first, count.
        stripes: Vec<(u64, u32)>,
    },
    /// The data of this group is dealt over members, with parity, instead of being on each member that has the head. The
    /// checksums of the parity come after all others.
    Striped {
        /// The members of the columns, those of parity last.
        members: Vec<u8>,
        /// How many of these get parity.
        parities: u8,
    },
}

/// P, and behind it Q, as units of images.
pub const IMAGE_OF_P: u16 = u16::MAX - 1;

/// Consecutive data blocks of the group that belong to one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The record.
    pub record: usize,
    /// A parity column, and the only member that has it. All other data is on each member that has the head, or striped.
    pub parity: Option<(usize, u8)>,
    /// The first block, within the group.
    pub first: u32,
    /// How many.
    pub blocks: u32,
}

/// A decoded head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The fixed fields.
    pub header: GroupHeader,
    /// The records.
    pub records: Vec<GroupRecord>,
    /// Its data blocks, in order: those that go with the head, in the order of the records, then parity, member by
    /// member, each in the order of the records.
    pub parts: Vec<Part>,
    /// How the data is dealt, if it is not with the head.
    pub striping: Option<GroupStriping>,
    /// A checksum for each data block, then for each block of the striping's parity.
    crcs: Vec<u32>,
}

impl Group {
    /// Number of blocks that each member with the head has.
    pub fn shared_blocks(&self) -> u32 {
        if self.striping.is_some() { self.header.head_blocks } else { data_end(&self.header, &self.parts) }
    }

    /// Whether `bytes` are the content of a unit of the group's striping.
    pub fn has_unit(&self, striping: &GroupStriping, unit: usize, bytes: &[u8]) -> bool {
        let blocks = striping.unit(unit);
        let of_data = self.header.blocks - self.header.head_blocks;
        let before = if unit < striping.columns() { 0 } else { of_data };
        let crcs = &self.crcs[(before + blocks.start) as usize..];
        bytes.len() == blocks.len() * BLOCK_BYTES
            && bytes.chunks_exact(BLOCK_BYTES).zip(crcs).all(|(block, &crc)| crc32c(block) == crc)
    }

    /// Whether `bytes` match the checksums from block `first` on.
    pub fn has(&self, first: u32, bytes: &[u8]) -> bool {
        let crcs = &self.crcs[(first - self.header.head_blocks) as usize..];
        bytes.chunks_exact(BLOCK_BYTES).zip(crcs).all(|(block, &crc)| crc32c(block) == crc)
    }
}

/// The end of the data that is not parity of after-images.
fn data_end(header: &GroupHeader, parts: &[Part]) -> u32 {
    parts.iter().find(|part| part.parity.is_some()).map_or(header.blocks, |part| part.first)
}

/// How the records of a group say that its data is dealt.
fn striping_of(
    header: &GroupHeader,
    records: &[GroupRecord],
    parts: &[Part],
) -> Result<Option<GroupStriping>, DecodeError> {
    let mut all = records.iter().filter_map(|record| match record {
        GroupRecord::Striped { members, parities } => Some((members, *parities)),
        _ => None,
    });
    let Some((members, parities)) = all.next() else { return Ok(None) };
    let blocks = data_end(header, parts) - header.head_blocks;
    let striping = GroupStriping::new(members.clone(), usize::from(parities), blocks);
    match striping.filter(|_| all.next().is_none()) {
        Some(striping) => Ok(Some(striping)),
        None => Err(DecodeError::Invalid("striping of a group")),
    }
}

/// The data blocks of records behind a head.
fn parts_of(head_blocks: u32, records: &[GroupRecord]) -> Vec<Part> {
    let (mut parts, mut parity) = (Vec::new(), Vec::new());
    for (record, content) in records.iter().enumerate() {
        if let GroupRecord::Drain { offsets, parity: members, .. } = content {
            let blocks = runs_blocks(offsets).expect("counted before");
            for (p, member) in members.iter().enumerate().filter_map(|(p, member)| Some((p, (*member)?))) {
                parity.push(Part { record, parity: Some((p, member)), first: 0, blocks });
            }
        } else if let Some(blocks @ 1..) = content.data_blocks() {
            parts.push(Part { record, parity: None, first: 0, blocks });
        }
    }
    parity.sort_by_key(|part| part.parity.map(|(_, member)| member));
    parts.append(&mut parity);
    let mut first = head_blocks;
    for part in &mut parts {
        part.first = first;
        first += part.blocks;
    }
    parts
}

fn runs_len(runs: &[(u32, u32)]) -> usize {
    2 + runs.len() * 8
}

fn write_runs(w: &mut Writer, runs: &[(u32, u32)]) {
    w.u16(runs.len() as u16);
    for &(first, count) in runs {
        w.u32(first);
        w.u32(count);
    }
}

fn read_runs(r: &mut Reader<'_>) -> Result<Vec<(u32, u32)>, DecodeError> {
    (0..r.u16()?).map(|_| Ok((r.u32()?, r.u32()?))).collect()
}

/// The sum of the blocks of runs; `None` if it is impossible.
fn runs_blocks(runs: &[(u32, u32)]) -> Option<u32> {
    runs.iter().try_fold(0u32, |sum, run| sum.checked_add(run.1))
}

impl GroupRecord {
    /// Number of its data blocks.
    pub fn data_blocks(&self) -> Option<u32> {
        match self {
            GroupRecord::State(_)
            | GroupRecord::Changed { .. }
            | GroupRecord::Form { .. }
            | GroupRecord::Striped { .. } => Some(0),
            GroupRecord::Data { blocks, .. } | GroupRecord::Image { blocks, .. } => Some(*blocks),
            GroupRecord::Drain { offsets, parity, .. } => {
                runs_blocks(offsets)?.checked_mul(parity.iter().flatten().count() as u32)
            }
        }
    }

    /// Bytes it takes in the head, with the checksums of its data.
    pub fn encoded_len(&self) -> usize {
        let body = match self {
            GroupRecord::State(bytes) => 4 + bytes.len(),
            GroupRecord::Data { .. } => 16,
            GroupRecord::Image { .. } => 18,
            GroupRecord::Changed { rows, .. } => 9 + runs_len(rows),
            GroupRecord::Form { stripes, .. } => 3 + stripes.len() * 12,
            GroupRecord::Striped { members, .. } => 2 + members.len(),
            GroupRecord::Drain { slots, offsets, parity, .. } => {
                17 + parity.iter().flatten().count() + runs_len(slots) + runs_len(offsets)
            }
        };
        1 + body + 4 * self.data_blocks().unwrap_or(0) as usize
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            GroupRecord::State(bytes) => {
                w.u8(1);
                w.u32(bytes.len() as u32);
                w.bytes(bytes);
            }
            GroupRecord::Data { stripe, slot, blocks } => {
                w.u8(2);
                w.u64(*stripe);
                w.u32(*slot);
                w.u32(*blocks);
            }
            GroupRecord::Drain { stripe, upto, slots, offsets, parity } => {
                w.u8(6);
                w.u64(*stripe);
                w.u64(*upto);
                w.u8(parity.iter().enumerate().fold(0, |mask, (p, m)| mask | u8::from(m.is_some()) << p));
                parity.iter().flatten().for_each(|&member| w.u8(member));
                write_runs(w, slots);
                write_runs(w, offsets);
            }
            GroupRecord::Image { stripe, unit, offset, blocks } => {
                w.u8(4);
                w.u64(*stripe);
                w.u16(*unit);
                w.u32(*offset);
                w.u32(*blocks);
            }
            GroupRecord::Changed { to, upto, rows } => {
                w.u8(5);
                w.u8(*to);
                w.u64(*upto);
                write_runs(w, rows);
            }
            GroupRecord::Form { to, stripes } => {
                w.u8(7);
                w.u8(*to as u8);
                w.u16(stripes.len() as u16);
                for &(first, count) in stripes {
                    w.u64(first);
                    w.u32(count);
                }
            }
            GroupRecord::Striped { members, parities } => {
                w.u8(8);
                w.u8(*parities);
                w.u8(members.len() as u8);
                w.bytes(members);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<GroupRecord, DecodeError> {
        Ok(match r.u8()? {
            1 => {
                let len = r.u32()? as usize;
                GroupRecord::State(r.take(len)?.to_vec())
            }
            2 => GroupRecord::Data { stripe: r.u64()?, slot: r.u32()?, blocks: r.u32()? },
            4 => GroupRecord::Image { stripe: r.u64()?, unit: r.u16()?, offset: r.u32()?, blocks: r.u32()? },
            5 => GroupRecord::Changed { to: r.u8()?, upto: r.u64()?, rows: read_runs(r)? },
            // 3 was the same with all of its parity on every member that had the head.
            6 => {
                let (stripe, upto, mask) = (r.u64()?, r.u64()?, r.u8()?);
                if mask >= 1 << PARITY_MAX {
                    return Err(DecodeError::Invalid("parity of a record"));
                }
                let mut parity = [None; PARITY_MAX];
                for (_, member) in parity.iter_mut().enumerate().filter(|(p, _)| mask >> p & 1 == 1) {
                    *member = Some(r.u8()?);
                }
                let (slots, offsets) = (read_runs(r)?, read_runs(r)?);
                GroupRecord::Drain { stripe, upto, slots, offsets, parity }
            }
            7 => {
                let to = Form::from_number(r.u8()?).ok_or(DecodeError::Invalid("form of a record"))?;
                let count = r.u16()?;
                let stripes = (0..count).map(|_| Ok((r.u64()?, r.u32()?))).collect::<Result<_, _>>()?;
                GroupRecord::Form { to, stripes }
            }
            8 => {
                let (parities, count) = (r.u8()?, usize::from(r.u8()?));
                GroupRecord::Striped { members: r.take(count)?.to_vec(), parities }
            }
            _ => return Err(DecodeError::Invalid("kind of a record")),
        })
    }
}

/// Writes a head: `crcs` has a checksum for each data block, in the order of the blocks, then for each block of a striping's
/// parity.
///
/// # Panics
/// When `head` is not as long as the header says, or the records do not fit it.
pub fn encode_head(header: &GroupHeader, records: &[GroupRecord], crcs: &[u32], head: &mut [u8]) {
    assert_eq!(head.len(), header.head_blocks as usize * BLOCK_BYTES);
    let mut w = Writer::structure(MAGIC);
    w.u16(header.shard);
    w.bytes(&header.log);
    for count in [header.epoch, header.seq, header.before, header.tail, header.flushed] {
        w.u64(count);
    }
    w.u32(header.head_blocks);
    w.u32(header.blocks);
    w.u32(records.len() as u32);
    w.0.resize(GROUP_HEADER_BYTES, 0);
    records.iter().for_each(|record| record.encode(&mut w));
    crcs.iter().for_each(|&crc| w.u32(crc));
    head[..w.0.len()].copy_from_slice(&w.0);
    head[w.0.len()..].fill(0);
    seal(head, CRC_AT);
}

/// Reads the header at the beginning of a block, without looking at its checksum: it tells how long the head is.
///
/// # Errors
/// When there is no group of this format.
pub fn decode_header(block: &[u8]) -> Result<GroupHeader, DecodeError> {
    let mut r = Reader::structure(block, MAGIC)?;
    let (shard, log) = (r.u16()?, r.uuid()?);
    let (epoch, seq, before, tail, flushed) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?, r.u64()?);
    let (head_blocks, blocks) = (r.u32()?, r.u32()?);
    let counts = epoch < COUNT_LIMIT && seq < COUNT_LIMIT && tail <= seq && flushed < seq && before < seq;
    if !counts || head_blocks == 0 || head_blocks > blocks {
        return Err(DecodeError::Invalid("header of a group"));
    }
    Ok(GroupHeader { log, shard, epoch, seq, before, tail, flushed, head_blocks, blocks })
}

/// Reads a group from a ring that has its head, and checks all of it that is with the head.
///
/// # Errors
/// When any block of that is not what was written.
pub fn decode_group(bytes: &[u8]) -> Result<Group, DecodeError> {
    let header = decode_header(bytes)?;
    let head_bytes = header.head_blocks as usize * BLOCK_BYTES;
    if bytes.len() != header.blocks as usize * BLOCK_BYTES {
        return Err(DecodeError::Invalid("length of a group"));
    }
    let head = &bytes[..head_bytes];
    if !is_sealed(head, CRC_AT) {
        return Err(DecodeError::Checksum);
    }
    let count = u32::from_le_bytes(head[72..76].try_into().expect("four bytes"));
    let mut r = Reader(&head[GROUP_HEADER_BYTES..]);
    let (mut records, mut data) = (Vec::new(), 0u32);
    for _ in 0..count {
        let record = GroupRecord::decode(&mut r)?;
        let blocks = record.data_blocks().and_then(|blocks| data.checked_add(blocks));
        data = blocks.ok_or(DecodeError::Invalid("blocks of a record"))?;
        records.push(record);
    }
    if header.blocks - header.head_blocks != data {
        return Err(DecodeError::Invalid("blocks of a group"));
    }
    let parts = parts_of(header.head_blocks, &records);
    let striping = striping_of(&header, &records, &parts)?;
    let parity = striping.as_ref().map_or(0, GroupStriping::parity_blocks);
    let crcs = (0..data + parity).map(|_| r.u32()).collect::<Result<Vec<_>, _>>()?;
    let group = Group { header, records, parts, striping, crcs };
    let shared = head_bytes..group.shared_blocks() as usize * BLOCK_BYTES;
    if group.has(header.head_blocks, &bytes[shared]) { Ok(group) } else { Err(DecodeError::Checksum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The header of a group of this many blocks, one of them its head.
    fn header(blocks: u32) -> GroupHeader {
        GroupHeader {
            log: [5; 16],
            shard: 1,
            epoch: 4,
            seq: 50,
            before: 41,
            tail: 30,
            flushed: 41,
            head_blocks: 1,
            blocks,
        }
    }

    fn sample() -> Vec<u8> {
        let drain = |stripe, parity| GroupRecord::Drain {
            stripe,
            upto: 40,
            slots: vec![(1, 2), (17, 1)],
            offsets: vec![(1, 1)],
            parity,
        };
        let records = vec![
            GroupRecord::State(vec![7; 300]),
            drain(3, [Some(4), Some(1)]),
            GroupRecord::Data { stripe: 9, slot: 17, blocks: 2 },
            drain(5, [None, None]),
            drain(6, [None, Some(4)]),
            GroupRecord::Image { stripe: 70, unit: IMAGE_OF_P, offset: 5, blocks: 1 },
            GroupRecord::Changed { to: 5, upto: 80, rows: vec![(70, 3), (90, 1)] },
            GroupRecord::Form { to: Form::Mirrored, stripes: vec![(1 << 40, 9), (3, 1)] },
        ];
        let data: Vec<u8> = (0..6 * BLOCK_BYTES).map(|i| (i / 100) as u8).collect();
        let crcs: Vec<u32> = data.chunks_exact(BLOCK_BYTES).map(crc32c).collect();
        let header = header(7);
        let mut bytes = vec![0; BLOCK_BYTES];
        encode_head(&header, &records, &crcs, &mut bytes);
        bytes.extend(data);
        let part = |record, parity, first, blocks| Part { record, parity, first, blocks };
        let parts = vec![
            part(2, None, 1, 2),
            part(5, None, 3, 1),
            part(1, Some((1, 1)), 4, 1),
            part(1, Some((0, 4)), 5, 1),
            part(4, Some((1, 4)), 6, 1),
        ];
        assert_eq!(decode_group(&bytes).unwrap(), Group { header, records, parts, striping: None, crcs });
        bytes
    }

    #[test]
    fn a_group_survives_a_round_trip_and_no_block_can_be_missing() {
        let good = sample();
        for at in (0..good.len()).step_by(97) {
            let mut bad = good.clone();
            bad[at] ^= 0x20;
            // Parity is asked for apart from the rest, where it is.
            let parity = at / BLOCK_BYTES >= 4;
            assert_eq!(decode_group(&bad).is_ok(), parity, "byte {at}");
            let group = decode_group(&good).unwrap();
            assert!(group.has(4, &good[4 * BLOCK_BYTES..]));
            assert_eq!(group.has(4, &bad[4 * BLOCK_BYTES..]), !parity);
        }
        assert!(decode_group(&good[..4 * BLOCK_BYTES]).is_err());
    }

    /// A striped group of five data blocks, and its parity, whose members are these.
    fn striped(members: Vec<u8>) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let records = vec![
            GroupRecord::Data { stripe: 9, slot: 17, blocks: 5 },
            GroupRecord::Striped { members, parities: 1 },
        ];
        let data: Vec<u8> = (0..5 * BLOCK_BYTES).map(|i| (i / 100) as u8).collect();
        let parity = vec![3; 3 * BLOCK_BYTES];
        let crcs: Vec<u32> =
            data.chunks_exact(BLOCK_BYTES).chain(parity.chunks_exact(BLOCK_BYTES)).map(crc32c).collect();
        let header = header(6);
        let mut bytes = vec![0; 6 * BLOCK_BYTES];
        encode_head(&header, &records, &crcs, &mut bytes[..BLOCK_BYTES]);
        (bytes, data, parity)
    }

    #[test]
    fn the_head_of_a_striped_group_proves_its_units() {
        let (bytes, data, parity) = striped(vec![7, 2, 4]);
        let group = decode_group(&bytes).unwrap();
        let striping = group.striping.clone().unwrap();
        assert_eq!((striping.members(), group.shared_blocks()), (&[7, 2, 4][..], 1));
        let units = [&data[..3 * BLOCK_BYTES], &data[3 * BLOCK_BYTES..], &parity[..]];
        for (unit, content) in units.iter().enumerate() {
            assert!(group.has_unit(&striping, unit, content));
            let mut bad = content.to_vec();
            bad[BLOCK_BYTES + 5] ^= 1;
            assert!(!group.has_unit(&striping, unit, &bad));
            assert!(!group.has_unit(&striping, unit, &content[BLOCK_BYTES..]));
        }
        for impossible in [vec![7, 2, 7], vec![7]] {
            assert_eq!(
                decode_group(&striped(impossible).0),
                Err(DecodeError::Invalid("striping of a group"))
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(mut bytes in proptest::collection::vec(any::<u8>(), BLOCK_BYTES)) {
            let _ = decode_group(&bytes);
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            let _ = decode_group(&bytes);
        }
    }
}
