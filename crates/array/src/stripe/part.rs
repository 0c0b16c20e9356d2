//! Addresses inside a stripe.

/// Blocks of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitRun {
    pub(crate) unit: usize,
    pub(crate) offset: u32,
    pub(crate) blocks: u32,
}

/// Part of a data column of a stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripePart {
    pub(crate) stripe: u64,
    pub(crate) run: UnitRun,
}
