//! Presets on real members: those that are one pool or array, without a layer that only simulations have.

use anyhow::{Result, bail};
use sinew_engine::control::Control;
use sinew_engine::pool::PoolKind;
use sinew_engine::pool::preset::{Part, Preset};
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_uring::UringIo;

fn is_real(preset: &Preset) -> bool {
    preset.parts == 1 && preset.layer.is_none()
}

/// The preset of that name.
///
/// # Errors
/// When there is none, or it exists in simulations only.
pub(crate) fn parse(name: &str) -> Result<Preset, String> {
    let real: Vec<&str> = Preset::ALL.iter().filter(|preset| is_real(preset)).map(|p| p.name).collect();
    let real = real.join(", ");
    match Preset::named(name) {
        Some(preset) if is_real(&preset) => Ok(preset),
        Some(Preset { layer: Some(_), .. }) => Err(format!(
            "that has a layer which only simulations have (`sinew experiment`); others are {real}"
        )),
        Some(Preset { parts, .. }) => {
            Err(format!("that is {parts} of them; make each by itself (docs/presets.md); others are {real}"))
        }
        None => Err(format!("there is no such preset; there are {real}")),
    }
}

/// The kind of pool that it makes of this number of members; `zeroed` if they hold nothing but zeros. Unlike in simulations,
/// members left over are
/// spares of an array, and a mapped pool has checksums if that is asked for.
///
/// # Errors
/// When it cannot be made of this number of members.
pub(crate) fn kind(preset: &Preset, members: usize, zeroed: bool, checksums: bool) -> Result<PoolKind> {
    let composed = preset.compose(members, zeroed)?;
    Ok(match composed.kind {
        PoolKind::Mapped { protection, data_columns, .. } => {
            PoolKind::Mapped { protection, data_columns, checksums }
        }
        PoolKind::Array(mut array) => {
            array.spares = members - composed.part_members;
            PoolKind::Array(array)
        }
    })
}

/// Sets what is not on the members: how spikes are found, and the policy.
///
/// # Errors
/// When the pool is of the other kind.
pub(crate) async fn apply(preset: &Preset, control: &Control<UringIo>) -> Result<()> {
    let config = control.config();
    let is = match config.geometry {
        PoolGeometry::Array(array) if array.elastic.is_some() => "an elastic array",
        PoolGeometry::Array(_) => "an array",
        PoolGeometry::Mapped(_) => "a mapped pool",
    };
    let wanted = match preset.part {
        Part::Elastic(_) => "an elastic array",
        Part::Array(_) => "an array",
        Part::Mapped(_) => "a mapped pool",
    };
    if is != wanted {
        bail!("{} is {is}, and the preset {} is for {wanted}; choose another", config.name, preset.name);
    }
    control.set_spike_avoidance(preset.spike_avoidance).await;
    match preset.part {
        Part::Elastic(policy) => control.set_elastic_policy(policy).await?,
        Part::Mapped(_) => control.set_policy(preset.policy).await?,
        Part::Array(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_one_pool_without_a_layer_is_for_real_members() {
        for name in ["sinew", "raid50", "fusion-nd", "fusionraid", "elastic", "elastic-raid10-only"] {
            assert_eq!(parse(name).unwrap().name, name);
        }
        assert!(parse("raid5x4").unwrap_err().contains("that is 4 of them"));
        assert!(parse("nvraid").unwrap_err().contains("only simulations"));
        assert!(parse("raid7").unwrap_err().contains("there are sinew, raid50, fusion-nd, fusionraid"));
    }

    #[test]
    fn what_a_raid_50_leaves_over_is_spare() {
        let PoolKind::Array(array) = kind(&parse("raid50").unwrap(), 13, true, true).unwrap() else {
            panic!("an array");
        };
        assert_eq!(array.spares, 1);
        assert!(kind(&parse("raid50").unwrap(), 11, true, true).is_err());
    }
}
