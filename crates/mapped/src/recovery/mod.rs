//! Recovery: from what is on the members to a running shard, reading a bounded amount.
//!
//! It reads the journal rings of the active members and their page areas as far as pages reach, takes the newest intact
//! copy of every page, replays the journal from its tail, and verifies the data of the records that were not known
//! durable: after power loss such a record may have survived while its data did not. A record without a good copy is
//! dropped; since it was never flushed, the previous state of its blocks is a legal one, and that state's space has not
//! been reused.
//!
//! A flush may have covered more than the journal tells: it counts at once, but only the next block carries its mark. The
//! chunks that it freed may hold anything by then. So a record without a good copy whose stripe gave up a chunk by a
//! later record is presumed sound at first. If its block is still there at the end of replay, no such flush happened, and
//! its data is verified where it is then.

mod aborted_records;
pub(crate) mod complete;
mod pages;
pub(crate) mod recover;
mod released_chunks;
mod replay;
mod verify;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::marks::Mark;
use crate::store::tables::Tables;
use sinew_core::buf::Buf;
use sinew_core::ids::{ChunkAddr, Lsn, MemberId, SlotNo, StripeId};
use sinew_core::io::{Io, IoError};
use sinew_format::journal_block::{JournalHeader, Record};
use sinew_format::model::config::Config;
use sinew_format::record_check::RecordCheck;
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::recovery_report::RecoveryReport;
use sinew_members::ring::reader::RegionMarks;

const READ_MARKS: RegionMarks =
    RegionMarks { unit_by_unit: Mark::RecoverPiecewise.name(), unit_lost: Mark::RecoverPieceLost.name() };

/// Waits for space of one recovery, a second in all.
const SPACE_ATTEMPTS: u32 = 50;

struct Recovery<I> {
    io: I,
    index: usize,
    config: Rc<Config>,
    bounds: RecordCheck,
    members: Members<I>,
    mode: OpenMode,
    /// Bytes of table pages that are taken into memory before others stay on the members.
    cache_max: u64,
    tables: Tables,
    /// The reach that members state of their page areas.
    reaches: BTreeMap<MemberId, u32>,
    report: RecoveryReport,
    /// Parity stripes whose writing was not known durable.
    resync: BTreeSet<StripeId>,
    /// Slots of records not known durable whose data proved good.
    verified: BTreeMap<SlotNo, SlotRecord>,
    /// Slots of records whose data is nowhere, but whose stripe gave up a chunk by a later record.
    presumed: BTreeMap<SlotNo, SlotRecord>,
    /// What those hold of which some copy is bad: the good one may go bad before the others are mended.
    rescued: BTreeMap<SlotNo, Buf>,
    /// Records that count as unsound in the next attempt, by a slot of each: those presumed sound whose slot is in use at the
    /// end of replay and bad, and those verified whose slot went bad before parity was made of it.
    lost: BTreeSet<(Lsn, SlotNo)>,
    /// Stripes with data that was not known durable.
    touched: BTreeSet<StripeId>,
    /// Chunks that a member had no space to mend: they are not what they should be.
    unmended: BTreeSet<(StripeId, u8)>,
    /// Waits for space that are left.
    space_attempts: Cell<u32>,
    /// The last journal block known durable.
    flushed: Lsn,
    /// The blocks after it, with the records that proved sound.
    unflushed: Vec<(JournalHeader, Vec<Record>)>,
}

/// The last record about a slot, as far as it has been replayed.
#[derive(Clone, Copy)]
struct SlotRecord {
    lsn: Lsn,
    crc: u32,
}

/// The ends of the journal after replay.
#[derive(Clone, Copy)]
struct JournalEnds {
    /// The last block.
    last: Lsn,
    /// The first block that replay needs.
    tail: Lsn,
}

impl<I: Io> Recovery<I> {
    fn new(
        io: I,
        index: usize,
        config: Rc<Config>,
        members: Members<I>,
        mode: OpenMode,
        cache_max: u64,
        lost: BTreeSet<(Lsn, SlotNo)>,
    ) -> Recovery<I> {
        Recovery {
            io,
            index,
            members,
            mode,
            cache_max,
            tables: Tables::new(config.mapped()),
            bounds: RecordCheck::new(&config),
            reaches: BTreeMap::new(),
            report: RecoveryReport::default(),
            resync: BTreeSet::new(),
            verified: BTreeMap::new(),
            presumed: BTreeMap::new(),
            rescued: BTreeMap::new(),
            lost,
            touched: BTreeSet::new(),
            unmended: BTreeSet::new(),
            space_attempts: Cell::new(SPACE_ATTEMPTS),
            flushed: 0,
            unflushed: Vec::new(),
            config,
        }
    }

    fn gap(&self, lsn: Lsn) -> RecoverError {
        RecoverError::JournalGap { shard: self.index, lsn }
    }

    fn lost(&self, member: MemberId) -> RecoverError {
        self.io.mark(Mark::RecoverMemberLost);
        RecoverError::MemberFailed { shard: self.index, member }
    }

    fn damaged(&self, what: String) -> RecoverError {
        RecoverError::Damaged { shard: self.index, what }
    }

    /// Writes what a chunk should hold; false when its member has no space, so that the chunk is stale. Until then the stripe
    /// has less redundancy, so recovery waits for space at first, for a second in all.
    async fn mend(&self, home: ChunkAddr, offset: u32, data: Buf) -> Result<bool, RecoverError> {
        loop {
            match self.members.write(home, offset, Rc::new([data.clone()])).await {
                Ok(()) => return Ok(true),
                Err(IoError::NoSpace) => self.io.mark(Mark::RecoverNoSpace),
                Err(_) => return Err(self.lost(home.member)),
            }
            let Some(left) = self.space_attempts.get().checked_sub(1) else { return Ok(false) };
            self.space_attempts.set(left);
            self.members.wait_for_space().await;
        }
    }

    async fn flush(&self) -> Result<(), RecoverError> {
        for member in self.members.take_unflushed() {
            if self.members.flush(member).await.is_err() {
                return Err(self.lost(member));
            }
        }
        Ok(())
    }
}
