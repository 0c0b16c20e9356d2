//! A shard of an array: the rooms held together. The only file that knows all of them.
//!
//! Each room is a type that owns its state; a room holds the lower rooms that it uses. Changes that
//! concern several rooms, above all a member's new state, are here.

use std::rc::Rc;

use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::MemberState;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_members::members::Members;
use sinew_members::message::{Reply, Request};
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::{OpenShard, PoolShard};
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::ring::group_form::GroupForm;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Throttle;

use crate::background::clear_bitmap::BitmapClearing;
use crate::background::destage::Destager;
use crate::background::govern::Governing;
use crate::background::rebuild::Rebuild;
use crate::background::scrub::Scrub;
use crate::background::tidy::Tidier;
use crate::bitmap::Bitmap;
use crate::forms::Forms;
use crate::inspect::Inspected;
use crate::inspect::leak_check::leaks;
use crate::inspect::status::status;
use crate::journal::Journal;
use crate::md_dirty::MdDirty;
use crate::recovery::finish::finish;
use crate::recovery::recover::{Recovered, UnplacedImage, recover};
use crate::request::Requests;
use crate::reshape::Reshape;
use crate::state::ShardState;
use crate::stripe::Stripes;

/// One shard of an open array. All methods run on the thread it was opened on.
pub struct ArrayShard<I> {
    state: Rc<ShardState<I>>,
    bitmap: Rc<Bitmap<I>>,
    forms: Rc<Forms<I>>,
    journal: Rc<Journal<I>>,
    md_dirty: Rc<MdDirty<I>>,
    stripes: Rc<Stripes<I>>,
    requests: Rc<Requests<I>>,
    destager: Rc<Destager<I>>,
    clearing: Rc<BitmapClearing<I>>,
    rebuild: Rc<Rebuild<I>>,
    scrub: Rc<Scrub<I>>,
    tidier: Rc<Tidier<I>>,
    governing: Rc<Governing<I>>,
    reshape: Rc<Reshape<I>>,
}

impl<I: Io> ArrayShard<I> {
    /// The rooms of a shard that recovery has found; none of its tasks runs yet.
    fn assemble(found: Recovered<I>) -> ArrayShard<I> {
        let Recovered {
            io,
            layout,
            members,
            regions,
            forms,
            form_pages,
            log,
            dirty,
            resumed,
            unplaced,
            imaged,
            report: _,
        } = found;
        let tail = log.tail;
        let state = Rc::new(ShardState::new(io, layout, members));
        let bitmap = Rc::new(Bitmap::new(&state, regions));
        if state.has_log() && !state.layout().geometry.journal && state.has_redundancy() {
            bitmap.doubt_dirty();
        }
        let forms = Rc::new(Forms::new(&state, forms, form_pages));
        let journal = Rc::new(Journal::new(&state, &bitmap, &forms, log, dirty, resumed));
        journal.note_images(imaged);
        let md_dirty = Rc::new(MdDirty::new(&state, &bitmap, &journal));
        let stripes = Rc::new(Stripes::new(&state, &bitmap, &forms, &journal, &md_dirty));
        for UnplacedImage { stripe, place, data } in unplaced {
            stripes.keep_unplaced(stripe, place, &[data]);
            journal.pinned().pin_recovered(tail);
        }
        ArrayShard {
            requests: Rc::new(Requests::new(&state, &journal, &stripes)),
            destager: Rc::new(Destager::new(&state, &bitmap, &journal, &stripes)),
            clearing: Rc::new(BitmapClearing::new(&state, &bitmap, &journal)),
            rebuild: Rc::new(Rebuild::new(&state, &bitmap, &journal, &stripes)),
            scrub: Rc::new(Scrub::new(&state, &bitmap, &forms, &journal, &stripes)),
            tidier: Rc::new(Tidier::new(&state, &bitmap, &forms, &journal, &stripes)),
            governing: Rc::new(Governing::new(&state, &bitmap, &forms, &stripes)),
            reshape: Rc::new(Reshape::new(&state, &bitmap, &journal, &stripes)),
            state,
            bitmap,
            forms,
            journal,
            md_dirty,
            stripes,
        }
    }

