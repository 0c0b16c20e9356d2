//! Whether a member takes part in its pool.

/// Whether a member takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Read and written. Single columns on it may still be stale.
    Active,
    /// It failed requests. It comes back only when told to, or is replaced.
    Failed,
    /// Taken offline on request.
    Offline,
    /// Not there when the pool was opened. It comes back by itself.
    Missing,
    /// Out, and what it held is being rebuilt into the free space of the others.
    Evacuating,
    /// Nothing is left on it: it was evacuated, or has left, or a spare took its place. In a mapped pool its number goes to
    /// the next device added that is at least as large.
    Removed,
    /// Waiting to take the place of a member of an array that fails.
    Spare,
    /// As active, but nothing new is placed on it, and what it holds moves to the others.
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

    /// Whether what it holds is read and kept up to date.
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
