//! Reshape: growth of an array onto more members, of chunks without parity and of rows with parity.

mod chunks;
mod row_forms;
mod rows;
mod run;

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::Kick;
use sinew_core::volume::VolumeError;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::array_shard_layout::ShardLayout;
use sinew_format::model::config::MemberState;
use sinew_members::io_priority::BackgroundWork;

use crate::bitmap::Bitmap;
use crate::journal::Journal;
use crate::marks::Mark;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// The growth of a shard.
pub(crate) struct Reshape<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    journal: Rc<Journal<I>>,
    stripes: Rc<Stripes<I>>,
    wake: Kick,
    /// The last batch failed.
    stuck: Cell<bool>,
}

impl<I: Io> Reshape<I> {
    /// The job, not yet running.
    pub(crate) fn new(
        state: &Rc<ShardState<I>>,
        bitmap: &Rc<Bitmap<I>>,
        journal: &Rc<Journal<I>>,
        stripes: &Rc<Stripes<I>>,
    ) -> Reshape<I> {
        Reshape {
            state: Rc::clone(state),
            bitmap: Rc::clone(bitmap),
            journal: Rc::clone(journal),
            stripes: Rc::clone(stripes),
            wake: Kick::default(),
            stuck: Cell::new(false),
        }
    }

    /// The array has another geometry, with these members: a growth begins, or has ended.
    pub(crate) fn set_geometry(&self, geometry: ArrayGeometry, members: &[(MemberState, Option<DeviceId>)]) {
        let before = self.state.layout();
        let next = ShardLayout::new(geometry, before.index);
        let known = before.geometry.members();
        self.state.members().extend(known, &members[known..]);
        self.bitmap.extend(next.regions(), geometry.members());
        self.journal.progress().resume(0);
        self.state.set_layout(next);
        self.state.note_losses();
        self.wake.kick();
    }

    /// Waits before `bytes` bytes are moved, about as many on each member.
    async fn yield_to_clients(&self, bytes: u64) {
        let members: Vec<MemberId> = self.state.layout().member_ids().collect();
        self.state.yield_to_clients(&members, bytes.div_ceil(members.len() as u64)).await;
    }

    /// Lets a stripe get units on these members, unless one of them is new to it and is still to be rebuilt in its region: what is
    /// written there would count as stale, so the stripe would lose redundancy although no member failed.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] until the member is rebuilt.
    fn require_rebuilt(
        &self,
        layout: &ShardLayout,
        stripe: u64,
        mut members: impl Iterator<Item = MemberId>,
    ) -> Result<(), VolumeError> {
        let (regions, region) = (self.bitmap.regions(), layout.region(stripe));
        let is_stale = |member: MemberId| {
            self.state.members().is_active(member)
                && regions.is_stale(usize::from(member.0), region)
                && !layout.stripe_members(stripe).any(|present| present == member)
        };
        if !members.any(is_stale) || mutation::on(Mutation::GrowOntoStale) {
            return Ok(());
        }
        self.state.mark(Mark::ArrayMoveAwaitsRebuild);
        Err(VolumeError::Failed)
    }

    /// Whether the growth cannot go on at present.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.get()
    }
}
