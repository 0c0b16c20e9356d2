//! Snapshots of changed table pages, for the checkpoint to write.

use std::rc::Rc;

use crate::store::Store;
use crate::store::dirty_pages::PageCopy;
use sinew_core::buf::Buf;
use sinew_core::ids::Lsn;
use sinew_core::io::{Gather, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::table_page::{PageHeader, PageId};

/// A page as it was when the round took it.
pub(crate) struct Snapshot {
    pub(crate) page: PageId,
    pub(crate) since: Lsn,
    lsn: Lsn,
    pub(crate) data: Gather,
}

impl<I: Io> Store<I> {
    /// Takes the page that changed first, with what is absent of it; none if no page has changed.
    ///
    /// # Errors
    /// When that cannot be read.
    pub(crate) async fn take_snapshot(self: &Rc<Self>) -> Result<Option<Snapshot>, VolumeError> {
        let oldest = self.tables().pages.oldest();
        let _page = match oldest {
            Some(page) if !mutation::on(Mutation::EncodeAbsent) => Some(self.pin_page_at_once(page).await?),
            _ => None,
        };
        Ok(self.encode_oldest())
    }

    fn encode_oldest(&self) -> Option<Snapshot> {
        let mut tables = self.tables.borrow_mut();
        let (page, lsn, since) = tables.pages.take_oldest()?;
        let mut data = Buf::stale(PAGE_BYTES);
        tables.encode_page(page, data.bytes_mut());
        PageHeader { pool: self.pool, shard: self.index as u16, page, lsn }.seal(data.bytes_mut());
        Some(Snapshot { page, since, lsn, data: Rc::new([data]) })
    }

    pub(crate) fn put_back(&self, snapshots: Vec<Snapshot>) {
        let mut tables = self.tables.borrow_mut();
        // The oldest goes back last, to the very front.
        for snapshot in snapshots.into_iter().rev() {
            tables.pages.put_back(snapshot.page, snapshot.since);
        }
    }

    pub(crate) fn adopt_copies(&self, snapshot: &Snapshot, copies: Vec<PageCopy>) {
        let old = self.tables.borrow_mut().pages.set_copies(snapshot.page, snapshot.lsn, copies);
        self.allocator.borrow_mut().free_page_slots(old);
        self.counters.pages_written.add(1);
    }
}
