//! The static levels: RAID 0, 1, 10, 5, 6, 50 and 60, with chunks where md puts them.
//!
//! Guarantees, for every valid [`Geometry`]: [`Geometry::homes`], [`Geometry::parity`] and [`Geometry::role`] are
//! inverse to each other, no two chunks of a stripe share a member, and without weights parity is as even as the number of
//! stripes allows. Addresses are in chunks; bytes appear only when a geometry is made.

use std::fmt;

use crate::MEMBERS_MAX;
use crate::parity_weights::ParityWeights;
use crate::rotation::{Cell, Rotation, Stripes};

/// The level of a static array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striping without redundancy.
    Raid0,
    /// Every member holds everything.
    Raid1,
    /// md's near layout: the copies of a chunk lie side by side, on consecutive members.
    Raid10 {
        /// Copies of each chunk, 2 to the number of members.
        copies: u32,
    },
    /// Rotating parity.
    Raid5(Rotation),
    /// Rotating P and Q.
    Raid6(Rotation),
    /// RAID 0 over groups that are RAID 5, one chunk to each group in turn.
    Raid50 {
        /// Groups of equally many members, one after the other.
        groups: u32,
        /// The layout of each group.
        rotation: Rotation,
    },
    /// RAID 0 over groups that are RAID 6, one chunk to each group in turn.
    Raid60 {
        /// Groups of equally many members, one after the other.
        groups: u32,
        /// The layout of each group.
        rotation: Rotation,
    },
}

impl Level {
    /// The level's number, as md prints it.
    pub fn number(self) -> u8 {
        match self {
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid10 { .. } => 10,
            Level::Raid5(_) => 5,
            Level::Raid6(_) => 6,
            Level::Raid50 { .. } => 50,
            Level::Raid60 { .. } => 60,
        }
    }

    /// The rotation of parity; `None` for levels without parity.
    pub fn rotation(self) -> Option<Rotation> {
        match self {
            Level::Raid5(rotation) | Level::Raid6(rotation) => Some(rotation),
            Level::Raid50 { rotation, .. } | Level::Raid60 { rotation, .. } => Some(rotation),
            _ => None,
        }
    }

    /// The weights by which members hold parity; `None` where they hold equal shares of it, or there is none.
    pub fn weights(self) -> Option<ParityWeights> {
        self.rotation().and_then(Rotation::weights)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Raid0 => write!(f, "RAID 0"),
            Level::Raid1 => write!(f, "RAID 1"),
            Level::Raid10 { copies } => write!(f, "RAID 10, {copies} near copies"),
            Level::Raid5(Rotation::Weighted(weights)) => write!(f, "RAID 5, parity weights {weights}"),
            Level::Raid6(Rotation::Weighted(weights)) => write!(f, "RAID 6, parity weights {weights}"),
            Level::Raid5(rotation) => write!(f, "RAID 5, {rotation}"),
            Level::Raid6(rotation) => write!(f, "RAID 6, {rotation}"),
            Level::Raid50 { rotation, .. } => write!(f, "RAID 50, {rotation}"),
            Level::Raid60 { rotation, .. } => write!(f, "RAID 60, {rotation}"),
        }
    }
}

/// The address of a chunk on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Home {
    /// The member, from 0.
    pub member: u32,
    /// The chunk on the member, from the beginning of its data.
    pub chunk: u64,
}

/// The role of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A copy of a logical chunk.
    Data {
        /// The logical chunk.
        logical: u64,
        /// The number of the copy, from 0; always 0 except for mirrors.
        copy: u32,
    },
    /// P of a stripe.
    P {
        /// The stripe.
        stripe: u64,
    },
    /// Q of a stripe.
    Q {
        /// The stripe.
        stripe: u64,
    },
    /// Unused: the last chunks of a RAID 10 if the number of copies does not divide their number.
    Unused,
}

