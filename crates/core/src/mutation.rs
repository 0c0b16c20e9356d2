//! Mutations: planted defects of the engine, switched on one at a time by the tests that show that the simulator finds each.
//!
//! Without the feature `mutations`, [`on`] is a constant `false` and costs nothing.

/// A planted defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Acknowledge a commit without writing the journal block.
    SkipJournal,
    /// Write the journal to one member only.
    OneJournalCopy,
    /// Acknowledge a write before its data is on the members.
    AcknowledgeEarly,
    /// Write only the first copy of a small write.
    OneDataCopy,
    /// Swap the first two data columns when a parity stripe is written.
    SwapColumns,
    /// Convert a stripe without writing its parity.
    SkipParity,
    /// Drop the mirrors of a converted stripe before its parity is durable.
    ConvertWithoutFlush,
    /// Do not rewrite the pages and journal blocks of which a lost member had a copy.
    ForgetMetadataCopies,
    /// Do not mark the chunks stale that a failed member missed.
    ForgetStale,
    /// Answer a flush without flushing the members.
    SkipFlush,
    /// Reuse released chunks at once.
    ReuseEarly,
    /// Write pages whose journal blocks are not durable yet.
    PagesBeforeJournal,
    /// Place pages further out than the member states durably.
    ReachUnstated,
    /// Mapped pools: let replay start after the last durable journal block.
    TailPastFlushed,
    /// Let compaction overwrite data that a client wrote meanwhile.
    MoveUnconditionally,
    /// Do not verify checksums of reads.
    SkipChecksums,
    /// Apply unflushed records at recovery without verifying their data.
    TrustTail,
    /// Drop a record whose data is nowhere, although a later record released the chunk that had it.
    DropReleased,
    /// Keep a record whose data is nowhere when only dead blocks of a stripe in use miss it.
    PresumeDead,
    /// Continue the old epoch after recovery.
    KeepEpoch,
    /// Rebuild a chunk without its first block.
    RebuildShort,
    /// Rebuild a chunk onto a member that already holds a chunk which protects it.
    ShareMember,
    /// Refuse writes of clients when no stripe is dead, without compacting.
    NeverCompact,
    /// Do not wake the rebuilder when a member comes or goes.
    LoseWakeup,
    /// Do not free the chunks of an allocation that was not used.
    LeakChunks,
    /// Rebalance a chunk onto a member that already holds a chunk which protects it.
    BalanceTogether,
    /// Record the new location of a rebuilt or moved chunk before its data is durable there.
    MoveUnflushed,
    /// Use a new member before the configuration that lists it is durable.
    UseBeforeStored,
    /// Remove a leaving member before it is empty.
    LeaveEarly,
    /// Count a late copy of a journal block as written.
    CountLateJournal,
    /// Count a striped group of an array's log while units of it are late.
    CountLateUnit,
    /// Write no parity of striped groups.
    LoseUnit,
    /// Take units of striped groups at recovery whatever their checksums.
    TrustUnit,
    /// Leave striped groups without the units that recovery did not find.
    LeaveUnitMissing,
    /// Let the abort record of a stripe's first run cancel the opening of the stripe, too.
    AbortOpening,
    /// Apply records of an overlapped commit whose data is still being written.
    ApplyUnlanded,
    /// Write no abort record for records whose data was not written.
    ForgetVoid,
    /// Abandon a hung member that the pool needs.
    GiveUpNeeded,
    /// Give up a hung member without asking whether the others are still there.
    AskNoOther,
    /// Count on members that are on their way out.
    CountOutgoing,
    /// Leave members in a latency spike out of a flush.
    FlushAround,
    /// Count a late copy of small writes as written.
    CountLateRun,
    /// Arrays: update stripes in place without their after-image in the journal.
    SkipAfterImage,
    /// Arrays: at recovery, do not replay the stripes that were being updated.
    SkipReplay,
    /// Arrays: replay the oldest version of a block instead of the newest.
    ReplayOutOfOrder,
    /// Arrays: at recovery, take a group of an earlier opening for the lost one of the same number.
    TrustOldGroup,
    /// Arrays: let the tail of the journal pass groups whose blocks are not destaged durably.
    SettleEarly,
    /// Arrays: release the groups of two destage rounds when one has ended.
    PinTogether,
    /// Arrays: let orders of scrubs take the room in the log that the destager needs.
    OrderWithoutRoom,
    /// Arrays: do not set the bit of the write-intent bitmap before a region is written.
    ForgetDirty,
    /// Arrays: do not resync dirty regions after a crash.
    SkipResync,
    /// Arrays: read stale chunks from a member.
    ReadStale,
    /// Arrays: add a column's difference to parity with the coefficient of the next column.
    WrongCoefficient,
    /// Arrays: write an after-image without its parity.
    LoseImageParity,
    /// Arrays: write the parity of an after-image to the log of the wrong member.
    StrayImageParity,
    /// Arrays: forget a block's newest content in the journal when older content of the block has been destaged.
    DrainOutOfOrder,
    /// Arrays: record that chunks have moved before the copies are durable.
    RecordUnflushed,
    /// Arrays: write to moved chunks before the move is recorded.
    WriteUnrecorded,
    /// Arrays: move a chunk over another that may still be needed.
    OverwriteUnmoved,
    /// Arrays: a growth gives stripes units on members that are still to be rebuilt there.
    GrowOntoStale,
    /// Arrays: record that rows have changed before the chunks added to them are durable.
    ChangeUnflushed,
    /// Arrays: change rows in place without their after-images in the log.
    ChangeUnlogged,
    /// Arrays: without a journal, write to rows while replay would put the images of a growth over them.
    KeepImages,
    /// Refuse a write for lack of space while a member may still have its content, which then counts after a crash.
    RefuseUnsettled,
    /// Arrays: after a crash, read any copy in regions that were being written and are not resynced.
    TrustDirty,
    /// Arrays: without a journal, record that rows have changed whose data is in memory only, since a member has no space.
    RecordUnplaced,
    /// Arrays: let marks of dirty regions count for a member onto which the array has grown.
    KeepMarks,
    /// Arrays: let writes overwrite the old location of a chunk while reads of it are in flight.
    ForgetReaders,
    /// Arrays: reconstruct the data of a late member without the lock of the stripe.
    AroundUnlocked,
    /// Take a member out that has no physical space left.
    NoSpaceIsFailure,
    /// Write superblocks to both slots in turn, also after a refused write, which may have damaged the last one.
    AlternateSlots,
    /// Write what recovery mends to the members of a pool that is opened read-only.
    WriteReadOnly,
    /// Write to the members of a pool after it was closed.
    WriteAfterClose,
    /// Compact stripes of volumes of mirrors together with those of volumes with parity.
    CompactTogether,
    /// Go on with the stripes that were chosen for compaction when there is room for narrower ones only.
    CompactIntoNarrower,
    /// Count no more of the capacity for a block that stays mirrored than for one under parity.
    CountMirrorsAsParity,
    /// Open a pool as if all its volumes had its protection.
    ForgetPinned,
    /// Keep no room for blocks that move to mirrors.
    MoveUnreserved,
    /// End the move of a volume while writes from before its beginning are under way.
    MoveUnsettled,
    /// Take a member offline although others lack tables or journal blocks that it has.
    OfflineUncopied,
    /// Erase a device's superblocks together with the rest of it.
    WipeTogether,
    /// Open a pool without going on with moves that an earlier opening began.
    ForgetMove,
    /// As a last resort, read where the map says without asking the stripe whose slot that is.
    TrustOldMap,
    /// Add no event when a member fails.
    LoseEvents,
    /// Add no event for a member that is missing when the pool is opened.
    UntoldMissing,
    /// Tell of errors and repairs of members twice.
    InventEvents,
    /// Do not flush a member that has no space for its superblock.
    LeaveFullUnflushed,
    /// Do not reserve the blocks that a discard frees while writes under way may store them again.
    OfferDiscarded,
    /// Take slots out of memory that the members do not have yet.
    EvictUnwritten,
    /// Take slots out of memory, or leave them out, although a copy of their page is missing.
    EvictShort,
    /// Write a table page without the slots that are absent.
    EncodeAbsent,
    /// Do not keep map pages in memory until the records of a write are applied.
    UnpinEarly,
    /// Do not count the blocks of map pages that an opening leaves on the members.
    LeaveOutUncounted,
    /// As a last resort, take table pages out of memory from which contradictions were left out.
    EvictGuesses,
    /// Let changed table pages take more memory than they may.
    CrowdCache,
    /// Do not tell the sender of a full ring between threads that there is room.
    HideRoom,
    /// Do not charge the limits of a volume with requests that had to wait for them.
    LimitUncharged,
    /// Let requests that wait for a limit sleep on when it is lifted.
    LimitUnseen,
    /// Let the end of a request wake none of those that wait for their share.
    ShareUnwoken,
    /// Let requests of volumes that want more than their share enter in the order of their arrival.
    ShareByArrival,
    /// Let reads of a volume wait for their share while its writes do.
    ShareLane,
    /// Take the table pages that an opening finds for all that there are.
    TrustFoundPages,
    /// Let volumes have more than their share for ever.
    EndlessGrace,
    /// Take also what requests that waited for no member have taken for what members take.
    NoteAllLatencies,
    /// Let requests that wait for a member that has stopped count as work of their shard.
    CountOverdue,
    /// Take requests of backlogged volumes for late that are so beside bursts of others.
    BlameBacklogged,
    /// Elastic arrays: write copies of data that is not durable in the journal yet.
    CopiesBeforeJournal,
    /// Elastic arrays: record a new form before its units are durable.
    FormBeforeCopies,
    /// Elastic arrays: discard the units of the former form before the new one is recorded.
    TrimBeforeForm,
    /// Elastic arrays: convert what a stale member has of a stripe.
    DemoteFromStale,
    /// Elastic arrays: put the copies of a column on its own member.
    CopiesTogether,
    /// Elastic arrays: let the tail of the log pass changes of forms that no page on the members has.
    TailPassesForms,
    /// Elastic arrays: write form pages to one member.
    OneFormCopy,
    /// Elastic arrays: read empty stripes from their members.
    EmptyReadsDevice,
    /// Elastic arrays: discard units while reads without a lock are under way in them.
    TrimUnderReaders,
    /// Elastic arrays: do not discard units that a form stops to use.
    LeakSlots,
    /// Arrays: do not note where blocks without a good copy are.
    ForgetLostBlocks,
    /// Arrays: do not note which blocks were given up, for which zeros stand in.
    ForgetGivenUp,
    /// Arrays: write zeros for blocks that were given up before the list of these blocks is durable.
    GiveUpUnflushed,
    /// Elastic arrays: rebuild one unit of a member in a stripe, where a mirrored stripe has several.
    RebuildOneUnit,
    /// Elastic arrays: at the first write of a stripe, do not write the columns without data.
    EmptyUnfilled,
    /// Elastic arrays: replay data from before a discard.
    EmptyRevives,
    /// Elastic arrays: convert stripes without their locks.
    PromoteUnlocked,
    /// Elastic arrays: replay after-images from before a change of the form.
    ForgetFormVoid,
    /// Elastic arrays: give stripes parity that then take more space.
    DemoteGrows,
    /// Elastic arrays: let mirrored rows become wider without giving them parity first.
    GrowMirrored,
    /// Elastic arrays: let a growth add columns to an empty row without giving it parity first.
    GrowUnfilled,
    /// Elastic arrays: exchange mirrored stripes for others whether that gains anything or not.
    SwapForever,
}

