//! The coverage marks of the pool as a whole: code that only faults, crashes and shortages reach.

sinew_core::coverage_marks! {
    /// A member failed while the configuration was stored.
    ConfigMemberLost,
    /// No member is left to store the configuration on: the pool has failed.
    PoolFailed,
    /// A member was not taken out, because the pool cannot do without it.
    MemberNeeded,
    /// An order to take a member offline waited until tables or journal blocks were on other members as well.
    OfflineAwaitsCopies,
    /// A member came back.
    MemberBack,
    /// A device was refused because it is not the member it should be.
    MemberRefused,
    /// A member was replaced by a new device.
    MemberReplaced,
    /// An evacuation was refused, because too few members are left.
    EvacuationRefused,
    /// A member was evacuated to the end.
    EvacuationEnded,
    /// A member was added.
    MemberAdded,
    /// A device failed while it was being added, and is no member.
    JoinFailed,
    /// The removal of a member was refused, because the others have too little room.
    RemovalRefused,
    /// A member that was to leave stays.
    RemovalCancelled,
    /// A member has left.
    MemberLeft,
    /// The end of the pool had kept a member that has left from being cleared.
    OpenedWithRemoved,
    /// A member that was missing is back when the pool is opened.
    OpenedWithReturned,
    /// A member is missing when the pool is opened.
    OpenedWithout,
    /// A pool was opened read-only with more members missing than it survives.
    OpenedAsLastResort,
    /// A device that has been replaced was found when the pool was opened.
    OpenedWithReplaced,
    /// A pool was opened with a member that an opening was stored on which did not come about, while others went on.
    OpenedBesideCutOff,
    /// A deletion goes on that the pool's end had cut off.
    DeleteResumed,
    /// All blocks of a volume have moved to stripes with its new protection.
    VolumeMoveEnded,
    /// A spare took the place of a member of an array.
    SpareTaken,
    /// A growth of an array began.
    GrowthBegun,
    /// A growth of an array was refused because a new device could not be written.
    GrowthRefused,
    /// A growth of an array came to its end.
    GrowthEnded,
    /// A member that answered nothing for long was given up.
    MemberGivenUp,
    /// The same while the pool was being opened.
    OpeningGivenUp,
    /// A member that answered nothing for long was waited for, since the pool cannot do without it.
    SilentMemberNeeded,
    /// Before a member that answered nothing for long was given up, another one did not answer either.
    OtherMemberSilent,
    /// A member had no space for the configuration, and kept an older one.
    ConfigNoSpace,
    /// A request was in its shard for much longer than others of its kind, and those that waited for their turn went on beside it.
    GateOverdue,
}
