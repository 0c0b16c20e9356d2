//! What a shard is asked and told, and how a mapped one answers.

use std::rc::Rc;

use crate::addr::{MemberId, VolumeId};
use crate::array::geometry::ArrayGeometry;
use crate::buf::Buf;
use crate::disk::journal::Record;
use crate::disk::superblock::MemberState;
use crate::geometry::{EXTENT_BLOCKS, MemberLayout};
use crate::io::{DeviceId, Io};
use crate::mapped::MappedShard;
use crate::paths::Path;
use crate::policy::Policy;
use crate::run_map::PAGE_INDICES;
use crate::spikes::StepAround;
use crate::status::{CounterValues, ShardStatus};
use crate::throttle::Bounds;
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
    /// Tell whether the other members have room for what is stored and for the tables.
    FitsWithout {
        /// The member.
        member: MemberId,
        /// Who waits.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Make everything durable, and tell whether nothing is left on a member that takes nothing new.
    IsEmpty {
        /// The member.
        member: MemberId,
        /// Who waits.
        done: Answer<Result<bool, VolumeError>>,
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
    /// The array has begun to grow onto more members, or has grown.
    Reshape {
        /// Its shape now.
        geometry: ArrayGeometry,
        /// All members with their devices.
        members: Vec<(MemberState, Option<DeviceId>)>,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Everything below this key has moved in all shards, durably.
    MovedEverywhere {
        /// Members after the growth.
        to: usize,
        /// The key.
        key: u64,
    },
    /// Start or stop a scrub.
    Scrub {
        /// Start.
        run: bool,
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Bound background work.
    Throttle(Bounds),
    /// Look for latency spikes in this way.
    StepAround(StepAround),
    /// Give members up that have not answered for so long, or never.
    GiveUpAfter(Option<u64>),
    /// Lay out and convert small writes so.
    Policy(Policy),
    /// Tell the state.
    Status(Answer<ShardStatus>),
    /// Tell the counters alone, which costs nothing.
    Counters(Answer<CounterValues>),
    /// Make everything durable, if nothing is being written to an array of md's, and ask again before the next write.
    Rest {
        /// Even if something was written since the last time.
        now: bool,
        /// Who waits; told whether nothing is being written and nothing is to be resynced.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Write all pages, so that the next opening replays nothing; requests are answered until then.
    Close {
        /// Who waits.
        done: Answer<Result<(), VolumeError>>,
    },
}

impl<I: Io> MappedShard<I> {
    /// Answers a client's request.
    ///
    /// # Errors
    /// As the `Volume` trait has it.
    pub(crate) async fn serve(
        self: &Rc<Self>,
        volume: VolumeId,
        request: Request,
    ) -> Result<Reply, VolumeError> {
        if !matches!(request, Request::Flush) && self.deleted.borrow().contains(&volume) {
            return Err(VolumeError::Gone);
        }
        self.throttle.note_request(&self.io);
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

    pub(crate) async fn stale_member(self: &Rc<Self>, member: MemberId) -> Result<(), VolumeError> {
        self.io.reach(Path::MemberAllStale);
        self.journal.commit(vec![Record::StaleMember { member }]).await?;
        self.flush().await
    }

    pub(crate) async fn truncate(self: &Rc<Self>, volume: VolumeId, blocks: u64) -> Result<(), VolumeError> {
        self.wait_volume_idle(volume).await;
        let first = dealt(blocks, EXTENT_BLOCKS, self.index, self.geometry.shards);
        let end =
            self.tables.borrow().volume_pages(volume).last().map_or(0, |(index, _)| u64::from(index + 1));
        let end = end * u64::from(PAGE_INDICES);
        if first < end {
            self.unmap(volume, first, end - first).await?;
        }
        self.flush().await
    }

    pub(crate) async fn close(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.closing.set(true);
        while !self.is_clean() {
            self.cleaner.kick();
            self.cleaned.wait_once().await;
            if !self.members.any_active() {
                return Err(VolumeError::Failed);
            }
        }
        // No write may come to a place after the pool was opened again.
        self.journal.room.wait(|| (self.journal.late_writes() == 0).then_some(())).await;
        self.flush().await
    }
}

/// How many of the first `count` things shard `index` of `shards` holds, when runs of `run` are dealt round robin.
pub(crate) fn dealt(count: u64, run: u64, index: usize, shards: usize) -> u64 {
    let (turn, within) = (count / run, count % run);
    let (index, shards) = (index as u64, shards as u64);
    let whole = turn / shards + u64::from(index < turn % shards);
    let part = if turn % shards == index { within } else { 0 };
    whole * run + part
}
