//! A shard as the rest of the pool sees it: a slice of every member, served by one thread, of a mapped pool or of an
//! array. Both kinds answer the same requests and obey the same orders.

use std::collections::BTreeMap;
use std::rc::Rc;

use async_channel::{Receiver, Sender};

use crate::addr::{MemberId, VolumeId};
use crate::array::ArrayShard;
use crate::disk::superblock::Config;
use crate::io::{DeviceId, Io, IoError};
use crate::mapped::MappedShard;
use crate::recover::{RecoverError, RecoveryReport};
use crate::serve::{Answer, Order, Reply, Request};
use crate::shape::Shape;
use crate::status::ShardStatus;
use crate::vigil::Silence;
use crate::volume::VolumeError;

/// What a shard tells the pool's control.
#[derive(Debug)]
pub enum Event {
    /// A member failed a request. `done` is answered once the failure is recorded on the others and known to all shards.
    MemberFailed {
        /// The member.
        member: MemberId,
        /// How it failed.
        error: IoError,
        /// Answered with nothing.
        done: Answer<()>,
    },
    /// An array of md's is about to be written. `done` is answered with whether its superblocks say so.
    Write {
        /// Answered once they do, durably, on all members.
        done: Answer<bool>,
    },
    /// Everything below this key has moved in the array's growth, as the shard has recorded.
    Moved {
        /// The shard.
        shard: usize,
        /// Members after the growth.
        to: usize,
        /// The key.
        key: u64,
    },
    /// Nothing of the shard is left on the members that are to be emptied.
    Emptied,
    /// Devices do not answer.
    Silent(Silence),
}

