//! The places of a stripe's units: reading and writing them, also while their members have no physical space (thin members).
//!
//! Content for which there is no space is kept (`unplaced`), and everything that reads the place sees it, so a stripe is
//! consistent although some of its units could not be written. A task writes the blocks as soon as their members have space.
//! Until then their groups stay in the log, and their regions dirty: replay finds the content after a crash, and a member
//! that goes out is stale there.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::ids::MemberId;
use sinew_core::io::{Gather, Io, IoError};
use sinew_format::model::form::Form;

use crate::stripe::Stripes;
use crate::stripe::unplaced::{UnplacedBlock, UnplacedRun};

fn patch(buf: &mut Buf, content: &[(usize, Buf)]) {
    for (at, block) in content {
        buf.bytes_mut()[*at..at + BLOCK_BYTES].copy_from_slice(block.bytes());
    }
}

impl<I: Io> Stripes<I> {
    /// Whether every block is in its place.
    pub(crate) fn is_all_placed(&self) -> bool {
        self.unplaced.is_empty()
    }

    /// Whether the content of a block is not in its place.
    pub(super) fn is_unplaced(&self, member: MemberId, offset: u64) -> bool {
        self.unplaced.blocks.borrow().contains_key(&(member, offset))
    }

    /// Blocks that are not in their places.
    pub(crate) fn unplaced_blocks(&self) -> usize {
        self.unplaced.blocks.borrow().len()
    }

    /// Waits until every block is in its place, or the array has failed.
    pub(crate) async fn wait_until_placed(&self) {
        while !self.is_all_placed() && !self.state.has_failed() {
            self.state.members().wait_for_space().await;
        }
    }

    /// Keeps content for which its member has no space, as if it were in its place.
    pub(crate) fn keep_unplaced(&self, stripe: u64, (member, offset): (MemberId, u64), data: &[Buf]) {
        if !self.state.members().is_active(member) {
            // It went out while it refused the write: what it lacks comes back by rebuild.
            return;
        }
        self.state.mark(Mark::ArrayUnplaced);
        let region = self.state.layout().region(stripe);
        let mut blocks = self.unplaced.blocks.borrow_mut();
        for (data, at) in data.iter().flat_map(Buf::blocks).zip((offset..).step_by(BLOCK_BYTES)) {
            self.bitmap.hold_region(region);
            if let Some(before) = blocks.insert((member, at), UnplacedBlock { stripe, region, data }) {
                self.bitmap.release_region(before.region);
            }
        }
        drop(blocks);
        self.journal.pinned().pin_unplaced();
        self.unplaced.work.kick();
    }

    /// A place holds what it should: other content for it is not needed any more.
    pub(super) fn note_placed(&self, member: MemberId, offset: u64, bytes: usize) {
        if self.unplaced.is_empty() {
            return;
        }
        let range = (member, offset)..(member, offset + bytes as u64);
        self.forget_unplaced(|place| range.contains(place));
    }

    /// A member went out: what it lacks comes back by rebuild.
    pub(crate) fn forget_unplaced_of(&self, member: MemberId) {
        self.forget_unplaced(|place| place.0 == member);
    }

    /// Whether all data of a stripe's columns is in its place.
    pub(super) fn has_data_placed(&self, stripe: u64) -> bool {
        self.unplaced.is_empty() || {
            let layout = self.state.layout();
            let bytes = layout.chunk_blocks as usize * BLOCK_BYTES;
            (0..layout.columns(stripe)).all(|column| {
                let (member, offset) = layout.home(stripe, column);
                self.unplaced.within(member, offset, bytes).is_empty()
            })
        }
    }

    /// A stripe has this form now: content for units that the form does not use is not needed any more.
    pub(super) fn forget_unplaced_units(&self, stripe: u64, form: Form) {
        let layout = self.state.layout();
        if self.unplaced.is_empty() {
            return;
        }
        for place in layout.unused_places(stripe, form) {
            let (member, offset) = layout.place_of(place);
            self.note_placed(member, offset, layout.chunk_blocks as usize * BLOCK_BYTES);
        }
    }

    fn forget_unplaced(&self, is_gone: impl Fn(&(MemberId, u64)) -> bool) {
        let mut blocks = self.unplaced.blocks.borrow_mut();
        let gone: Vec<_> = blocks.extract_if(.., |place, _| is_gone(place)).collect();
        gone.iter().for_each(|(_, block)| self.bitmap.release_region(block.region));
        let is_last = !gone.is_empty() && blocks.is_empty();
        drop(blocks);
        if is_last {
            self.journal.pinned().end_unplaced();
            self.journal.note_destage_success();
            self.journal.wake_destager();
        }
    }

    /// Reads a place, with the content that could not be written there.
    ///
    /// # Errors
    /// The member's.
    pub(crate) async fn read_place(
        &self,
        member: MemberId,
        offset: u64,
        bytes: usize,
    ) -> Result<Buf, IoError> {
        // As it is before the read, too: the block may be placed while an older version is being read.
        let before = self.unplaced_within(member, offset, bytes);
        let mut buf = self.state.members().read_at(member, offset, bytes).await?;
        patch(&mut buf, &before);
        patch(&mut buf, &self.unplaced_within(member, offset, bytes));
        Ok(buf)
    }

    fn unplaced_within(&self, member: MemberId, offset: u64, bytes: usize) -> Vec<(usize, Buf)> {
        if self.unplaced.is_empty() { Vec::new() } else { self.unplaced.within(member, offset, bytes) }
    }

    /// Writes a place.
    ///
    /// # Errors
    /// The member's.
    pub(crate) async fn write_place(
        &self,
        member: MemberId,
        offset: u64,
        data: Gather,
    ) -> Result<(), IoError> {
        let bytes = data.iter().map(Buf::len).sum();
        self.state.members().write_at(member, offset, data).await?;
        self.note_placed(member, offset, bytes);
        Ok(())
    }

    /// Brings blocks to their places whenever their members have space again, for ever.
    pub(crate) async fn run_placing(self: Rc<Self>) {
        loop {
            self.unplaced.work.kicked().await;
            while !self.unplaced.is_empty() {
                self.state.members().wait_for_space().await;
                for stripe in self.unplaced.stripes() {
                    self.place_stripe(stripe).await;
                }
            }
        }
    }

    /// Brings the blocks of a stripe to their places, as far as members have space.
    async fn place_stripe(&self, stripe: u64) {
        let _lock = self.locks.exclusive(stripe).await;
        for UnplacedRun { member, offset, data } in self.unplaced.runs_of(stripe) {
            if !self.state.members().has_space(member) {
                continue;
            }
            match self.write_place(member, offset, data.into()).await {
                Ok(()) => self.state.mark(Mark::ArrayPlaced),
                Err(IoError::NoSpace) => {}
                Err(error) => {
                    self.state.mark(Mark::ArrayPutMemberLost);
                    self.state.members().report_failure(member, error).await;
                }
            }
        }
    }
}
