//! A shard as the rest of the pool sees it: a slice of every member, served by one thread, of a mapped pool or of an
//! array. Both kinds answer the same requests and obey the same orders.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;

use async_channel::{Receiver, Sender};

use crate::gate::{Entry, Gate};
use sinew_array::ArrayShard;
use sinew_core::ids::VolumeId;
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::{Config, MemberState, WEIGHT_FULL};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_mapped::MappedShard;
use sinew_members::message::{ControlRequest, Reply, Request, ShardEvent};
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::pool_shard::{OpenShard, PoolShard};
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::ShardStatus;

/// Opens shards of a pool, by number and mailbox, on the present thread: recovers them and starts their tasks. All at once,
/// since the control may need the answer of one that comes later to help one that comes first.
///
/// # Errors
/// That of the first that cannot be opened.
pub async fn open_shards<I: Io>(
    io: &I,
    config: &Rc<Config>,
    devices: &[Option<DeviceId>],
    mailboxes: Vec<(usize, Receiver<ControlRequest>)>,
    control: &Sender<ShardEvent>,
    mode: OpenMode,
    table_cache: Option<u64>,
) -> Result<(BTreeMap<usize, Shard<I>>, RecoveryReport), RecoverError> {
    let table_cache = table_cache.map(|bytes| bytes / config.geometry.shards() as u64);
    let (done, answers) = async_channel::bounded(mailboxes.len().max(1));
    for (index, mailbox) in mailboxes {
        let (config, devices) = (Rc::clone(config), devices.to_vec());
        let (shard_io, control, done) = (io.clone(), control.clone(), done.clone());
        io.spawn(async move {
            let shard =
                OpenShard { io: shard_io, index, config, devices: &devices, control, mode, table_cache };
            let opened = Shard::open(shard, mailbox).await;
            let _ = done.send((index, opened)).await;
        });
    }
    drop(done);
    let (mut shards, mut total) = (BTreeMap::new(), RecoveryReport::default());
    while let Ok((index, opened)) = answers.recv().await {
        let (shard, report) = opened?;
        total.add(&report);
        shards.insert(index, shard);
    }
    Ok((shards, total))
}

/// One shard of an open pool. All methods run on the thread it was opened on.
#[derive(Clone)]
pub struct Shard<I: Io> {
    kind: Kind<I>,
    gate: Rc<Gate<I>>,
}

#[derive(Clone)]
enum Kind<I> {
    Mapped(Rc<MappedShard<I>>),
    Array(Rc<ArrayShard<I>>),
}

/// Does the same with a shard of either kind, whose type is known inside.
macro_rules! of_either_kind {
    ($shard:expr, $inner:ident => $body:expr) => {
        match &$shard.kind {
            Kind::Mapped($inner) => $body,
            Kind::Array($inner) => $body,
        }
    };
}

impl<I: Io> Shard<I> {
    /// Opens one shard of a pool on the present thread: recovers it, starts its tasks, and serves its mailbox.
    ///
    /// # Errors
    /// When what is on the active members is not enough, or impossible.
    pub async fn open(
        shard: OpenShard<'_, I>,
        mailbox: Receiver<ControlRequest>,
    ) -> Result<(Shard<I>, RecoveryReport), RecoverError> {
        let io = shard.io.clone();
        let gate = Gate::new(io.clone(), shard.config.members.len() / shard.config.geometry.shards());
        let of_mailbox = Rc::clone(&gate);
        let (kind, report) = match shard.config.geometry {
            PoolGeometry::Mapped(_) => {
                let run = |shard| io.spawn(run_mailbox(shard, of_mailbox, mailbox));
                let (shard, report) = MappedShard::open(shard, run).await?;
                (Kind::Mapped(shard), report)
            }
            PoolGeometry::Array(_) => {
                let run = |shard| io.spawn(run_mailbox(shard, of_mailbox, mailbox));
                let (shard, report) = ArrayShard::open(shard, run).await?;
                (Kind::Array(shard), report)
            }
        };
        Ok((Shard { kind, gate }, report))
    }

    /// Answers a client's request.
    ///
    /// # Errors
    /// As the `Volume` trait has it.
    pub async fn serve(&self, volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        of_either_kind!(self, shard => serve(shard, &self.gate, volume, request).await)
    }

    /// The shard's state now.
    pub fn status(&self) -> ShardStatus {
        with_delays(of_either_kind!(self, shard => shard.status()), &self.gate)
    }

    /// Resources held without a reason, in words; empty when all is well. The shard has to be idle and flushed.
    pub fn leaks(&self) -> Vec<String> {
        of_either_kind!(self, shard => shard.leaks())
    }

    /// Moves of chunks that would make the members noticeably more even, in words; empty when all is well. Nothing may be
    /// left to rebalance.
    pub fn unbalanced(&self) -> Vec<String> {
        of_either_kind!(self, shard => shard.unbalanced())
    }
}

