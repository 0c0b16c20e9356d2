//! Whether something of a table page that may leave memory is there.

/// Where the slots of a stripe, or the entries of a map page, are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Residence {
    /// Nowhere: they do not belong to anything.
    #[default]
    Unused,
    Present,
    /// On the members.
    Absent,
    /// Absent since the shard was opened: whether the other tables agree with them is not known.
    Unchecked,
}

impl Residence {
    /// Whether they have to be filled in before they are looked at.
    pub(super) fn is_absent(self) -> bool {
        matches!(self, Residence::Absent | Residence::Unchecked)
    }
}
