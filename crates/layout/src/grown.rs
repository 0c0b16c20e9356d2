//! Arrays of any level, new or grown by any method, behind one type: the places of blocks, the role of each place, the
//! distribution over members, and the blocks that an addition moves.
//!
//! It serves reports and comparisons. The engine uses the addressing of each method directly.

use crate::fastscale::{FastScale, Mirrored};
use crate::geometry::{Geometry, GeometryError, Home, Level, Role};
use crate::history::{Addition, History, HistoryError, check_rows};
use crate::named;
use crate::restripe::Restripe;
use crate::round_robin::SemiRoundRobin;
use crate::spread::Spread;
use crate::stats::Counts;

/// A method of growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RAID 0 and 10: [`crate::fastscale`].
    FastScale,
    /// RAID 0 and 10: as a new array of as many members.
    RoundRobin,
    /// RAID 0 and 10: [`SemiRoundRobin`], which gives a block's member but not its chunk there.
    SemiRoundRobin,
    /// RAID 5 and 6: as a new array of as many members, [`crate::restripe`].
    Restripe,
    /// RAID 5 and 6: [`crate::spread`].
    Spread,
}

/// The address of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The member, from 0.
    pub member: u32,
    /// The chunk on the member; `None` with [`Method::SemiRoundRobin`], which does not define it.
    pub chunk: Option<u64>,
}

/// An array that has grown any number of times.
#[derive(Clone, Debug)]
pub struct Grown {
    level: Level,
    history: History,
    rows: u32,
    addressing: Addressing,
}

#[derive(Clone, Debug)]
enum Addressing {
    Standard(Geometry),
    FastScale(Mirrored),
    SemiRoundRobin { sets: SemiRoundRobin, copies: u32, blocks: u64 },
    Spread(Spread),
}

/// Why an array cannot have grown in this way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrownError {
    /// The level does not grow, or not in this way.
    #[error(
        "{level} does not grow by {method}; RAID 0 and 10 grow by fastscale, round-robin or semi-round-robin, \
         RAID 5 and 6 by restripe or spread, other levels are only made new"
    )]
    Method {
        /// The level.
        level: Level,
        /// The way.
        method: Method,
    },
    /// FastScale and semi-round-robin grow by whole sets of mirrors only.
    #[error(
        "{members} members are not whole sets of {copies} copies; RAID 10 grows by whole sets: make the members and \
         each addition multiples of {copies}, or grow by round-robin"
    )]
    Sets {
        /// Members to begin with, or of an addition.
        members: u32,
        /// Copies of each block.
        copies: u32,
    },
    /// There is no such array.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// There is no such history.
    #[error(transparent)]
    History(#[from] HistoryError),
}

named! {
    Method, "growth method":
    Method::FastScale => "fastscale", "Levels 0 and 10: moves the least, in long runs, and stays even (FAST '11)";
    Method::SemiRoundRobin => "semi-round-robin", "Levels 0 and 10: moves the least, chunk by chunk; becomes uneven";
    Method::RoundRobin => "round-robin", "Levels 0 and 10: moves nearly everything; ends as a new array would be";
    Method::Spread => "spread", "Levels 5 and 6: takes a few stripes apart to widen the others";
    Method::Restripe => "restripe", "Levels 5 and 6: rewrites every stripe; ends as a new array would be";
}

impl From<Home> for Place {
    fn from(home: Home) -> Place {
        Place { member: home.member, chunk: Some(home.chunk) }
    }
}

impl Grown {
    /// A new array. `rows` are the chunks of each member.
    ///
    /// # Errors
    /// When the level does not allow this number of members; see [`GrownError`].
    pub fn fresh(level: Level, members: u32, rows: u32) -> Result<Grown, GrownError> {
        let history = History::new(members)?;
        let addressing = Addressing::Standard(standard(level, members, rows)?);
        Ok(Grown { level, history, rows, addressing })
    }

