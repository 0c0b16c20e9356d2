//! Messages between the threads of a pool: requests of clients and of the pool's control to a shard, and events of a shard
//! for the control.

use crate::io_timeout::HungDevices;
use crate::latency::SpikeAvoidance;
use crate::ring::group_form::GroupForm;
use crate::space_credit::Allotment;
use crate::status::ShardStatus;
use crate::throttle::Limits;
use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, IoError};
use sinew_core::volume::{Extent, VolumeError};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::MemberState;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;
use sinew_format::model::stripe_form::StripeClass;

/// A client's request to one shard. Blocks of the volume are numbered as the shard numbers them.
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
    /// Reports which blocks are stored.
    Extents {
        /// First block.
        local: u64,
        /// How many.
        count: u32,
    },
    /// Makes everything durable.
    Flush,
}

impl Request {
    /// Blocks that the request may store.
    pub fn stored_blocks(&self) -> u64 {
        match self {
            Request::Write { data, .. } => (data.len() / BLOCK_BYTES) as u64,
            Request::Merge { .. } => 1,
            _ => 0,
        }
    }
}

/// The answer to a request.
#[derive(Debug)]
pub enum Reply {
    /// The blocks read, in order.
    Data(Bufs),
    /// Stored and unallocated extents, in order.
    Extents(Vec<Extent>),
    /// The request has no other answer.
    Done,
}

/// The sending end of an answer for another thread.
pub type Answer<T> = oneshot::Sender<T>;

/// A message of the control to a shard.
#[derive(Debug)]
pub enum ControlRequest {
    /// Change a member's state.
    SetMember {
        /// The member.
        member: MemberId,
        /// Its new state.
        state: MemberState,
        /// Its device; `None` while it is out.
        device: Option<DeviceId>,
        /// How the device is divided.
        layout: MemberLayout,
        /// Percent of its chunks that are used first.
        weight: u8,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// The pool has failed: all its members are out at the same moment. Told one after the other, a shard would record on those
    /// left that the first ones miss something.
    Fail {
        /// The members that took part, and how their devices are divided.
        members: Vec<(MemberId, MemberLayout)>,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Record that all chunks of a member that is out are stale.
    StaleMember {
        /// The member.
        member: MemberId,
        /// Answered when that is durable.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Report whether the other members have room for all stored data and for the tables, without any one of these.
    FitsWithout {
        /// The members.
        members: Vec<MemberId>,
        /// Answered when it is done.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Make everything durable, and report whether a member that takes no new chunks is empty.
    IsEmpty {
        /// The member.
        member: MemberId,
        /// Answered when it is done.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Make everything durable.
    Flush {
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Set which stripes the blocks of a volume go to. Where room is kept for the move of the volume, the move begins; that of a new
    /// volume has nothing to do.
    SetClass {
        /// The volume.
        volume: VolumeId,
        /// Their class.
        class: StripeClass,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Keep room for the move of a volume's blocks to stripes of another class, or for those of a new volume, and report whether
    /// there is enough.
    ReserveMove {
        /// The volume.
        volume: VolumeId,
        /// Which stripes its blocks are to go to.
        class: StripeClass,
        /// Answered when it is done.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Give back the room that is kept for a move that does not take place.
    CancelMove {
        /// The volume.
        volume: VolumeId,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Report whether no blocks of a volume are left to be moved.
    HasMoved {
        /// The volume.
        volume: VolumeId,
        /// Answered when it is done.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Free every block of a deleted volume.
    DropVolume {
        /// The volume.
        volume: VolumeId,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Free a volume's blocks from number `blocks` of the volume on.
    Truncate {
        /// The volume.
        volume: VolumeId,
        /// Its size in blocks.
        blocks: u64,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Begin to grow an array onto more members, or end the growth.
    Reshape {
        /// The array's new geometry.
        geometry: Box<ArrayGeometry>,
        /// All members with their devices.
        members: Vec<(MemberState, Option<DeviceId>)>,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Take note that all shards have moved everything below a key, durably.
    MovedEverywhere {
        /// Members after the growth.
        to: usize,
        /// The key.
        key: u64,
    },
    /// Start or stop a scrub.
    Scrub {
        /// True starts, false stops.
        run: bool,
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Limit background work.
    Throttle(Limits),
    /// Change how latency spikes are detected and avoided.
    SpikeAvoidance(SpikeAvoidance),
    /// Change the I/O timeout, in nanoseconds; `None` is no timeout.
    IoTimeout(Option<u64>),
    /// Change the layout and conversion of small writes.
    Policy(Policy),
    /// Change how stripes of an elastic array change their form.
    ElasticPolicy(ElasticPolicy),
    /// Sets the form of large groups of an array's log.
    GroupForm(GroupForm),
    /// The members are about to be asked for their physical space.
    SpaceMark {
        /// Answered when it is noted which writes have ended.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Physical space that the shard may use; none is limited beside these.
    SpaceAllotments {
        /// Of each domain.
        allotments: Vec<Allotment>,
        /// Answered when the shard counts with them.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Report the shard's state.
    Status(Answer<ShardStatus>),
    /// Report the part of the state that costs nothing, however large the shard is.
    Vitals(Answer<ShardStatus>),
    /// Arrays of md only: if no write is in flight, make everything durable, and report the next write before it begins
    /// ([`ShardEvent::Write`]).
    BecomeClean {
        /// Even if there were writes since the last such request.
        now: bool,
        /// Answered with whether no write is in flight and no resync is pending.
        done: Answer<Result<bool, VolumeError>>,
    },
    /// Write all table pages, so that the next open replays nothing. Requests are answered until then.
    Close {
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
    /// Write and discard nothing any more, and wait for what is under way.
    EndWriting {
        /// Answered when it is done.
        done: Answer<Result<(), VolumeError>>,
    },
}

/// A message from a shard to the pool's control.
#[derive(Debug)]
pub enum ShardEvent {
    /// A member failed a request. `done` is answered once the failure is recorded on the others and known to all shards.
    MemberFailed {
        /// The member.
        member: MemberId,
        /// The error.
        error: IoError,
        /// Answered without a value.
        done: Answer<()>,
    },
    /// A member could not read many blocks.
    ManyReadErrors {
        /// The member.
        member: MemberId,
    },
    /// The first write to an array of md's is about to begin.
    Write {
        /// Answered with whether md's superblocks on all members say so, durably.
        done: Answer<bool>,
    },
    /// The shard needs to know how much physical space is free.
    SpaceWanted {
        /// Answered once the shard has figures that were asked for after this.
        done: Answer<()>,
    },
    /// The shard has moved everything below a key in the array's growth, and has recorded that.
    Moved {
        /// The shard.
        shard: usize,
        /// Members after the growth.
        to: usize,
        /// The key.
        key: u64,
    },
    /// All blocks of a volume in the shard are in stripes of its new class.
    VolumeMoved {
        /// The volume.
        volume: VolumeId,
    },
    /// The shard has no chunks left on the members that are leaving.
    Emptied,
    /// Devices whose I/O timeout has expired.
    Hung(HungDevices),
}
