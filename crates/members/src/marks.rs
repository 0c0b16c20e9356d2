//! The coverage marks of the devices of a shard: code that only faults, crashes and shortages reach.

sinew_core::coverage_marks! {
    /// A device that answered nothing was given up before it counted as a member.
    CandidateGivenUp,
    /// A member had no physical space for a write.
    MemberFull,
    /// A group of a journal waited for physical space on its members.
    RingAwaitsSpace,
    /// A member was late with its unit of a striped group, which was written as copies then.
    RingUnitLate,
    /// A member did not get its unit of a striped group, which was written as copies then.
    RingUnitLost,
    /// A client's write waited for physical space.
    SpaceAwaited,
    /// A client's write was refused before a member had to refuse it.
    SpaceRefused,
    /// Recovery waited for physical space, for copies of what is in the journal.
    RecoveryAwaitsSpace,
}
