//! The growth of an array: the methods, the additions so far, and the addition under way.

use sinew_layout::history::History;
use sinew_layout::rows::Rows;
use sinew_layout::spread::{Share, Spread};
use sinew_layout::striping::{Growth, Striping, StripingKind, blocks};
use sinew_layout::{Geometry as Layout, Home, ParityWeights, named};

/// Additions of members that an array records at most. Additions that end in the layout of a new array are dropped.
pub const ADDITIONS_MAX: usize = 32;

/// A method to move the data of an array onto more members while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowMethod {
    /// FastScale (FAST '11): least moves, aggregated, and progress recorded only when a write makes it matter.
    FastScale,
    /// Semi-round-robin (Goel et al., ICDE 2002): least moves, one chunk at a time. Gains no space.
    SemiRoundRobin,
    /// Round-robin, one chunk at a time, each recorded before the next: the ordered operations of FastScale's section 3.2.
    RoundRobin,
    /// SLAS (Zhang et al., ACM TOS 2007, as FastScale's sections 4.3.1 and 5.1 describe it): round-robin in a sliding
    /// window, aggregated, progress recorded when a write or the window makes it matter.
    Slas,
    /// md's reshape as FastScale's section 5.1 describes it: round-robin in small windows, each recorded, in I/O of 4 KiB,
    /// while requests to the window wait.
    MdReshape,
    /// Parity: the chunks of a few stripes are used to widen the others (docs/layouts.md).
    Spread,
    /// Parity: every stripe is rewritten as in a new array.
    Restripe,
}

named! {
    GrowMethod, "growth method":
    GrowMethod::FastScale => "fastscale", "Levels 0 and 10: moves the least, in long runs, and stays even (FAST '11)";
    GrowMethod::SemiRoundRobin => "semi-round-robin",
        "Levels 0 and 10: moves the least, chunk by chunk; becomes uneven and gains no space. For comparison";
    GrowMethod::RoundRobin => "round-robin", "Levels 0 and 10: moves nearly everything, chunk by chunk. For comparison";
    GrowMethod::Slas => "slas", "Levels 0 and 10: moves nearly everything, in windows; ends as a new array would be";
    GrowMethod::MdReshape => "md-reshape",
        "Levels 0 and 10: moves nearly everything as md does, with requests waiting. For comparison";
    GrowMethod::Spread => "spread", "Levels 5 and 6: takes a few stripes apart to widen the others";
    GrowMethod::Restripe => "restripe",
        "Levels 5 and 6: rewrites every stripe with new parity; ends as a new array would be. Needs an array with one \
         shard, and room in the journal";
}

/// How the chunks of an array are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// As in a new array of the same number of members.
    AsNew,
    /// By semi-round-robin.
    SemiRoundRobin,
    /// By FastScale.
    FastScale,
    /// By spread.
    Spread,
}

impl Arrangement {
    /// All of them.
    pub const ALL: [Arrangement; 4] =
        [Arrangement::AsNew, Arrangement::SemiRoundRobin, Arrangement::FastScale, Arrangement::Spread];

    /// The only method by which such an array can grow further; `None` when any method will do.
    pub fn method(self) -> Option<GrowMethod> {
        match self {
            Arrangement::AsNew => None,
            Arrangement::SemiRoundRobin => Some(GrowMethod::SemiRoundRobin),
            Arrangement::FastScale => Some(GrowMethod::FastScale),
            Arrangement::Spread => Some(GrowMethod::Spread),
        }
    }

    fn striping(self) -> StripingKind {
        match self {
            Arrangement::SemiRoundRobin => StripingKind::SemiRoundRobin,
            Arrangement::FastScale => StripingKind::FastScale,
            Arrangement::AsNew | Arrangement::Spread => StripingKind::RoundRobin,
        }
    }
}

/// The parameters of a method.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Chunks that move together.
    pub batch: u64,
    /// Progress is recorded at the latest after this number of chunks; `None` records it only when a write makes it matter.
    pub window: Option<u64>,
    /// Chunks read by one request at most.
    pub read_chunks: u64,
    /// Chunks written by one request at most.
    pub write_chunks: u64,
    /// Blocks of a request; `None` reads and writes whole chunks.
    pub part_blocks: Option<u32>,
    /// Whether reads of chunks that are being moved wait.
    pub blocks_reads: bool,
}

