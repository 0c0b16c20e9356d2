//! The tables of a shard without a pool around them, for fuzz targets: what recovery does with the pages and records it
//! has read, step by step.

use crate::store::tables::{Effects, Tables};
use sinew_format::codec::DecodeError;
use sinew_format::journal_block::Record;
use sinew_format::model::config::Config;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::record_check::RecordCheck;
use sinew_format::table_page::PageId;

/// Tables in the making.
pub struct LoadedTables {
    bounds: RecordCheck,
    tables: Tables,
}

impl LoadedTables {
    /// Empty tables of a shard of this pool.
    pub fn new(config: &Config) -> LoadedTables {
        LoadedTables { bounds: RecordCheck::new(config), tables: Tables::new(config.mapped()) }
    }

    /// Takes in a page whose header has been checked. Pages come in the order of their ids, each once.
    ///
    /// # Errors
    /// When the content is impossible in this pool.
    pub fn load(&mut self, page: PageId, lsn: u64, bytes: &[u8]) -> Result<(), DecodeError> {
        self.tables.load_page(page, bytes, &self.bounds, u64::MAX)?;
        self.tables.pages.loaded(page, lsn, Vec::new());
        Ok(())
    }

    /// Replays the records of journal block `lsn`. Blocks come in order, after all pages.
    ///
    /// # Errors
    /// When a record is impossible in this pool. None has been applied then.
    pub fn replay(&mut self, lsn: u64, records: &[Record]) -> Result<(), DecodeError> {
        records.iter().try_for_each(|record| self.bounds.record(record))?;
        let mut effects = Effects::default();
        records.iter().for_each(|record| self.tables.apply(lsn, record, &mut effects));
        Ok(())
    }

    /// Ends loading and replay.
    ///
    /// # Errors
    /// When the tables contradict each other.
    pub fn complete(&mut self) -> Result<(), DecodeError> {
        self.tables.complete()
    }

    /// The content of a page, not sealed.
    pub fn page(&self, page: PageId) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        self.tables.encode_page(page, &mut bytes);
        bytes
    }

    /// Every page that is not empty.
    pub fn pages(&self) -> Vec<PageId> {
        let stripes = self.tables.stripe_count().div_ceil(self.tables.geometry.stripes_per_page() as u32);
        let shard = std::iter::once(PageId::Shard);
        shard
            .chain((0..stripes).map(PageId::Stripes))
            .chain((0..self.tables.map.pages_end()).map(PageId::Map))
            .collect()
    }

    /// Heap bytes of the tables.
    pub fn memory_bytes(&self) -> u64 {
        self.tables.memory_bytes()
    }
}
