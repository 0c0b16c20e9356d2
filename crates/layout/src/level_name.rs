//! The names of the levels, apart from the parameters of a level.

use crate::geometry::Level;
use crate::named;
use crate::parity_weights::ParityWeights;
use crate::rotation::Rotation;

/// A level without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "Level describes them")]
pub enum LevelName {
    Raid0,
    Raid1,
    Raid10,
    Raid5,
    Raid6,
    Raid50,
    Raid60,
}

named! {
    LevelName, "level":
    LevelName::Raid0 => "raid0" or "0", "Striping without redundancy";
    LevelName::Raid1 => "raid1" or "1", "Every member holds everything";
    LevelName::Raid10 => "raid10" or "10", "Near copies of every chunk, on consecutive members";
    LevelName::Raid5 => "raid5" or "5", "One parity chunk in each stripe";
    LevelName::Raid6 => "raid6" or "6", "Two parity chunks in each stripe";
    LevelName::Raid50 => "raid50" or "50", "RAID 0 over groups that are RAID 5";
    LevelName::Raid60 => "raid60" or "60", "RAID 0 over groups that are RAID 6";
}

/// Parity weights for a level that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("levels 5 and 6 have parity weights, {0} has none")]
pub struct NoParityWeights(LevelName);

/// The parameters of the levels. Each level has some of them.
#[derive(Clone, Copy, Debug)]
pub struct LevelParts {
    /// Of levels with parity.
    pub rotation: Rotation,
    /// Copies of each chunk, of level 10.
    pub copies: u32,
    /// Groups of equally many members, of levels 50 and 60.
    pub groups: u32,
}

impl Default for LevelParts {
    fn default() -> LevelParts {
        LevelParts { rotation: Rotation::default(), copies: 2, groups: 2 }
    }
}

impl LevelName {
    /// The rotation that gives parity to members by these weights.
    ///
    /// # Errors
    /// [`NoParityWeights`] for all levels but 5 and 6.
    pub fn weighted(self, weights: ParityWeights) -> Result<Rotation, NoParityWeights> {
        match self {
            LevelName::Raid5 | LevelName::Raid6 => Ok(Rotation::Weighted(weights)),
            _ => Err(NoParityWeights(self)),
        }
    }

    /// Returns the level with those parameters that it has.
    pub fn level(self, parts: LevelParts) -> Level {
        let LevelParts { rotation, copies, groups } = parts;
        match self {
            LevelName::Raid0 => Level::Raid0,
            LevelName::Raid1 => Level::Raid1,
            LevelName::Raid10 => Level::Raid10 { copies },
            LevelName::Raid5 => Level::Raid5(rotation),
            LevelName::Raid6 => Level::Raid6(rotation),
            LevelName::Raid50 => Level::Raid50 { groups, rotation },
            LevelName::Raid60 => Level::Raid60 { groups, rotation },
        }
    }
}
