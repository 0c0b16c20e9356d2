//! One shard of a mapped pool: a slice of the pool with its own tables, journal and free space, run by one thread.
//!
//! This file holds the shard together, and is the only one that knows all rooms: it opens a shard, starts its background
//! jobs, and passes on what the pool asks. `store` has the state that must survive, `stripe` the stripes, `request` answers
//! clients, `background` has the jobs.

use std::cell::Cell;
use std::rc::Rc;

use crate::background::checkpoint::Checkpointer;
use crate::background::compact::Compactor;
use crate::background::convert::Converter;
use crate::background::defragment::Defragmenter;
use crate::background::discard::Discarder;
use crate::background::io_priority::IoPriority;
use crate::background::move_class::ClassMover;
use crate::background::progress::Progress;
use crate::background::rebalance::Rebalancer;
use crate::background::rebuild::Rebuilder;
use crate::background::reclaim::Reclaimer;
use crate::background::relieve_full::FullMemberRelief;
use crate::background::relocate::Relocator;
use crate::background::scrub::Scrubber;
use crate::inspect::leak_check;
use crate::inspect::status;
use crate::marks::Mark;
use crate::recovery;
use crate::recovery::recover::Recovered;
use crate::request::{discard, serve};
use crate::store::Store;
use crate::stripe::Stripes;
use async_channel::Sender;
use sinew_core::ids::{MemberId, StripeId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;
use sinew_format::model::stripe_form::StripeClass;
use sinew_members::members::Members;
use sinew_members::message::{Reply, Request, ShardEvent};
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::{OpenShard, PoolShard};
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::ShardStatus;
use sinew_members::throttle::Throttle;

/// One shard of an open mapped pool. All methods run on the thread it was opened on.
pub struct MappedShard<I> {
    store: Rc<Store<I>>,
    stripes: Rc<Stripes<I>>,
    checkpointer: Rc<Checkpointer<I>>,
    reclaimer: Rc<Reclaimer<I>>,
    compactor: Rc<Compactor<I>>,
    rebuilder: Rc<Rebuilder<I>>,
    rebalancer: Rc<Rebalancer<I>>,
    scrubber: Rc<Scrubber<I>>,
    defragmenter: Rc<Defragmenter<I>>,
    class_mover: Rc<ClassMover<I>>,
    /// Small writes of volumes of the second class are appended.
    has_second_class: Cell<bool>,
    discarder: Rc<Discarder<I>>,
    progress: Rc<Progress>,
}

impl<I: Io> MappedShard<I> {
    fn assemble(store: Rc<Store<I>>, control: Sender<ShardEvent>) -> Rc<MappedShard<I>> {
        let stripes = Stripes::new(Rc::clone(&store));
        let mover_control = control.clone();
        let shared = || Rc::clone(&stripes);
        let progress = Rc::new(Progress::default());
        let priority = Rc::new(IoPriority::new(shared()));
        let relocator = Rc::new(Relocator::new(shared(), Rc::clone(&priority)));
        let compactor = Rc::new(Compactor::new(shared(), Rc::clone(&priority)));
        let converter = Converter::new(shared(), Rc::clone(&priority), Rc::clone(&compactor));
        let relief = FullMemberRelief::new(shared(), Rc::clone(&relocator));
        let rebalancer = Rebalancer::new(shared(), Rc::clone(&relocator), Rc::clone(&progress));
        let rebuilder =
            Rebuilder::new(shared(), Rc::clone(&priority), relocator, Rc::clone(&progress), control);
        let discarder = Rc::new(Discarder::new(shared(), Rc::clone(&priority)));
        let reclaimer = Reclaimer::new(
            shared(),
            Rc::clone(&priority),
            converter,
            Rc::clone(&compactor),
            relief,
            Rc::clone(&discarder),
        );
        Rc::new(MappedShard {
            checkpointer: Rc::new(Checkpointer::new(Rc::clone(&store))),
            reclaimer: Rc::new(reclaimer),
            compactor,
            rebuilder: Rc::new(rebuilder),
            rebalancer: Rc::new(rebalancer),
            scrubber: Rc::new(Scrubber::new(shared(), Rc::clone(&priority))),
            defragmenter: Rc::new(Defragmenter::new(shared(), Rc::clone(&priority))),
            class_mover: Rc::new(ClassMover::new(shared(), priority, mover_control)),
            has_second_class: Cell::new(false),
            discarder,
            progress,
            stripes,
            store,
        })
    }

    /// Starts the shard's own tasks.
    fn start(&self) {
        let (store, io) = (&self.store, self.store.io());
        let stripes = (0..store.tables().stripe_count()).map(StripeId);
        store.note_all_emptied(stripes.clone());
        self.stripes.convertible().extend(stripes);
        io.spawn(Rc::clone(store).run_journal());
        io.spawn(Rc::clone(&self.stripes).run_appender(StripeClass::Pool));
        if store.has_two_classes() {
            self.start_second_class();
        }
        io.spawn(Rc::clone(&self.checkpointer).run());
        io.spawn(Rc::clone(&self.reclaimer).run());
        self.start_reading();
        io.spawn(Rc::clone(&self.rebuilder).run());
        io.spawn(Rc::clone(&self.rebalancer).run());
        io.spawn(Rc::clone(&self.scrubber).run());
        io.spawn(Rc::clone(&self.defragmenter).run());
        io.spawn(Rc::clone(&self.discarder).run());
        store.wakeups().discard.kick();
    }

    /// Starts what volumes of the second class need, where nothing of it runs yet.
    fn start_second_class(&self) {
        if !self.has_second_class.replace(true) {
            self.store.io().spawn(Rc::clone(&self.stripes).run_appender(StripeClass::Pinned));
        }
        self.class_mover.start();
    }

    /// Starts what reads need, which is all that runs in a pool that is served read-only.
    fn start_reading(&self) {
        let alarms = Rc::clone(&self.store);
        self.store.io().spawn(async move { alarms.members().run_deadlines().await });
    }
}

impl<I: Io> PoolShard<I> for MappedShard<I> {
    async fn open(
        open: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> Result<(Rc<Self>, RecoveryReport), RecoverError> {
        let (started, index, control) = (open.io.now(), open.index, open.control.clone());
        let Recovered { store, mut report, touched, unmended } = recovery::recover::recover(open).await?;
        let shard = MappedShard::assemble(store, control);
        recovered(Rc::clone(&shard));
        if shard.members().are_read_only() {
            shard.start_reading();
            report.elapsed_ns = shard.io().now() - started;
            return Ok((shard, report));
        }
        shard.start();
        let completing = Box::pin(recovery::complete::complete(Rc::clone(&shard.store), touched, unmended));
        match shard.members().full.unless_awaited(completing).await {
            Ok(completed) => {
                completed.map_err(|error| RecoverError::Damaged { shard: index, what: error.to_string() })?;
            }
            // Reads need nothing of it; the rest comes when the members have space.
            Err(completing) => {
                shard.store.mark(Mark::OpenedFull);
                shard.io().spawn(async move {
                    let _ = completing.await;
                });
            }
        }
        report.elapsed_ns = shard.io().now() - started;
        Ok((shard, report))
    }

    fn io(&self) -> &I {
        self.store.io()
    }

    fn members(&self) -> &Members<I> {
        self.store.members()
    }

    fn throttle(&self) -> &Throttle {
        self.store.throttle()
    }

    fn serve(&self, volume: VolumeId, request: Request) -> impl Future<Output = Result<Reply, VolumeError>> {
        serve::serve(&self.stripes, volume, request)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        if self.members().are_read_only() { Ok(()) } else { self.store.flush().await }
    }

    async fn close(&self) -> Result<(), VolumeError> {
        if self.members().are_read_only() {
            return Ok(());
        }
        self.store.begin_closing();
        self.checkpointer.finish().await?;
        self.store.flush().await
    }

    fn set_member(
        &self,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
        weight: u8,
    ) {
        let was_active = self.store.set_member(member, state, device, layout, weight);
        if was_active && !state.takes_part() && !self.members().are_read_only() {
            self.stripes.abandon_member(member);
            self.store.lose_member(member);
        }
        if self.members().are_read_only() {
            return;
        }
        self.compactor.retry_unreadable();
        self.store.restore_redundancy();
        let wakeups = self.store.wakeups();
        if !mutation::on(Mutation::LoseWakeup) {
            wakeups.rebuild.kick();
        }
        self.progress.request_rebalance();
        wakeups.reclaim.kick();
        self.store.notify_members_changed();
    }

    async fn stale_member(&self, member: MemberId) -> Result<(), VolumeError> {
        self.store.stale_member(member).await
    }

    async fn set_scrub(&self, run: bool) -> Result<(), VolumeError> {
        self.scrubber.set_scrub(run).await
    }

    fn status(&self) -> ShardStatus {
        status::status(&self.stripes, &self.progress)
    }

    fn vitals(&self) -> ShardStatus {
        status::vitals(&self.stripes, &self.progress)
    }

    fn leaks(&self) -> Vec<String> {
        leak_check::leaks(&self.stripes)
    }

    fn unbalanced(&self) -> Vec<String> {
        self.rebalancer.unbalanced()
    }

    fn set_policy(&self, policy: Policy) {
        self.stripes.set_policy(policy);
        self.store.wakeups().reclaim.kick();
    }

    fn set_class(&self, volume: VolumeId, class: StripeClass) {
        self.store.set_class(volume, class);
        self.start_second_class();
    }

    fn reserve_move(&self, volume: VolumeId, class: StripeClass) -> Result<bool, VolumeError> {
        Ok(self.store.reserve_move(volume, class))
    }

    fn end_move(&self, volume: VolumeId) {
        self.store.end_move(volume);
    }

    fn has_moved(&self, volume: VolumeId) -> Result<bool, VolumeError> {
        Ok(!self.store.is_moving(volume))
    }

    async fn drop_volume(&self, volume: VolumeId) -> Result<(), VolumeError> {
        discard::drop_volume(&self.store, volume).await
    }

    async fn truncate(&self, volume: VolumeId, blocks: u64) -> Result<(), VolumeError> {
        discard::truncate(&self.store, volume, blocks).await
    }

    fn fits_without(&self, member: MemberId) -> Result<bool, VolumeError> {
        Ok(self.store.fits_without(member))
    }

    async fn is_empty(&self, member: MemberId) -> Result<bool, VolumeError> {
        self.store.holds_nothing_on(member).await
    }
}
