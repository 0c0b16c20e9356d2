//! The look at the shards that gives events, and the events about members.

use std::collections::BTreeSet;

use sinew_core::ids::VolumeId;
use sinew_core::io::{DeviceId, Io};
use sinew_format::model::config::Config;
use sinew_format::model::sharding::volume_block;
use sinew_members::full_members::SHOWN_NS;
use sinew_members::message::ControlRequest;
use sinew_members::status::{CounterValues, ShardStatus};

use crate::client::KnownDamage;
use crate::control::error::ControlError;
use crate::control::events::{Event, MemberChange, Work};
use crate::control::health::{Observed, suspended_for};
use crate::control::store::Control;

impl<I: Io> Control<I> {
    /// Looks at the shards and adds the events since the last look, and sees to members that stay away; gives the counters.
    ///
    /// # Errors
    /// When a shard is gone.
    pub async fn observe(&self) -> Result<CounterValues, ControlError> {
        let shards = self.ask_for(ControlRequest::Vitals).await?;
        let mut status = ShardStatus::default();
        shards.iter().for_each(|shard| status.add(shard));
        self.place_lost_blocks(&shards).await?;
        let events = self.happened(&status);
        if events.iter().any(|event| matches!(event, Event::NoSpace { .. })) {
            self.refused_at.set(Some(self.io.now()));
        }
        let config = self.config();
        let suspended_for = suspended_for(&self.observed(&config, &status, &[]));
        let suspended = self.seen.borrow_mut().update_suspended(suspended_for);
        events.into_iter().chain(suspended).for_each(|event| self.note(event));
        self.record_damage().await;
        self.evacuate_absent().await;
        Ok(status.counters)
    }

    /// Notes the damage of volumes that the shards have met, each block once, and ends the damage of blocks that they know to be
    /// good again. Nothing is noted once the pool has failed, since then all reads fail.
    async fn place_lost_blocks(&self, shards: &[ShardStatus]) -> Result<(), ControlError> {
        if self.failed.get() {
            return Ok(());
        }
        let lost = self.places(shards);
        let known = self.lost_blocks.replace(lost.clone());
        self.for_damage(known.difference(&lost), |damage, block| damage.note_good(block, 1));
        let new: Vec<_> = lost.difference(&known).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.for_damage(&new, |damage, block| damage.note_unreadable(block, 1));
        // A client may have written a block after its shard answered, and before its damage was noted.
        let lost = self.places(&self.ask_for(ControlRequest::Vitals).await?);
        let written = new.iter().filter(|place| !lost.contains(place));
        self.for_damage(written, |damage, block| damage.note_good(block, 1));
        self.lost_blocks.borrow_mut().retain(|place| lost.contains(place));
        Ok(())
    }

    /// The lost blocks of all shards, with their volumes.
    fn places(&self, shards: &[ShardStatus]) -> BTreeSet<(VolumeId, u64)> {
        let extent = self.config.borrow().geometry.extent_blocks();
        let lost = shards.iter().enumerate().flat_map(|(shard, status)| {
            let place = move |&(volume, local)| (volume, volume_block(local, extent, shard, shards.len()));
            status.lost_blocks.iter().map(place)
        });
        lost.collect()
    }

    fn for_damage<'a>(
        &self,
        places: impl IntoIterator<Item = &'a (VolumeId, u64)>,
        note: impl Fn(&KnownDamage, u64),
    ) {
        for &(volume, block) in places {
            if let Some(volume) = self.catalog.lock().values().find(|shared| shared.id == volume) {
                note(volume.damage(), block);
            }
        }
    }

    /// What is known about the pool, for its assessment.
    pub fn observed<'a>(
        &self,
        config: &'a Config,
        status: &'a ShardStatus,
        unnamed: &'a [usize],
    ) -> Observed<'a> {
        let thin = self.space().domains.into_iter().filter(|domain| domain.is_overcommitted);
        Observed {
            config,
            status,
            unnamed,
            mode: self.mode,
            has_failed: self.failed.get(),
            refused_lately: self.has_refused_lately(),
            thin: thin.flat_map(|domain| domain.members).collect(),
            damaged_ranges: self.damage().iter().map(|(_, ranges)| ranges.ranges().len()).sum(),
        }
    }

    /// Notes whether the device node or file of a device that works is gone.
    pub fn set_unnamed(&self, device: DeviceId, is_unnamed: bool) {
        let has_changed = match is_unnamed {
            true => self.unnamed.borrow_mut().insert(device),
            false => self.unnamed.borrow_mut().remove(&device),
        };
        let change = if is_unnamed { MemberChange::Unnamed } else { MemberChange::Named };
        let member = self.member_on(device).filter(|_| has_changed);
        member
            .and_then(|member| self.member_event(member, change))
            .into_iter()
            .for_each(|event| self.note(event));
    }

    /// Members that work, but whose device nodes or files are gone.
    pub fn unnamed(&self) -> Vec<usize> {
        let unnamed = self.unnamed.borrow();
        let in_use = self.devices_in_use().into_iter();
        in_use.filter(|(_, device)| unnamed.contains(device)).map(|(member, _)| member).collect()
    }

    /// What has happened since the last look.
    fn happened(&self, status: &ShardStatus) -> Vec<Event> {
        let mut seen = self.seen.borrow_mut();
        let mut events = seen.update(status);
        for (member, change) in seen.update_slow(status, self.io.now()) {
            events.extend(self.member_event(member, change));
        }
        for (name, volume) in self.catalog.lock().iter() {
            events.extend(seen.update_volume(name, volume.refused_for_room(), volume.connections()));
        }
        events
    }

    /// Whether more members are out than the pool survives, so that it refuses everything until it is opened again.
    pub fn has_failed(&self) -> bool {
        self.failed.get()
    }

    /// Whether requests of clients were refused for lack of room a short time ago.
    pub fn has_refused_lately(&self) -> bool {
        self.refused_at.get().is_some_and(|at| self.io.now() - at < SHOWN_NS)
    }

    /// The work under way, and how much of it has been done since it began, as of the last look: chunks or stripes.
    pub fn work_done(&self) -> Vec<(Work, u64)> {
        self.seen.borrow().work_done()
    }

    /// The event that something became of a member; none if there is no such member.
    pub(super) fn member_event(&self, member: usize, change: MemberChange) -> Option<Event> {
        let path = self.config.borrow().members.get(member)?.path.clone();
        Some(Event::Member { member, path, change })
    }
}
