//! Verification: whether blocks that were read have the checksums that the tables hold for them.

use crate::stripe::Stripes;
use crate::stripe::part::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::ids::{ChunkAddr, SlotNo};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::table_page::PageId;

impl<I: Io> Stripes<I> {
    /// Whether each block with a known checksum matches it.
    pub(crate) fn matches(&self, part: ChunkPart, buf: &Buf, home: ChunkAddr) -> bool {
        let wrong = self.mismatches(part, buf);
        if wrong > 0 {
            self.store.members().note_checksum_error(home.member, wrong);
        }
        wrong == 0
    }

    /// Whether each block with a checksum matches it; false as well if the slots are not in memory.
    pub(super) fn is_known_good(&self, part: ChunkPart, buf: &Buf) -> bool {
        if !self.store.geometry().checksums {
            return true;
        }
        !self.store.tables().slots_are_absent(part.stripe) && {
            self.store.note_page_use(PageId::Stripes(self.store.geometry().stripe_page(part.stripe)));
            self.mismatches(part, buf) == 0
        }
    }

    /// Number of blocks that do not have the checksum they should.
    pub(crate) fn mismatches(&self, part: ChunkPart, buf: &Buf) -> u64 {
        if mutation::on(Mutation::SkipChecksums) || !self.store.geometry().checksums {
            return 0;
        }
        let tables = self.store.tables();
        let first = self.store.geometry().slot(part.stripe, part.column, part.offset);
        let wrong = |(i, block): (usize, &[u8])| {
            let slot = SlotNo(first.0 + i as u32);
            tables.owner(slot).is_some() && tables.crc(slot) != Some(crc32c(block))
        };
        buf.bytes().chunks_exact(BLOCK_BYTES).enumerate().filter(|&b| wrong(b)).count() as u64
    }
}
