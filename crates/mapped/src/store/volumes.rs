//! Volumes: which block of the shard each block of a volume is, and which requests are under way on a volume.

use std::rc::Rc;

use crate::store::Store;
use crate::store::map_pins::MapPins;
use sinew_core::ids::{ShardBlock, SlotNo, VolumeId};
use sinew_core::io::Io;
use sinew_core::volume::VolumeError;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, PAGE_INDICES, map_page, split_local};

/// A stretch of consecutive blocks as the map has it: stored in consecutive slots of one chunk, or not at all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) block: ShardBlock,
    pub(crate) slot: Option<SlotNo>,
    pub(crate) count: u32,
    /// False where the tables do not tell whether anything is stored.
    pub(crate) is_known: bool,
}

/// A request under way on a volume.
pub(crate) struct VolumeUse<I: Io> {
    store: Rc<Store<I>>,
    volume: VolumeId,
}

impl<I: Io> Drop for VolumeUse<I> {
    fn drop(&mut self) {
        let mut users = self.store.volume_users.borrow_mut();
        let count = users.get_mut(&self.volume).expect("entered before");
        *count -= 1;
        if *count == 0 {
            users.remove(&self.volume);
            drop(users);
            self.store.volume_idle.notify();
        }
    }
}

impl<I: Io> Store<I> {
    /// The block a volume's block is numbered as here, if any part of its page has been written.
    pub(crate) fn block(&self, volume: VolumeId, local: u64) -> Option<ShardBlock> {
        let (index, within) = split_local(local);
        let page = self.tables.borrow().volume_page(volume, index)?;
        Some(ShardBlock(page * PAGE_INDICES + within))
    }

    /// As `block`, giving the volume a map page where it has none yet; keeps the page in memory.
    ///
    /// # Errors
    /// When the shard has no map page left.
    pub(crate) fn block_for_write(
        self: &Rc<Self>,
        volume: VolumeId,
        local: u64,
        maps: &mut MapPins,
    ) -> Result<ShardBlock, VolumeError> {
        if let Some(block) = self.block(volume, local) {
            self.hold_map(map_page(block), maps);
            return Ok(block);
        }
        let (index, within) = split_local(local);
        let mut pending = self.pages_pending.borrow_mut();
        let page = match pending.get(&(volume, index)) {
            Some(&page) => page,
            None => {
                let page = self.tables.borrow().free_map_page(|p| pending.values().any(|&taken| taken == p));
                let limit = self.geometry.map_pages_max(self.allocator.borrow().all_chunks());
                if u64::from(page) >= limit {
                    return Err(VolumeError::NoSpace);
                }
                pending.insert((volume, index), page);
                // Queued before any record about a block in the page, so it is applied before them.
                let commit = self.journal.commit(vec![Record::PageOwner { page, volume, index }]);
                let store = Rc::clone(self);
                self.io.spawn(async move {
                    let _ = commit.await;
                    store.pages_pending.borrow_mut().remove(&(volume, index));
                });
                page
            }
        };
        self.hold_map(page, maps);
        Ok(ShardBlock(page * PAGE_INDICES + within))
    }

    /// The first of the stretches that consecutive blocks of a volume consist of; for most requests it is the only one. `None` if its
    /// map page is absent.
    pub(crate) fn first_stretch(&self, volume: VolumeId, local: u64, count: u32) -> Option<Stretch> {
        let tables = self.tables.borrow();
        let (index, within) = split_local(local);
        let in_page = count.min(PAGE_INDICES - within);
        Some(match tables.volume_page(volume, index) {
            None => {
                Stretch { block: ShardBlock(0), slot: None, count: in_page, is_known: tables.knows_all() }
            }
            Some(page) if tables.map.is_absent(page) => return None,
            Some(page) => {
                let block = ShardBlock(page * PAGE_INDICES + within);
                let (slot, run) = tables.map.get_run(block.0, in_page);
                let run = slot.map_or(run, |s| run.min(CHUNK_BLOCKS - s % CHUNK_BLOCKS));
                match slot {
                    Some(slot) => Stretch { block, slot: Some(SlotNo(slot)), count: run, is_known: true },
                    None => {
                        let (is_known, count) = tables.known_run(block, run);
                        Stretch { block, slot: None, count, is_known }
                    }
                }
            }
        })
    }

    /// Tells the stretches that consecutive blocks of a volume consist of, in order.
    ///
    /// # Panics
    /// When a map page of theirs is absent.
    pub(crate) fn stretches(&self, volume: VolumeId, local: u64, count: u32, mut tell: impl FnMut(Stretch)) {
        let (mut local, mut left) = (local, count);
        while left > 0 {
            let stretch = self.first_stretch(volume, local, left).expect("map pages are pinned");
            tell(stretch);
            local += u64::from(stretch.count);
            left -= stretch.count;
        }
    }

    /// Counts a request on a volume until the guard is dropped.
    pub(crate) fn enter_volume(self: &Rc<Self>, volume: VolumeId) -> VolumeUse<I> {
        *self.volume_users.borrow_mut().entry(volume).or_insert(0) += 1;
        VolumeUse { store: Rc::clone(self), volume }
    }

    /// Volumes with requests under way.
    pub(crate) fn volumes_in_use(&self) -> usize {
        self.volume_users.borrow().len()
    }

    /// Waits until no request on the volume is under way.
    pub(crate) async fn wait_volume_idle(&self, volume: VolumeId) {
        self.volume_idle.wait(|| (!self.volume_users.borrow().contains_key(&volume)).then_some(())).await;
    }

    /// Whether a volume is being deleted.
    pub(crate) fn is_deleted(&self, volume: VolumeId) -> bool {
        self.deleted.borrow().contains(&volume)
    }

    /// A volume is being deleted: no request on it begins any more.
    pub(crate) fn note_deleted(&self, volume: VolumeId) {
        self.deleted.borrow_mut().insert(volume);
    }
}
