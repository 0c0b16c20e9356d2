//! The lasting record of damage: what clients of volumes found is stored in the configuration, and told as events.

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::Io;
use sinew_format::model::damage::{DamagedRanges, VolumeDamage};

use crate::control::events::Event;
use crate::control::store::Control;

impl<I: Io> Control<I> {
    /// Sets the time of day at which the clock of `Io` was at 0, in seconds since 1970.
    pub fn set_wall_clock(&self, seconds_at_zero: u64) {
        self.wall_clock.set(seconds_at_zero);
    }

    /// Stores what has changed in the damage of volumes since the last call, and tells it. Nothing is stored while the pool
    /// has failed, since then all reads fail; nor on the members of an array of md's, which hold md's superblocks only.
    pub(super) async fn record_damage(&self) {
        let changes: u64 = self.catalog.lock().values().map(|volume| volume.damage().changes()).sum();
        let volumes = self.catalog.lock().len();
        if self.failed.get() || self.damage_recorded.replace((changes, volumes)) == (changes, volumes) {
            return;
        }
        let now_s = self.wall_clock.get() + self.io.now() / 1_000_000_000;
        let mut found: Vec<(VolumeDamage, String)> = {
            let volumes = self.catalog.lock();
            let damage = |volume: &crate::client::VolumeShared| VolumeDamage {
                volume: volume.id,
                ranges: volume.damage().stamped(now_s),
            };
            volumes.iter().map(|(name, volume)| (damage(volume), name.clone())).collect()
        };
        found.sort_by_key(|(damage, _)| damage.volume);
        let before = self.config.borrow().damage.clone();
        let stored = match self.md {
            Some(_) => Ok(()),
            None => {
                self.change(|config| {
                    let is_there = |volume| config.volumes.iter().any(|v| v.id == volume);
                    let damage = found.iter().map(|(damage, _)| damage);
                    let lasting = damage.filter(|d| !d.ranges.is_empty() && is_there(d.volume));
                    config.damage = lasting.cloned().collect();
                    Ok(())
                })
                .await
            }
        };
        if stored.is_err() {
            // Tried again at the next look.
            self.damage_recorded.set((u64::MAX, 0));
            return;
        }
        let none = DamagedRanges::default();
        for (VolumeDamage { volume, ranges }, name) in found {
            let known = match self.md {
                // An md array stores no damage: an event covers the ranges that no earlier event has covered.
                Some(_) => self.damage_told.borrow_mut().insert(volume, ranges.clone()).unwrap_or_default(),
                None => before.iter().find(|d| d.volume == volume).map_or(&none, |d| &d.ranges).clone(),
            };
            for range in ranges.without(&known).ranges() {
                let (offset, bytes) = (range.first * BLOCK_BYTES as u64, range.blocks * BLOCK_BYTES as u64);
                self.note(Event::DamageFound { volume: name.clone(), offset, bytes });
            }
            for range in known.without(&ranges).ranges() {
                let (offset, bytes) = (range.first * BLOCK_BYTES as u64, range.blocks * BLOCK_BYTES as u64);
                self.note(Event::DamageEnded { volume: name.clone(), offset, bytes });
            }
        }
    }

    /// The damage of volumes now, by their names.
    pub fn damage(&self) -> Vec<(String, DamagedRanges)> {
        let volumes = self.catalog.lock();
        let damage = volumes.iter().map(|(name, volume)| (name.clone(), volume.damage().stamped(0)));
        damage.filter(|(_, ranges)| !ranges.is_empty()).collect()
    }
}
