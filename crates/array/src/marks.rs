//! The coverage marks of an array: code that only faults, crashes and shortages reach.

sinew_core::coverage_marks! {
    /// An array: a rebuild waited for physical space.
    ArrayRebuildAwaitsSpace,
    /// An array: stripes did not become mirrored for lack of physical space.
    ArrayPromotionAwaitsSpace,
    /// An array: regions that a lost member may have missed something in were marked.
    ArrayMemberMissed,
    /// An array: a replaced member was marked as stale everywhere.
    ArrayMemberAllStale,
    /// An array: more members are out than it survives.
    ArrayFailed,
    /// An array: the log's ring is full.
    ArrayLogFull,
    /// An array: a large group of the log was striped over the members of a stripe.
    ArrayLogStriped,
    /// An array: a member failed while a group was written; another takes its place.
    ArrayLogMemberLost,
    /// An array: a group of the log went to other members than it would have, because those are in a spike.
    ArrayLogAround,
    /// An array: a group of the log was late and went to further members.
    ArrayLogHedged,
    /// An array: too few members respond to hedge a group of the log, or the hedge budget did not allow it.
    ArrayLogTooDear,
    /// An array: a group of the log waited for members that still write an earlier one.
    ArrayLogHeldUp,
    /// An array: work that has states written waited for room in the log.
    ArrayStateAwaitsRoom,
    /// An array: what waited for the log was refused, because nothing can be brought to its place.
    ArrayLogRefused,
    /// An array: data that was to be in the next group was refused, because a group waits for space.
    ArrayLogRefusedFull,
    /// No member took a group of an array's log.
    ArrayLogUnwritten,
    /// An array: a partial write found its block changed when it was to be logged, and starts again.
    ArrayMergeMoved,
    /// An array: a round of draining came to nothing, because members came or went meanwhile.
    ArrayDrainVoid,
    /// An array: a round of draining read while another one wrote.
    ArrayDrainOverlapped,
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
    /// An array: a member had no space for a unit, whose content is kept until it has.
    ArrayUnplaced,
    /// An array: such content was brought to its place.
    ArrayPlaced,
    /// An array without a journal: a change was taken back where a member had no space for it.
    ArrayRolledBack,
    /// An array: a write was refused only once its members had space for the old content again.
    ArrayRollBackAwaitsSpace,
    /// An array: parity of the log waited for space on its member.
    ArrayLogAwaitsSpace,
    /// An array: a client's write was refused, because the log waits for space.
    ArrayWriteNoSpace,
    /// An array: a member to be rebuilt had no space.
    ArrayRebuildNoSpace,
    /// An array: a growth waited for space on a member.
    ArrayMoveNoSpace,
    /// An array: the content of an after-image had no space in its place at recovery.
    ArrayRecoverUnplaced,
    /// An array: recovery waited for space on a member.
    ArrayRecoverAwaitsSpace,
    /// An array was opened although its recovery waits for space.
    ArrayOpenedFull,
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
    /// The alternate answered first; the late request is only awaited to release its buffer.
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
    /// An array: background work waited for a member in a spike.
    ArrayBackgroundAround,
    /// An array: a scrub met what cannot be read.
    ArrayScrubUnreadable,
    /// An array: a scrub found a unit that takes physical space and that the form of its stripe does not use.
    ArrayScrubUntidy,
    /// An array: part of a ring was read block by block at recovery.
    ArrayRecoverRingPiecewise,
    /// An array: a block of a ring could not be read at recovery.
    ArrayRecoverRingLost,
    /// An array: the newest group was given up at recovery, because one that it needs is not there.
    ArrayRecoverGroupVoid,
    /// An array: a group was on too few members, and written to more.
    ArrayRecoverCopied,
    /// An array: a striped group was put together from its units.
    ArrayRecoverStriped,
    /// An array: too few units of a striped group are there.
    ArrayRecoverStripedVoid,
    /// An array: a unit of a striped group was not in the ring of its member, and made from the others.
    ArrayRecoverUnitMade,
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
    /// Without a journal: a member had no space for data of rows that a growth changes, which stayed as they were.
    ArrayMoveRolledBack,
    /// Without a journal: the tail of the log passed the images of rows that a growth had changed, before one was written.
    ArrayImagesVoided,
    /// Rows that a growth has taken apart were made zeros.
    ArrayRowsCleared,
    /// What a growth was changing in place was put there at recovery.
    ArrayRecoverChanged,
    /// An elastic array: form pages were written.
    ArrayFormPagesWritten,
    /// An elastic array: a member failed when a form page was written.
    ArrayFormPageMemberLost,
    /// An elastic array: a member had no space for a form page.
    ArrayFormPageNoSpace,
    /// An elastic array: a member had no space for a unit of a new form.
    ArrayConvertNoSpace,
    /// An elastic array: stripes got another form.
    ArrayFormChanged,
    /// An elastic array: the record of a change of forms could not be made durable.
    ArrayFormUnsure,
    /// An elastic array: stripes became mirrored.
    ArrayPromoted,
    /// An elastic array: stripes got parity instead of copies.
    ArrayDemoted,
    /// An elastic array: stripes became empty.
    ArrayStripesEmptied,
    /// An elastic array: empty stripes were written for the first time.
    ArrayFirstWritten,
    /// An elastic array: a first write came to nothing, because members came or went meanwhile.
    ArrayFirstWriteVoid,
    /// An elastic array: a conversion came to nothing, because members came or went meanwhile, or no stripe could be converted.
    ArrayConvertVoid,
    /// An elastic array: a conversion came to nothing and is tried again.
    ArrayConvertRetried,
    /// An elastic array: data to be converted was not readable in its place and was reconstructed.
    ArrayConvertReconstructed,
    /// An elastic array: a member failed when units of a new form were written.
    ArrayConvertMemberLost,
    /// An elastic array: the governor had used stripes become mirrored.
    ArrayGovernorPromoted,
    /// An elastic array: the governor had stripes get parity for lack of space.
    ArrayGovernorDemoted,
    /// An elastic array: the governor exchanged mirrored stripes for others.
    ArrayGovernorExchanged,
    /// An elastic array: the governor had stripes become mirrored that take less space so.
    ArrayGovernorAutonomous,
    /// An elastic array: a stripe kept its copies, because its parity would take as much space.
    ArrayDemotionWouldGrow,
    /// An elastic array: mirrored rows got parity before a growth changed them.
    ArrayMoveDemoted,
    /// An elastic array: empty rows got parity before a growth added columns to them.
    ArrayMoveFilled,
    /// An elastic array: an empty row that gets nothing became wider.
    ArrayMoveKeptEmpty,
    /// An elastic array: rows that a growth has taken apart became empty.
    ArrayMoveEmptied,
    /// A growth waited until a member was rebuilt that a stripe was about to get a unit on.
    ArrayMoveAwaitsRebuild,
    /// An elastic array: rows about to be changed by a growth could not have parity yet.
    ArrayMoveWithoutForm,
    /// An elastic array: units that no form uses were discarded.
    ArrayTidied,
    /// An elastic array: members came or went while units were discarded, so all of the untidy regions are looked at again.
    ArrayTidyVoid,
    /// An elastic array: units that no form uses could not be discarded yet.
    ArrayTidyRetried,
    /// An elastic array: recovery wrote a form page to a member that lacked it.
    ArrayRecoverFormPageCopied,
}
