//! Arrays as plans have them.

use sinew_format::model::array_geometry::{ArrayGeometry, ArraySpec};
use sinew_layout::{Level, Rotation};

use super::setting::Value;
use super::{ArrayGrowth, Corruptor, Ending, Plan, Trait};
use crate::random::Rng;

/// Members of an array at most: all its blocks are read at each opening.
const MEMBERS_MAX: usize = 11;
/// Blocks of a request at most.
const BLOCKS_MAX: u64 = 260;

impl Plan {
    /// The same work and trouble on an array.
    pub(super) fn of_array(mut self, rng: &mut Rng) -> Plan {
        self.members.truncate(MEMBERS_MAX);
        let spares = if self.members.len() > 4 && rng.chance(0.25) { rng.between(1, 2) as usize } else { 0 };
        let (level, count) = draw_level(rng, self.members.len() - spares);
        self.members.truncate(count + spares);
        let chunk_bytes = [4096, 8192, 16384, 65536][rng.below(4) as usize];
        let spec =
            ArraySpec { level, chunk_bytes, journal: rng.chance(0.7), spares, zeroed: rng.chance(0.7) };
        self.array = Some(spec);
        let grows = &mut Rng::stream(self.seed, "plan, growth", 0);
        if grows.chance(0.25) {
            let growth = ArrayGrowth::draw(grows);
            self.make_growing(growth, grows);
        }
        let with_parity = &mut Rng::stream(self.seed, "plan, growth with parity", 0);
        let level = self.array.map(|spec| spec.level);
        let may_grow =
            matches!(level, Some(Level::Raid5(_) | Level::Raid6(_))) && self.array_growth.is_none();
        if may_grow && with_parity.chance(0.35) {
            self.make_parity_growing(with_parity);
        }
        let spec = self.array.unwrap_or(spec);
        self.tenancies = 0;
        // A large write takes many more steps than in a mapped pool: it goes through a small log.
        self.blocks_max = self.blocks_max.min(BLOCKS_MAX);
        // Without checksums nobody could tell what is wrong.
        self.corruptions.retain(|kind| matches!(kind, Corruptor::Latent | Corruptor::ReadError));
        let Ok(geometry) = self.array_geometry(&spec) else { return self };
        let failures = geometry.layout.tolerates() as usize;
        let is_open = has_open_hole(&geometry);
        let is_calm = is_open && rng.chance(0.5);
        self.corrupt = if is_open || rng.chance(0.6) { 0 } else { rng.below(failures as u64 + 1) as usize };
        if self.corrupt + self.short() > failures || is_open && !is_calm {
            self.members.iter_mut().for_each(|m| m.traits.retain(|t| *t != Trait::Short));
        }
        self.lost = if is_open && !is_calm { 0 } else { failures - self.corrupt - self.short() };
        if is_calm {
            self.endings = vec![Ending::Close];
        }
        self
    }

    pub(super) fn array_geometry(&self, spec: &ArraySpec) -> Result<ArrayGeometry, String> {
        let count = self.first_members().checked_sub(spec.spares).filter(|&n| n > 0);
        let count = count.ok_or("there must be more members than spares")?;
        let smallest = self.members.iter().map(|m| m.mebibytes << 20).min().unwrap_or(0);
        ArrayGeometry::new(spec, count, smallest, self.shards, Some(self.journal_blocks))
            .map_err(|error| error.to_string())
    }

    /// Whether the plan's array can be played.
    pub(super) fn check_array(&self, spec: &ArraySpec) -> Result<ArrayGeometry, String> {
        let geometry = self.array_geometry(spec)?;
        self.check_growth(spec)?;
        if self.tenancies > 0 {
            return Err("an array has one volume: tenancies must be 0".to_owned());
        }
        let silent = |kind: &Corruptor| !matches!(kind, Corruptor::Latent | Corruptor::ReadError);
        if self.corrupt > 0 && self.corruptions.iter().any(silent) {
            return Err("without checksums members may only fail to read: latent, read_error".to_owned());
        }
        let impaired = self.corrupt + self.lost + self.short();
        if has_open_hole(&geometry) && impaired > 0 && self.may_crash() {
            return Err(
                "parity without a log survives no crash with a member out: endings must be close".to_owned()
            );
        }
        Ok(geometry)
    }

