//! What passes between a pool's threads: requests of clients and of the pool's control to a shard, and what a shard tells
//! the control.

use crate::io_timeout::HungDevices;
use crate::latency::SpikeAvoidance;
use crate::status::{CounterValues, ShardStatus};
use crate::throttle::Bounds;
use sinew_core::buf::Buf;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, IoError};
use sinew_core::volume::{Extent, VolumeError};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;

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
pub enum ControlRequest {
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
    SpikeAvoidance(SpikeAvoidance),
    /// Give members up that have not answered for so long, or never.
    IoTimeout(Option<u64>),
    /// Lay out and convert small writes so.
    Policy(Policy),
    /// Tell the state.
    Status(Answer<ShardStatus>),
    /// Tell the counters alone, which costs nothing.
    Counters(Answer<CounterValues>),
    /// Make everything durable, if nothing is being written to an array of md's, and ask again before the next write.
    BecomeClean {
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

/// What a shard tells the pool's control.
#[derive(Debug)]
pub enum ShardEvent {
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
    Hung(HungDevices),
}
