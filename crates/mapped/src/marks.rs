//! The coverage marks of a mapped pool: code that only faults, crashes and shortages reach.

sinew_core::coverage_marks! {
    /// A copy did not match its checksum; another is tried.
    ReadChecksumBad,
    /// A copy could not be read; another is tried.
    ReadFailed,
    /// A read failed such that its member counts as failed.
    ReadMemberLost,
    /// The parts of a read have moved, or some are bad: each block is read for itself.
    ReadBlockByBlock,
    /// No copy was good; the rest of the stripe gave the data.
    ReadReconstructed,
    /// As before, and one column that no checksum covers had to be left out.
    ReadReconstructedWithout,
    /// Neither a copy nor the rest of the stripe gave the data.
    ReadLost,
    /// A bad copy was written again.
    ReadRepaired,
    /// A bad copy was not written again, or not found mended, because the chunk has another home by now, or its member is
    /// out.
    ReadRepairVoid,
    /// A bad copy, or bad parity, could not be written again.
    RepairFailed,
    /// The rest of a stripe gave the data before all of it was read.
    RebuiltFromEnough,
    /// Part of the rest of a stripe was in hand already, for the request itself or another.
    ReadInHand,
    /// A chunk could not be read whole; each block was read for itself.
    ChunkBlockByBlock,
    /// A read was worked out of the rest of its stripe, because its member is in a spike.
    ReadAround,
    /// A read was late, and asked for elsewhere as well.
    ReadHedged,
    /// What was asked for elsewhere came first.
    ReadHedgeWon,
    /// What was asked for elsewhere came second.
    ReadHedgeLost,
    /// Another stripe was opened for small writes, because members of the open ones are in spikes.
    AppendAround,
    /// Another stripe was opened for small writes, because members of the open ones have requests in flight.
    AppendToIdle,
    /// Small writes that waited became a stripe with parity.
    AppendCoalesced,
    /// A member failed under such a stripe.
    CoalescedMemberLost,
    /// Small writes went to a member in a spike, since no stripe without one could be had.
    AppendToSpiking,
    /// Small writes were late and written again elsewhere.
    RunHedged,
    /// The journal went to other members than it was their turn, because those are in spikes.
    JournalAround,
    /// A member was late with the journal; another got it as well.
    JournalHedged,
    /// The journal waited for a late member, since it cannot do with the others.
    JournalHeldUp,
    /// A late member was waited for, since too much has been asked for elsewhere already.
    AroundTooDear,
    /// A member was lost while a stripe was written; it is written again elsewhere.
    StripeMemberLost,
    /// A stripe is written as two, since too few members are left for its width.
    StripeHalved,
    /// A write was refused because the pool is full.
    WriteNoSpace,
    /// A member was lost while a run of small writes was written; it is written again elsewhere.
    RunMemberLost,
    /// The open stripe was given up because one of its members was lost.
    OpenStripeAbandoned,
    /// A member of a stripe was lost while it was being opened.
    OpenStripeVoid,
    /// Small writes failed because no stripe could be opened.
    AppendRefused,
    /// Conditional writes were sent away, because they would wait for room together with clients.
    ConditionalRefused,
    /// A partial write found its block elsewhere when it was committed, and starts again.
    MergeMoved,
    /// A partial write waits for room without holding anything up.
    MergeStarved,
    /// A stripe's plan waits for room.
    RoomAwaited,
    /// Room is made because members lack physical space.
    RoomForSpace,
    /// Blocks of sparse stripes that stay mirrored moved together.
    CompactedPinned,
    /// Blocks of a volume could not be moved to stripes of its class, and are tried again.
    MoveFailed,
    /// All blocks of a volume are in stripes of its new class.
    VolumeMoved,
    /// Nothing is appended to the stripes of a class of volumes while another class needs room: they are closed.
    IdleStripesClosed,
    /// Nothing is left that would make room.
    RoomExhausted,
    /// Released chunks wait for readers to leave.
    RoomHeldByReaders,
    /// The journal's ring is full.
    JournalFull,
    /// The journal's reserve was used for a record that room depends on.
    JournalReserveUsed,
    /// A member failed while the journal was written; another takes its place.
    JournalMemberLost,
    /// No member is left to write the journal to.
    JournalRefused,
    /// A flush waited for one under way.
    FlushShared,
    /// A member failed to flush.
    FlushMemberLost,
    /// A member was lost or came back during a flush, which then does not count.
    FlushVoid,
    /// No member is left to flush.
    FlushRefused,
    /// The shard flushed by itself, to bound what recovery must verify.
    FlushUnasked,
    /// Chunks on a lost member were marked as stale.
    MembersMissed,
    /// A stripe was opened with fewer chunks than it should have, though enough members are there now.
    OpenedShort,
    /// Chunks of a stripe just opened were marked as stale.
    OpenedStale,
    /// All chunks of a replaced member were marked as stale.
    MemberAllStale,
    /// A round of cleaning could not flush the journal.
    CleanUnflushed,
    /// A page could not be written to a member.
    PageMemberLost,
    /// A page found no member that took it.
    PageUnwritten,
    /// A member stated that its pages reach further.
    PageReachStated,
    /// A member failed to state that, or had no space for it.
    PageReachRefused,
    /// Members changed during a round of cleaning, which then does not count.
    CleanVoid,
    /// Cleaning came to nothing and waits before it tries again.
    CleanRetried,
    /// Background work waited for a member in a spike.
    BackgroundAround,
    /// A stripe used lately was passed over by conversion.
    ConvertPassedOver,
    /// Conversion paused, since clients ask for much.
    ConvertPaused,
    /// The blocks of mirrored stripes with few of them moved together.
    SparseDrained,
    /// Members changed during a conversion, which then does not count.
    ConvertVoid,
    /// A chunk of a stripe to be converted could not be had.
    ConvertUnreadable,
    /// A chunk of a stripe to be converted was damaged, and mended first.
    ConvertMended,
    /// A member failed while parity was written.
    ConvertMemberLost,
    /// Blocks read in sequence were brought together.
    Gathered,
    /// Blocks read in sequence stay scattered, since room is short.
    GatherNoRoom,
    /// Blocks to be brought together could not be read.
    GatherUnreadable,
    /// What was brought together found no place.
    GatherFailed,
    /// Free chunks were discarded on a member.
    Trimmed,
    /// A member's device did not take it.
    TrimFailed,
    /// Slots that were never written were filled before parity was computed over them.
    ConvertFilled,
    /// There is no room to compact into.
    CompactNoRoom,
    /// Compaction would gain nothing.
    CompactNoGain,
    /// There is no room any more for stripes as wide as those counted on when the stripes to be compacted were chosen.
    CompactNarrower,
    /// A stripe to be compacted could not be read.
    CompactUnreadable,
    /// The stripes to be compacted were dead before they were read.
    CompactDead,
    /// What was compacted found no place.
    CompactFailed,
    /// A chunk was rebuilt where it was.
    RebuiltInPlace,
    /// A chunk was rebuilt to a new home.
    RebuiltElsewhere,
    /// A parity chunk that is only reserved got a home.
    RebuiltReserved,
    /// The open stripe was closed because a chunk of it is to be rebuilt.
    RebuiltOpen,
    /// Chunks were moved off a member fuller than others, since nothing else made room.
    Levelled,
    /// A mirror was moved off the one member that can take the chunk it protects.
    MirrorMovedAway,
    /// A stripe on a member to be emptied is still in use by requests.
    EmptyingAwaited,
    /// Chunks were moved to members with less than their share.
    Balanced,
    /// Members stay uneven, because the stripes of what could move are on all members that could take it.
    BalanceBlocked,
    /// Chunks to be moved found no room; released chunks were freed for them.
    BalanceAwaitsRoom,
    /// Stripes with chunks to be moved were all in use; they are tried again.
    BalanceRetried,
    /// No member had room for a chunk to be rebuilt.
    RebuildStarved,
    /// The content of a chunk to be rebuilt could not be had.
    RebuildUnreadable,
    /// A member failed while a chunk was rebuilt to it.
    RebuildMemberLost,
    /// A chunk rebuilt or moved does not count, because a member was lost before it was durable.
    RebuildVoid,
    /// A chunk to be rebuilt need not be any more: it made way for another, or its member was told to stay.
    RebuildNeedless,
    /// A pass of rebuilding came to nothing and waits before it tries again.
    RebuildRetried,
    /// A scrub goes on where it was when the pool was closed.
    ScrubResumed,
    /// A scrub was stopped, or begun again.
    ScrubStopped,
    /// A stripe in use is looked at again later.
    ScrubBusy,
    /// A stripe was closed for a scrub although there was room in it.
    ScrubbedOpen,
    /// A scrub mended a column.
    ScrubMended,
    /// A scrub could not mend a column.
    ScrubUnmended,
    /// A scrub mended parity.
    ScrubParityMended,
    /// Parity was wrong, and a dead slot was filled with zeros, since discarded blocks may read differently each time.
    ScrubFilled,
    /// A scrub gave up a copy of a page.
    ScrubPageBad,
    /// Absent slots were read.
    SlotsRead,
    /// An absent map page was read.
    MapRead,
    /// An absent page was being read for another user.
    PageAwaited,
    /// A page was written elsewhere while it was read.
    PageReadAgain,
    /// No copy of an absent page could be read.
    PageLost,
    /// A copy of an absent page was bad, another good.
    PageCopyBad,
    /// Slots were taken out of memory.
    SlotsEvicted,
    /// A map page was taken out of memory.
    MapEvicted,
    /// A task waited for changed pages to be written before it had another read into memory.
    CacheAwaited,
    /// Part of a region had to be read piece by piece at recovery.
    RecoverPiecewise,
    /// A piece could not be read.
    RecoverPieceLost,
    /// A member has an older version of a page.
    RecoverPageOlder,
    /// A member did not state how far its pages reach, so all of its page slots were read.
    RecoverReachUnknown,
    /// Slots that were left on the members were read, since records not known durable are about their stripes.
    RecoverSlotsRead,
    /// A map page that was left on the members was read, since a record changes it.
    RecoverMapRead,
    /// A record without a good copy of its data was dropped.
    RecoverDropped,
    /// A stripe's end was dropped, since dropping another record had brought a block back to it.
    RecoverFreeDropped,
    /// A record without a good copy was presumed sound, since its stripe gave up a chunk later.
    RecoverPresumed,
    /// A record presumed sound was not: its block was still where it says, without a good copy.
    RecoverPresumedWrongly,
    /// The data of a record was had from the rest of its stripe.
    RecoverReconstructed,
    /// A copy of a record's data was mended.
    RecoverMended,
    /// Parity was written again.
    RecoverResynced,
    /// A block that parity is computed from had to be worked out.
    RecoverGuessed,
    /// A dead slot of such a stripe was filled with zeros, since discarded blocks may read differently each time.
    RecoverFilled,
    /// Recovery began again, because what had proved good was bad when parity was to be made of it.
    RecoverAgain,
    /// A journal block was written again.
    RecoverRewritten,
    /// Chunks that a missing member may have missed were marked.
    RecoverMarked,
    /// A member failed during recovery, which has to begin again.
    RecoverMemberLost,
    /// The data of a client's write did not land in time, or not everywhere, so what was recorded of it beside was taken back.
    RecordVoided,
    /// The same before anything was recorded.
    RecordWithdrawn,
    /// A last resort went on without a journal block that no member has.
    LastResortGap,
    /// A last resort has a record about a stripe whose opening it has not.
    LastResortStripeUnknown,
    /// A last resort refused to read blocks that the tables do not know.
    ReadUnknown,
    /// Recovery left out a record that was taken back.
    RecoverVoided,
    /// The same of one that opened a stripe.
    RecoverStripeVoided,
    /// A client's large write was late, so that its records went to the journal once more.
    StripeLate,
    /// A member had no space for a small write.
    RunNoSpace,
    /// A member had no space for a chunk of a stripe.
    StripeNoSpace,
    /// A client's write was refused, because the journal waits for space.
    WriteAwaitsSpace,
    /// A member had no space for the parity of a stripe to be converted.
    ConvertNoSpace,
    /// A member had no space for a chunk to be rebuilt or moved.
    RebuildNoSpace,
    /// A member had no space for a table page.
    PageNoSpace,
    /// A pool was closed with pages left to the journal, because members are full.
    CloseNoSpace,
    /// A member had no space for what recovery was to mend there.
    RecoverNoSpace,
    /// A pool was opened although its recovery waits for space.
    OpenedFull,
    /// What was released durably is still read, so it waits for the readers to leave.
    ReleaseHeldByReaders,
}