/// Opens shards of a pool, by number and mailbox, on the present thread: recovers them and starts their tasks. All at once,
/// since the control may need the answer of one that comes later to help one that comes first.
///
/// # Errors
/// That of the first that cannot be opened.
pub async fn open_shards<I: Io>(
    io: &I,
    config: &Rc<Config>,
    devices: &[Option<DeviceId>],
    mailboxes: Vec<(usize, Receiver<Order>)>,
    control: &Sender<Event>,
) -> Result<(BTreeMap<usize, Shard<I>>, RecoveryReport), RecoverError> {
    let (done, answers) = async_channel::bounded(mailboxes.len().max(1));
    for (index, mailbox) in mailboxes {
        let (config, devices) = (Rc::clone(config), devices.to_vec());
        let (shard_io, control, done) = (io.clone(), control.clone(), done.clone());
        io.spawn(async move {
            let opened = Shard::open(shard_io, index, config, &devices, control, mailbox).await;
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
pub enum Shard<I> {
    /// Of a mapped pool.
    Mapped(Rc<MappedShard<I>>),
    /// Of an array.
    Array(Rc<ArrayShard<I>>),
}

impl<I> Clone for Shard<I> {
    fn clone(&self) -> Self {
        match self {
            Shard::Mapped(shard) => Shard::Mapped(Rc::clone(shard)),
            Shard::Array(shard) => Shard::Array(Rc::clone(shard)),
        }
    }
}

impl<I: Io> Shard<I> {
    /// Opens shard `index` of a pool on the present thread: recovers it and starts its tasks.
    ///
    /// # Errors
    /// When what is on the active members is not enough, or impossible.
    pub async fn open(
        io: I,
        index: usize,
        config: Rc<Config>,
        devices: &[Option<DeviceId>],
        control: Sender<Event>,
        mailbox: Receiver<Order>,
    ) -> Result<(Shard<I>, RecoveryReport), RecoverError> {
        match config.shape {
            Shape::Mapped(_) => {
                let opened = MappedShard::open(io, index, config, devices, control, mailbox).await?;
                Ok((Shard::Mapped(opened.0), opened.1))
            }
            Shape::Array(_) => {
                let opened = ArrayShard::open(io, index, config, devices, control, mailbox).await?;
                Ok((Shard::Array(opened.0), opened.1))
            }
        }
    }

    /// Answers a client's request.
    ///
    /// # Errors
    /// As the `Volume` trait has it.
    pub async fn serve(&self, volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        match self {
            Shard::Mapped(shard) => shard.serve(volume, request).await,
            Shard::Array(shard) => shard.serve(request).await,
        }
    }

    /// The shard's state now.
    pub fn status(&self) -> ShardStatus {
        match self {
            Shard::Mapped(shard) => shard.status(),
            Shard::Array(shard) => shard.status(),
        }
    }

    /// What is held without reason, in words; nothing when all is well. To be asked when the shard is at rest, after a
    /// flush.
    pub fn held_at_rest(&self) -> Vec<String> {
        match self {
            Shard::Mapped(shard) => shard.held_at_rest(),
            Shard::Array(shard) => shard.held_at_rest(),
        }
    }

    /// Moves that would make the members of a mapped pool noticeably more even, in words; nothing when all is well. To be
    /// asked when nothing is left to balance.
    pub fn unbalanced(&self) -> Vec<String> {
        match self {
            Shard::Mapped(shard) => shard.unbalanced(),
            Shard::Array(_) => Vec::new(),
        }
    }

    fn io(&self) -> &I {
        match self {
            Shard::Mapped(shard) => &shard.io,
            Shard::Array(shard) => &shard.io,
        }
    }

    /// Serves the mailbox until every sender is gone.
    pub(crate) async fn run_mailbox(self, mailbox: Receiver<Order>) {
        while let Ok(order) = mailbox.recv().await {
            let shard = self.clone();
            self.io().spawn(async move { shard.obey(order).await });
        }
    }

    /// Does what one order says. Whoever waits may have gone; the answer is then dropped.
    async fn obey(self, order: Order) {
        match order {
            Order::Request { volume, request, reply } => {
                let _ = reply.send(self.serve(volume, request).await);
            }
            Order::SetMember { member, state, device, layout, done } => {
                match &self {
                    Shard::Mapped(shard) => shard.set_member(member, state, device, layout),
                    Shard::Array(shard) => shard.set_member(member, state, device, layout),
                }
                let _ = done.send(Ok(()));
            }
            Order::StaleMember { member, done } => {
                let marked = match &self {
                    Shard::Mapped(shard) => shard.stale_member(member).await,
                    Shard::Array(shard) => shard.stale_member(member).await,
                };
                let _ = done.send(marked);
            }
            Order::FitsWithout { member, done } => {
                let _ = done.send(Ok(self.mapped().fits_without(member)));
            }
            Order::IsEmpty { member, done } => {
                let _ = done.send(self.mapped().is_rid_of(member).await);
            }
            Order::Flush { done } => {
                let flushed = match &self {
                    Shard::Mapped(shard) => shard.flush().await,
                    Shard::Array(shard) => shard.flush().await,
                };
                let _ = done.send(flushed);
            }
            Order::DropVolume { volume, done } => {
                let _ = done.send(self.mapped().drop_volume(volume).await);
            }
            Order::Truncate { volume, blocks, done } => {
                let _ = done.send(self.mapped().truncate(volume, blocks).await);
            }
            Order::Scrub { run, done } => {
                let set = match &self {
                    Shard::Mapped(shard) => shard.set_scrub(run).await,
                    Shard::Array(shard) => shard.set_scrub(run).await,
                };
                let _ = done.send(set);
            }
            Order::Reshape { geometry, members, done } => {
                self.array().reshape(geometry, &members);
                let _ = done.send(Ok(()));
            }
            Order::MovedEverywhere { to, key } => self.array().moved_everywhere(to, key),
            Order::Throttle(bounds) => match &self {
                Shard::Mapped(shard) => shard.throttle.set(bounds),
                Shard::Array(shard) => shard.throttle.set(bounds),
            },
            Order::Policy(policy) => {
                let shard = self.mapped();
                shard.policy.set(policy);
                shard.keeper.kick();
            }
            Order::StepAround(mode) => match &self {
                Shard::Mapped(shard) => shard.members.step_around(mode),
                Shard::Array(shard) => shard.members.step_around(mode),
            },
            Order::GiveUpAfter(ns) => match &self {
                Shard::Mapped(shard) => shard.members.vigil.set(ns),
                Shard::Array(shard) => shard.members.vigil.set(ns),
            },
            Order::Status(reply) => {
                let _ = reply.send(self.status());
            }
            Order::Counters(reply) => {
                let counters = match self {
                    Shard::Mapped(shard) => shard.counters.values(),
                    Shard::Array(shard) => shard.counters.values(),
                };
                let _ = reply.send(counters);
            }
            Order::Rest { now, done } => {
                let _ = done.send(self.array().rest(now).await);
            }
            Order::Close { done } => {
                let closed = match &self {
                    Shard::Mapped(shard) => shard.close().await,
                    Shard::Array(shard) => shard.close().await,
                };
                let _ = done.send(closed);
            }
        }
    }

    /// Only arrays grow, or are md's; the control sees to that.
    fn array(&self) -> &Rc<ArrayShard<I>> {
        match self {
            Shard::Array(shard) => shard,
            Shard::Mapped(_) => unreachable!("what only arrays are told"),
        }
    }

    /// Volumes come and go, and members leave, in mapped pools only; the control sees to that.
    fn mapped(&self) -> &Rc<MappedShard<I>> {
        match self {
            Shard::Mapped(shard) => shard,
            Shard::Array(_) => unreachable!("an array keeps its one volume and its members"),
        }
    }
}