/// Why a geometry is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Too few or too many members for the level.
    #[error("{level} needs {min} to {MEMBERS_MAX} members, not {members}")]
    Members {
        /// The level.
        level: Level,
        /// The fewest members it can have.
        min: u32,
        /// The requested number.
        members: u32,
    },
    /// The members do not divide into the groups.
    #[error("{members} members do not divide into {groups} equal groups; at least 2 groups are needed")]
    Groups {
        /// Members.
        members: u32,
        /// Groups.
        groups: u32,
    },
    /// Fewer than two copies, or more than members.
    #[error("{copies} copies on {members} members; 2 to {members} are possible")]
    Copies {
        /// Copies.
        copies: u32,
        /// Members.
        members: u32,
    },
    /// A chunk size that is not a whole number of sectors of 512 bytes.
    #[error("a chunk of {0} bytes; it must be a multiple of 512 greater than 0")]
    Chunk(u32),
    /// Weights for another number of members.
    #[error("{weights} parity weights for {members} members; give one for each, spares not counted")]
    Weights {
        /// Weights.
        weights: u32,
        /// Members.
        members: u32,
    },
    /// Weights that put two parities of a stripe on one member.
    #[error("with two parities no parity weight can exceed half of the sum; the weights are {0}")]
    Overweight(ParityWeights),
    /// Weights of a level that has groups.
    #[error("levels 50 and 60 have no parity weights; levels 5 and 6 have")]
    GroupedWeights,
    /// A member that holds no whole chunk.
    #[error("a member of {member_bytes} bytes holds no chunk of {chunk_bytes} bytes")]
    Empty {
        /// Bytes of data of each member.
        member_bytes: u64,
        /// Bytes of a chunk.
        chunk_bytes: u32,
    },
}

/// A static array: level, members, chunk size, and size of each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    members: u32,
    chunk_bytes: u32,
    member_chunks: u64,
    shape: Shape,
}

/// The arithmetic of a level; there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Copies side by side: RAID 0 has one, RAID 1 as many as members.
    Near { copies: u32 },
    /// Parity in each of `groups` equal groups.
    Parity { groups: u32, stripes: Stripes },
}

impl Geometry {
    /// An array of `members` members, each with `member_bytes` of data, of which whole chunks are used.
    ///
    /// # Errors
    /// When the combination of level, number of members and sizes is impossible; see [`GeometryError`].
    pub fn new(
        level: Level,
        members: u32,
        chunk_bytes: u32,
        member_bytes: u64,
    ) -> Result<Geometry, GeometryError> {
        let shape = shape(level, members)?;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(512) {
            return Err(GeometryError::Chunk(chunk_bytes));
        }
        let member_chunks = member_bytes / u64::from(chunk_bytes);
        if member_chunks == 0 {
            return Err(GeometryError::Empty { member_bytes, chunk_bytes });
        }
        Ok(Geometry { level, members, chunk_bytes, member_chunks, shape })
    }

