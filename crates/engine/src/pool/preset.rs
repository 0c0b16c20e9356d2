//! Presets: systems of the papers, and Sinew itself, as compositions of what the engine has. None is a fork of the code.
//!
//! A preset says into how many parts the members are divided, what each part is, how spikes are found, and which layer lies
//! above. Parts are pools or arrays of their own. The layers are for the simulator only: they stand for hardware, or for a
//! design, that the server does not offer. FusionRAID (FAST '21, section 5.1) has the systems: its rivals use 28 of 29 SSDs
//! in four groups, and one as a hot spare.

use sinew_layout::{Level, Rotation};

use crate::pool::PoolKind;
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Elastic;
use sinew_format::model::mapped_geometry::{CHUNK_BYTES, Protection};
use sinew_format::model::policy::Policy;
use sinew_members::latency::SpikeAvoidance;

/// RAID groups of the rivals, and the fewest members of each.
const GROUPS: usize = 4;
const GROUP_MEMBERS_LEAST: usize = 3;
/// The strip of Elastic RAID's array (2022, section 5.1).
const ELASTIC_CHUNK_BYTES: u32 = 4 << 10;

/// A named composition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Pools or arrays that the members are divided into.
    pub parts: usize,
    /// What each of them is.
    pub part: Part,
    /// How spikes are found.
    pub spike_avoidance: SpikeAvoidance,
    /// How mapped parts lay out small writes and convert them.
    pub policy: Policy,
    /// Metadata of mapped parts is in memory with a battery, in simulations: it costs the members nothing.
    pub battery: bool,
    /// Members make use of discards, in simulations.
    pub discard: bool,
    /// What lies above.
    pub layer: Option<Layer>,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An array with chunks of 64 KiB, without a journal.
    Array(Level),
    /// A mapped pool without checksums; with parity, its stripes are as wide as a rival's group.
    Mapped(Protection),
    /// An elastic array of level 5 with chunks of 4 KiB, whose stripes change their form by this policy.
    Elastic(ElasticPolicy),
}

/// A layer above the parts, in simulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Non-volatile memory that takes writes first (FAST '21, section 5.2).
    NvBuffer,
    /// A log that all writes are appended to (section 5.1, after SWAN).
    Log,
}

/// A preset applied to a number of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Composition {
    /// Parts.
    pub parts: usize,
    /// Members of each part, one part's after the other's. Those after them are spare.
    pub part_members: usize,
    /// What each part is.
    pub kind: PoolKind,
}

/// Too few members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the preset {preset} is for {least} members or more, not {members}; give more, or choose another preset"
)]
pub struct TooFewMembers {
    preset: &'static str,
    least: usize,
    members: usize,
}

const RAID5: Level = Level::Raid5(Rotation::LeftSymmetric);
const RAID50: Level = Level::Raid50 { groups: GROUPS as u32, rotation: Rotation::LeftSymmetric };

