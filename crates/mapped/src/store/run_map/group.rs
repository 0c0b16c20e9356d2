//! What the word of a group of indices says.

use sinew_format::model::mapped_geometry::VALUE_LIMIT;

/// Indices of a group: this number of consecutive values costs one word.
pub(crate) const GROUP_INDICES: u32 = 16;

/// What a group is, as its word says it.
#[derive(Clone, Copy)]
pub(super) enum Group {
    Empty,
    /// The first of consecutive values.
    Run(u32),
    /// Its place in the slab.
    Mixed(u32),
}

pub(super) const EMPTY: u32 = u32::MAX;

impl Group {
    pub(super) fn of(word: u32) -> Group {
        match word {
            EMPTY => Group::Empty,
            run if run < VALUE_LIMIT => Group::Run(run),
            mixed => Group::Mixed(mixed - VALUE_LIMIT),
        }
    }

    pub(super) fn word(self) -> u32 {
        match self {
            Group::Empty => EMPTY,
            Group::Run(first) => first,
            Group::Mixed(place) => VALUE_LIMIT + place,
        }
    }
}
