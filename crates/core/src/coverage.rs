//! The paths of the engine that only faults, crashes and want lead to, by name.
//!
//! Each place that takes one says so with [`crate::io::Io::reach`]. A simulator counts, so that a batch of its runs can
//! tell which path none of them took; any other world does nothing, and the calls compile to nothing. Paths are listed
//! here and nowhere else: one without a place that takes it is found as never reached.
//!
//! Not listed are refusals of what no engine ever wrote (damaged metadata with a right checksum): nothing goes on after
//! them, and the tests of the formats take them.

macro_rules! paths {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A path of the engine that something unusual leads to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark {
            $($(#[$doc])* $name,)*
        }

        impl Mark {
            /// Every path, in the order of its number.
            pub const ALL: &[Mark] = &[$(Mark::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Mark::$name => stringify!($name),)*
                }
            }
        }
    };
}

paths! {
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

    /// A member's device was told what is free.
    Trimmed,
    /// A member's device did not take it.
    TrimFailed,
    /// Slots that nobody wrote were filled before parity was computed over them.
    ConvertFilled,

    /// There is no room to compact into.
    CompactNoRoom,
    /// Compaction would gain nothing.
    CompactNoGain,
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
    /// A member that is to be emptied still has something that somebody reads or writes.
    EmptyingAwaited,
    /// Chunks were moved to members with less than their share.
    Balanced,
    /// Members stay uneven, because the stripes of what could move are on all members that could take it.
    BalanceBlocked,
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
    /// Where parity was wrong, a block that nobody owns was made zeros: what was discarded there may read as something else
    /// each time.
    ScrubFilled,
    /// A scrub gave up a copy of a page.
    ScrubPageBad,

    /// Part of a region had to be read piece by piece at recovery.
    RecoverPiecewise,
    /// A piece could not be read.
    RecoverPieceLost,
    /// A member has an older version of a page.
    RecoverPageOlder,
    /// A record without a good copy of its data was dropped.
    RecoverDropped,
    /// A stripe's end was dropped, since dropping another record had brought a block back to it.
    RecoverFreeDropped,
    /// A record to be verified is about a stripe that has ended.
    RecoverVoid,
    /// The data of a record was had from the rest of its stripe.
    RecoverReconstructed,
    /// A copy of a record's data was mended.
    RecoverMended,
    /// Parity was written again.
    RecoverResynced,
    /// A block that parity is computed from had to be worked out.
    RecoverGuessed,
    /// A block of such a stripe that nobody owns was made zeros: what was discarded there may read as something else each time.
    RecoverFilled,
    /// Recovery began again, because what had proved good was bad when parity was to be made of it.
    RecoverAgain,
    /// A journal block was written again.
    RecoverRewritten,
    /// Chunks that a missing member may have missed were marked.
    RecoverMarked,
    /// A member failed during recovery, which has to begin again.
    RecoverMemberLost,

    /// A member failed while the configuration was stored.
    ConfigMemberLost,
    /// No member is left to store the configuration on: the pool has failed.
    PoolFailed,
    /// A member was not taken out, because the pool cannot do without it.
    MemberNeeded,
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
    /// A device that has been replaced was found when the pool was opened.
    OpenedWithReplaced,
    /// A pool was opened with a member that an opening was stored on which did not come about, while others went on.
    OpenedBesideCutOff,
    /// A deletion goes on that the pool's end had cut off.
    DeleteResumed,
    /// A spare took the place of a member of an array.
    SpareTaken,

    /// An array: regions that a lost member may have missed something in were marked.
    ArrayMemberMissed,
    /// An array: a replaced member was marked as stale everywhere.
    ArrayMemberAllStale,
    /// An array: more members are out than it survives.
    ArrayFailed,
    /// An array: the log's ring is full.
    ArrayLogFull,
    /// An array: a member failed while a group was written; another takes its place.
    ArrayLogMemberLost,
    /// An array: what waited for the log was refused, because nothing can be brought to its place.
    ArrayLogRefused,
    /// No member took a group of an array's log.
    ArrayLogUnwritten,
    /// An array: a partial write found its block changed when it was to be logged, and starts again.
    ArrayMergeMoved,
    /// An array: a round of draining came to nothing, because members came or went meanwhile.
    ArrayDrainVoid,
    /// An array: the log cannot be drained.
    ArrayDrainStuck,
    /// An array: a region's marks do not count, because members came or went meanwhile.
    ArrayMarkVoid,
    /// An array: a change of a stripe was planned again, because members came or went meanwhile.
    ArrayUpdateVoid,
    /// An array: old content for new parity could not be read.
    ArrayOldUnreadable,
    /// An array: lost data was recovered so that new parity can be computed.
    ArrayOldRecovered,
    /// An array: a stripe was changed whose parity has no member.
    ArrayWithoutParity,
    /// An array: a member failed while a stripe was changed.
    ArrayPutMemberLost,
    /// An array: a member failed to flush.
    ArrayFlushMemberLost,
    /// An array: a member came or went during a flush, which then does not count.
    ArrayFlushVoid,
    /// An array: a flush waited for one under way.
    ArrayFlushShared,
    /// An array: regions that were not written for a while were marked as clean.
    ArraySwept,
    /// An array: regions that were not written for a while were flushed, so that they are clean.
    ArraySweepFlushed,
    /// A read of an array was worked out of the rest of its stripe, because its member is in a spike.
    ArrayReadAround,
    /// A read of an array was late, and asked for elsewhere as well.
    ArrayReadHedged,
    /// The other answer came first; the late one is waited for without anybody needing it.
    ArrayReadHedgeWon,
    /// The late answer came first after all.
    ArrayReadHedgeLost,
    /// A late read of an array was waited for, since too much has been done twice lately.
    ArrayAroundTooDear,
    /// An array: a read failed such that its member counts as failed.
    ArrayReadMemberLost,
    /// An array: a block was had from another copy, or from the rest of its stripe.
    ArrayReconstructed,
    /// An array: a block could not be had.
    ArrayReadLost,
    /// An array: what could not be read, or differed, was written again.
    ArrayMended,
    /// An array: that failed.
    ArrayMendFailed,
    /// An array: a region was rebuilt on a member.
    ArrayRebuilt,
    /// An array: the content of a chunk to be rebuilt could not be had.
    ArrayRebuildUnreadable,
    /// An array: a member failed while a chunk was rebuilt to it.
    ArrayRebuildMemberLost,
    /// An array: a rebuilt region does not count, because its member was lost before it was durable.
    ArrayRebuildVoid,
    /// An array: rebuilding came to nothing and waits before it tries again.
    ArrayRebuildRetried,
    /// An array: a region that was not zeros at first was resynced.
    ArrayEvened,
    /// An array: copies or parity of a stripe differed.
    ArrayDiffered,
    /// An array: a stripe was left alone by a resync or a scrub, because its data cannot be read.
    ArrayCompareVoid,
    /// An array: the parity of a stripe was compared though some of its data cannot be read.
    ArrayComparedWithout,
    /// An array: a scrub goes on where it was when the array was closed.
    ArrayScrubResumed,
    /// An array: a scrub was stopped, or begun again.
    ArrayScrubStopped,
    /// An array: a scrub met what cannot be read.
    ArrayScrubUnreadable,
    /// An array: part of a ring could not be read at recovery.
    ArrayRecoverRingLost,
    /// An array: the newest group was given up at recovery, because one that it needs is not there.
    ArrayRecoverGroupVoid,
    /// An array: a group was on too few members, and written to more.
    ArrayRecoverCopied,
    /// An array: an after-image was put in its place.
    ArrayRecoverImage,
    /// An array: parity of an after-image was not in the ring of its member, and made from the rest.
    ArrayRecoverImageMade,
    /// An array: an after-image was given up at recovery, because it was not wholly appended.
    ArrayRecoverImageVoid,
    /// An array: what the log had was brought to its place at recovery.
    ArrayRecoverDrained,
    /// An array: regions that were being written to were resynced.
    ArrayRecoverResynced,
    /// An array: a member failed during recovery, which has to begin again.
    ArrayRecoverMemberLost,
    /// A growth of an array began.
    GrowthBegun,
    /// A growth of an array was refused because a new device could not be written.
    GrowthRefused,
    /// A growth of an array came to its end.
    GrowthEnded,
    /// A window of a growth waited for the places that it goes to.
    ArrayMoveBlocked,
    /// A window could not be moved and was tried again.
    ArrayMoveRetried,
    /// A member came or went while a window was moved, so it was moved again.
    ArrayMoveVoid,
    /// How far a growth is was recorded.
    ArrayMoveRecorded,
    /// A chunk was about to be written that had moved, so that had to be recorded.
    ArrayMoveSettled,
    /// Chunks that move could not be read together from one member.
    ArrayMoveUnreadable,
    /// A member failed when chunks were moved to it.
    ArrayMoveMemberLost,
    /// A growth went on where the last opening left it.
    ArrayMoveResumed,
    /// A request waited for rows that a growth was changing.
    ArrayGateWaited,
    /// What the journal had of rows about to be changed was brought to its place first.
    ArrayGateDrained,
    /// A growth waited for room in the log.
    ArrayMoveRoom,
    /// The parity of a row that a growth changes could not be read, and was computed from all data.
    ArrayMoveWithoutParity,
    /// Rows that a growth has taken apart were made zeros.
    ArrayRowsCleared,
    /// What a growth was changing in place was put there at recovery.
    ArrayRecoverChanged,
    /// The data of a client's write did not land in time, or not everywhere, so what was recorded of it beside was taken back.
    RecordVoided,
    /// The same before anything was recorded.
    RecordWithdrawn,
    /// Recovery left out a record that was taken back.
    RecoverVoided,
    /// The same of one that opened a stripe.
    RecoverStripeVoided,
    /// A client's large write was late, so that its records went to the journal once more.
    StripeLate,
    /// What was released durably is still read, so it waits for the readers to leave.
    ReleaseHeldByReaders,
    /// A member that answered nothing for long was given up.
    MemberGivenUp,
    /// The same while the pool was being opened.
    OpeningGivenUp,
    /// A member that answered nothing for long was waited for, since the pool cannot do without it.
    SilentMemberNeeded,
    /// A device that answered nothing was given up before it counted as a member.
    CandidateGivenUp,
}
