//! Conversion: a mirrored stripe gets its parity and loses its mirrors; no data moves (FusionRAID, FAST'21, section 4.2).
//!
//! The stripe used least recently goes first, as nearly as a second chance tells: the one closed first, unless a client has
//! read or overwritten something of it since it was last passed over. So what is hot stays mirrored, and most of it dies
//! there. A stripe with few live blocks gets no parity either: they move to others (`compact`), which costs less.
//!
//! Parity is computed from the chunks as they are at their homes, dead slots included, and is durable before the record that
//! drops the mirrors.

use std::cell::RefCell;
use std::rc::Rc;

use crate::shard::{MappedShard, StripeLock};
use crate::store::tables::StripeState;
use crate::stripe::read::ChunkPart;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::coverage::Mark;
use sinew_core::ids::{Home, StripeId};
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::join_all;
use sinew_format::journal_block::Record;
use sinew_format::model::mapped_geometry::{CHUNK_BLOCKS, CHUNK_BYTES};

/// Stripes converted with one flush.
const STRIPES_PER_ROUND: usize = 8;

/// A bit for each stripe that clients have used since conversion last looked at it.
#[derive(Default)]
pub(crate) struct Recent(RefCell<Vec<u64>>);

impl Recent {
    pub(crate) fn note(&self, stripe: StripeId) {
        let (word, bit) = (stripe.0 as usize / 64, 1 << (stripe.0 % 64));
        let mut words = self.0.borrow_mut();
        if word >= words.len() {
            words.resize(word + 1, 0);
        }
        words[word] |= bit;
    }

    /// Whether it was used; it is not any more.
    fn take(&self, stripe: StripeId) -> bool {
        let (word, bit) = (stripe.0 as usize / 64, 1 << (stripe.0 % 64));
        let mut words = self.0.borrow_mut();
        let was = words.get(word).is_some_and(|bits| bits & bit != 0);
        if was {
            words[word] &= !bit;
        }
        was
    }
}

impl<I: Io> MappedShard<I> {
    /// Whether the policy asks for conversion now.
    pub(crate) fn wants_conversion(&self) -> bool {
        let (g, policy) = (&self.geometry, self.policy.get());
        let space = self.space.borrow();
        let part = |percent: u8| space.all_chunks() * u64::from(percent) / 100;
        let water =
            space.reserve_chunks() + part(policy.convert_below_free).max(4 * g.homes_per_stripe() as u64);
        // Not all of them are mirrored any more, but nearly.
        let mirrored = (self.convertible.borrow().len() * g.homes_per_stripe()) as u64;
        space.free_chunks() < water || mirrored > part(policy.convert_above_mirrored)
    }

    /// Converts a few stripes; false when none could be.
    pub(crate) async fn convert_some(self: &Rc<Self>) -> bool {
        if self.geometry.parity_columns() == 0 {
            return false;
        }
        let version = self.members.version();
        let chosen = self.choose_convertible();
        let written = join_all(chosen.into_iter().map(|lock| self.write_parity(lock))).await;
        let ready: Vec<StripeLock<I>> = written.into_iter().flatten().collect();
        if ready.is_empty() {
            return false;
        }
        // Not only what is applied: the parity itself must be durable, on members that were there all the time.
        let flushed = mutation::on(Mutation::ConvertWithoutFlush) || self.flush_pages().await;
        if !flushed || self.members.version() != version {
            self.io.mark(Mark::ConvertVoid);
            self.convertible.borrow_mut().extend(ready.iter().map(|lock| lock.stripe()));
            return true;
        }
        let records = ready.iter().map(|lock| Record::Converted { stripe: lock.stripe() }).collect();
        self.counters.stripes_converted.add(ready.len() as u64);
        self.journal.commit(records).await.is_ok()
    }

    fn choose_convertible(self: &Rc<Self>) -> Vec<StripeLock<I>> {
        let mut queue = self.convertible.borrow_mut();
        let mut chosen = Vec::new();
        // Twice round: who is passed over the first time has had its chance.
        for _ in 0..2 * queue.len() {
            if chosen.len() == STRIPES_PER_ROUND {
                break;
            }
            let Some(stripe) = queue.pop_front() else { break };
            let found = self.tables.borrow().stripe(stripe);
            if found.state != StripeState::Mirrored {
                continue;
            }
            if self.recent.take(stripe) {
                self.io.mark(Mark::ConvertPassedOver);
                queue.push_back(stripe);
                continue;
            }
            if !self.is_pressed() && self.is_sparse(stripe) {
                self.sparse.borrow_mut().push(stripe);
                continue;
            }
            match self.lock_stripe(stripe) {
                Some(lock) if self.is_whole(stripe) => chosen.push(lock),
                _ => queue.push_back(stripe),
            }
        }
        chosen
    }