    /// The same with another number of members.
    ///
    /// # Errors
    /// When the level cannot have this number of members.
    pub fn with_members(&self, members: u32) -> Result<Geometry, GeometryError> {
        Ok(Geometry { members, shape: shape(self.level, members)?, ..*self })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The number of members.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u32 {
        self.chunk_bytes
    }

    /// Chunks of each member.
    pub fn member_chunks(&self) -> u64 {
        self.member_chunks
    }

    /// Copies of each data chunk: 1 except for mirrors.
    pub fn copies(&self) -> u32 {
        match self.shape {
            Shape::Near { copies } => copies,
            Shape::Parity { .. } => 1,
        }
    }

    /// Parity chunks of each stripe: 0, 1 or 2.
    pub fn parities(&self) -> u32 {
        match self.shape {
            Shape::Near { .. } => 0,
            Shape::Parity { stripes, .. } => stripes.parities,
        }
    }

    /// Members that may be lost in the worst case without losing data.
    pub fn tolerates(&self) -> u32 {
        self.copies() - 1 + self.parities()
    }

    /// Logical chunks of the array.
    pub fn data_chunks(&self) -> u64 {
        match self.shape {
            Shape::Near { copies } => self.member_chunks * u64::from(self.members) / u64::from(copies),
            Shape::Parity { stripes, .. } => self.stripes() * u64::from(stripes.columns()),
        }
    }

    /// Stripes of the array, whose chunks protect each other. Without parity, a stripe is a chunk and its copies.
    pub fn stripes(&self) -> u64 {
        match self.shape {
            Shape::Near { .. } => self.data_chunks(),
            Shape::Parity { groups, .. } => self.member_chunks * u64::from(groups),
        }
    }

    /// Consecutive stripes that contain every combination of members that occurs in stripes.
    pub fn turn(&self) -> u64 {
        match self.shape {
            Shape::Near { .. } => u64::from(self.members),
            Shape::Parity { groups, stripes } => u64::from(stripes.turn()) * u64::from(groups),
        }
    }

    /// The stripe of a logical chunk.
    pub fn stripe_of(&self, logical: u64) -> u64 {
        self.stripe_column(logical).0
    }

    /// The column of a logical chunk in its stripe, which is also its power of the generator in Q. In RAID 6 with an
    /// asymmetric rotation the chunks of a stripe do not have the order of their columns.
    pub fn column_of(&self, logical: u64) -> u32 {
        let (stripe, position) = self.stripe_column(logical);
        self.column_in(stripe, position)
    }

    /// The column of the data chunk of a stripe that comes in this position, from 0.
    pub fn column_in(&self, stripe: u64, position: u32) -> u32 {
        match self.shape {
            Shape::Near { .. } => 0,
            Shape::Parity { groups, stripes } => stripes.power(stripe / u64::from(groups), position),
        }
    }

    /// The position of the data chunk in a column of a stripe, from 0: the inverse of [`Self::column_in`].
    pub fn position_in(&self, stripe: u64, column: u32) -> u32 {
        match self.shape {
            Shape::Near { .. } => 0,
            Shape::Parity { groups, stripes } => stripes.position(stripe / u64::from(groups), column),
        }
    }

    /// The logical chunk in a column of a stripe.
    pub fn chunk_in(&self, stripe: u64, column: u32) -> u64 {
        match self.shape {
            Shape::Near { .. } => stripe,
            Shape::Parity { groups, stripes } => {
                let (row, group) = (stripe / u64::from(groups), stripe % u64::from(groups));
                let position = self.position_in(stripe, column);
                (row * u64::from(stripes.columns()) + u64::from(position)) * u64::from(groups) + group
            }
        }
    }

    /// The address of a data column of a stripe. Only levels with parity have columns.
    pub fn column_home(&self, stripe: u64, column: u32) -> Home {
        assert!(stripe < self.stripes(), "stripe {stripe} is beyond the array");
        let Shape::Parity { groups, stripes } = self.shape else {
            unreachable!("a level without parity has no columns")
        };
        let (chunk, group) = (stripe / u64::from(groups), (stripe % u64::from(groups)) as u32);
        Home { member: group * stripes.width + stripes.member_of_power(chunk, column), chunk }
    }

    /// The address of the first copy of a logical chunk.
    pub fn home(&self, logical: u64) -> Home {
        self.copy_home(logical, 0)
    }

    /// The addresses of all copies of a logical chunk, in order.
    pub fn homes(&self, logical: u64) -> impl Iterator<Item = Home> {
        let geometry = *self;
        (0..self.copies()).map(move |copy| geometry.copy_home(logical, copy))
    }

    /// The addresses of P and then Q of a stripe, as far as the level has them.
    pub fn parity(&self, stripe: u64) -> impl Iterator<Item = Home> {
        let geometry = *self;
        (0..self.parities()).map(move |i| geometry.parity_home(stripe, i))
    }

    /// The role of a place.
    pub fn role(&self, home: Home) -> Role {
        assert!(
            home.member < self.members && home.chunk < self.member_chunks,
            "{home:?} is not in the array"
        );
        match self.shape {
            Shape::Near { copies } => {
                let position = home.chunk * u64::from(self.members) + u64::from(home.member);
                let (logical, copy) = (position / u64::from(copies), (position % u64::from(copies)) as u32);
                if logical < self.data_chunks() { Role::Data { logical, copy } } else { Role::Unused }
            }
            Shape::Parity { groups, stripes } => {
                let group = u64::from(home.member / stripes.width);
                let stripe = home.chunk * u64::from(groups) + group;
                match stripes.cell(home.chunk, home.member % stripes.width) {
                    Cell::P => Role::P { stripe },
                    Cell::Q => Role::Q { stripe },
                    Cell::Data(column) => {
                        let inner = home.chunk * u64::from(stripes.columns()) + u64::from(column);
                        Role::Data { logical: inner * u64::from(groups) + group, copy: 0 }
                    }
                }
            }
        }
    }

    fn stripe_column(&self, logical: u64) -> (u64, u32) {
        match self.shape {
            Shape::Near { .. } => (logical, 0),
            Shape::Parity { groups, stripes } => {
                let (inner, group) = (logical / u64::from(groups), logical % u64::from(groups));
                let columns = u64::from(stripes.columns());
                (inner / columns * u64::from(groups) + group, (inner % columns) as u32)
            }
        }
    }

    fn copy_home(&self, logical: u64, copy: u32) -> Home {
        assert!(logical < self.data_chunks(), "chunk {logical} is beyond the array");
        match self.shape {
            Shape::Near { copies } => {
                let position = logical * u64::from(copies) + u64::from(copy);
                let members = u64::from(self.members);
                Home { member: (position % members) as u32, chunk: position / members }
            }
            Shape::Parity { groups, stripes } => {
                let (stripe, column) = self.stripe_column(logical);
                let (chunk, group) = (stripe / u64::from(groups), (stripe % u64::from(groups)) as u32);
                Home { member: group * stripes.width + stripes.member(chunk, column), chunk }
            }
        }
    }

    fn parity_home(&self, stripe: u64, which: u32) -> Home {
        assert!(stripe < self.stripes(), "stripe {stripe} is beyond the array");
        let Shape::Parity { groups, stripes } = self.shape else {
            unreachable!("a level without parity has no home for it")
        };
        let (chunk, group) = (stripe / u64::from(groups), (stripe % u64::from(groups)) as u32);
        let member = if which == 0 { stripes.p(chunk) } else { stripes.q(chunk) };
        Home { member: group * stripes.width + member, chunk }
    }
}

fn check_weights(rotation: Rotation, members: u32, groups: u32, parities: u32) -> Result<(), GeometryError> {
    match rotation.weights() {
        None => Ok(()),
        Some(_) if groups > 1 => Err(GeometryError::GroupedWeights),
        Some(weights) if weights.members() != members => {
            Err(GeometryError::Weights { weights: weights.members(), members })
        }
        Some(weights) if !weights.allow(parities) => Err(GeometryError::Overweight(weights)),
        Some(_) => Ok(()),
    }
}

fn shape(level: Level, members: u32) -> Result<Shape, GeometryError> {
    let at_least = |min: u32| {
        let fits = (min..=MEMBERS_MAX).contains(&members);
        if fits { Ok(()) } else { Err(GeometryError::Members { level, min, members }) }
    };
    let parity = |groups: u32, rotation, parities: u32| {
        // md's own minimum: RAID 5 of 2 members is a mirror, RAID 6 needs 4.
        let min = 2 * parities;
        at_least(min)?;
        if groups == 0 || !members.is_multiple_of(groups) {
            return Err(GeometryError::Groups { members, groups });
        }
        at_least(min * groups)?;
        check_weights(rotation, members, groups, parities)?;
        Ok(Shape::Parity { groups, stripes: Stripes { rotation, width: members / groups, parities } })
    };
    let grouped = |groups: u32| {
        if groups < 2 { Err(GeometryError::Groups { members, groups }) } else { Ok(groups) }
    };
    match level {
        Level::Raid0 => at_least(1).map(|()| Shape::Near { copies: 1 }),
        Level::Raid1 => at_least(1).map(|()| Shape::Near { copies: members }),
        Level::Raid10 { copies } => {
            at_least(2)?;
            if (2..=members).contains(&copies) {
                Ok(Shape::Near { copies })
            } else {
                Err(GeometryError::Copies { copies, members })
            }
        }
        Level::Raid5(rotation) => parity(1, rotation, 1),
        Level::Raid6(rotation) => parity(1, rotation, 2),
        Level::Raid50 { groups, rotation } => parity(grouped(groups)?, rotation, 1),
        Level::Raid60 { groups, rotation } => parity(grouped(groups)?, rotation, 2),
    }
}
