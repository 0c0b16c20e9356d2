//! Journal blocks and the records in them.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::checksum::{is_sealed, seal};
use sinew_core::ids::{ChunkAddr, Lsn, MemberId, ShardBlock, SlotNo, StripeId, VolumeId};

use crate::FORMAT_VERSION;
use crate::codec::{DecodeError, Reader, Writer};
use crate::model::mapped_geometry::map_page;
use crate::model::stripe_form::StripeForm;
use sinew_core::ids::Uuid;
use smallvec::SmallVec;

const MAGIC: u32 = u32::from_le_bytes(*b"SNJB");
/// Bytes of a journal block before its records.
pub const JOURNAL_HEADER_BYTES: usize = 80;
/// Where the CRC of the block is.
const CRC_AT: usize = JOURNAL_HEADER_BYTES - 4;
/// Bytes of records a journal block holds.
pub const JOURNAL_PAYLOAD_BYTES: usize = BLOCK_BYTES - JOURNAL_HEADER_BYTES;

/// Most blocks of one [`Record::Write`]: their number is one byte.
pub const WRITE_BLOCKS_MAX: usize = u8::MAX as usize;

/// CRC32C of each of consecutive blocks. As many as fit into the place of a pointer and a length need no memory of their own.
pub type Checksums = SmallVec<[u32; 4]>;

/// One change of a shard's tables. Applying it is the same act after a commit and at replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Consecutive blocks were written to consecutive slots.
    Write {
        /// The first block.
        block: ShardBlock,
        /// The first slot.
        slot: SlotNo,
        /// CRC32C of each block, in order.
        crcs: Checksums,
    },
    /// One block was copied or merged into a slot. The record is void if the block is no longer in the slot `from`.
    Move {
        /// The block.
        block: ShardBlock,
        /// The slot that it was copied from; `None` if the block was unmapped.
        from: Option<SlotNo>,
        /// Its new slot.
        slot: SlotNo,
        /// CRC32C of its content.
        crc: u32,
    },
    /// Consecutive blocks were discarded.
    Unmap {
        /// The first block.
        block: ShardBlock,
        /// How many.
        count: u32,
    },
    /// A stripe was allocated.
    Open {
        /// The stripe, free until now.
        stripe: StripeId,
        /// Its form, in which it is written at once.
        form: StripeForm,
        /// Number of data columns in use.
        columns: u8,
        /// The addresses of all its chunks, in the order of `MappedGeometry::homes_per_stripe`.
        homes: Vec<Option<ChunkAddr>>,
    },
    /// A mirrored stripe's parity is durable; its mirrors are dropped.
    Converted {
        /// The stripe.
        stripe: StripeId,
    },
    /// A stripe without live blocks was released.
    Free {
        /// The stripe.
        stripe: StripeId,
    },
    /// A chunk of a stripe is up to date at this address, either a new one or the one where it was stale.
    Rehome {
        /// The stripe.
        stripe: StripeId,
        /// The index of the chunk in the stripe.
        index: u8,
        /// The address of the chunk.
        home: ChunkAddr,
    },
    /// A chunk of a stripe is stale.
    Stale {
        /// The stripe.
        stripe: StripeId,
        /// The index of the chunk in the stripe.
        index: u8,
    },
    /// All chunks on this member are stale: an empty device replaced it.
    StaleMember {
        /// The member.
        member: MemberId,
    },
    /// A map page was assigned to a part of a volume.
    PageOwner {
        /// The map page.
        page: u32,
        /// The volume.
        volume: VolumeId,
        /// The part of the volume: the shard's blocks of it from `index * 4032` on.
        index: u32,
    },
    /// A map page and all its blocks were released.
    PageDrop {
        /// The map page.
        page: u32,
    },
    /// The progress of a scrub.
    Scrub {
        /// The next stripe; `None` if no scrub is running.
        next: Option<StripeId>,
    },
    /// Aborts the records of these slots in the journal blocks from `since` up to the one before this.
    Void {
        /// The first slot.
        slot: SlotNo,
        /// How many.
        count: u8,
        /// The first journal block that may contain such a record.
        since: Lsn,
    },
}

fn home_bytes(w: &mut Writer, home: Option<ChunkAddr>) {
    // 0xff is no member: a pool has at most 255, numbered from 0.
    w.u8(home.map_or(0xff, |h| h.member.0));
    w.u32(home.map_or(0, |h| h.chunk));
}

fn home_from(r: &mut Reader<'_>) -> Result<Option<ChunkAddr>, DecodeError> {
    let (member, chunk) = (r.u8()?, r.u32()?);
    Ok((member != 0xff).then_some(ChunkAddr { member: MemberId(member), chunk }))
}

