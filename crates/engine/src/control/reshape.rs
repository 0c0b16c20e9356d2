//! Growth of an array: new members join its layout, and once everything has moved its volume becomes larger.

use crate::marks::Mark;
use crate::pool::{self, Candidate};
use sinew_core::io::{DeviceId, Io};
use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::config::{Config, MemberConfig, MemberState};
use sinew_format::model::mapped_geometry::MemberLayout;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

impl<I: Io> Control<I> {
    fn array(&self) -> Result<ArrayGeometry, ControlError> {
        self.config.borrow().geometry.array().copied().ok_or(ControlError::NotAnArray)
    }

    /// Begins to grow an array onto these devices; without a method, as it has grown so far or else by that which moves the
    /// least. The volume has its new size once everything has moved.
    ///
    /// # Errors
    /// When the array cannot grow so now, or a device cannot be used. Nothing has changed then.
    pub async fn grow(
        &self,
        devices: &[Candidate],
        method: Option<GrowMethod>,
        force: bool,
    ) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_md()?;
        let turn = self.turn().await;
        let before = self.array()?;
        let next = before.grow(method.unwrap_or(before.usual_method()), devices.len())?;
        self.check_whole(&before).await?;
        // As the other members: a limit by hand, or none.
        let is_limited = self.config().members.iter().any(|member| member.physical > 0);
        let physical = next.elastic.filter(|_| is_limited).map_or(0, |elastic| elastic.physical);
        let mut members = Vec::with_capacity(devices.len());
        for candidate in devices {
            let have = pool::device_bytes(&self.io, candidate)?;
            let need = next.end_bytes();
            if have < need {
                return Err(ControlError::TooSmall { have, need });
            }
            self.refuse_in_use(candidate)?;
            if !force {
                pool::refuse_used(&self.io, candidate).await?;
            }
            if physical > 0 {
                pool::require_known_use(&self.io, candidate).await?;
            }
            let member = pool::new_member(&self.io, candidate, have, MemberLayout::default());
            members.push(MemberConfig { physical, ..member });
        }
        for candidate in devices {
            pool::wipe(&self.io, candidate).await?;
        }
        self.moved.replace(vec![0; self.shards.len()]);
        self.begin_change().await;
        let grown = self.begin_growth(next, &members, devices).await;
        self.end_change();
        grown?;
        self.io.mark(Mark::GrowthBegun);
        drop(turn);
        // A new member may have failed just now.
        self.use_spares().await;
        Ok(())
    }

    /// Whether all members are there and up to date.
    async fn check_whole(&self, array: &ArrayGeometry) -> Result<(), ControlError> {
        let status = self.status().await?;
        let config = self.config.borrow();
        for member in 0..array.members() {
            let state = config.members[member].state;
            let lags = status.member_chunks_stale.get(member).is_some_and(|&chunks| chunks > 0);
            if state != MemberState::Active || lags {
                let state = if lags { "being rebuilt" } else { state.name() };
                return Err(ControlError::GrowDegraded { member, state });
            }
        }
        Ok(())
    }

    async fn begin_growth(
        &self,
        next: ArrayGeometry,
        members: &[MemberConfig],
        devices: &[Candidate],
    ) -> Result<(), ControlError> {
        let mut config = self.config();
        // The spares, which come last, move up.
        let first = next.members() - members.len();
        config.geometry = PoolGeometry::Array(next);
        config.members.splice(first..first, members.iter().cloned());
        if config.members.len() > sinew_layout::MEMBERS_MAX as usize {
            let spares = config.members.len() - next.members();
            return Err(ControlError::Pool(
                sinew_format::model::array_geometry::ArrayError::Spares {
                    members: config.members.len(),
                    spares,
                }
                .into(),
            ));
        }
        // First on the new devices, as something older than what the others have: it counts for nothing by itself, but once
        // the others name them, all of them are known.
        let older = Config { generation: config.generation - 2, ..config.clone() };
        for (i, candidate) in devices.iter().enumerate() {
            let Candidate { device, path } = candidate;
            if let Err(error) =
                pool::write_in_time(&self.io, *device, path, &self.slots, first + i, &older).await
            {
                self.io.mark(Mark::GrowthRefused);
                return Err(error.into());
            }
        }
        let new = devices.iter().map(|candidate| Some(candidate.device));
        self.devices.borrow_mut().splice(first..first, new);
        self.store(config, None).await?;
        self.tell_shape().await
    }

    /// Tells the shards the shape of the array and its members as they are now.
    async fn tell_shape(&self) -> Result<(), ControlError> {
        let geometry = self.array()?;
        let members: Vec<(MemberState, Option<DeviceId>)> = {
            let (config, devices) = (self.config.borrow(), self.devices.borrow());
            let active = |state| state == MemberState::Active;
            config
                .members
                .iter()
                .zip(devices.iter())
                .map(|(m, &d)| (m.state, d.filter(|_| active(m.state))))
                .collect()
        };
        Ok(self
            .ask_all(|done| ControlRequest::Reshape {
                geometry: Box::new(geometry),
                members: members.clone(),
                done,
            })
            .await?)
    }

    /// A shard has come so far. Once all are through, the array has grown.
    pub(super) async fn note_moved(&self, shard: usize, to: usize, key: u64) {
        // Growths differ by the members that they bring the array to.
        if self.array().map(|array| array.members()) != Ok(to) {
            return;
        }
        let least = {
            let mut moved = self.moved.borrow_mut();
            moved.resize(self.shards.len(), 0);
            moved[shard] = key;
            moved.iter().copied().min().unwrap_or(0)
        };
        self.tell_all(|| ControlRequest::MovedEverywhere { to, key: least }).await;
        if self.growth_end().is_some_and(|end| least >= end) {
            let _turn = self.turn().await;
            // When it cannot be stored the pool has failed, and the next opening finishes.
            let _ = self.finish_growth().await;
        }
    }

    /// The key at which the growth under way ends.
    fn growth_end(&self) -> Option<u64> {
        self.array().ok()?.growth_end()
    }

    async fn finish_growth(&self) -> Result<(), ControlError> {
        let Some(end) = self.growth_end() else { return Ok(()) };
        if self.moved.borrow().iter().any(|&key| key < end) {
            return Ok(());
        }
        self.begin_change().await;
        let grown = async {
            let mut config = self.config();
            let Some(array) = config.geometry.array().copied() else { return Ok(()) };
            let settled = array.after_growth();
            config.geometry = PoolGeometry::Array(settled);
            config.volumes[0].bytes = settled.data_bytes();
            self.store(config, None).await?;
            self.tell_shape().await
        };
        let grown = grown.await;
        self.end_change();
        grown?;
        // The new space is marked unsynced before any request writes to it.
        self.ask_all(|done| ControlRequest::Flush { done }).await?;
        self.io.mark(Mark::GrowthEnded);
        let config = self.config.borrow();
        if let Some(shared) = self.catalog.get(&config.volumes[0].name) {
            shared.set_bytes(config.volumes[0].bytes);
        }
        Ok(())
    }
}
