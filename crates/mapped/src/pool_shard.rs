//! A shard of a mapped pool as the pool uses it.

use std::rc::Rc;

use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::policy::Policy;
use sinew_members::members::Members;
use sinew_members::message::{Reply, Request};
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::{OpenShard, PoolShard};
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::{CounterValues, ShardStatus};
use sinew_members::throttle::Throttle;

use crate::shard::MappedShard;

impl<I: Io> PoolShard<I> for MappedShard<I> {
    async fn open(
        shard: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> Result<(Rc<Self>, RecoveryReport), RecoverError> {
        MappedShard::recover(shard, recovered).await
    }

    fn io(&self) -> &I {
        &self.io
    }

    fn members(&self) -> &Members<I> {
        &self.members
    }

    fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    async fn serve(self: &Rc<Self>, volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        self.serve(volume, request).await
    }

    async fn flush(self: &Rc<Self>) -> Result<(), VolumeError> {
        MappedShard::flush(self).await
    }

    async fn close(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.close().await
    }

    fn set_member(
        self: &Rc<Self>,
        member: MemberId,
        state: MemberState,
        device: Option<DeviceId>,
        layout: MemberLayout,
    ) {
        self.set_member(member, state, device, layout);
    }

    async fn stale_member(self: &Rc<Self>, member: MemberId) -> Result<(), VolumeError> {
        MappedShard::stale_member(self, member).await
    }

    async fn set_scrub(self: &Rc<Self>, run: bool) -> Result<(), VolumeError> {
        MappedShard::set_scrub(self, run).await
    }

    fn status(&self) -> ShardStatus {
        self.status()
    }

    fn counters(&self) -> CounterValues {
        self.counters.values()
    }

    fn leaks(&self) -> Vec<String> {
        self.held_at_rest()
    }

    fn unbalanced(&self) -> Vec<String> {
        self.unbalanced()
    }

    fn set_policy(&self, policy: Policy) {
        self.policy.set(policy);
        self.keeper.kick();
    }

    async fn drop_volume(self: &Rc<Self>, volume: VolumeId) -> Result<(), VolumeError> {
        self.drop_volume(volume).await
    }

    async fn truncate(self: &Rc<Self>, volume: VolumeId, blocks: u64) -> Result<(), VolumeError> {
        self.truncate(volume, blocks).await
    }

    fn fits_without(&self, member: MemberId) -> Result<bool, VolumeError> {
        Ok(self.fits_without(member))
    }

    async fn is_empty(self: &Rc<Self>, member: MemberId) -> Result<bool, VolumeError> {
        self.is_rid_of(member).await
    }
}