    /// Starts the tasks that the end of recovery needs.
    fn start(&self) {
        let io = self.state.io();
        self.start_reading();
        io.spawn(Rc::clone(&self.stripes).run_placing());
        io.spawn(Rc::clone(&self.stripes).run_locating());
        if self.state.has_log() {
            io.spawn(Rc::clone(&self.journal).run());
            io.spawn(Rc::clone(&self.destager).run());
            io.spawn(Rc::clone(&self.clearing).run());
        }
    }

    /// Starts what reads need, which is all that runs in an array of Sinew's that is served read-only.
    fn start_reading(&self) {
        let state = Rc::clone(&self.state);
        self.state.io().spawn(async move { state.members().run_deadlines().await });
    }

    /// Starts the jobs that need a recovered shard: no member may be rebuilt from copies that still disagree.
    fn start_repair(&self) {
        let io = self.state.io();
        if !self.state.layout().geometry.is_read_only() {
            io.spawn(Rc::clone(&self.rebuild).run());
        }
        io.spawn(Rc::clone(&self.scrub).run());
        if self.state.layout().is_elastic() {
            io.spawn(Rc::clone(&self.tidier).run());
            io.spawn(Rc::clone(&self.governing).run());
        }
        if !self.state.layout().is_fixed() {
            io.spawn(Rc::clone(&self.reshape).run());
        }
    }

    /// Ends recovery, and starts what depends on that.
    async fn finish(self: Rc<Self>) -> Result<(), VolumeError> {
        finish(&self.state, &self.bitmap, &self.journal, &self.stripes).await?;
        self.start_repair();
        Ok(())
    }

    fn inspected(&self) -> Inspected<'_, I> {
        Inspected {
            state: &self.state,
            bitmap: &self.bitmap,
            forms: &self.forms,
            journal: &self.journal,
            stripes: &self.stripes,
            requests: &self.requests,
            governing: &self.governing,
            rebuild: &self.rebuild,
            reshape: &self.reshape,
        }
    }
}

