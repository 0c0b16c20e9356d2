//! Deliberate defects, one at a time, for the tests that show the simulator finds each.
//!
//! Without the feature `sabotage`, [`on`] is a constant `false` and costs nothing.

/// A way to break the engine.
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
    /// Leave the parity chunk as it is when converting.
    SkipParity,
    /// Drop the mirrors of a converted stripe before its parity is durable.
    ConvertWithoutFlush,
    /// Do not write again the pages and journal blocks of which a lost member had a copy.
    ForgetMetadataCopies,
    /// Do not mark what a failed member missed.
    ForgetStale,
    /// Answer a flush without flushing the members.
    SkipFlush,
    /// Reuse released chunks at once.
    ReuseEarly,
    /// Write pages whose journal blocks are not durable yet.
    PagesBeforeJournal,
    /// Let compaction overwrite what a client wrote meanwhile.
    MoveUnconditionally,
    /// Do not check checksums when reading.
    SkipChecksums,
    /// Trust unflushed records at recovery without looking at their data.
    TrustTail,
    /// Continue the old epoch after recovery.
    KeepEpoch,
    /// Rebuild a chunk but leave the first block out.
    RebuildShort,
    /// Rebuild a chunk onto a member that already holds one of those that protect it.
    ShareMember,
    /// Refuse clients when no stripe is dead, without compacting.
    NeverCompact,
    /// Do not wake the rebuilder when a member comes or goes.
    LoseWakeup,
    /// Do not give back the chunks of a plan that came to nothing.
    LeakChunks,
    /// Move a chunk to a member that already holds one of those that protect it, when members are balanced.
    BalanceTogether,
    /// Record the new home of a rebuilt or moved chunk before it is durable there.
    MoveUnflushed,
    /// Use a new member before the configuration says so.
    UseBeforeStored,
    /// Let a member go before it is empty.
    LeaveEarly,
    /// Count a copy of the journal that is late as written.
    CountLateJournal,
    /// Apply records whose data is still on its way.
    ApplyUnlanded,
    /// Do not take back records whose data did not land.
    ForgetVoid,
    /// Give up a silent member that the pool cannot do without.
    GiveUpNeeded,
    /// Leave members in a spike out of a flush.
    FlushAround,
    /// Count a copy of small writes that is late as written.
    CountLateRun,
    /// Arrays: change stripes in place without their after-image in the journal.
    SkipAfterImage,
    /// Arrays: at recovery, leave stripes that were being changed as they are.
    SkipReplay,
    /// Arrays: replay the oldest version of a block instead of the newest.
    ReplayOutOfOrder,
    /// Arrays: let the tail pass groups whose blocks are not durable in their places.
    SettleEarly,
    /// Arrays: do not mark regions before they are written.
    ForgetDirty,
    /// Arrays: after a crash, leave dirty regions as they are.
    SkipResync,
    /// Arrays: read from a member what it lags behind in.
    ReadStale,
    /// Arrays: add a column's difference to parity as if it were its neighbour's.
    WrongCoefficient,
    /// Arrays: leave the parity out of an after-image.
    LoseImageParity,
    /// Arrays: write the parity of an after-image to the log of another member than its own.
    StrayImageParity,
    /// Arrays: forget what came to the journal while older content of the same block was brought to its place.
    DrainOutOfOrder,
    /// Arrays: let the members know that chunks have moved before the copies are durable.
    RecordUnflushed,
    /// Arrays: write to chunks that have moved without the members knowing.
    WriteUnrecorded,
    /// Arrays: move chunks to places whose own may still be needed.
    OverwriteUnmoved,
    /// Arrays: record that rows have changed before what they gain is durable.
    ChangeUnflushed,
    /// Arrays: change rows in place without their images in the log.
    ChangeUnlogged,
    /// Arrays: let others write where chunks were while they are still being read there.
    ForgetReaders,
    /// Arrays: work out what a late member has while the stripe is being changed.
    AroundUnlocked,
}

impl Mutation {
    /// Every way.
    pub const ALL: [Mutation; 49] = [
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
        Mutation::MoveUnconditionally,
        Mutation::SkipChecksums,
        Mutation::TrustTail,
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
        Mutation::SettleEarly,
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
        Mutation::ChangeUnflushed,
        Mutation::ChangeUnlogged,
        Mutation::ForgetReaders,
        Mutation::AroundUnlocked,
        Mutation::GiveUpNeeded,
        Mutation::ApplyUnlanded,
        Mutation::ForgetVoid,
    ];
}

#[cfg(feature = "mutations")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Breaks this thread's engines in one way, or in none.
#[cfg(feature = "mutations")]
pub fn choose(way: Option<Mutation>) {
    CHOSEN.set(way);
}

/// Whether this thread's engines are to be broken in this way.
#[cfg(feature = "mutations")]
pub fn on(way: Mutation) -> bool {
    CHOSEN.get() == Some(way)
}

/// Whether this thread's engines are to be broken in this way: never.
#[cfg(not(feature = "mutations"))]
#[inline(always)]
pub fn on(_way: Mutation) -> bool {
    false
}
