//! Making, deleting, resizing and limiting volumes.

use std::sync::Arc;

use crate::client::VolumeShared;
use crate::marks::Mark;
use sinew_core::buf::BLOCK_BYTES;
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_format::model::config::{Config, VolumeConfig};
use sinew_format::model::damage::DamagedRanges;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::name::{self, VOLUME_NAME_MAX};
use sinew_format::model::stripe_form::StripeClass;
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::message::ControlRequest;

use crate::control::{Control, ControlError};

/// What a new volume has besides its name and its size.
#[derive(Clone, Copy, Debug)]
pub struct VolumeOptions {
    /// What its clients may ask for.
    pub limits: VolumeLimits,
    /// Its protection; that of the pool if none is chosen.
    pub protection: Option<Protection>,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions { limits: VolumeLimits::NONE, protection: None }
    }
}

impl<I: Io> Control<I> {
    fn check_size(&self, config: &Config, without: Option<VolumeId>, bytes: u64) -> Result<(), ControlError> {
        let max = self.config.borrow().volume_bytes_max();
        let others: u64 = config.volumes.iter().filter(|v| Some(v.id) != without).map(|v| v.bytes).sum();
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Err(ControlError::VolumeBlocks);
        }
        // One may always become smaller, even if members were lost for good since they were made.
        let before = config.volumes.iter().find(|v| Some(v.id) == without).map_or(0, |v| v.bytes);
        if others.saturating_add(bytes) <= max.max(others.saturating_add(before)) {
            Ok(())
        } else {
            Err(ControlError::VolumeSize { max, left: max.saturating_sub(others) })
        }
    }

    fn refuse_array(&self) -> Result<(), ControlError> {
        match self.config.borrow().geometry.mapped() {
            Some(_) => Ok(()),
            None => Err(ControlError::OneVolume),
        }
    }

    /// Makes a volume.
    ///
    /// # Errors
    /// When the name or size cannot be had.
    pub async fn create_volume(&self, name: &str, bytes: u64) -> Result<VolumeId, ControlError> {
        self.create_volume_with(name, bytes, VolumeOptions::default()).await
    }

    /// Makes a volume with limits, or with a protection of its own.
    ///
    /// # Errors
    /// When the name, the size, the limits or the protection cannot be had.
    pub async fn create_volume_with(
        &self,
        name: &str,
        bytes: u64,
        VolumeOptions { limits, protection }: VolumeOptions,
    ) -> Result<VolumeId, ControlError> {
        self.refuse_read_only()?;
        check_limits(limits)?;
        if !name::is_valid(name, VOLUME_NAME_MAX) {
            return Err(ControlError::VolumeName);
        }
        self.refuse_array()?;
        let class = protection.map_or(Ok(StripeClass::Pool), |wanted| self.class_of(wanted))?;
        let protection = protection.filter(|_| class == StripeClass::Pinned);
        // One order after the other: the number that room is kept for is the new volume's.
        let _turn = self.turn().await;
        let id = VolumeId(self.config.borrow().volume_next);
        if protection.is_some() {
            self.reserve_move(id, class).await?;
        }
        // The change after this one ends it, so that both slots of every superblock say that earlier versions are to refuse the
        // pool before anything is stored in stripes that they do not know.
        let moving = protection.is_some();
        let volume = VolumeConfig { limits, protection, moving, ..VolumeConfig::new(id, name, bytes) };
        let recorded = self.record_volume(&volume).await;
        if moving && recorded.is_err() {
            self.ask_all(|done| ControlRequest::CancelMove { volume: id, done }).await?;
        }
        recorded?;
        if moving {
            self.record_move(id, false).await?;
            self.ask_all(|done| ControlRequest::SetClass { volume: id, class, done }).await?;
        }
        let shared = Arc::new(VolumeShared::new(&volume, false, DamagedRanges::default()));
        self.catalog.lock().insert(name.to_owned(), shared);
        Ok(id)
    }

    /// Records a new volume, whose number is the next one.
    async fn record_volume(&self, volume: &VolumeConfig) -> Result<(), ControlError> {
        self.change(|config| {
            if config.volumes.iter().any(|v| v.name == volume.name && !v.deleting) {
                return Err(ControlError::VolumeExists(volume.name.clone()));
            }
            self.check_size(config, None, volume.bytes)?;
            config.volume_next += 1;
            config.volumes.push(volume.clone());
            Ok(())
        })
        .await
    }

    /// Keeps room for a volume's blocks in stripes of a class.
    async fn reserve_move(&self, volume: VolumeId, class: StripeClass) -> Result<(), ControlError> {
        if self.ask_whether(|done| ControlRequest::ReserveMove { volume, class, done }).await? {
            return Ok(());
        }
        self.ask_all(|done| ControlRequest::CancelMove { volume, done }).await?;
        Err(ControlError::NoRoomForMirrors)
    }

    /// The class of stripes for volumes with a protection.
    fn class_of(&self, wanted: Protection) -> Result<StripeClass, ControlError> {
        let config = self.config.borrow();
        let geometry = config.geometry.mapped().ok_or(ControlError::OneVolume)?;
        let offered = || geometry.protections().collect();
        geometry.class_of(wanted).ok_or_else(|| ControlError::VolumeProtection { wanted, offered: offered() })
    }

    /// Changes the protection of a volume. What is written from then on has it; what is stored moves in the background, which an
    /// opening after a crash goes on with.
    ///
    /// # Errors
    /// When there is no volume of that name, the pool does not offer the protection or has no room for it, or the blocks of
    /// the volume are still being moved.
    pub async fn set_volume_protection(
        &self,
        name: &str,
        protection: Protection,
    ) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        let class = self.class_of(protection)?;
        let chosen = (class == StripeClass::Pinned).then_some(protection);
        // One change after the other: each keeps room of its own in the shards.
        let _turn = self.turn().await;
        let VolumeConfig { id, protection: before, moving, .. } = self.find(name)?;
        if before == chosen {
            return Ok(());
        }
        if moving {
            return Err(ControlError::VolumeMoving(name.to_owned()));
        }
        self.reserve_move(id, class).await?;
        if let Err(error) = self.record_protection(id, name, chosen).await {
            self.ask_all(|done| ControlRequest::CancelMove { volume: id, done }).await?;
            self.record_move(id, false).await?;
            return Err(error);
        }
        self.note_setting("volume-protection", format!("{name}: {protection}"));
        Ok(self.ask_all(|done| ControlRequest::SetClass { volume: id, class, done }).await?)
    }

    async fn record_protection(
        &self,
        id: VolumeId,
        name: &str,
        protection: Option<Protection>,
    ) -> Result<(), ControlError> {
        // A change of its own, as for a new volume.
        self.record_move(id, true).await?;
        self.change(|config| {
            let volume = config.volumes.iter_mut().find(|v| v.id == id && !v.deleting);
            let volume = volume.ok_or_else(|| ControlError::NoVolume(name.to_owned()))?;
            volume.protection = protection;
            Ok(())
        })
        .await
    }

    /// Records whether the blocks of a volume are being moved.
    async fn record_move(&self, id: VolumeId, moving: bool) -> Result<(), ControlError> {
        self.change(|config| {
            config.volumes.iter_mut().filter(|v| v.id == id).for_each(|volume| volume.moving = moving);
            Ok(())
        })
        .await
    }

    /// Records that the blocks of a volume have moved, if that is so in all shards.
    pub(super) async fn finish_move(&self, id: VolumeId) -> Result<(), ControlError> {
        let _turn = self.turn().await;
        let is_moving = self.config.borrow().volumes.iter().any(|v| v.id == id && v.moving);
        if !is_moving || !self.ask_whether(|done| ControlRequest::HasMoved { volume: id, done }).await? {
            return Ok(());
        }
        // A loss of power must not bring blocks back to where they were.
        self.ask_all(|done| ControlRequest::Flush { done }).await?;
        self.io.mark(Mark::VolumeMoveEnded);
        self.record_move(id, false).await
    }

    /// Sets what clients of a volume may ask for. It is kept in the configuration.
    ///
    /// # Errors
    /// When there is no volume of that name, the limits cannot be set, or the configuration cannot be stored.
    pub async fn set_volume_limits(&self, name: &str, limits: VolumeLimits) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        check_limits(limits)?;
        let VolumeConfig { id, limits: before, .. } = self.find(name)?;
        self.change(|config| {
            let volume = config.volumes.iter_mut().find(|v| v.id == id);
            volume.ok_or_else(|| ControlError::NoVolume(name.to_owned()))?.limits = limits;
            Ok(())
        })
        .await?;
        if let Some(shared) = self.catalog.get(name) {
            shared.set_limits(self.io.now(), self.find(name)?.limits);
        }
        if limits != before {
            self.note_setting("volume-limits", format!("{name}: {limits}"));
        }
        Ok(())
    }

    /// The limits of a volume.
    ///
    /// # Errors
    /// When there is no volume of that name.
    pub fn volume_limits(&self, name: &str) -> Result<VolumeLimits, ControlError> {
        Ok(self.find(name)?.limits)
    }

    fn find(&self, name: &str) -> Result<VolumeConfig, ControlError> {
        let config = self.config.borrow();
        let found = config.volumes.iter().find(|v| v.name == name && !v.deleting);
        found.cloned().ok_or_else(|| ControlError::NoVolume(name.to_owned()))
    }

    /// Deletes a volume and everything in it.
    ///
    /// # Errors
    /// When there is none of that name.
    pub async fn delete_volume(&self, name: &str) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_array()?;
        let id = self.find(name)?.id;
        self.change(|config| {
            let volume = config.volumes.iter_mut().find(|v| v.id == id);
            volume.ok_or_else(|| ControlError::NoVolume(name.to_owned()))?.deleting = true;
            Ok(())
        })
        .await?;
        if let Some(shared) = self.catalog.lock().remove(name) {
            shared.set_gone();
        }
        self.finish_delete(id).await
    }

    pub(super) async fn finish_delete(&self, volume: VolumeId) -> Result<(), ControlError> {
        self.ask_all(|done| ControlRequest::DropVolume { volume, done }).await?;
        self.ask_all(|done| ControlRequest::Flush { done }).await?;
        self.change(|config| {
            config.volumes.retain(|v| v.id != volume);
            config.damage.retain(|damage| damage.volume != volume);
            Ok(())
        })
        .await
    }

    /// Changes a volume's size. Shrinking frees what is beyond the new end.
    ///
    /// # Errors
    /// When there is none of that name, or the size cannot be had.
    pub async fn resize_volume(&self, name: &str, bytes: u64) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        self.refuse_array()?;
        let (volume, shared) = (self.find(name)?, self.catalog.get(name));
        self.check_size(&self.config.borrow(), Some(volume.id), bytes)?;
        if let Some(shared) = shared.as_ref().filter(|_| bytes < volume.bytes) {
            shared.set_bytes(bytes);
        }
        // In either direction nothing may be left beyond the smaller size: what grows reads as zeros.
        let blocks = bytes.min(volume.bytes) / BLOCK_BYTES as u64;
        let id = volume.id;
        self.ask_all(|done| ControlRequest::Truncate { volume: id, blocks, done }).await?;
        self.change(|config| {
            self.check_size(config, Some(id), bytes)?;
            let entry = config.volumes.iter_mut().find(|v| v.id == id);
            entry.ok_or_else(|| ControlError::NoVolume(name.to_owned()))?.bytes = bytes;
            Ok(())
        })
        .await?;
        if let Some(shared) = shared {
            shared.set_bytes(bytes);
        }
        Ok(())
    }
}

/// Refuses limits that cannot be set.
fn check_limits(limits: VolumeLimits) -> Result<(), ControlError> {
    limits.fault().map_or(Ok(()), |fault| Err(ControlError::VolumeLimits(fault)))
}