impl<I: Io> PoolShard<I> for ArrayShard<I> {
    async fn open(
        open: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> Result<(Rc<Self>, RecoveryReport), RecoverError> {
        let (index, started) = (open.index, open.io.now());
        let mut found = recover(open).await?;
        let mut report = std::mem::take(&mut found.report);
        let shard = Rc::new(ArrayShard::assemble(found));
        shard.state.note_losses();
        recovered(Rc::clone(&shard));
        if shard.members().are_read_only() {
            // What is in the journal is read from there.
            shard.start_reading();
            report.elapsed_ns = shard.state.io().now() - started;
            return Ok((shard, report));
        }
        shard.start();
        let finishing = Box::pin(Rc::clone(&shard).finish());
        match shard.members().full.unless_awaited(finishing).await {
            Ok(finished) => {
                finished.map_err(|error| RecoverError::Damaged { shard: index, what: error.to_string() })?;
            }
            // Reads need nothing of it; the rest comes when the members have space.
            Err(finishing) => {
                shard.state.mark(Mark::ArrayOpenedFull);
                shard.io().spawn(async move {
                    let _ = finishing.await;
                });
            }
        }
        report.elapsed_ns = shard.state.io().now() - started;
        Ok((shard, report))
    }

    fn io(&self) -> &I {
        self.state.io()
    }

    fn members(&self) -> &Members<I> {
        self.state.members()
    }

    fn throttle(&self) -> &Throttle {
        self.state.throttle()
    }

    async fn serve(&self, _volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        let (changed, count) = match &request {
            Request::Write { local, data } => (*local, (data.len() / BLOCK_BYTES) as u64),
            Request::Merge { local, .. } => (*local, 1),
            Request::Unmap { local, count } => (*local, *count),
            _ => (0, 0),
        };
        let reply = self.requests.serve(request).await?;
        if self.stripes.forget_lost(changed, count) {
            // A rebuild may have waited for it.
            self.rebuild.wake();
        }
        Ok(reply)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        if self.members().are_read_only() {
            return Ok(());
        }
        self.journal.flush().await
    }

    /// Leaves nothing for the next opening to replay.
    async fn close(&self) -> Result<(), VolumeError> {
        if self.members().are_read_only() {
            return Ok(());
        }
        self.state.set_closing();
        self.journal.progress().notify();
        self.stripes.wait_until_lowered().await;
        if !self.state.layout().geometry.journal {
            // Nothing but the memory has it.
            self.stripes.wait_until_placed().await;
        }
        if !self.state.has_log() {
            return self.journal.flush().await;
        }
        let journal = Rc::clone(&self.journal);
        let destaging = Box::pin(async move { journal.destage_all().await });
        match self.state.members().full.unless_awaited(destaging).await {
            // What has no space stays in the log, and is replayed.
            Ok(Err(VolumeError::NoSpace)) => self.journal.flush().await,
            // Likewise what waits for members that are out.
            Ok(Err(VolumeError::Failed)) if !self.state.has_failed() => self.journal.flush().await,
            Ok(destaged) => destaged,
            Err(destaging) if !self.state.layout().geometry.journal => destaging.await,
            Err(destaging) => {
                self.state.io().spawn(async move {
                    let _ = destaging.await;
                });
                // Likewise what waits for space now.
                self.journal.flush_written().await
            }
        }
    }

    fn set_member(
        &self,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
        _weight: u8,
    ) {
        let index = usize::from(member.0);
        // A member that failed before the shards heard of the growth onto it.
        if index >= self.state.members().count() {
            return;
        }
        let was_active = self.state.members().is_active(member);
        self.state.members().set(member, state, device, layout);
        if index >= self.state.layout().geometry.members() {
            return;
        }
        self.bitmap.unmark();
        if was_active && state != MemberState::Active && !mutation::on(Mutation::ForgetStale) {
            self.state.mark(Mark::ArrayMemberMissed);
            self.bitmap.note_lost(index);
            self.stripes.forget_unplaced_of(member);
        }
        self.state.note_losses();
        if !was_active && state == MemberState::Active {
            self.forms.write_all_again(self.journal.log().tail_durable());
        }
        self.tidier.queue_all();
        self.journal.note_member_change();
        self.rebuild.wake();
        self.bitmap.wake_clearing();
        self.journal.wake_waiters();
    }

    async fn stale_member(&self, member: MemberId) -> Result<(), VolumeError> {
        self.state.mark(Mark::ArrayMemberAllStale);
        // A spare has no place in the layout, so nothing on it can be stale.
        if usize::from(member.0) < self.state.layout().geometry.members() {
            self.bitmap.set_all_stale(usize::from(member.0));
        }
        self.journal.flush().await
    }

    async fn set_scrub(&self, run: bool) -> Result<(), VolumeError> {
        self.scrub.set_scrub(run).await
    }

    fn status(&self) -> ShardStatus {
        status(&self.inspected())
    }

    fn vitals(&self) -> ShardStatus {
        // The regions of the bitmap are few.
        status(&self.inspected())
    }

    fn leaks(&self) -> Vec<String> {
        leaks(&self.inspected())
    }

    fn set_elastic_policy(&self, policy: ElasticPolicy) {
        self.governing.set_policy(policy);
    }

    fn set_group_form(&self, form: GroupForm) {
        self.journal.log().form_costs.set_form(form);
    }

    fn reshape(
        &self,
        geometry: ArrayGeometry,
        members: &[(MemberState, Option<DeviceId>)],
    ) -> Result<(), VolumeError> {
        if geometry.members() > self.state.layout().geometry.members() {
            // The new members have no form pages yet.
            self.forms.write_all_again(self.journal.log().tail_durable());
        }
        self.reshape.set_geometry(geometry, members);
        self.rebuild.wake();
        Ok(())
    }

    fn moved_everywhere(&self, to: usize, key: u64) {
        self.journal.moved_everywhere(to, key);
    }

    async fn become_clean(&self, now: bool) -> Result<bool, VolumeError> {
        self.md_dirty.become_clean(now).await
    }
}