impl Mutation {
    /// All mutations.
    pub const ALL: [Mutation; 128] = [
        Mutation::SkipJournal,
        Mutation::OneJournalCopy,
        Mutation::AcknowledgeEarly,
        Mutation::OneDataCopy,
        Mutation::SwapColumns,
        Mutation::SkipParity,
        Mutation::ConvertWithoutFlush,
        Mutation::ForgetMetadataCopies,
        Mutation::ForgetStale,
        Mutation::SkipFlush,
        Mutation::ReuseEarly,
        Mutation::PagesBeforeJournal,
        Mutation::ReachUnstated,
        Mutation::TailPastFlushed,
        Mutation::MoveUnconditionally,
        Mutation::SkipChecksums,
        Mutation::TrustTail,
        Mutation::DropReleased,
        Mutation::PresumeDead,
        Mutation::KeepEpoch,
        Mutation::RebuildShort,
        Mutation::ShareMember,
        Mutation::NeverCompact,
        Mutation::LoseWakeup,
        Mutation::LeakChunks,
        Mutation::BalanceTogether,
        Mutation::MoveUnflushed,
        Mutation::UseBeforeStored,
        Mutation::LeaveEarly,
        Mutation::CountLateJournal,
        Mutation::FlushAround,
        Mutation::CountLateRun,
        Mutation::SkipAfterImage,
        Mutation::SkipReplay,
        Mutation::ReplayOutOfOrder,
        Mutation::TrustOldGroup,
        Mutation::SettleEarly,
        Mutation::PinTogether,
        Mutation::OrderWithoutRoom,
        Mutation::ForgetDirty,
        Mutation::SkipResync,
        Mutation::ReadStale,
        Mutation::WrongCoefficient,
        Mutation::LoseImageParity,
        Mutation::StrayImageParity,
        Mutation::DrainOutOfOrder,
        Mutation::RecordUnflushed,
        Mutation::WriteUnrecorded,
        Mutation::OverwriteUnmoved,
        Mutation::GrowOntoStale,
        Mutation::ChangeUnflushed,
        Mutation::ChangeUnlogged,
        Mutation::KeepImages,
        Mutation::RecordUnplaced,
        Mutation::RefuseUnsettled,
        Mutation::TrustDirty,
        Mutation::KeepMarks,
        Mutation::ForgetReaders,
        Mutation::AroundUnlocked,
        Mutation::CopiesBeforeJournal,
        Mutation::FormBeforeCopies,
        Mutation::TrimBeforeForm,
        Mutation::DemoteFromStale,
        Mutation::CopiesTogether,
        Mutation::TailPassesForms,
        Mutation::OneFormCopy,
        Mutation::EmptyReadsDevice,
        Mutation::TrimUnderReaders,
        Mutation::LeakSlots,
        Mutation::ForgetLostBlocks,
        Mutation::ForgetGivenUp,
        Mutation::GiveUpUnflushed,
        Mutation::RebuildOneUnit,
        Mutation::EmptyUnfilled,
        Mutation::EmptyRevives,
        Mutation::PromoteUnlocked,
        Mutation::ForgetFormVoid,
        Mutation::DemoteGrows,
        Mutation::GrowMirrored,
        Mutation::GrowUnfilled,
        Mutation::SwapForever,
        Mutation::GiveUpNeeded,
        Mutation::AskNoOther,
        Mutation::CountOutgoing,
        Mutation::CountLateUnit,
        Mutation::LoseUnit,
        Mutation::TrustUnit,
        Mutation::LeaveUnitMissing,
        Mutation::AbortOpening,
        Mutation::ApplyUnlanded,
        Mutation::ForgetVoid,
        Mutation::NoSpaceIsFailure,
        Mutation::AlternateSlots,
        Mutation::WriteReadOnly,
        Mutation::WriteAfterClose,
        Mutation::CompactTogether,
        Mutation::CompactIntoNarrower,
        Mutation::CountMirrorsAsParity,
        Mutation::ForgetPinned,
        Mutation::MoveUnreserved,
        Mutation::MoveUnsettled,
        Mutation::OfflineUncopied,
        Mutation::WipeTogether,
        Mutation::ForgetMove,
        Mutation::TrustOldMap,
        Mutation::LoseEvents,
        Mutation::UntoldMissing,
        Mutation::InventEvents,
        Mutation::LeaveFullUnflushed,
        Mutation::OfferDiscarded,
        Mutation::EvictUnwritten,
        Mutation::EvictShort,
        Mutation::EncodeAbsent,
        Mutation::UnpinEarly,
        Mutation::LeaveOutUncounted,
        Mutation::EvictGuesses,
        Mutation::CrowdCache,
        Mutation::HideRoom,
        Mutation::LimitUncharged,
        Mutation::LimitUnseen,
        Mutation::ShareUnwoken,
        Mutation::ShareByArrival,
        Mutation::ShareLane,
        Mutation::EndlessGrace,
        Mutation::NoteAllLatencies,
        Mutation::TrustFoundPages,
        Mutation::CountOverdue,
        Mutation::BlameBacklogged,
    ];