const NONE: u32 = u32::MAX;
/// The limit of sequence numbers. They count up by one and never come near it, so a larger number is invalid.
const LSN_LIMIT: Lsn = 1 << 62;

impl Record {
    /// The map page that the record changes, if it changes one.
    pub fn map_page(&self) -> Option<u32> {
        match self {
            Record::Write { block, .. } | Record::Move { block, .. } | Record::Unmap { block, .. } => {
                Some(map_page(*block))
            }
            Record::PageOwner { page, .. } | Record::PageDrop { page } => Some(*page),
            _ => None,
        }
    }

    /// Bytes the record takes in a block.
    pub fn encoded_len(&self) -> usize {
        match self {
            Record::Write { crcs, .. } => 10 + crcs.len() * 4,
            Record::Move { .. } => 17,
            Record::Unmap { .. } => 9,
            Record::Open { homes, .. } => 8 + homes.len() * 5,
            Record::Converted { .. }
            | Record::Free { .. }
            | Record::PageDrop { .. }
            | Record::Scrub { .. } => 5,
            Record::Rehome { .. } => 11,
            Record::Stale { .. } => 6,
            Record::StaleMember { .. } => 2,
            Record::PageOwner { .. } => 13,
            Record::Void { .. } => 14,
        }
    }

    fn encode(&self, w: &mut Writer) {
        match self {
            Record::Write { block, slot, crcs } => {
                w.u8(1);
                w.u32(block.0);
                w.u32(slot.0);
                w.u8(u8::try_from(crcs.len()).expect("at most WRITE_BLOCKS_MAX blocks"));
                crcs.iter().for_each(|&crc| w.u32(crc));
            }
            Record::Move { block, from, slot, crc } => {
                w.u8(2);
                w.u32(block.0);
                w.u32(from.map_or(NONE, |s| s.0));
                w.u32(slot.0);
                w.u32(*crc);
            }
            Record::Unmap { block, count } => {
                w.u8(3);
                w.u32(block.0);
                w.u32(*count);
            }
            Record::Open { stripe, form, columns, homes } => {
                w.u8(4);
                w.u32(stripe.0);
                w.u8(*form as u8);
                w.u8(*columns);
                w.u8(homes.len() as u8);
                homes.iter().for_each(|&home| home_bytes(w, home));
            }
            Record::Converted { stripe } => {
                w.u8(5);
                w.u32(stripe.0);
            }
            Record::Free { stripe } => {
                w.u8(6);
                w.u32(stripe.0);
            }
            Record::Rehome { stripe, index, home } => {
                w.u8(7);
                w.u32(stripe.0);
                w.u8(*index);
                home_bytes(w, Some(*home));
            }
            Record::Stale { stripe, index } => {
                w.u8(8);
                w.u32(stripe.0);
                w.u8(*index);
            }
            Record::StaleMember { member } => {
                w.u8(9);
                w.u8(member.0);
            }
            Record::PageOwner { page, volume, index } => {
                w.u8(10);
                w.u32(*page);
                w.u32(volume.0);
                w.u32(*index);
            }
            Record::PageDrop { page } => {
                w.u8(11);
                w.u32(*page);
            }
            Record::Scrub { next } => {
                w.u8(12);
                w.u32(next.map_or(NONE, |s| s.0));
            }
            Record::Void { slot, count, since } => {
                w.u8(13);
                w.u32(slot.0);
                w.u8(*count);
                w.u64(*since);
            }
        }
    }

    fn decode(r: &mut Reader<'_>) -> Result<Record, DecodeError> {
        Ok(match r.u8()? {
            1 => {
                let (block, slot, count) = (ShardBlock(r.u32()?), SlotNo(r.u32()?), r.u8()?);
                let crcs = (0..count).map(|_| r.u32()).collect::<Result<_, _>>()?;
                Record::Write { block, slot, crcs }
            }
            2 => {
                let (block, from) = (ShardBlock(r.u32()?), r.u32()?);
                let from = (from != NONE).then_some(SlotNo(from));
                Record::Move { block, from, slot: SlotNo(r.u32()?), crc: r.u32()? }
            }
            3 => Record::Unmap { block: ShardBlock(r.u32()?), count: r.u32()? },
            4 => {
                let (stripe, form, columns, count) = (StripeId(r.u32()?), r.u8()?, r.u8()?, r.u8()?);
                let form = *StripeForm::ALL
                    .get(usize::from(form))
                    .ok_or(DecodeError::Invalid("form of a stripe"))?;
                let homes = (0..count).map(|_| home_from(r)).collect::<Result<_, _>>()?;
                Record::Open { stripe, form, columns, homes }
            }
            5 => Record::Converted { stripe: StripeId(r.u32()?) },
            6 => Record::Free { stripe: StripeId(r.u32()?) },
            7 => {
                let (stripe, index) = (StripeId(r.u32()?), r.u8()?);
                let home = home_from(r)?.ok_or(DecodeError::Invalid("home"))?;
                Record::Rehome { stripe, index, home }
            }
            8 => Record::Stale { stripe: StripeId(r.u32()?), index: r.u8()? },
            9 => Record::StaleMember { member: MemberId(r.u8()?) },
            10 => Record::PageOwner { page: r.u32()?, volume: VolumeId(r.u32()?), index: r.u32()? },
            11 => Record::PageDrop { page: r.u32()? },
            12 => {
                let next = r.u32()?;
                Record::Scrub { next: (next != NONE).then_some(StripeId(next)) }
            }
            13 => Record::Void { slot: SlotNo(r.u32()?), count: r.u8()?, since: r.u64()? },
            _ => return Err(DecodeError::Invalid("record kind")),
        })
    }
}