impl GrowMethod {
    /// All of them.
    pub const ALL: [GrowMethod; 7] = [
        GrowMethod::FastScale,
        GrowMethod::SemiRoundRobin,
        GrowMethod::RoundRobin,
        GrowMethod::Slas,
        GrowMethod::MdReshape,
        GrowMethod::Spread,
        GrowMethod::Restripe,
    ];
    /// The methods for arrays without parity.
    pub const STRIPED: [GrowMethod; 5] = [
        GrowMethod::FastScale,
        GrowMethod::SemiRoundRobin,
        GrowMethod::RoundRobin,
        GrowMethod::Slas,
        GrowMethod::MdReshape,
    ];

    /// Whether the method is for arrays with parity.
    pub fn is_for_parity(self) -> bool {
        matches!(self, GrowMethod::Spread | GrowMethod::Restripe)
    }

    /// The addressing at its end.
    pub fn arrangement(self) -> Arrangement {
        match self {
            GrowMethod::FastScale => Arrangement::FastScale,
            GrowMethod::SemiRoundRobin => Arrangement::SemiRoundRobin,
            GrowMethod::Spread => Arrangement::Spread,
            _ => Arrangement::AsNew,
        }
    }

    /// The parameters of moving chunks, in an array without parity; `None` for methods that change rows.
    pub fn manner(self) -> Option<Manner> {
        let one = Manner {
            batch: 1,
            window: Some(1),
            read_chunks: 1,
            write_chunks: 1,
            part_blocks: None,
            blocks_reads: false,
        };
        Some(match self {
            // Whole regions, of which each disk's part is one run (section 3.1). Few, so that writes do not wait long.
            GrowMethod::FastScale => {
                Manner { batch: 8, window: None, read_chunks: 32, write_chunks: 32, ..one }
            }
            GrowMethod::SemiRoundRobin | GrowMethod::RoundRobin => one,
            // A window of 1024, reads of 8 and writes of 6 (section 4.3.1).
            GrowMethod::Slas => {
                Manner { batch: 32, window: Some(1024), read_chunks: 8, write_chunks: 6, ..one }
            }
            // The paper gives no size of the window; it is "fixed-sized".
            GrowMethod::MdReshape => {
                Manner { batch: 16, window: Some(16), part_blocks: Some(1), blocks_reads: true, ..one }
            }
            GrowMethod::Spread | GrowMethod::Restripe => return None,
        })
    }
}

/// The history of an array whose layout differs from that of a new one. A disk is a set of members that hold the same data,
/// or one member where there is parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// The addressing before the addition under way, or now.
    kind: Arrangement,
    /// Disks at first and after each addition.
    disks: [u8; ADDITIONS_MAX + 1],
    additions: u8,
    /// The addition under way, which is the last one.
    method: Option<GrowMethod>,
}