/// What most of FusionRAID's rivals have in common.
const PLAIN: Preset = Preset {
    name: "",
    about: "",
    parts: 1,
    part: Part::Array(RAID50),
    spike_avoidance: SpikeAvoidance::Off,
    policy: Policy::DEFAULT,
    battery: false,
    discard: false,
    layer: None,
};

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 12] = [
        Preset {
            name: "sinew",
            about: "one mapped pool of all members with single parity, which steps around spikes and tells members what is free",
            part: Part::Mapped(Protection::Parity1),
            spike_avoidance: SpikeAvoidance::Auto,
            discard: true,
            ..PLAIN
        },
        Preset {
            name: "raid5x4",
            about: "four RAID 5 arrays, each with volumes of its own",
            parts: GROUPS,
            part: Part::Array(RAID5),
            ..PLAIN
        },
        Preset {
            name: "raid50",
            about: "one RAID 50 array of four groups",
            part: Part::Array(RAID50),
            ..PLAIN
        },
        Preset {
            name: "lograid",
            about: "a log-structured layer, which appends all writes to one stream, above RAID 50",
            part: Part::Array(RAID50),
            layer: Some(Layer::Log),
            ..PLAIN
        },
        Preset {
            name: "toleraid",
            about: "four RAID 5 arrays whose reads step around spikes",
            parts: GROUPS,
            part: Part::Array(RAID5),
            spike_avoidance: SpikeAvoidance::Auto,
            ..PLAIN
        },
        Preset {
            name: "nvraid",
            about: "a write buffer of non-volatile memory above RAID 50",
            part: Part::Array(RAID50),
            layer: Some(Layer::NvBuffer),
            ..PLAIN
        },
        Preset {
            name: "raidmx4",
            about: "four mapped pools of two mirrors, which append all writes: FusionRAID's 4-RAIDM",
            parts: GROUPS,
            part: Part::Mapped(Protection::Mirror { copies: 2 }),
            policy: Policy::FUSION_RAID,
            battery: true,
            ..PLAIN
        },
        Preset {
            name: "fusion-nd",
            about: "FusionRAID without looking for spikes: Fusion-ND",
            part: Part::Mapped(Protection::Parity1),
            policy: Policy::FUSION_RAID,
            battery: true,
            ..PLAIN
        },
        Preset {
            name: "fusionraid",
            about: "FusionRAID as published: blocks of 64 KiB, fixed thresholds, no hedging, metadata in battery-backed memory",
            part: Part::Mapped(Protection::Parity1),
            spike_avoidance: SpikeAvoidance::FusionRaid,
            policy: Policy::FUSION_RAID,
            battery: true,
            ..PLAIN
        },
        Preset {
            name: "elastic",
            about: "Elastic RAID: an array of level 5 whose hot stripes are mirrored as far as members have space",
            part: Part::Elastic(ElasticPolicy::DEFAULT),
            ..PLAIN
        },
        Preset {
            name: "elastic-raid5-only",
            about: "the same array, all stripes with parity",
            part: Part::Elastic(ElasticPolicy::pinned(0)),
            ..PLAIN
        },
        Preset {
            name: "elastic-raid10-only",
            about: "the same array, all stripes mirrored",
            part: Part::Elastic(ElasticPolicy::pinned(100)),
            ..PLAIN
        },
    ];

    /// The preset of that name.
    pub fn named(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Applies the preset to `members` members; `zeroed` if they contain only zeros.
    ///
    /// # Errors
    /// When they are too few.
    pub fn compose(&self, members: usize, zeroed: bool) -> Result<Composition, TooFewMembers> {
        let group = members / GROUPS;
        let least = match self.part {
            Part::Elastic(_) => GROUP_MEMBERS_LEAST,
            Part::Array(_) | Part::Mapped(_) => GROUPS * GROUP_MEMBERS_LEAST,
        };
        if members < least {
            return Err(TooFewMembers { preset: self.name, least, members });
        }
        let (kind, part_members) = match self.part {
            Part::Array(level) => {
                let (chunk_bytes, journal, spares) = (CHUNK_BYTES as u32, false, 0);
                let array = ArraySpec { level, chunk_bytes, journal, spares, zeroed, elastic: None };
                let array = PoolKind::Array(array);
                (array, group * GROUPS / self.parts)
            }
            Part::Mapped(protection) => {
                let data_columns = if protection == Protection::Parity1 { group - 1 } else { 0 };
                let mapped = PoolKind::Mapped { protection, data_columns, checksums: false };
                // A pool of all members needs no spare: it rebuilds into free space.
                (mapped, members / self.parts)
            }
            Part::Elastic(_) => {
                let array = ArraySpec {
                    level: RAID5,
                    chunk_bytes: ELASTIC_CHUNK_BYTES,
                    journal: true,
                    spares: 0,
                    zeroed,
                    elastic: Some(Elastic::BY_ADDRESSES),
                };
                (PoolKind::Array(array), members)
            }
        };
        Ok(Composition { parts: self.parts, part_members, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_preset_and_no_two_are_alike() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
        assert_eq!(Preset::named("raid7"), None);
    }

    #[test]
    fn of_29_members_the_rivals_use_28() {
        let composed = |name| Preset::named(name).unwrap().compose(29, true).unwrap();
        let used = |name| (composed(name).parts, composed(name).part_members);
        assert_eq!(used("raid5x4"), (4, 7));
        assert_eq!(used("toleraid"), (4, 7));
        assert_eq!(used("raidmx4"), (4, 7));
        assert_eq!(used("raid50"), (1, 28));
        assert_eq!(used("sinew"), (1, 29));
        let PoolKind::Mapped { data_columns, .. } = composed("sinew").kind else { panic!("a mapped pool") };
        assert_eq!(data_columns, 6);
    }

    #[test]
    fn too_few_members_are_refused() {
        let raid50 = Preset::named("raid50").unwrap();
        assert!(raid50.compose(12, true).is_ok());
        let refusal = raid50.compose(11, true).unwrap_err().to_string();
        assert!(refusal.contains("12 members or more, not 11"), "{refusal}");
        let elastic = Preset::named("elastic").unwrap();
        assert_eq!(elastic.compose(4, true).unwrap().part_members, 4);
        let refusal = elastic.compose(2, true).unwrap_err().to_string();
        assert!(refusal.contains("3 members or more, not 2"), "{refusal}");
    }
}