/// The header of a journal block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalHeader {
    /// The pool it belongs to.
    pub pool: Uuid,
    /// The shard it belongs to.
    pub shard: u16,
    /// The epoch in which it was written. It never decreases from one block to the next.
    pub epoch: u64,
    /// The epoch in which recovery rewrote it, without records that had lost their data; 0 for the original.
    pub rewritten: u64,
    /// Its sequence number; its place in the ring is this modulo the ring's length.
    pub lsn: u64,
    /// The oldest block that replay still needs.
    pub tail: u64,
    /// The flushed mark: the last block whose records, and the data that they name, are known durable.
    pub flushed: u64,
    /// The sum of the LSNs of the pages of the map and of the stripes that were durable before it was written; 0 in blocks that
    /// do not tell.
    pub page_lsns: u64,
}

/// Packs records into a block, from the front, until it is full. Returns their number.
///
/// # Panics
/// When the first record alone does not fit: no record is longer than a block.
pub fn encode_block(header: &JournalHeader, records: &[Record], block: &mut [u8]) -> usize {
    let mut payload = Writer(Vec::with_capacity(JOURNAL_PAYLOAD_BYTES));
    let mut count = 0;
    for record in records {
        if payload.0.len() + record.encoded_len() > JOURNAL_PAYLOAD_BYTES {
            break;
        }
        let before = payload.0.len();
        record.encode(&mut payload);
        debug_assert_eq!(payload.0.len() - before, record.encoded_len());
        count += 1;
    }
    assert!(count > 0 || records.is_empty(), "a record longer than a journal block");
    let mut w = Writer(Vec::with_capacity(JOURNAL_HEADER_BYTES));
    w.u32(MAGIC);
    w.u16(FORMAT_VERSION);
    w.u16(header.shard);
    w.bytes(&header.pool);
    w.u64(header.epoch);
    w.u64(header.rewritten);
    w.u64(header.lsn);
    w.u64(header.tail);
    w.u64(header.flushed);
    w.u64(header.page_lsns);
    w.0.resize(JOURNAL_HEADER_BYTES - 8, 0);
    w.u16(payload.0.len() as u16);
    w.u16(count as u16);
    debug_assert_eq!(w.0.len(), JOURNAL_HEADER_BYTES - 4);
    block[..w.0.len()].copy_from_slice(&w.0);
    block[JOURNAL_HEADER_BYTES..JOURNAL_HEADER_BYTES + payload.0.len()].copy_from_slice(&payload.0);
    block[JOURNAL_HEADER_BYTES + payload.0.len()..].fill(0);
    seal(block, CRC_AT);
    count
}

/// Checks a block and reads its header; the records are decoded only for blocks that replay needs.
///
/// # Errors
/// When it is not an intact journal block of this format.
pub fn decode_header(block: &[u8]) -> Result<JournalHeader, DecodeError> {
    if block.len() != BLOCK_BYTES || block[..4] != MAGIC.to_le_bytes() {
        return Err(DecodeError::Foreign);
    }
    if !is_sealed(block, CRC_AT) {
        return Err(DecodeError::Checksum);
    }
    let mut r = Reader(&block[4..]);
    let version = r.u16()?;
    if version != FORMAT_VERSION {
        return Err(DecodeError::Version(version));
    }
    let shard = r.u16()?;
    let pool = r.uuid()?;
    let (epoch, rewritten) = (r.u64()?, r.u64()?);
    let (lsn, tail, flushed, page_lsns) = (r.u64()?, r.u64()?, r.u64()?, r.u64()?);
    if !(1..=lsn).contains(&tail) || flushed >= lsn || lsn >= LSN_LIMIT {
        return Err(DecodeError::Invalid("journal sequence"));
    }
    Ok(JournalHeader { pool, shard, epoch, rewritten, lsn, tail, flushed, page_lsns })
}

