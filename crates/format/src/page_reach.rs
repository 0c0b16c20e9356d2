//! The reach of a page area: the first block of the area of a shard on a member states below which slot pages may be, so that an
//! opening reads no further. It is durable before a page is written beyond the reach stated before. If it is damaged, pages may be
//! in all slots, so a torn write of it loses nothing.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::{is_sealed, seal};
use sinew_core::ids::Uuid;

use crate::codec::{DecodeError, Reader, Writer};

const MAGIC: u32 = u32::from_le_bytes(*b"SNPR");
/// The first slots of an area, which hold the reach instead of pages.
pub const REACH_SLOTS: u32 = 1;
/// Where the CRC of the block is.
const CRC_AT: usize = 28;

/// The reach of the page area of a shard on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageReach {
    /// The pool it belongs to.
    pub pool: Uuid,
    /// The shard it belongs to.
    pub shard: u16,
    /// Pages are in slots below this one only.
    pub slots: u32,
}

impl PageReach {
    /// Encodes the first block of the page area.
    pub fn encode(&self) -> Buf {
        let mut w = Writer::structure(MAGIC);
        w.u16(self.shard);
        w.bytes(&self.pool);
        w.u32(self.slots);
        let mut block = Buf::zeroed(BLOCK_BYTES);
        block.bytes_mut()[..w.0.len()].copy_from_slice(&w.0);
        seal(block.bytes_mut(), CRC_AT);
        block
    }

    /// Verifies a block and decodes it.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not an intact reach of this format.
    pub fn decode(block: &[u8]) -> Result<PageReach, DecodeError> {
        if block.len() != BLOCK_BYTES {
            return Err(DecodeError::Foreign);
        }
        let mut r = Reader::structure(block, MAGIC)?;
        if !is_sealed(block, CRC_AT) {
            return Err(DecodeError::Checksum);
        }
        let (shard, pool, slots) = (r.u16()?, r.uuid()?, r.u32()?);
        Ok(PageReach { pool, shard, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_survives_its_bytes_and_a_damaged_one_is_refused() {
        let reach = PageReach { pool: [3; 16], shard: 2, slots: 1 << 20 };
        let block = reach.encode();
        assert_eq!(PageReach::decode(block.bytes()), Ok(reach));
        for at in [0, 4, 6, 9, 25, 28, 100, BLOCK_BYTES - 1] {
            let mut bad = block.bytes().to_vec();
            bad[at] ^= 0x10;
            assert!(PageReach::decode(&bad).is_err(), "byte {at}");
        }
        assert_eq!(PageReach::decode(&[0; BLOCK_BYTES]), Err(DecodeError::Foreign));
    }
}
