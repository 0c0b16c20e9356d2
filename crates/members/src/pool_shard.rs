//! The interface of a pool's shard. Both kinds of pool implement [`PoolShard`]; a third kind is one more implementation,
//! and one more arm where the pool chooses between them.

use std::future::Future;
use std::rc::Rc;

use async_channel::Sender;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;
use sinew_format::model::stripe_form::StripeClass;

use crate::members::Members;
use crate::message::{Reply, Request, ShardEvent};
use crate::open_error::RecoverError;
use crate::open_mode::OpenMode;
use crate::recovery_report::RecoveryReport;
use crate::ring::group_form::GroupForm;
use crate::status::ShardStatus;
use crate::throttle::Throttle;

/// A shard that is to be opened.
pub struct OpenShard<'a, I> {
    /// The world.
    pub io: I,
    /// The shard's number in the pool.
    pub index: usize,
    /// The pool's configuration.
    pub config: Rc<Config>,
    /// The device of each member; `None` for a member that is out.
    pub devices: &'a [Option<DeviceId>],
    /// Events for the pool's control.
    pub control: Sender<ShardEvent>,
    /// How the pool is opened.
    pub mode: OpenMode,
    /// The bound of the shard's part of the table cache, in bytes; `None` is no bound.
    pub table_cache: Option<u64>,
}

/// One shard of an open pool. All methods run on the thread on which the shard was opened.
///
/// Methods that only one kind of pool needs have defaults that answer [`VolumeError::Unsupported`] or do nothing.
pub trait PoolShard<I: Io>: Sized + 'static {
    /// Recovers the shard and starts its tasks. Calls `recovered` as soon as the shard can answer messages, and before it first
    /// writes to the members: a write may need the control, which in turn sends the shard messages.
    ///
    /// # Errors
    /// [`RecoverError`] when the content of the active members is incomplete or impossible, or a member fails.
    fn open(
        shard: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> impl Future<Output = Result<(Rc<Self>, RecoveryReport), RecoverError>>;

    /// The world.
    fn io(&self) -> &I;
    /// The members as this shard uses them.
    fn members(&self) -> &Members<I>;
    /// The limits of background work.
    fn throttle(&self) -> &Throttle;

    /// Answers a client's request.
    ///
    /// # Errors
    /// As for the trait `Volume`.
    fn serve(&self, volume: VolumeId, request: Request) -> impl Future<Output = Result<Reply, VolumeError>>;
    /// Makes every change that was answered before this call durable.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when more members fail than the pool survives.
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>>;
    /// Writes everything that the next open would have to replay. Requests are answered until then.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn close(&self) -> impl Future<Output = Result<(), VolumeError>>;

    /// Notes a member's new state or weight, or a new member. Everything that depends on it is queued before this returns.
    fn set_member(
        &self,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
        weight: u8,
    );
    /// Records, durably, that nothing on an out member will be up to date when it comes back.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn stale_member(&self, member: MemberId) -> impl Future<Output = Result<(), VolumeError>>;
    /// Starts or stops a scrub; that is durable on return.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn set_scrub(&self, run: bool) -> impl Future<Output = Result<(), VolumeError>>;

    /// The state now.
    fn status(&self) -> ShardStatus;
    /// The part of the state that costs nothing, however large the shard is: counters, members, used space, and the work
    /// that is left.
    fn vitals(&self) -> ShardStatus;
    /// Descriptions of leaked resources; empty when there are none. The shard has to be idle and flushed.
    fn leaks(&self) -> Vec<String>;
    /// Descriptions of chunk moves that would noticeably even out the members; empty when there are none. No rebalance may
    /// be under way.
    fn unbalanced(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lays out and converts small writes by this policy. Mapped pools only.
    fn set_policy(&self, _policy: Policy) {}
    /// Changes the form of stripes by this policy. Elastic arrays only.
    fn set_elastic_policy(&self, _policy: ElasticPolicy) {}
    /// Sets the form of large groups of the log. Arrays only.
    fn set_group_form(&self, _form: GroupForm) {}
    /// Sets the class of the stripes that the blocks of a volume go to: before the first request for a new volume, or to begin the
    /// move of a volume for which room is kept. Mapped pools only.
    fn set_class(&self, _volume: VolumeId, _class: StripeClass) {}
    /// Keeps room for the move of a volume's blocks to stripes of a class; false when there is too little. Mapped pools only.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`] for other kinds of pool.
    fn reserve_move(&self, _volume: VolumeId, _class: StripeClass) -> Result<bool, VolumeError> {
        Err(VolumeError::Unsupported)
    }
    /// Gives back the room that is kept for a move that does not take place. Mapped pools only.
    fn end_move(&self, _volume: VolumeId) {}
    /// Whether no blocks of a volume are left to be moved. Mapped pools only.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`] for other kinds of pool.
    fn has_moved(&self, _volume: VolumeId) -> Result<bool, VolumeError> {
        Err(VolumeError::Unsupported)
    }
    /// Frees every block of a deleted volume. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn drop_volume(&self, _volume: VolumeId) -> impl Future<Output = Result<(), VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
    /// Frees a volume's blocks from number `blocks` of the volume on. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn truncate(&self, _volume: VolumeId, _blocks: u64) -> impl Future<Output = Result<(), VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
    /// Whether the other members have room for everything stored and for the tables. Mapped pools only.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`] for other kinds of pool.
    fn fits_without(&self, _member: MemberId) -> Result<bool, VolumeError> {
        Err(VolumeError::Unsupported)
    }
    /// Flushes, and returns whether a member that takes no new chunks is empty. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn is_empty(&self, _member: MemberId) -> impl Future<Output = Result<bool, VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }

    /// Begins to grow onto more members, or ends a growth. Arrays only.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`] for other kinds of pool.
    fn reshape(
        &self,
        _geometry: ArrayGeometry,
        _members: &[(MemberState, Option<DeviceId>)],
    ) -> Result<(), VolumeError> {
        Err(VolumeError::Unsupported)
    }
    /// Notes that every shard has moved everything below `key`, durably, in a growth to `to` members. Arrays only.
    fn moved_everywhere(&self, _to: usize, _key: u64) {}
    /// Flushes if no write is in flight, and reports the next write before it begins. Returns whether no write is in flight
    /// and no resync is pending. Arrays of md only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn become_clean(&self, _now: bool) -> impl Future<Output = Result<bool, VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
}
