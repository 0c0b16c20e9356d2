//! The journal of an array: the log of groups on f + 1 members, the blocks that are not in their place yet, and flushing.
//!
//! It also brings the bitmap and the progress of long work to the members. It does not change stripes: the destager, which
//! brings blocks to their stripes, is background work, and `destage` here holds only the requests to it.

mod destage;
mod destage_requests;
pub(crate) mod dirty_blocks;
mod flush;
mod form_costs;
mod form_pages;
pub(crate) mod group;
pub(crate) mod group_builder;
mod imaged_rows;
pub(crate) mod log;
pub(crate) mod pinned_groups;
pub(crate) mod progress;
mod record_progress;
mod striped_group;
mod writer;

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::completion::Completion;
use sinew_core::io::Io;
use sinew_core::sync::{Promise, Signal, promise};
use sinew_core::volume::VolumeError;
use sinew_format::log_group::GroupRecord;
use sinew_format::model::array_shard_layout::Run;
use sinew_format::model::form::Form;
use sinew_members::group_flush::GroupFlush;

use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::journal::destage_requests::DestageRequests;
use crate::journal::dirty_blocks::DirtyBlocks;
use crate::journal::imaged_rows::ImagedRows;
use crate::journal::log::{Entry, Log, LogStart};
use crate::journal::pinned_groups::PinnedGroups;
use crate::journal::progress::{Progress, Resumed};
use crate::state::ShardState;

/// The journal of a shard.
pub(crate) struct Journal<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    log: Log,
    dirty: RefCell<DirtyBlocks>,
    pinned: PinnedGroups,
    flushes: GroupFlush,
    requests: DestageRequests,
    progress: Progress,
    imaged_rows: ImagedRows,
    /// Form pages are being written, and what waits for that.
    writes_pages: Cell<bool>,
    page_writes: Signal,
}

impl<I: Io> Journal<I> {
    /// The journal as recovery found it.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        forms: &Rc<Forms<I>>,
        start: LogStart,
        dirty: DirtyBlocks,
        resumed: Resumed,
    ) -> Journal<I> {
        Journal {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            forms: Rc::clone(forms),
            requests: DestageRequests::new(start.next),
            log: Log::new(start),
            dirty: RefCell::new(dirty),
            pinned: PinnedGroups::default(),
            flushes: GroupFlush::default(),
            progress: Progress::new(resumed),
            imaged_rows: ImagedRows::default(),
            writes_pages: Cell::default(),
            page_writes: Signal::default(),
        }
    }

    /// The log's positions and room.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The blocks that are not in their place yet, to be read.
    pub(crate) fn dirty(&self) -> Ref<'_, DirtyBlocks> {
        self.dirty.borrow()
    }

    /// The groups that the log keeps until their content is durable in its place.
    pub(crate) fn pinned(&self) -> &PinnedGroups {
        &self.pinned
    }

    /// How far long work is.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Queues clients' data.
    pub(crate) fn append(&self, entries: impl IntoIterator<Item = Entry>) {
        self.log.append(entries);
    }

    /// Appends images of stripes or rows, ahead of clients' data; resolves when they are written.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the log cannot be written.
    pub(crate) async fn append_images(
        &self,
        images: Vec<(GroupRecord, Vec<Buf>)>,
    ) -> Result<(), VolumeError> {
        let (completion, promise) = Completion::new(images.len() as u32);
        let entry = |(record, data)| Entry::Image { record, data, completion: Rc::clone(&completion) };
        self.log.append_images(images.into_iter().map(entry));
        promise.await.map(|_| ())
    }

    /// Appends zeros for slots of a stripe that were given up, ahead of clients' data. A slot that a client has written since keeps
    /// what it has, and one that may have changed meanwhile is left out.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the log cannot be written.
    pub(crate) async fn append_fillers(&self, stripe: u64, slots: &[u32]) -> Result<(), VolumeError> {
        let version = self.dirty.borrow().version();
        let appended = slots.iter().map(|&slot| {
            let (completion, promise) = Completion::new(1);
            let (run, bytes, base) = (Run { stripe, slot, blocks: 1 }, Rc::new([]), Buf::zeroed(BLOCK_BYTES));
            self.log.append_images([Entry::Merge { run, at: 0, bytes, base, version, completion }]);
            promise
        });
        for appended in appended.collect::<Vec<_>>() {
            appended.await?;
        }
        Ok(())
    }

    /// Appends the record that stripes change their form, ahead of clients' data; returns the group that has it, once that is
    /// written.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when the log cannot be written.
    pub(crate) async fn append_form(&self, to: Form, stripes: &[u64]) -> Result<u64, VolumeError> {
        let (logged, group) = promise();
        let record = GroupRecord::Form { to, stripes: stripe_runs(stripes) };
        self.log.append_images([Entry::Form { record, logged }]);
        group.await
    }

    /// Drops the dirty blocks of a stripe that were written before this group: it has the record that the stripe is empty.
    pub(crate) fn forget_before(&self, stripe: u64, group: u64) {
        self.dirty.borrow_mut().remove_before(stripe, group);
    }

    /// Has the next group carry the state and the tail; resolves when the group is written.
    pub(crate) fn write_state(&self) -> Promise<Result<(), VolumeError>> {
        self.log.write_state()
    }
}

/// Groups ascending stripes into runs: first, count.
fn stripe_runs(stripes: &[u64]) -> Vec<(u64, u32)> {
    let mut runs: Vec<(u64, u32)> = Vec::new();
    for &stripe in stripes {
        match runs.last_mut() {
            Some((first, count)) if *first + u64::from(*count) == stripe => *count += 1,
            _ => runs.push((stripe, 1)),
        }
    }
    runs
}
