//! The coverage marks of the devices of a shard: code that only faults, crashes and shortages reach.

sinew_core::coverage_marks! {
    /// A device that answered nothing was given up before it counted as a member.
    CandidateGivenUp,
}
