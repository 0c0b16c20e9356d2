//! What the pool asks of a shard of either kind. The two kinds implement [`PoolShard`]; a third kind is one more
//! implementation, and one more arm where the pool chooses between them.

use std::future::Future;
use std::rc::Rc;

use async_channel::Sender;
use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::{Config, MemberState};
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;

use crate::members::Members;
use crate::message::{Reply, Request, ShardEvent};
use crate::open_error::RecoverError;
use crate::recovery_report::RecoveryReport;
use crate::status::{CounterValues, ShardStatus};
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
    /// Takes what the shard tells the pool's control.
    pub control: Sender<ShardEvent>,
}

/// One shard of an open pool. All methods run on the thread on which the shard was opened.
///
/// Methods that only one kind of pool needs have defaults that answer [`VolumeError::Unsupported`] or do nothing.
pub trait PoolShard<I: Io>: Sized + 'static {
    /// Recovers the shard and starts its tasks. Calls `recovered` as soon as the shard answers messages, which is before its
    /// first changes of the members: those may need the control, which in turn asks the shard.
    ///
    /// # Errors
    /// When the content of the active members is not enough, or impossible.
    fn open(
        shard: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> impl Future<Output = Result<(Rc<Self>, RecoveryReport), RecoverError>>;

    /// The world.
    fn io(&self) -> &I;
    /// The members as this shard uses them.
    fn members(&self) -> &Members<I>;
    /// The bounds of background work.
    fn throttle(&self) -> &Throttle;

    /// Answers a client's request.
    ///
    /// # Errors
    /// As for the trait `Volume`.
    fn serve(
        self: &Rc<Self>,
        volume: VolumeId,
        request: Request,
    ) -> impl Future<Output = Result<Reply, VolumeError>>;
    /// Makes every change that was answered before this call durable.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when more members fail than the pool survives.
    fn flush(self: &Rc<Self>) -> impl Future<Output = Result<(), VolumeError>>;
    /// Leaves nothing for the next opening to replay. Requests are answered until then.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn close(self: &Rc<Self>) -> impl Future<Output = Result<(), VolumeError>>;

    /// Notes a member's new state, or a new member. Everything that depends on it is queued before this returns.
    fn set_member(
        self: &Rc<Self>,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
    );
    /// Records, durably, that nothing on an out member will be up to date when it comes back.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn stale_member(self: &Rc<Self>, member: MemberId) -> impl Future<Output = Result<(), VolumeError>>;
    /// Starts or stops a scrub; that is durable on return.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`].
    fn set_scrub(self: &Rc<Self>, run: bool) -> impl Future<Output = Result<(), VolumeError>>;

    /// The state now.
    fn status(&self) -> ShardStatus;
    /// The counters alone, at no cost.
    fn counters(&self) -> CounterValues;
    /// Resources held without a reason, in words; empty when all is well. The shard has to be idle and flushed.
    fn leaks(&self) -> Vec<String>;
    /// Moves of chunks that would make the members noticeably more even, in words; empty when all is well. Nothing may be
    /// left to rebalance.
    fn unbalanced(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lays out and converts small writes by this policy. Mapped pools only.
    fn set_policy(&self, _policy: Policy) {}
    /// Gives back every block of a deleted volume. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn drop_volume(self: &Rc<Self>, _volume: VolumeId) -> impl Future<Output = Result<(), VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
    /// Frees a volume's blocks from `blocks` on, as the volume counts them. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn truncate(
        self: &Rc<Self>,
        _volume: VolumeId,
        _blocks: u64,
    ) -> impl Future<Output = Result<(), VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
    /// Whether the other members have room for everything stored and for the tables. Mapped pools only.
    ///
    /// # Errors
    /// [`VolumeError::Unsupported`] for other kinds of pool.
    fn fits_without(&self, _member: MemberId) -> Result<bool, VolumeError> {
        Err(VolumeError::Unsupported)
    }
    /// Flushes, and tells whether nothing is left on a member that takes nothing new. Mapped pools only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn is_empty(self: &Rc<Self>, _member: MemberId) -> impl Future<Output = Result<bool, VolumeError>> {
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
    /// Every shard has moved everything below this key, durably, in a growth to `to` members. Arrays only.
    fn moved_everywhere(&self, _to: usize, _key: u64) {}
    /// Flushes if nothing is being written, and asks again before the next write. True when nothing is being written and
    /// nothing is to be resynced. Arrays of md only.
    ///
    /// # Errors
    /// As for [`PoolShard::flush`]; [`VolumeError::Unsupported`] for other kinds of pool.
    fn become_clean(&self, _now: bool) -> impl Future<Output = Result<bool, VolumeError>> {
        std::future::ready(Err(VolumeError::Unsupported))
    }
}
