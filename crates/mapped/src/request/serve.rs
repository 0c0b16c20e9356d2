//! How a shard of a mapped pool answers a client's request, and the requests of the pool's control that concern one volume or
//! the whole shard.

use std::rc::Rc;

use crate::shard::MappedShard;
use sinew_core::coverage::Mark;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::EXTENT_BLOCKS;
use sinew_format::model::mapped_geometry::PAGE_INDICES;
use sinew_format::model::sharding::dealt;
use sinew_members::message::{Reply, Request};

impl<I: Io> MappedShard<I> {
    /// Answers a client's request.
    ///
    /// # Errors
    /// As the `Volume` trait has it.
    pub(crate) async fn serve(
        self: &Rc<Self>,
        volume: VolumeId,
        request: Request,
    ) -> Result<Reply, VolumeError> {
        if !matches!(request, Request::Flush) && self.deleted.borrow().contains(&volume) {
            return Err(VolumeError::Gone);
        }
        self.throttle.note_request(&self.io);
        match request {
            Request::Read { local, count } => self.read(volume, local, count).await.map(Reply::Data),
            Request::Write { local, data } => self.write(volume, local, data).await.map(|()| Reply::Done),
            Request::Merge { local, at, bytes } => {
                self.merge(volume, local, at, &bytes).await.map(|()| Reply::Done)
            }
            Request::Unmap { local, count } => self.unmap(volume, local, count).await.map(|()| Reply::Done),
            Request::Extents { local, count } => Ok(Reply::Extents(self.extents(volume, local, count))),
            Request::Flush => self.flush().await.map(|()| Reply::Done),
        }
    }

    pub(crate) async fn stale_member(self: &Rc<Self>, member: MemberId) -> Result<(), VolumeError> {
        self.io.mark(Mark::MemberAllStale);
        self.journal.commit(vec![Record::StaleMember { member }]).await?;
        self.flush().await
    }

    pub(crate) async fn truncate(self: &Rc<Self>, volume: VolumeId, blocks: u64) -> Result<(), VolumeError> {
        self.wait_volume_idle(volume).await;
        let first = dealt(blocks, EXTENT_BLOCKS, self.index, self.geometry.shards);
        let end =
            self.tables.borrow().volume_pages(volume).last().map_or(0, |(index, _)| u64::from(index + 1));
        let end = end * u64::from(PAGE_INDICES);
        if first < end {
            self.unmap(volume, first, end - first).await?;
        }
        self.flush().await
    }

    pub(crate) async fn close(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.closing.set(true);
        while !self.is_clean() {
            self.cleaner.kick();
            self.cleaned.wait_once().await;
            if !self.members.any_active() {
                return Err(VolumeError::Failed);
            }
        }
        // No write may come to a place after the pool was opened again.
        self.journal.room.wait(|| (self.journal.late_writes() == 0).then_some(())).await;
        self.flush().await
    }
}
