//! Arrays as settings.

use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::form::Elastic;
use sinew_layout::{Level, ParityWeights, Rotation};

use super::setting::Value;

/// `none`, or a level and what else there is: `6/left-symmetric:64K:spares=1:log:zeroed:elastic`, `5/weights-4-2-1-1:4K:spares=0`.
impl Value for Option<ArraySpec> {
    fn show(&self) -> String {
        let Some(spec) = self else { return "none".to_owned() };
        let level = match spec.level {
            Level::Raid0 => "0".to_owned(),
            Level::Raid1 => "1".to_owned(),
            Level::Raid10 { copies } => format!("10/{copies}"),
            Level::Raid5(rotation) => format!("5/{}", show_rotation(rotation)),
            Level::Raid6(rotation) => format!("6/{}", show_rotation(rotation)),
            Level::Raid50 { groups, rotation } => format!("50/{groups}/{rotation}"),
            Level::Raid60 { groups, rotation } => format!("60/{groups}/{rotation}"),
        };
        let log = if spec.journal { ":log" } else { "" };
        let zeroed = if spec.zeroed { ":zeroed" } else { "" };
        let elastic = if spec.elastic.is_some() { ":elastic" } else { "" };
        format!("{level}:{}K:spares={}{log}{zeroed}{elastic}", spec.chunk_bytes / 1024, spec.spares)
    }

    fn parse(text: &str) -> Result<Option<ArraySpec>, String> {
        if text == "none" {
            return Ok(None);
        }
        parse_array(text).map(Some).ok_or_else(|| {
            "none, or an array such as 5/left-symmetric:64K:spares=1:log:zeroed, 10/2:4K:spares=0".to_owned()
        })
    }

    fn smaller(&self) -> Vec<Option<ArraySpec>> {
        let Some(spec) = *self else { return Vec::new() };
        let mut all = Vec::new();
        if spec.spares > 0 {
            all.push(Some(ArraySpec { spares: spec.spares - 1, ..spec }));
        }
        if spec.elastic.is_some() {
            all.push(Some(ArraySpec { elastic: None, ..spec }));
        }
        match spec.level {
            Level::Raid5(Rotation::Weighted(_)) => {
                all.push(Some(ArraySpec { level: Level::Raid5(Rotation::default()), ..spec }));
            }
            Level::Raid6(Rotation::Weighted(_)) => {
                all.push(Some(ArraySpec { level: Level::Raid6(Rotation::default()), ..spec }));
            }
            _ => {}
        }
        if !spec.zeroed {
            all.push(Some(ArraySpec { zeroed: true, ..spec }));
        }
        all
    }
}

/// The name of a rotation, or the weights of members: `weights-4-2-1-1`.
fn show_rotation(rotation: Rotation) -> String {
    match rotation.weights() {
        Some(weights) => format!("weights-{}", weights.to_string().replace(',', "-")),
        None => rotation.to_string(),
    }
}

fn parse_rotation(text: &str) -> Option<Rotation> {
    match text.strip_prefix("weights-") {
        Some(weights) => weights.replace('-', ",").parse::<ParityWeights>().ok().map(Rotation::Weighted),
        None => text.parse().ok(),
    }
}

fn parse_array(text: &str) -> Option<ArraySpec> {
    let mut parts = text.split(':');
    let level = parse_level(parts.next()?)?;
    let chunk_bytes = parts.next()?.strip_suffix('K')?.parse::<u32>().ok()?.checked_mul(1024)?;
    let spares = parts.next()?.strip_prefix("spares=")?.parse().ok()?;
    let mut spec = ArraySpec { level, chunk_bytes, journal: false, spares, zeroed: false, elastic: None };
    for part in parts {
        match part {
            "log" => spec.journal = true,
            "zeroed" => spec.zeroed = true,
            "elastic" => spec.elastic = Some(Elastic::BY_ADDRESSES),
            _ => return None,
        }
    }
    Some(spec)
}

fn parse_level(text: &str) -> Option<Level> {
    let words: Vec<&str> = text.split('/').collect();
    let rotation = parse_rotation;
    Some(match words[..] {
        ["0"] => Level::Raid0,
        ["1"] => Level::Raid1,
        ["10", copies] => Level::Raid10 { copies: copies.parse().ok()? },
        ["5", name] => Level::Raid5(rotation(name)?),
        ["6", name] => Level::Raid6(rotation(name)?),
        ["50", groups, name] => Level::Raid50 { groups: groups.parse().ok()?, rotation: rotation(name)? },
        ["60", groups, name] => Level::Raid60 { groups: groups.parse().ok()?, rotation: rotation(name)? },
        _ => return None,
    })
}
