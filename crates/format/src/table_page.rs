//! The header of a table page. A page carries its own name, so recovery finds it in whatever slot it was written.

use crate::model::mapped_geometry::{PAGE_BYTES, PAGE_HEADER_BYTES};
use sinew_core::checksum::{is_sealed, seal};

use crate::codec::{DecodeError, Reader, Writer};
use sinew_core::ids::Uuid;

const MAGIC: u32 = u32::from_le_bytes(*b"SNPG");
/// Bytes of the fields all pages share; the rest of the header belongs to the kind of page.
pub const FIELDS_BYTES: usize = 64;
/// Where the CRC of the page is.
const CRC_AT: usize = FIELDS_BYTES - 4;
const _: () = assert!(FIELDS_BYTES <= PAGE_HEADER_BYTES);

/// Which page of which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageId {
    /// The progress of the shard's long background work; a shard has one such page.
    Shard,
    /// A page of the stripe table.
    Stripes(u32),
    /// A page of the block map.
    Map(u32),
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The pool it belongs to.
    pub pool: Uuid,
    /// The shard it belongs to.
    pub shard: u16,
    /// Which page it is.
    pub page: PageId,
    /// The last journal block whose records it contains.
    pub lsn: u64,
}

impl PageHeader {
    /// Writes the header, with the CRC of everything, over the first bytes of a page whose content is in place.
    pub fn seal(&self, page: &mut [u8]) {
        assert_eq!(page.len(), PAGE_BYTES);
        let mut w = Writer::structure(MAGIC);
        w.u16(self.shard);
        w.bytes(&self.pool);
        let (kind, number) = match self.page {
            PageId::Shard => (0, 0),
            PageId::Stripes(n) => (1, n),
            PageId::Map(n) => (2, n),
        };
        w.u32(kind);
        w.u32(number);
        w.u64(self.lsn);
        page[..w.0.len()].copy_from_slice(&w.0);
        page[w.0.len()..FIELDS_BYTES].fill(0);
        seal(page, CRC_AT);
    }

    /// Verifies a page and decodes its header.
    ///
    /// # Errors
    /// [`DecodeError`] when it is not an intact page of this format.
    pub fn open(page: &[u8]) -> Result<PageHeader, DecodeError> {
        if page.len() != PAGE_BYTES {
            return Err(DecodeError::Foreign);
        }
        let mut r = Reader::structure(page, MAGIC)?;
        let shard = r.u16()?;
        let pool = r.uuid()?;
        let (kind, number) = (r.u32()?, r.u32()?);
        let lsn = r.u64()?;
        if !is_sealed(page, CRC_AT) {
            return Err(DecodeError::Checksum);
        }
        let page = match kind {
            0 => PageId::Shard,
            1 => PageId::Stripes(number),
            2 => PageId::Map(number),
            _ => return Err(DecodeError::Invalid("page kind")),
        };
        Ok(PageHeader { pool, shard, page, lsn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_page_opens_and_a_damaged_one_does_not() {
        let header = PageHeader { pool: [3; 16], shard: 1, page: PageId::Map(77), lsn: 1 << 40 };
        let mut page = vec![5u8; PAGE_BYTES];
        header.seal(&mut page);
        assert_eq!(PageHeader::open(&page), Ok(header));
        for at in [0, 5, 7, 30, 50, 300, PAGE_BYTES - 1] {
            let mut bad = page.clone();
            bad[at] ^= 0x10;
            assert!(PageHeader::open(&bad).is_err(), "byte {at}");
        }
    }
}
