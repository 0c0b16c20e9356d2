//! Whether a member takes part in its pool.

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Read and written. Single columns on it may still be stale.
    Active,
    /// It failed requests. It comes back only by an order of an operator, or is replaced.
    Failed,
    /// Taken offline by an operator.
    Offline,
    /// Missing when the pool was opened. It comes back by itself.
    Missing,
    /// Out, and its chunks are being rebuilt in the free space of the other members.
    Evacuating,
    /// Empty: it was evacuated, or has left, or a spare took its place. In a mapped pool the next added device that is at
    /// least as large gets its number.
    Removed,
    /// A spare: takes the place of the next member of an array that fails.
    Spare,
    /// As active, but no new chunks are placed on it, and its chunks move to the other members.
    Leaving,
}

impl MemberState {
    /// All states, in the order of their numbers in the superblock.
    pub const ALL: [MemberState; 8] = [
        MemberState::Active,
        MemberState::Failed,
        MemberState::Offline,
        MemberState::Missing,
        MemberState::Evacuating,
        MemberState::Removed,
        MemberState::Spare,
        MemberState::Leaving,
    ];

    /// Whether the member is read and kept up to date.
    pub fn takes_part(self) -> bool {
        matches!(self, MemberState::Active | MemberState::Leaving)
    }

    /// The state's name.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Active => "active",
            MemberState::Failed => "failed",
            MemberState::Offline => "offline",
            MemberState::Missing => "missing",
            MemberState::Evacuating => "evacuating",
            MemberState::Removed => "removed",
            MemberState::Spare => "spare",
            MemberState::Leaving => "leaving",
        }
    }
}
