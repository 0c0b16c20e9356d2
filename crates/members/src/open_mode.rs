//! How a pool is opened.

/// How a pool is opened: for writing, or so that nothing at all is written to its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenMode {
    /// As usual.
    #[default]
    ReadWrite,
    /// What recovery would write stays in memory.
    ReadOnly,
    /// As `ReadOnly`, with more members missing than the pool survives: what can be proved to be the content of a block is
    /// read, all else fails. Mapped pools with checksums only.
    LastResort,
}

impl OpenMode {
    /// Whether nothing is written to the members.
    pub fn is_read_only(self) -> bool {
        self != OpenMode::ReadWrite
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            OpenMode::ReadWrite => "read-write",
            OpenMode::ReadOnly => "read-only",
            OpenMode::LastResort => "last-resort",
        }
    }
}
