//! Growth that keeps the standard layout: every stripe is written anew, over all members.
//!
//! This is what md's reshape does. The result is the same as a new array, at the price of moving nearly everything
//! and of computing all parity again. Each new stripe takes its data from one or two old stripes at or below it, so
//! the work goes upwards in place; only at the very beginning do new stripes overwrite what is still needed.

use crate::geometry::{Geometry, Home, Level};
use crate::moves::Move;

/// A restripe from one geometry to a wider one.
#[derive(Clone, Copy, Debug)]
pub struct Restripe {
    old: Geometry,
    new: Geometry,
}

/// Why one geometry cannot become another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{from} with {from_members} members cannot be restriped to {to} with {to_members}; it takes RAID 5 or \
         RAID 6, the same level, chunk size and member size, and more members"
)]
pub struct RestripeError {
    from: Box<Level>,
    from_members: u32,
    to: Box<Level>,
    to_members: u32,
}

/// One stripe of the new geometry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestripeStripe {
    /// Its data. Chunks beyond the old array have no source and count as zeros.
    pub moves: Vec<Move>,
    /// P and Q, to be computed from its data.
    pub parity: Vec<Home>,
}

impl Restripe {
    /// Both must be RAID 5 or both RAID 6, with chunks and members of the same size. The rotation may change.
    ///
    /// # Errors
    /// When the two geometries do not go together; see [`RestripeError`].
    pub fn new(old: Geometry, new: Geometry) -> Result<Restripe, RestripeError> {
        let same_level = matches!(
            (old.level(), new.level()),
            (Level::Raid5(_), Level::Raid5(_)) | (Level::Raid6(_), Level::Raid6(_))
        );
        let same_size = old.chunk_bytes() == new.chunk_bytes() && old.member_chunks() == new.member_chunks();
        if same_level && same_size && old.members() < new.members() {
            return Ok(Restripe { old, new });
        }
        Err(RestripeError {
            from: Box::new(old.level()),
            from_members: old.members(),
            to: Box::new(new.level()),
            to_members: new.members(),
        })
    }

    /// New stripes that get old data. The rest of the array is new space.
    pub fn stripes(&self) -> u64 {
        self.old.data_chunks().div_ceil(columns(&self.new))
    }

    /// What a new stripe is made of.
    pub fn stripe(&self, stripe: u64) -> RestripeStripe {
        let first = stripe * columns(&self.new);
        let last = (first + columns(&self.new)).min(self.old.data_chunks());
        let moves = (first..last).map(|x| Move { from: self.old.home(x), to: self.new.home(x) });
        RestripeStripe { moves: moves.collect(), parity: self.new.parity(stripe).collect() }
    }

    /// The first new stripe that must not be written before it is recorded durably that `done` of them are done.
    ///
    /// Writing new stripe s destroys old stripe s, and a crash goes back to the record, from where on everything is
    /// read from old stripes. When this returns `done`, not even one stripe can be written safely: see
    /// [`Restripe::critical_stripes`].
    pub fn window_end(&self, done: u64) -> u64 {
        (done * columns(&self.new) / columns(&self.old)).min(self.stripes())
    }

    /// The stripes at the beginning that need a copy elsewhere before they are written: md's critical section.
    pub fn critical_stripes(&self) -> u64 {
        let (old, new) = (columns(&self.old), columns(&self.new));
        old.div_ceil(new - old).min(self.stripes())
    }
}

fn columns(geometry: &Geometry) -> u64 {
    u64::from(geometry.members() - geometry.parities())
}
