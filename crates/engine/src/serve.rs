//! A shard's mailbox: requests from clients on other threads, and orders from the pool's control.

use std::rc::Rc;

use async_channel::Receiver;

use crate::addr::{MemberId, VolumeId};
use crate::buf::Buf;
use crate::disk::journal::Record;
use crate::disk::superblock::MemberState;
use crate::geometry::{EXTENT_BLOCKS, MemberLayout};
use crate::io::{DeviceId, Io};
use crate::paths::Path;
use crate::run_map::PAGE_INDICES;
use crate::shard::Shard;
use crate::status::ShardStatus;
use crate::volume::{Extent, VolumeError};

/// A client's request for one shard; blocks are numbered as the shard counts the volume's.
#[derive(Debug)]
pub enum Request {
    /// Reads blocks.
    Read {
        /// First block.
        local: u64,
        /// How many.
        count: u32,
    },
    /// Writes whole blocks.
    Write {
        /// First block.
        local: u64,
        /// Their content.
        data: Buf,
    },
    /// Changes part of a block.
    Merge {
        /// The block.
        local: u64,
        /// First byte in it.
        at: usize,
        /// The new bytes.
        bytes: Vec<u8>,
    },
    /// Frees blocks.
    Unmap {
        /// First block.
        local: u64,
        /// How many.
        count: u64,
    },
    /// Asks which blocks are stored.
    Extents {
        /// First block.
        local: u64,
        /// How many.
        count: u32,
    },
    /// Makes everything durable.
    Flush,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// The blocks read, in order.
    Data(Vec<Buf>),
    /// What is stored.
    Extents(Vec<Extent>),
    /// Done.
    Done,
}

/// Whoever waits for an answer from another thread.
pub type Answer<T> = oneshot::Sender<T>;

/// What a shard is told.
#[derive(Debug)]
pub enum Order {
    /// A client's request.
    Request {
        /// The volume.
        volume: VolumeId,
        /// What to do.
        request: Request,
        /// Who waits.
        reply: Answer<Result<Reply, VolumeError>>,
    },
    /// A member has a new state.
    SetMember {
        /// The member.
        member: MemberId,
        /// Its state.
        state: MemberState,
        /// The device it is now.
        device: Option<DeviceId>,
        /// How that is cut up.
        layout: MemberLayout,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Nothing on an out member will be up to date when it comes back.
    StaleMember {
        /// The member.
        member: MemberId,
        /// Who waits until that is durable.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Make everything durable.
    Flush {
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Give back every block of a deleted volume.
    DropVolume {
        /// The volume.
        volume: VolumeId,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Free a volume's blocks from `blocks` on, as the volume counts them.
    Truncate {
        /// The volume.
        volume: VolumeId,
        /// Its size in blocks.
        blocks: u64,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Start or stop a scrub.
    Scrub {
        /// Start.
        run: bool,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Bound the rate of background work, in bytes per second; 0 is no bound.
    Throttle(u64),
    /// Tell the state.
    Status(Answer<ShardStatus>),
    /// Write all pages, so that the next opening replays nothing; requests are answered until then.
    Close {
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
}

impl<I: Io> Shard<I> {
    /// Serves the mailbox until every sender is gone.
    pub(crate) async fn run_mailbox(self: Rc<Self>, mailbox: Receiver<Order>) {
        while let Ok(order) = mailbox.recv().await {
            let shard = Rc::clone(&self);
            self.io.spawn(async move { shard.obey(order).await });
        }
    }

    /// Does what one order says. Whoever waits may have gone; the answer is then dropped.
    async fn obey(self: Rc<Self>, order: Order) {
        match order {
            Order::Request { volume, request, reply } => {
                let _ = reply.send(self.serve(volume, request).await);
            }
            Order::SetMember { member, state, device, layout, done } => {
                self.set_member(member, state, device, layout);
                let _ = done.send(Ok(()));
            }
            Order::StaleMember { member, done } => {
                let _ = done.send(self.stale_member(member).await);
            }
            Order::Flush { done } => {
                let _ = done.send(self.flush().await);
            }
            Order::DropVolume { volume, done } => {
                self.deleted.borrow_mut().insert(volume);
                let _ = done.send(self.drop_volume(volume).await);
            }
            Order::Truncate { volume, blocks, done } => {
                let _ = done.send(self.truncate(volume, blocks).await);
            }
            Order::Scrub { run, done } => {
                let _ = done.send(self.set_scrub(run).await);
            }
            Order::Throttle(rate) => self.throttle.set(rate),
            Order::Status(reply) => {
                let _ = reply.send(self.status());
            }
            Order::Close { done } => {
                let _ = done.send(self.close().await);
            }
        }
    }

    /// Answers a client's request.
    ///
    /// # Errors
    /// As the `Volume` trait has it.
    pub async fn serve(self: &Rc<Self>, volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        if !matches!(request, Request::Flush) && self.deleted.borrow().contains(&volume) {
            return Err(VolumeError::Gone);
        }
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

    async fn stale_member(self: &Rc<Self>, member: MemberId) -> Result<(), VolumeError> {
        self.io.reach(Path::MemberAllStale);
        self.journal.commit(vec![Record::StaleMember { member }]).await?;
        self.flush().await
    }

    async fn truncate(self: &Rc<Self>, volume: VolumeId, blocks: u64) -> Result<(), VolumeError> {
        self.wait_volume_idle(volume).await;
        let first = local_blocks(blocks, self.index, self.geometry.shards);
        let end =
            self.tables.borrow().volume_pages(volume).last().map_or(0, |(index, _)| u64::from(index + 1));
        let end = end * u64::from(PAGE_INDICES);
        if first < end {
            self.unmap(volume, first, end - first).await?;
        }
        self.flush().await
    }

    async fn close(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.closing.set(true);
        while !self.is_clean() {
            self.cleaner.kick();
            self.cleaned.wait_once().await;
            if !self.members.any_active() {
                return Err(VolumeError::Failed);
            }
        }
        self.flush().await
    }
}

/// Number of a volume's first `blocks` blocks that shard `index` of `shards` holds. Extents are dealt round robin.
pub(crate) fn local_blocks(blocks: u64, index: usize, shards: usize) -> u64 {
    let (extent, within) = (blocks / EXTENT_BLOCKS, blocks % EXTENT_BLOCKS);
    let (index, shards) = (index as u64, shards as u64);
    let whole = extent / shards + u64::from(index < extent % shards);
    let part = if extent % shards == index { within } else { 0 };
    whole * EXTENT_BLOCKS + part
}