    /// Whether every data and parity column of the stripe has a good home on an active member.
    fn is_whole(&self, stripe: StripeId) -> bool {
        let columns = usize::from(self.tables.borrow().stripe(stripe).columns);
        let parity = (0..self.geometry.parity_columns()).map(|p| self.geometry.parity_index(p));
        (0..columns).chain(parity).all(|i| self.live_home(stripe, i).is_some())
    }

    /// Writes the stripe's parity; gives the lock back when it is written.
    async fn write_parity(self: &Rc<Self>, lock: StripeLock<I>) -> Option<StripeLock<I>> {
        let stripe = lock.stripe();
        let columns = usize::from(self.tables.borrow().stripe(stripe).columns);
        self.throttle.pay(&self.io, columns as u64 * CHUNK_BYTES).await;
        self.step_back(stripe, CHUNK_BYTES).await;
        let filled = join_all((0..columns).map(|column| self.fill_unwritten(stripe, column))).await;
        let chunks = join_all((0..columns).map(|column| self.settle_chunk(stripe, column))).await;
        let chunks: Option<Vec<Vec<Buf>>> = chunks.into_iter().map(|chunk| Some(vec![chunk?])).collect();
        let Some(chunks) = chunks.filter(|_| filled.into_iter().all(|filled| filled)) else {
            self.io.mark(Mark::ConvertUnreadable);
            self.convertible.borrow_mut().push_back(stripe);
            return None;
        };
        let parity = self.compute_parity(&chunks);
        if mutation::on(Mutation::SkipParity) {
            return Some(lock);
        }
        for (p, parity) in parity.into_iter().enumerate() {
            let home = self.tables.borrow().good_home(stripe, self.geometry.parity_index(p))?;
            if let Err(error) = self.members.write(home, 0, Rc::new([parity])).await {
                self.io.mark(Mark::ConvertMemberLost);
                self.members.report_failure(home.member, error).await;
                self.convertible.borrow_mut().push_back(stripe);
                return None;
            }
        }
        Some(lock)
    }

    /// Writes zeros to the slots of a chunk that nobody ever wrote, where they may read as something else each time; false
    /// when that fails.
    async fn fill_unwritten(self: &Rc<Self>, stripe: StripeId, column: usize) -> bool {
        let Some(home) = self.live_home(stripe, column) else { return false };
        if !self.members.takes_discards(home.member) {
            return true;
        }
        let is_unwritten =
            |offset: &u32| self.tables.borrow().owner(self.geometry.slot(stripe, column, *offset)).is_none();
        let unwritten: Vec<u32> = (0..CHUNK_BLOCKS).filter(is_unwritten).collect();
        for run in unwritten.chunk_by(|a, b| a + 1 == *b) {
            self.io.mark(Mark::ConvertFilled);
            let zeros = Rc::new([Buf::zeroed(run.len() * BLOCK_BYTES)]);
            if let Err(error) = self.members.write(home, run[0], zeros).await {
                self.members.report_failure(home.member, error).await;
                return false;
            }
        }
        true
    }

    /// The chunk exactly as it is at its own home, after mending it there if it was damaged. Mirrors are no substitute:
    /// in slots that were never committed they may differ.
    pub(crate) async fn settle_chunk(self: &Rc<Self>, stripe: StripeId, column: usize) -> Option<Buf> {
        let home = self.tables.borrow().good_home(stripe, column)?;
        let part = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        match self.read_home(home, 0, CHUNK_BLOCKS).await {
            Ok(buf) if self.mismatches(part, &buf) == 0 => return Some(buf),
            Ok(buf) => self.members.note_checksum_error(home.member, self.mismatches(part, &buf)),
            Err(_) => {}
        }
        let mended = self.mend_chunk(stripe, column, column, home).await?;
        self.io.mark(Mark::ConvertMended);
        Some(mended)
    }

    /// Rewrites a whole data chunk, block by block, where a block is damaged, and gives its content as it is then; `None`
    /// when it cannot be mended, or is at this home no more.
    pub(crate) async fn mend_chunk(
        self: &Rc<Self>,
        stripe: StripeId,
        column: usize,
        index: usize,
        home: Home,
    ) -> Option<Buf> {
        for offset in 0..CHUNK_BLOCKS {
            let part = ChunkPart { stripe, column, offset, count: 1 };
            let damaged = match self.read_home(home, offset, 1).await {
                Ok(buf) => self.mismatches(part, &buf) > 0,
                Err(_) => true,
            };
            if damaged {
                self.read_part_without(part, vec![(index, home)]).await.ok()?;
            }
        }
        if self.live_home(stripe, index) != Some(home) {
            self.io.mark(Mark::ReadRepairVoid);
            return None;
        }
        let whole = ChunkPart { stripe, column, offset: 0, count: CHUNK_BLOCKS };
        self.read_home(home, 0, CHUNK_BLOCKS).await.ok().filter(|buf| self.mismatches(whole, buf) == 0)
    }
}
