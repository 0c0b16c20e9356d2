//! Writing, discarding and merging: a client's changes to one shard's part of a volume.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::shard::{MappedShard, split_local};
use crate::store::chunk_allocator::Purpose;
use crate::stripe::append::{From, Piece};
use crate::stripe::full_stripe_write::take_blocks;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::PAGE_INDICES;

/// Room a request has claimed for blocks that were not stored before.
struct Claim<'a> {
    reserved: &'a std::cell::Cell<u64>,
    blocks: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.reserved.set(self.reserved.get() - self.blocks);
    }
}

impl<I: Io> MappedShard<I> {
    /// Stores whole consecutive blocks of a volume.
    pub(crate) async fn write(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        data: Buf,
    ) -> Result<(), VolumeError> {
        let _volume = self.enter_volume(volume);
        self.counters.writes.add(1);
        self.counters.written_bytes.add(data.len() as u64);
        let blocks = (data.len() / BLOCK_BYTES) as u32;
        let _claim = self.claim(volume, local, blocks)?;
        let mut pieces = self.pieces(volume, local, data)?;
        let mut stripes = Vec::new();
        let mut left = blocks;
        while self.is_large(left) {
            let stripe = take_blocks(&mut pieces, self.geometry.slots_per_stripe());
            left -= stripe.iter().map(Piece::blocks).sum::<u32>();
            stripes.push(stripe);
        }
        let small = (left > 0).then(|| self.appender.append(pieces.into()));
        let writes = stripes.iter().map(|pieces| self.write_stripe(pieces, Purpose::User));
        // All parts are waited for even when one fails: nothing of a request happens after its answer.
        let large = join_all(writes).await;
        let small = match small {
            Some(small) => small.await,
            None => Ok(true),
        };
        large.into_iter().try_for_each(|stripe| stripe.map(|_| ()))?;
        small.map(|_| ())
    }

    /// Cuts data along the map pages it belongs to.
    fn pieces(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        data: Buf,
    ) -> Result<VecDeque<Piece>, VolumeError> {
        let mut pieces = VecDeque::with_capacity(1);
        let (mut local, mut rest) = (local, data);
        while !rest.is_empty() {
            let room = (PAGE_INDICES - split_local(local).1) as usize * BLOCK_BYTES;
            let bytes = rest.len().min(room);
            let block = self.block_for_write(volume, local)?;
            pieces.push_back(Piece { block, data: rest.slice(0, bytes), from: From::Client });
            rest = rest.slice(bytes, rest.len() - bytes);
            local += (bytes / BLOCK_BYTES) as u64;
        }
        Ok(pieces)
    }

    /// Claims room for those of the blocks that are not stored yet.
    fn claim(&self, volume: VolumeId, local: u64, blocks: u32) -> Result<Claim<'_>, VolumeError> {
        let mut new = 0;
        self.stretches(volume, local, blocks, |stretch| match stretch.slot {
            Some(slot) => self.recent.note(self.geometry.place(slot).0),
            None => new += u64::from(stretch.count),
        });
        let reserved = self.blocks_reserved.get() + new;
        if new > 0 && self.tables.borrow().live_blocks + reserved > self.space.borrow().capacity_blocks() {
            self.io.mark(Mark::WriteNoSpace);
            return Err(self.no_room());
        }
        self.blocks_reserved.set(reserved);
        Ok(Claim { reserved: &self.blocks_reserved, blocks: new })
    }

    /// Changes some bytes inside one block. Concurrent changes of the same block each take effect whole.
    pub(crate) async fn merge(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), VolumeError> {
        let _volume = self.enter_volume(volume);
        self.counters.merges.add(1);
        self.counters.written_bytes.add(bytes.len() as u64);
        let _claim = self.claim(volume, local, 1)?;
        let block = self.block_for_write(volume, local)?;
        loop {
            // Inside the era the slot read from is not reused, so it can stand for its content.
            let era = self.eras.enter();
            let from = self.tables.borrow().lookup(block);
            let mut content = match from {
                Some(slot) => match self.read_slots(slot, 1).await {
                    Err(VolumeError::Failed) if self.tables.borrow().lookup(block) != from => continue,
                    result => Buf::copy_of(result?.bytes()),
                },
                None => Buf::zeroed(BLOCK_BYTES),
            };
            content.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
            let piece = Piece { block, data: content, from: From::Slot(from) };
            let appended = self.appender.append(vec![piece]).await;
            drop(era);
            match appended {
                Ok(true) => return Ok(()),
                Ok(false) => self.io.mark(Mark::MergeMoved),
                Err(VolumeError::NoSpace) => {
                    self.io.mark(Mark::MergeStarved);
                    self.wait_for_room().await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait_for_room(&self) -> Result<(), VolumeError> {
        let given_up = self.given_up.get();
        let room = || match (self.appender.is_starved(), self.given_up.get() > given_up) {
            (_, true) => Some(Err(self.refuse())),
            (false, false) => Some(Ok(())),
            (true, false) => None,
        };
        self.space_changed.wait(room).await
    }

    /// Frees consecutive blocks of a volume.
    pub(crate) async fn unmap(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        count: u64,
    ) -> Result<(), VolumeError> {
        let _volume = self.enter_volume(volume);
        self.counters.discards.add(1);
        let (mut local, mut left) = (local, count);
        let mut records = Vec::new();
        while left > 0 {
            let (_, within) = split_local(local);
            let in_page = left.min(u64::from(PAGE_INDICES - within));
            // A page that a write under way has just been given counts as not there: the write is not acknowledged yet.
            if let Some(block) = self.block(volume, local) {
                records.push(Record::Unmap { block, count: in_page as u32 });
            }
            local += in_page;
            left -= in_page;
        }
        if records.is_empty() { Ok(()) } else { self.journal.commit(records).await }
    }

    /// Gives back every block of a deleted volume, once nobody uses it.
    pub(crate) async fn drop_volume(self: &Rc<Self>, volume: VolumeId) -> Result<(), VolumeError> {
        self.deleted.borrow_mut().insert(volume);
        self.wait_volume_idle(volume).await;
        let pages = self.tables.borrow().volume_pages(volume);
        for (_, page) in pages {
            self.journal.commit(vec![Record::PageDrop { page }]).await?;
        }
        Ok(())
    }
}
