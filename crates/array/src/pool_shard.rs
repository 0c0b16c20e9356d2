//! A shard of an array as the pool uses it.

use std::rc::Rc;

use sinew_core::ids::{MemberId, VolumeId};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::VolumeError;
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_members::members::Members;
use sinew_members::message::{Reply, Request};
use sinew_members::open_error::RecoverError;
use sinew_members::pool_shard::{OpenShard, PoolShard};
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::status::{CounterValues, ShardStatus};
use sinew_members::throttle::Throttle;

use crate::shard::ArrayShard;

impl<I: Io> PoolShard<I> for ArrayShard<I> {
    async fn open(
        shard: OpenShard<'_, I>,
        recovered: impl FnOnce(Rc<Self>),
    ) -> Result<(Rc<Self>, RecoveryReport), RecoverError> {
        ArrayShard::recover(shard, recovered).await
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

    async fn serve(self: &Rc<Self>, _volume: VolumeId, request: Request) -> Result<Reply, VolumeError> {
        self.serve(request).await
    }

    async fn flush(self: &Rc<Self>) -> Result<(), VolumeError> {
        ArrayShard::flush(self).await
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
        ArrayShard::stale_member(self, member).await
    }

    async fn set_scrub(self: &Rc<Self>, run: bool) -> Result<(), VolumeError> {
        ArrayShard::set_scrub(self, run).await
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

    fn reshape(
        &self,
        geometry: ArrayGeometry,
        members: &[(MemberState, Option<DeviceId>)],
    ) -> Result<(), VolumeError> {
        self.reshape(geometry, members);
        Ok(())
    }

    fn moved_everywhere(&self, to: usize, key: u64) {
        self.moved_everywhere(to, key);
    }

    async fn become_clean(&self, now: bool) -> Result<bool, VolumeError> {
        self.rest(now).await
    }
}
