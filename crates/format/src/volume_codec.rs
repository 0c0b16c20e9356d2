//! The encoding of what some volumes have besides a name and a size: limits, and a protection of their own.

use crate::codec::{DecodeError, Reader, Writer};
use crate::model::config::{Config, VolumeConfig};
use crate::model::mapped_geometry::Protection;
use crate::model::pool_geometry::PoolGeometry;
use crate::model::stripe_form::StripeClass;
use crate::model::volume_limits::VolumeLimits;
use crate::pool_geometry_codec::{protection_code, protection_from};
use sinew_core::ids::VolumeId;

/// The volumes that have limits.
pub(crate) fn encode_limits(volumes: &[VolumeConfig], w: &mut Writer) {
    let limited = || volumes.iter().filter(|volume| volume.limits != VolumeLimits::NONE);
    w.u32(limited().count() as u32);
    for volume in limited() {
        w.u32(volume.id.0);
        w.u64(volume.limits.iops);
        w.u64(volume.limits.bytes_per_second);
        w.u32(volume.limits.burst_ms);
    }
}

pub(crate) fn decode_limits(r: &mut Reader<'_>, volumes: &mut [VolumeConfig]) -> Result<(), DecodeError> {
    let wrong = DecodeError::Invalid("limits of a volume");
    for _ in 0..r.u32()? {
        let id = VolumeId(r.u32()?);
        let limits = VolumeLimits { iops: r.u64()?, bytes_per_second: r.u64()?, burst_ms: r.u32()? };
        let volume = volumes.iter_mut().find(|volume| volume.id == id);
        // None is stored for a volume without them, so two of one volume are seen too.
        let volume = volume.filter(|volume| volume.limits == VolumeLimits::NONE).ok_or(wrong.clone())?;
        if limits.fault().is_some() || limits == VolumeLimits::NONE {
            return Err(wrong);
        }
        volume.limits = limits;
    }
    Ok(())
}

/// The volumes with blocks in stripes that do not have the protection of the pool: their protection, and whether their blocks
/// are still being moved.
pub(crate) fn chosen_protections(config: &Config) -> impl Iterator<Item = (VolumeId, Protection, bool)> {
    let chosen = config.volumes.iter().filter(|volume| volume.protection.is_some() || volume.moving);
    chosen.filter_map(|volume| Some((volume.id, config.protection_of(volume)?, volume.moving)))
}

pub(crate) fn encode_protections(config: &Config, w: &mut Writer) {
    w.u32(chosen_protections(config).count() as u32);
    for (id, protection, moving) in chosen_protections(config) {
        w.u32(id.0);
        w.u8(protection_code(protection));
        w.u8(u8::from(moving));
    }
}

pub(crate) fn decode_protections(
    r: &mut Reader<'_>,
    shape: &PoolGeometry,
    volumes: &mut [VolumeConfig],
) -> Result<(), DecodeError> {
    let wrong = DecodeError::Invalid("protection of a volume");
    for _ in 0..r.u32()? {
        let (id, protection, moving) = (VolumeId(r.u32()?), protection_from(r.u8()?)?, r.u8()? != 0);
        let class = shape.mapped().and_then(|geometry| geometry.class_of(protection));
        let volume = volumes.iter_mut().find(|volume| volume.id == id);
        let volume = volume.filter(|volume| volume.protection.is_none() && !volume.moving);
        let volume = volume.ok_or_else(|| wrong.clone())?;
        match class {
            Some(StripeClass::Pinned) => volume.protection = Some(protection),
            Some(StripeClass::Pool) if moving => {}
            _ => return Err(wrong),
        }
        volume.moving = moving;
    }
    Ok(())
}