/// The records of a block that `decode_header` accepted.
///
/// # Errors
/// When a record is impossible.
pub fn decode_records(block: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let mut r = Reader(block.get(JOURNAL_HEADER_BYTES - 8..).ok_or(DecodeError::Invalid("length"))?);
    let (len, count) = (usize::from(r.u16()?), r.u16()?);
    r.u32()?;
    let mut payload = Reader(r.take(len)?);
    (0..count).map(|_| Record::decode(&mut payload)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let home = (0u8..255, any::<u32>()).prop_map(|(m, chunk)| ChunkAddr { member: MemberId(m), chunk });
        let stripe = (0..u32::MAX).prop_map(StripeId);
        let slot = (0..u32::MAX).prop_map(SlotNo);
        let block = any::<u32>().prop_map(ShardBlock);
        prop_oneof![
            (block.clone(), slot.clone(), proptest::collection::vec(any::<u32>(), 1..=WRITE_BLOCKS_MAX))
                .prop_map(|(block, slot, crcs)| Record::Write { block, slot, crcs: crcs.into() }),
            (block.clone(), proptest::option::of(slot.clone()), slot.clone(), any::<u32>())
                .prop_map(|(block, from, slot, crc)| Record::Move { block, from, slot, crc }),
            (block, any::<u32>()).prop_map(|(block, count)| Record::Unmap { block, count }),
            (
                stripe.clone(),
                proptest::sample::select(&StripeForm::ALL[..]),
                any::<u8>(),
                proptest::collection::vec(proptest::option::of(home.clone()), 0..92)
            )
                .prop_map(|(stripe, form, columns, homes)| Record::Open {
                    stripe,
                    form,
                    columns,
                    homes
                }),
            stripe.clone().prop_map(|stripe| Record::Converted { stripe }),
            stripe.clone().prop_map(|stripe| Record::Free { stripe }),
            (stripe.clone(), any::<u8>(), home).prop_map(|(stripe, index, home)| Record::Rehome {
                stripe,
                index,
                home
            }),
            (stripe.clone(), any::<u8>()).prop_map(|(stripe, index)| Record::Stale { stripe, index }),
            any::<u8>().prop_map(|m| Record::StaleMember { member: MemberId(m) }),
            (any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(page, v, index)| Record::PageOwner {
                page,
                volume: VolumeId(v),
                index
            }),
            any::<u32>().prop_map(|page| Record::PageDrop { page }),
            proptest::option::of(stripe).prop_map(|next| Record::Scrub { next }),
            (slot, any::<u8>(), any::<u64>()).prop_map(|(slot, count, since)| Record::Void {
                slot,
                count,
                since
            }),
        ]
    }

    const HEADER: JournalHeader = JournalHeader {
        pool: [7; 16],
        shard: 3,
        epoch: 2,
        rewritten: 5,
        lsn: 99,
        tail: 50,
        flushed: 98,
        page_lsns: 1234,
    };

    proptest! {
        #[test]
        fn blocks_survive_a_round_trip(records in proptest::collection::vec(record(), 0..60)) {
            let mut block = vec![0xaa; BLOCK_BYTES];
            let count = encode_block(&HEADER, &records, &mut block);
            prop_assert_eq!(decode_header(&block), Ok(HEADER));
            prop_assert_eq!(decode_records(&block).unwrap(), &records[..count]);
        }

        #[test]
        fn a_flipped_bit_is_noticed(records in proptest::collection::vec(record(), 1..9), at in 0..BLOCK_BYTES, bit in 0u8..8) {
            let mut block = vec![0; BLOCK_BYTES];
            encode_block(&HEADER, &records, &mut block);
            block[at] ^= 1 << bit;
            prop_assert!(decode_header(&block).is_err());
        }

        #[test]
        fn impossible_sequences_are_refused(lsn in 0..200u64, tail in 0..200u64, flushed in 0..200u64) {
            let header = JournalHeader { lsn, tail, flushed, ..HEADER };
            let mut block = vec![0; BLOCK_BYTES];
            encode_block(&header, &[], &mut block);
            let possible = tail >= 1 && tail <= lsn && flushed < lsn;
            prop_assert_eq!(decode_header(&block).is_ok(), possible);
        }

        #[test]
        fn any_bytes_decode_or_fail(block in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode_records(&block);
        }
    }
}