    /// An array of this level with this history of members.
    ///
    /// # Errors
    /// When the level, the history and the method do not fit together; see [`GrownError`].
    pub fn new(level: Level, history: History, method: Method, rows: u32) -> Result<Grown, GrownError> {
        // The array before its first addition must be possible too.
        standard(level, history.base(), rows)?;
        let addressing = match (level, method) {
            (Level::Raid0 | Level::Raid10 { .. }, Method::RoundRobin)
            | (Level::Raid5(_) | Level::Raid6(_), Method::Restripe) => {
                Addressing::Standard(standard(level, history.width(), rows)?)
            }
            (Level::Raid5(rotation), Method::Spread) => {
                Addressing::Spread(Spread::new(&history, rows, rotation, 1)?)
            }
            (Level::Raid6(rotation), Method::Spread) => {
                Addressing::Spread(Spread::new(&history, rows, rotation, 2)?)
            }
            (Level::Raid0, Method::FastScale | Method::SemiRoundRobin) => sets(&history, method, 1, rows)?,
            (Level::Raid10 { copies }, Method::FastScale | Method::SemiRoundRobin) => {
                sets(&history, method, copies, rows)?
            }
            _ => return Err(GrownError::Method { level, method }),
        };
        Ok(Grown { level, history, rows, addressing })
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many members there were.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Members now.
    pub fn members(&self) -> u32 {
        self.history.width()
    }

    /// Chunks of each member.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Members that a row is on: all, but for rows of an array with parity that an addition has left as they were.
    pub fn row_members(&self, row: u64) -> u32 {
        match &self.addressing {
            Addressing::Spread(array) => array.columns(row) + self.parities(),
            _ => self.members(),
        }
    }

    /// Logical blocks, each as large as a chunk.
    pub fn blocks(&self) -> u64 {
        match &self.addressing {
            Addressing::Standard(geometry) => geometry.data_chunks(),
            Addressing::FastScale(array) => array.sets().blocks(),
            Addressing::SemiRoundRobin { blocks, .. } => *blocks,
            Addressing::Spread(array) => array.data_chunks(),
        }
    }

    /// Copies of each block.
    pub fn copies(&self) -> u32 {
        match &self.addressing {
            Addressing::Standard(geometry) => geometry.copies(),
            Addressing::FastScale(array) => array.copies(),
            Addressing::SemiRoundRobin { copies, .. } => *copies,
            Addressing::Spread(_) => 1,
        }
    }

    /// Parity chunks of each stripe.
    pub fn parities(&self) -> u32 {
        match self.level {
            Level::Raid5(_) | Level::Raid50 { .. } => 1,
            Level::Raid6(_) | Level::Raid60 { .. } => 2,
            _ => 0,
        }
    }

    /// The address of a copy of a block.
    #[inline]
    pub fn place(&self, block: u64, copy: u32) -> Place {
        assert!(
            block < self.blocks() && copy < self.copies(),
            "copy {copy} of block {block}: beyond the array"
        );
        let home = match &self.addressing {
            Addressing::Standard(geometry) => geometry.homes(block).nth(copy as usize),
            Addressing::FastScale(array) => array.homes(block).nth(copy as usize),
            Addressing::SemiRoundRobin { sets, copies, .. } => {
                return Place { member: sets.disk(block) * copies + copy, chunk: None };
            }
            Addressing::Spread(array) => Some(array.home(block)),
        };
        home.expect("a copy that there is").into()
    }

    /// The role of a place; `None` with [`Method::SemiRoundRobin`], which does not define it.
    pub fn role(&self, home: Home) -> Option<Role> {
        match &self.addressing {
            Addressing::Standard(geometry) => Some(geometry.role(home)),
            Addressing::FastScale(array) => {
                let (logical, copy) = array.block_at(home);
                Some(Role::Data { logical, copy })
            }
            Addressing::SemiRoundRobin { .. } => None,
            Addressing::Spread(array) => Some(array.role(home)),
        }
    }

    /// The places of all copies of the first `blocks` blocks, in order.
    pub fn places(&self, blocks: u64) -> Box<dyn Iterator<Item = Place> + '_> {
        let blocks = blocks.min(self.blocks());
        let copies = self.copies();
        match &self.addressing {
            Addressing::FastScale(array) => {
                let sets = array.sets().cursor(0).take(blocks as usize);
                let member = move |set: Home, copy| Home { member: set.member * copies + copy, ..set };
                Box::new(sets.flat_map(move |set| (0..copies).map(move |copy| member(set, copy).into())))
            }
            _ => Box::new((0..blocks).flat_map(move |x| (0..copies).map(move |copy| self.place(x, copy)))),
        }
    }