/// Why an array cannot grow as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrowError {
    /// Arrays of this level do not grow.
    #[error("{0} does not grow; RAID 0, 10, 5 and 6 do")]
    Level(String),
    /// Every method deals parity evenly.
    #[error(
        "an array with parity weights ({0}) does not grow; copy its data to a new array with more members"
    )]
    Weighted(ParityWeights),
    /// The method is for other levels.
    #[error("{level} does not grow by {method}; give another --method, or none")]
    Unsuited {
        /// The array's level.
        level: String,
        /// The method.
        method: &'static str,
    },
    /// Restripe would move chunks from shard to shard.
    #[error("an array of {0} shards cannot be restriped; grow it by spread (--method spread)")]
    Shards(usize),
    /// Restripe overwrites the first rows while they are needed, so the log has to hold them.
    #[error(
        "restripe takes room for {need} blocks in the log and there is room for {have}; grow it by spread (--method spread)"
    )]
    Log {
        /// Blocks of the first row.
        need: u64,
        /// Blocks that fit.
        have: u64,
    },
    /// The number of members is not a multiple of the number of copies.
    #[error(
        "a RAID 10 of {copies} copies grows by sets of {copies} members, and is made of such; it has {have} and {added} are given"
    )]
    Sets {
        /// Copies of a chunk.
        copies: u32,
        /// Members it has.
        have: usize,
        /// Members given.
        added: usize,
    },
    /// An addition is under way already.
    #[error("the array is growing already; wait until it has grown (`sinew array status`)")]
    Growing,
    /// The array has grown by another method.
    #[error("the array has grown by {had}, and can only go on so (--method {had})")]
    Method {
        /// How it has grown.
        had: &'static str,
    },
    /// Too many additions.
    #[error("the array has grown {ADDITIONS_MAX} times, which is as often as one can")]
    TooOften,
    /// Much larger than it was made for.
    #[error("the array would have more than {0} times the size it was made with; make a new one")]
    TooLarge(u64),
    /// The level cannot have this number of members.
    #[error(transparent)]
    Layout(#[from] sinew_layout::GeometryError),
    /// Too many members, or too many chunks on each.
    #[error(transparent)]
    History(#[from] sinew_layout::history::HistoryError),
}

impl Grown {
    /// An array of `disks` disks that has not grown.
    pub fn of(disks: u32) -> Grown {
        let mut all = [0; ADDITIONS_MAX + 1];
        all[0] = disks as u8;
        Grown { kind: Arrangement::AsNew, disks: all, additions: 0, method: None }
    }

    /// A history as a superblock has it; `None` when it is impossible.
    pub fn restore(kind: Arrangement, disks: &[u8], method: Option<GrowMethod>) -> Option<Grown> {
        let (&base, added) = disks.split_first()?;
        let ascending = disks.windows(2).all(|pair| pair[0] < pair[1]);
        let possible = base > 0 && ascending && added.len() <= ADDITIONS_MAX;
        let finished = added.len() - usize::from(method.is_some() && !added.is_empty());
        let goes_on = method.is_none_or(|m| !added.is_empty() && follows(kind, m));
        // An array like new ones needs no history.
        let needed = (kind == Arrangement::AsNew) == (finished == 0) && !added.is_empty();
        if !possible || !goes_on || !needed {
            return None;
        }
        let mut all = [0; ADDITIONS_MAX + 1];
        all[..disks.len()].copy_from_slice(disks);
        Some(Grown { kind, disks: all, additions: added.len() as u8, method })
    }

    /// The same with an addition under way.
    ///
    /// # Errors
    /// When an addition is under way, the array has grown by another method, or it cannot grow any more.
    pub fn begin(self, method: GrowMethod, added: u32) -> Result<Grown, GrowError> {
        if self.method.is_some() {
            return Err(GrowError::Growing);
        }
        if let Some(had) = self.kind.method().filter(|_| !follows(self.kind, method)) {
            return Err(GrowError::Method { had: had.name() });
        }
        if usize::from(self.additions) == ADDITIONS_MAX {
            return Err(GrowError::TooOften);
        }
        self.history().with(added)?;
        let mut next = self;
        next.additions += 1;
        next.disks[usize::from(next.additions)] = self.width() as u8 + added as u8;
        next.method = Some(method);
        Ok(next)
    }

    /// The addition under way is done; `None` when the array is as a new one would be.
    pub fn finish(self) -> Option<Grown> {
        let method = self.method.expect("an addition is under way");
        let next = Grown { kind: method.arrangement(), method: None, ..self };
        (next.kind != Arrangement::AsNew).then_some(next)
    }

    /// The method of the addition under way.
    pub fn method(&self) -> Option<GrowMethod> {
        self.method
    }

    /// The addressing now, or before the addition under way.
    pub fn kind(&self) -> Arrangement {
        self.kind
    }

    /// Disks at first and after each addition, the one under way included.
    pub fn disks(&self) -> &[u8] {
        &self.disks[..=usize::from(self.additions)]
    }

    fn width(&self) -> u32 {
        u32::from(self.disks[usize::from(self.additions)])
    }

    fn history(&self) -> History {
        let disks = self.disks();
        let first = History::new(u32::from(disks[0])).expect("checked when it was made");
        disks.windows(2).fold(first, |history, pair| {
            history.with(u32::from(pair[1] - pair[0])).expect("checked when it was made")
        })
    }

    /// Whether the array has parity.
    pub fn is_for_parity(&self) -> bool {
        self.kind == Arrangement::Spread || self.method.is_some_and(GrowMethod::is_for_parity)
    }

    /// Members that the array was made with, or restriped to, if it has parity.
    pub fn base(&self) -> u32 {
        u32::from(self.disks[0])
    }

    /// Checks that `rows` rows can be addressed.
    ///
    /// # Errors
    /// [`GrowError::History`] when there are too many.
    pub fn check(&self, rows: u32) -> Result<(), GrowError> {
        Ok(Striping::new(StripingKind::FastScale, self.history(), rows).map(drop)?)
    }

    /// Chunks that can be stored now, with `rows` rows.
    pub fn chunks(&self, rows: u32) -> u64 {
        let history = self.history();
        let history_now =
            if self.method.is_some() { history.before_last().expect("an addition") } else { history };
        blocks(self.kind.striping(), &history_now, rows)
    }

    /// The locations of chunks, with `rows` rows.
    pub fn places(&self, rows: u32) -> Places {
        let history = self.history();
        let checked = "checked when it was made";
        match self.method {
            None => Places::Stable(Striping::new(self.kind.striping(), history, rows).expect(checked)),
            Some(method) => {
                let (from, to) = (self.kind.striping(), method.arrangement().striping());
                Places::Growing(Growth::new(from, to, &history, rows).expect(checked))
            }
        }
    }

    /// The rows of an array with parity, or of one shard of it. `layout` is that of a new array of the same number of members.
    pub fn rows(&self, layout: &Layout, share: Share, rows: u64) -> Rows {
        let checked = "checked when it was made";
        if self.method == Some(GrowMethod::Restripe) {
            return Rows::restriping(layout.with_members(self.base()).expect(checked), *layout);
        }
        let rotation = layout.level().rotation().expect("only levels with parity have rows");
        let spread = Spread::new(&self.history(), rows as u32, rotation, layout.parities()).expect(checked);
        match self.method {
            Some(_) => Rows::spreading(spread.of_share(share)),
            None => Rows::spread(spread.of_share(share)),
        }
    }
}

/// Whether an array with this addressing can grow by this method.
fn follows(before: Arrangement, method: GrowMethod) -> bool {
    before == Arrangement::AsNew || before == method.arrangement()
}

/// Locations of the chunks of an array without parity whose layout differs from that of a new one.
#[derive(Debug)]
pub enum Places {
    /// No addition is under way.
    Stable(Striping),
    /// An addition is under way: chunks are at their old or new places.
    Growing(Growth),
}

impl Places {
    /// The disk and row of a chunk, when everything with a key below `moved` has moved.
    pub fn home(&self, chunk: u64, moved: u64) -> Home {
        match self {
            Places::Stable(striping) => striping.home(chunk),
            Places::Growing(growth) => growth.home(chunk, moved),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let new = Grown::of(4);
        let fast = new.begin(GrowMethod::FastScale, 2).unwrap();
        assert_eq!(fast.begin(GrowMethod::FastScale, 1), Err(GrowError::Growing));
        let fast = fast.finish().unwrap();
        assert!(matches!(fast.begin(GrowMethod::Slas, 1), Err(GrowError::Method { had: "fastscale" })));
        assert_eq!(fast.begin(GrowMethod::FastScale, 1).unwrap().disks(), [4, 6, 7]);
        assert_eq!(new.begin(GrowMethod::Slas, 3).unwrap().finish(), None);
        assert!(matches!(new.begin(GrowMethod::Slas, 252), Err(GrowError::History(_))));
    }

    #[test]
    fn a_history_survives_being_stored() {
        for method in GrowMethod::ALL {
            let mut grown = Grown::of(3);
            for added in [1, 4] {
                let growing = grown.begin(method, added).unwrap();
                let again = Grown::restore(growing.kind(), growing.disks(), growing.method());
                assert_eq!(again, Some(growing));
                let finished = growing.finish();
                if let Some(finished) = finished {
                    assert_eq!(Grown::restore(finished.kind(), finished.disks(), None), Some(finished));
                }
                grown = finished.unwrap_or(Grown::of(3 + added));
            }
        }
        assert_eq!(Grown::restore(Arrangement::AsNew, &[3], None), None);
        assert_eq!(Grown::restore(Arrangement::FastScale, &[3, 3], None), None);
        assert_eq!(Grown::restore(Arrangement::FastScale, &[3, 4], Some(GrowMethod::Slas)), None);
    }
}