    /// Whether the world may end at any time.
    pub(crate) fn may_crash(&self) -> bool {
        self.endings != [Ending::Close] || self.array.is_none()
    }

    /// Sizes of the volumes that clients work on at first, in blocks.
    pub(crate) fn volume_blocks(&self) -> Vec<u64> {
        let geometry = self.array.and_then(|spec| self.array_geometry(&spec).ok());
        geometry.map_or(self.volumes.clone(), |geometry| vec![geometry.data_bytes() / 4096])
    }
}

/// Whether a crash while a member is out may lose data.
fn has_open_hole(geometry: &ArrayGeometry) -> bool {
    geometry.parity_columns() > 0 && !geometry.journal
}

/// A level that so many members can have, and how many of them it takes.
fn draw_level(rng: &mut Rng, members: usize) -> (Level, usize) {
    let rotation = Rotation::ALL[rng.below(4) as usize];
    let even = members / 2 * 2;
    let few = |rng: &mut Rng, least: u64| rng.between(least, (least + 3).min(members as u64)) as usize;
    match rng.below(10) {
        0 => (Level::Raid0, few(rng, 1)),
        1 => (Level::Raid1, few(rng, 2)),
        2 => {
            let copies = rng.between(2, 3.min(members as u64 - 1)) as u32;
            (Level::Raid10 { copies }, few(rng, u64::from(copies) + 1))
        }
        6 | 7 if members >= 4 => (Level::Raid6(rotation), members),
        8 if members >= 4 => (Level::Raid50 { groups: 2, rotation }, even),
        9 if members >= 8 => (Level::Raid60 { groups: 2, rotation }, even),
        _ => (Level::Raid5(rotation), members),
    }
}

/// `none`, or a level and what else there is: `6:left-symmetric:64K:log:spares=1:zeroed`.
impl Value for Option<ArraySpec> {
    fn show(&self) -> String {
        let Some(spec) = self else { return "none".to_owned() };
        let level = match spec.level {
            Level::Raid0 => "0".to_owned(),
            Level::Raid1 => "1".to_owned(),
            Level::Raid10 { copies } => format!("10/{copies}"),
            Level::Raid5(rotation) => format!("5/{rotation}"),
            Level::Raid6(rotation) => format!("6/{rotation}"),
            Level::Raid50 { groups, rotation } => format!("50/{groups}/{rotation}"),
            Level::Raid60 { groups, rotation } => format!("60/{groups}/{rotation}"),
        };
        let log = if spec.journal { ":log" } else { "" };
        let zeroed = if spec.zeroed { ":zeroed" } else { "" };
        format!("{level}:{}K:spares={}{log}{zeroed}", spec.chunk_bytes / 1024, spec.spares)
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
        if !spec.zeroed {
            all.push(Some(ArraySpec { zeroed: true, ..spec }));
        }
        all
    }
}

fn parse_array(text: &str) -> Option<ArraySpec> {
    let mut parts = text.split(':');
    let level = parse_level(parts.next()?)?;
    let chunk_bytes = parts.next()?.strip_suffix('K')?.parse::<u32>().ok()?.checked_mul(1024)?;
    let spares = parts.next()?.strip_prefix("spares=")?.parse().ok()?;
    let mut spec = ArraySpec { level, chunk_bytes, journal: false, spares, zeroed: false };
    for part in parts {
        match part {
            "log" => spec.journal = true,
            "zeroed" => spec.zeroed = true,
            _ => return None,
        }
    }
    Some(spec)
}

fn parse_level(text: &str) -> Option<Level> {
    let words: Vec<&str> = text.split('/').collect();
    let rotation = |name: &str| Rotation::ALL.into_iter().find(|r| r.to_string() == name);
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