    /// What each member holds.
    pub fn counts(&self) -> Counts {
        let rows = u64::from(self.rows);
        match &self.addressing {
            Addressing::Standard(geometry) => Counts::of(self.members(), rows, |home| geometry.role(home)),
            Addressing::Spread(array) => Counts::of(self.members(), rows, |home| array.role(home)),
            Addressing::FastScale(_) | Addressing::SemiRoundRobin { .. } => self.data_counts(self.blocks()),
        }
    }

    /// The number of copies of the first `blocks` blocks that each member holds, without parity.
    pub fn data_counts(&self, blocks: u64) -> Counts {
        let none = vec![0; self.members() as usize];
        let mut counts = Counts { data: none.clone(), parity: none };
        self.places(blocks).for_each(|place| counts.data[place.member as usize] += 1);
        counts
    }

    /// The fraction of the blocks (of their copies) whose address differs from that in another array of the same level. Only
    /// blocks that both arrays have count.
    pub fn moved_from(&self, before: &Grown) -> f64 {
        let blocks = self.blocks().min(before.blocks());
        let (mut all, mut moved) = (0u64, 0u64);
        for (from, to) in before.places(blocks).zip(self.places(blocks)) {
            all += 1;
            moved += u64::from(from != to);
        }
        if all == 0 { 0.0 } else { moved as f64 / all as f64 }
    }

    /// The smallest fraction of the blocks that the last addition must move to fill all members equally.
    pub fn least_moved(&self) -> Option<f64> {
        let Addition { old, width } = self.history.steps().next_back()?;
        Some(f64::from(width - old) / f64::from(width))
    }

    /// The fraction of parity chunks that the last addition wrote; `None` without an addition or without parity.
    pub fn parity_written(&self) -> Option<f64> {
        let Addition { old, .. } = self.history.steps().next_back()?;
        let parities = u64::from(self.parities());
        let written = match &self.addressing {
            Addressing::Spread(array) => array.regions().map(|region| region.parity.len() as u64).sum(),
            Addressing::Standard(new) if parities > 0 => {
                let old = standard(self.level, old, self.rows).ok()?;
                Restripe::new(old, *new).ok()?.stripes() * parities
            }
            _ => return None,
        };
        Some(written as f64 / (u64::from(self.rows) * parities) as f64)
    }
}

/// Members in md's layout. The size of a chunk does not matter here.
fn standard(level: Level, members: u32, rows: u32) -> Result<Geometry, GrownError> {
    check_rows(rows)?;
    Ok(Geometry::new(level, members, 512, u64::from(rows) * 512)?)
}

/// The addressing of sets of `copies` members with equal content.
fn sets(history: &History, method: Method, copies: u32, rows: u32) -> Result<Addressing, GrownError> {
    let whole = |members: u32| match members % copies {
        0 => Ok(members / copies),
        _ => Err(GrownError::Sets { members, copies }),
    };
    let mut sets = History::new(whole(history.base())?)?;
    for Addition { old, width } in history.steps() {
        sets.add(whole(width - old)?)?;
    }
    Ok(match method {
        Method::SemiRoundRobin => {
            let blocks = u64::from(sets.width()) * u64::from(rows);
            Addressing::SemiRoundRobin { sets: SemiRoundRobin::new(sets), copies, blocks }
        }
        _ => Addressing::FastScale(FastScale::new(sets, rows)?.mirrored(copies)),
    })
}