    /// Those that the torture does not see, because they make an array worse but leave its data right, or because hardly any plan
    /// has the events that show them. Named scenarios of the simulator's tests do.
    pub const BY_SCENARIO: [Mutation; 25] = [
        Mutation::AskNoOther,
        Mutation::BlameBacklogged,
        Mutation::CountOverdue,
        Mutation::CountOutgoing,
        Mutation::CrowdCache,
        Mutation::DemoteGrows,
        Mutation::EndlessGrace,
        Mutation::EvictShort,
        Mutation::ForgetLostBlocks,
        Mutation::ForgetGivenUp,
        Mutation::GiveUpUnflushed,
        Mutation::GrowOntoStale,
        Mutation::LeaveFullUnflushed,
        Mutation::LimitUnseen,
        Mutation::MoveUnsettled,
        Mutation::NoteAllLatencies,
        Mutation::OfflineUncopied,
        Mutation::OrderWithoutRoom,
        Mutation::ShareByArrival,
        Mutation::ShareLane,
        Mutation::ShareUnwoken,
        Mutation::SwapForever,
        Mutation::TrustDirty,
        Mutation::TrustFoundPages,
        Mutation::WipeTogether,
    ];
}

#[cfg(feature = "mutations")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Switches one mutation on for the engines of this thread, or none.
#[cfg(feature = "mutations")]
pub fn choose(mutation: Option<Mutation>) {
    CHOSEN.set(mutation);
}

/// Whether this mutation is on for the engines of this thread.
#[cfg(feature = "mutations")]
pub fn on(mutation: Mutation) -> bool {
    CHOSEN.get() == Some(mutation)
}

/// Whether this mutation is on: never, without the feature.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub fn on(_mutation: Mutation) -> bool {
    false
}