/// Answers a client's request as soon as the gate lets it in.
async fn serve<I: Io, S: PoolShard<I>>(
    shard: &Rc<S>,
    gate: &Rc<Gate<I>>,
    volume: VolumeId,
    request: Request,
) -> Result<Reply, VolumeError> {
    let entered = match gate.enter(volume, &request) {
        Entry::Free => None,
        Entry::Now(entered) => Some(entered),
        Entry::Later(turn) => Some(turn.await),
    };
    let mut answer = pin!(shard.serve(volume, request));
    let mut has_waited = false;
    let answer = poll_fn(|context| {
        let polled = answer.as_mut().poll(context);
        has_waited |= polled.is_pending();
        polled
    })
    .await;
    if let Some(entered) = entered {
        entered.leave(has_waited && answer.is_ok());
    }
    answer
}

/// The state of a shard, with what its gate knows.
fn with_delays<I: Io>(status: ShardStatus, gate: &Gate<I>) -> ShardStatus {
    ShardStatus { volume_queued: gate.delayed(), ..status }
}

/// Serves the mailbox until every sender is gone.
async fn run_mailbox<I: Io, S: PoolShard<I>>(
    shard: Rc<S>,
    gate: Rc<Gate<I>>,
    mailbox: Receiver<ControlRequest>,
) {
    while let Ok(request) = mailbox.recv().await {
        let (answering, gate) = (Rc::clone(&shard), Rc::clone(&gate));
        shard.io().spawn(async move { answer(answering, gate, request).await });
    }
}

/// Carries out one request. The one that waits for the answer may have gone; the answer is then dropped.
async fn answer<I: Io, S: PoolShard<I>>(shard: Rc<S>, gate: Rc<Gate<I>>, request: ControlRequest) {
    match request {
        ControlRequest::SetMember { member, state, device, layout, weight, done } => {
            shard.set_member(member, state, device, layout, weight);
            let _ = done.send(Ok(()));
        }
        ControlRequest::Fail { members, done } => {
            // No task runs in between.
            for (member, layout) in members {
                shard.set_member(member, MemberState::Failed, None, layout, WEIGHT_FULL);
            }
            let _ = done.send(Ok(()));
        }
        ControlRequest::StaleMember { member, done } => {
            shard.members().forget(member);
            let _ = done.send(shard.stale_member(member).await);
        }
        ControlRequest::FitsWithout { members, done } => {
            let fits: Result<Vec<bool>, VolumeError> =
                members.into_iter().map(|member| shard.fits_without(member)).collect();
            let _ = done.send(fits.map(|fits| !fits.contains(&false)));
        }
        ControlRequest::IsEmpty { member, done } => {
            let _ = done.send(shard.is_empty(member).await);
        }
        ControlRequest::Flush { done } => {
            let _ = done.send(shard.flush().await);
        }
        ControlRequest::SetClass { volume, class, done } => {
            shard.set_class(volume, class);
            let _ = done.send(Ok(()));
        }
        ControlRequest::ReserveMove { volume, class, done } => {
            let _ = done.send(shard.reserve_move(volume, class));
        }
        ControlRequest::CancelMove { volume, done } => {
            shard.end_move(volume);
            let _ = done.send(Ok(()));
        }
        ControlRequest::HasMoved { volume, done } => {
            let _ = done.send(shard.has_moved(volume));
        }
        ControlRequest::DropVolume { volume, done } => {
            gate.forget(volume);
            let _ = done.send(shard.drop_volume(volume).await);
        }
        ControlRequest::Truncate { volume, blocks, done } => {
            let _ = done.send(shard.truncate(volume, blocks).await);
        }
        ControlRequest::Scrub { run, done } => {
            let _ = done.send(shard.set_scrub(run).await);
        }
        ControlRequest::Reshape { geometry, members, done } => {
            let _ = done.send(shard.reshape(*geometry, &members));
        }
        ControlRequest::MovedEverywhere { to, key } => shard.moved_everywhere(to, key),
        ControlRequest::Throttle(limits) => shard.throttle().set(limits),
        ControlRequest::Policy(policy) => {
            gate.set(policy.shares);
            shard.set_policy(policy);
        }
        ControlRequest::ElasticPolicy(policy) => shard.set_elastic_policy(policy),
        ControlRequest::GroupForm(form) => shard.set_group_form(form),
        ControlRequest::SpikeAvoidance(mode) => shard.members().set_spike_avoidance(mode),
        ControlRequest::IoTimeout(ns) => shard.members().io_timeouts.set(ns),
        ControlRequest::SpaceMark { done } => {
            shard.members().space.mark();
            let _ = done.send(Ok(()));
        }
        ControlRequest::SpaceAllotments { allotments, done } => {
            shard.members().space.deal(allotments);
            let _ = done.send(Ok(()));
        }
        ControlRequest::Status(reply) => {
            let _ = reply.send(with_delays(shard.status(), &gate));
        }
        ControlRequest::Vitals(reply) => {
            let _ = reply.send(with_delays(shard.vitals(), &gate));
        }
        ControlRequest::BecomeClean { now, done } => {
            let _ = done.send(shard.become_clean(now).await);
        }
        ControlRequest::Close { done } => {
            let _ = done.send(shard.close().await);
        }
        ControlRequest::EndWriting { done } => {
            shard.members().end_writing().await;
            let _ = done.send(Ok(()));
        }
    }
}
