//! Members that join a mapped pool, and members that leave it for good.
//!
//! A device joins by one change of the configuration, written to the device itself first: after a crash it is
//! either a member or unknown to all members. Only then do shards hear of it and place anything there. A member leaves in two changes: from the
//! first on nothing new is placed on it and what it holds moves to the others; the second, when it is empty, ends its part,
//! and then its superblock is cleared. Its number stays, so that what bounds the numbers in the tables never shrinks.

use crate::marks::Mark;
use crate::pool::{self, Candidate, PoolError};
use sinew_core::ids::MemberId;
use sinew_core::io::{DeviceId, Io, IoError};
use sinew_core::mutation::{self, Mutation};
use sinew_core::volume::VolumeError;
use sinew_format::model::config::{MemberConfig, MemberState, WEIGHTS};
use sinew_format::model::mapped_geometry::{MEMBERS, MemberLayout};
use sinew_members::message::{Answer, ControlRequest};

use crate::control::{Control, ControlError, MembershipError};

impl<I: Io> Control<I> {
    /// Whether a device is that of a member, in whatever state.
    pub fn holds(&self, device: DeviceId) -> bool {
        self.devices.borrow().contains(&Some(device))
    }

    fn refuse_places(&self) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_md()?;
        match self.config.borrow().geometry.members_placed() {
            None => Ok(()),
            Some(_) => Err(MembershipError::Array.into()),
        }
    }

    /// Adds a device to a mapped pool; gives its number. New stripes use it at once, and the shards move its share of the
    /// others there.
    ///
    /// # Errors
    /// When the device cannot be used, or the pool has no numbers left.
    pub async fn add(&self, candidate: Candidate, force: bool) -> Result<usize, ControlError> {
        self.refuse_places()?;
        let _turn = self.turn().await;
        self.refuse_in_use(&candidate)?;
        if !force {
            pool::refuse_used(&self.io, &candidate).await?;
        }
        let bytes = pool::device_bytes(&self.io, &candidate)?;
        let (index, member) = self.plan_member(&candidate, bytes)?;
        pool::wipe(&self.io, &candidate).await?;
        if mutation::on(Mutation::UseBeforeStored) {
            let MemberConfig { layout, state, weight, .. } = member;
            let (id, device) = (MemberId(index as u8), Some(candidate.device));
            let _ = self
                .ask_all(|done| ControlRequest::SetMember { member: id, state, device, layout, weight, done })
                .await;
            self.io.sleep(50_000_000).await;
        }
        self.join(index, member, candidate.device).await?;
        self.io.mark(Mark::MemberAdded);
        self.tell_member(index).await;
        Ok(index)
    }

    /// Sets which percentage of a member's chunks is used first; the others stay free as long as there is room elsewhere. What is
    /// stored moves until it agrees.
    ///
    /// # Errors
    /// When the pool is an array, there is no such member or weight, or the configuration cannot be stored.
    pub async fn set_weight(&self, index: usize, weight: u8) -> Result<(), ControlError> {
        self.refuse_places()?;
        self.member(index)?;
        if !WEIGHTS.contains(&weight) {
            return Err(MembershipError::Weight.into());
        }
        let before = self.config.borrow().members[index].weight;
        self.change(|config| {
            config.members[index].weight = weight;
            Ok(())
        })
        .await?;
        if weight != before {
            self.note_setting("member-weight", format!("{weight} % of member {index}"));
        }
        self.tell_member(index).await;
        Ok(())
    }

    /// The number and the configuration of a device about to join. It takes the place of a removed member only if it is as
    /// large, since what bounds the numbers of stripes must not shrink.
    fn plan_member(&self, candidate: &Candidate, bytes: u64) -> Result<(usize, MemberConfig), ControlError> {
        let config = self.config.borrow();
        let geometry = config.mapped();
        // As for the fewest members there can be: the pool may shrink again.
        let new = geometry.member_layout(bytes, geometry.members_least()).map_err(PoolError::from)?;
        let fits =
            |layout: &MemberLayout| layout.chunks <= new.chunks || layout.end_bytes(geometry.shards) <= bytes;
        let is_free = |m: &MemberConfig| m.state == MemberState::Removed && fits(&m.layout);
        let index = config.members.iter().position(is_free).unwrap_or(config.members.len());
        if index >= *MEMBERS.end() {
            return Err(MembershipError::TooMany.into());
        }
        let before = config.members.get(index).map(|m| m.layout);
        let layout = before.filter(|before| before.chunks > new.chunks).unwrap_or(new);
        let others = config.members.iter().enumerate().filter(|(i, _)| *i != index);
        let chunks: u64 = others.map(|(_, m)| u64::from(m.layout.chunks)).sum();
        geometry
            .check_chunks(chunks + u64::from(layout.chunks))
            .map_err(|_| MembershipError::TooLarge { shards: geometry.shards })?;
        Ok((index, pool::new_member(&self.io, candidate, bytes, layout)))
    }

    /// Makes the device a member, durably: on the device itself first, then on all.
    async fn join(&self, index: usize, member: MemberConfig, device: DeviceId) -> Result<(), ControlError> {
        let path = member.path.clone();
        self.begin_change().await;
        let mut next = self.config();
        next.generation += 1;
        put(&mut next.members, index, member);
        let generation = next.generation;
        put(&mut self.devices.borrow_mut(), index, Some(device));
        let joined = match pool::write_in_time(&self.io, device, &path, &self.slots, index, &next).await {
            Ok(()) => self.store(next, Some(index)).await,
            Err(error) => Err(error.into()),
        };
        if joined.is_err() {
            self.io.mark(Mark::JoinFailed);
            let mut config = self.config.borrow_mut();
            // It may be written there all the same: nothing else may ever have this generation.
            config.generation = config.generation.max(generation);
            self.devices.borrow_mut()[index] = None;
            self.devices.borrow_mut().truncate(config.members.len());
        }
        self.end_change();
        joined?;
        if self.member(index)? == MemberState::Removed {
            self.io.mark(Mark::JoinFailed);
            let error = IoError::Gone;
            return Err(PoolError::Device { path, error }.into());
        }
        Ok(())
    }

    /// Has an active member leave: what it holds moves to the others, and then it is none any more. One that is out is
    /// evacuated.
    ///
    /// # Errors
    /// When the others are too few, or too small.
    pub async fn remove(&self, index: usize) -> Result<(), ControlError> {
        self.refuse_places()?;
        let turn = self.turn().await;
        match self.member(index)? {
            MemberState::Active => {}
            state @ (MemberState::Leaving | MemberState::Evacuating | MemberState::Removed) => {
                let hint = "there is no need to remove it";
                return Err(ControlError::MemberState { member: index, state: state.name(), hint });
            }
            _ => {
                drop(turn);
                return self.replace(index, None, false).await;
            }
        }
        self.check_width(index, self.config.borrow().mapped().members_least())?;
        let volumes: u64 = self.config.borrow().volumes.iter().map(|v| v.bytes).sum();
        let max = self.config.borrow().volume_bytes_max_without(index);
        if volumes > max {
            return Err(MembershipError::VolumesTooLarge { max }.into());
        }
        if !self.fits_without(&[index]).await? {
            self.io.mark(Mark::RemovalRefused);
            return Err(MembershipError::NoRoomWithout.into());
        }
        self.set_leaving(index, MemberState::Active, MemberState::Leaving).await
    }

    /// Lets a member stay that was to leave.
    ///
    /// # Errors
    /// When it is not about to leave.
    pub async fn keep(&self, index: usize) -> Result<(), ControlError> {
        self.refuse_places()?;
        let _turn = self.turn().await;
        let state = self.member(index)?;
        if state != MemberState::Leaving {
            let hint = "only a member that is leaving can be told to stay";
            return Err(ControlError::MemberState { member: index, state: state.name(), hint });
        }
        self.io.mark(Mark::RemovalCancelled);
        self.set_leaving(index, MemberState::Leaving, MemberState::Active).await
    }

    /// Changes the state of a member that may have failed meanwhile.
    async fn set_leaving(
        &self,
        index: usize,
        from: MemberState,
        to: MemberState,
    ) -> Result<(), ControlError> {
        self.change(|config| {
            let member = &mut config.members[index];
            if member.state != from {
                let (state, hint) = (member.state.name(), "try again");
                return Err(ControlError::MemberState { member: index, state, hint });
            }
            member.state = to;
            Ok(())
        })
        .await?;
        self.tell_member(index).await;
        Ok(())
    }

    /// Ends the part of members that were to be emptied and are.
    pub(super) async fn finish_leaving(&self) -> Result<(), ControlError> {
        // A member found empty may be about to come back.
        let _turn = self.turn().await;
        let emptied = |m: &MemberConfig| matches!(m.state, MemberState::Evacuating | MemberState::Leaving);
        let count = self.config.borrow().members.len();
        for index in 0..count {
            let state = self.member(index)?;
            if !emptied(&self.config.borrow().members[index]) {
                continue;
            }
            let member = MemberId(index as u8);
            let is_empty = mutation::on(Mutation::LeaveEarly)
                || self.ask_whether(|done| ControlRequest::IsEmpty { member, done }).await?;
            if !is_empty {
                continue;
            }
            if self.set_leaving(index, state, MemberState::Removed).await.is_err() {
                continue;
            }
            if state == MemberState::Evacuating {
                self.io.mark(Mark::EvacuationEnded);
                continue;
            }
            self.io.mark(Mark::MemberLeft);
            let device = self.devices.borrow()[index];
            if let Some(device) = device {
                self.clear(index, device).await;
            }
            self.devices.borrow_mut()[index] = None;
        }
        Ok(())
    }

    /// Clears the superblock of a device that nothing is left on. If that fails the next opening does it: until then the
    /// device is known by its identity for what it is.
    pub(super) async fn clear(&self, index: usize, device: DeviceId) {
        let path = self.config.borrow().members[index].path.clone();
        let _ = pool::wipe(&self.io, &Candidate { device, path }).await;
    }

    /// Whether the other members have room for everything, without any one of these.
    pub(super) async fn fits_without(&self, members: &[usize]) -> Result<bool, VolumeError> {
        let members: Vec<MemberId> = members.iter().map(|&index| MemberId(index as u8)).collect();
        self.ask_whether(|done| ControlRequest::FitsWithout { members: members.clone(), done }).await
    }

    /// Asks every shard; true when all say so.
    pub(super) async fn ask_whether(
        &self,
        order: impl Fn(Answer<Result<bool, VolumeError>>) -> ControlRequest,
    ) -> Result<bool, VolumeError> {
        Ok(self.ask_each(order).await?.into_iter().all(|yes| yes))
    }
}

/// Sets what has this index, which may be the next one.
fn put<T>(list: &mut Vec<T>, index: usize, item: T) {
    match list.get_mut(index) {
        Some(place) => *place = item,
        None => list.push(item),
    }
}
