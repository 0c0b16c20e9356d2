//! The steps of recovery, in their order.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::marks::Mark;
use crate::recovery::{JournalEnds, Recovery};
use crate::store::chunk_allocator::ChunkAllocator;
use crate::store::journal::Journal;
use crate::store::tables::StripeState;
use crate::store::{Store, StoreParts};
use sinew_core::ids::StripeId;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_format::model::stripe_form::StripeClass;
use sinew_members::members::Members;
use sinew_members::open_error::RecoverError;
use sinew_members::open_mode::OpenMode;
use sinew_members::pool_shard::OpenShard;
use sinew_members::recovery_report::RecoveryReport;

/// A recovered shard, before its tasks run.
pub(crate) struct Recovered<I> {
    pub(crate) store: Rc<Store<I>>,
    pub(crate) report: RecoveryReport,
    /// Stripes with data that was not known durable.
    pub(crate) touched: BTreeSet<StripeId>,
    /// Chunks that are to be marked as stale.
    pub(crate) unmended: BTreeSet<(StripeId, u8)>,
}

/// Recovers shard `index` of a mapped pool on the present thread.
///
/// # Errors
/// When the content of the active members is not enough, or impossible.
pub(crate) async fn recover<I: Io>(open: OpenShard<'_, I>) -> Result<Recovered<I>, RecoverError> {
    let OpenShard { io, index, config, devices, control, mode, table_cache } = open;
    let members = Members::new(io.clone(), index, control, &config.members, devices, mode);
    // What is known of a pool is found from all of its tables, if some are missing. What contradicts that is left out of them in
    // memory, and is still on the members.
    let bound = table_cache.filter(|_| mode != OpenMode::LastResort);
    let cache_max = bound.unwrap_or(u64::MAX);
    let mut recovery = Recovery::new(io, index, config, members, mode, cache_max, BTreeSet::new());
    let ends = loop {
        recovery.load_pages().await?;
        let ends = recovery.replay().await?;
        let lost_before = recovery.lost.len();
        recovery.read_unflushed_slots().await?;
        recovery.verify_presumed().await;
        if recovery.lost.len() == lost_before {
            recovery.repair_verified().await?;
            recovery.resync_parity().await?;
        }
        if recovery.lost.len() == lost_before {
            break ends;
        }
        recovery.io.mark(Mark::RecoverAgain);
        let Recovery { io, config, members, lost, .. } = recovery;
        recovery = Recovery::new(io, index, config, members, mode, cache_max, lost);
    };
    recovery.rewrite_unflushed(ends.tail).await?;
    recovery.flush().await?;
    if mode.is_read_only() {
        recovery.apply_missed(ends);
    }
    let mut report = recovery.report;
    let (touched, unmended) = (std::mem::take(&mut recovery.touched), std::mem::take(&mut recovery.unmended));
    let moving = recovery.config.moving_volumes();
    let store = recovery.finish(ends)?;
    store.set_table_cache(if mutation::on(Mutation::EvictGuesses) { table_cache } else { bound });
    for volume in moving.into_iter().filter(|_| !mutation::on(Mutation::ForgetMove)) {
        store.resume_move(volume).await;
    }
    report.blocks_unknown = store.tables().unknown_blocks();
    Ok(Recovered { store, report, touched, unmended })
}

impl<I: Io> Recovery<I> {
    /// Derives free space and counts from the tables and makes the store.
    fn finish(mut self, ends: JournalEnds) -> Result<Rc<Store<I>>, RecoverError> {
        let config = Rc::clone(&self.config);
        let seed = u64::from_le_bytes(config.pool[..8].try_into().expect("eight bytes")) ^ self.index as u64;
        let (members, states_reach) = (config.members.len(), config.states_reach);
        let mut allocator = ChunkAllocator::new(config.mapped(), members, states_reach, seed);
        for member in &config.members {
            allocator.push_member(member.layout, member.state, member.weight);
        }
        for stripe in (0..self.tables.stripe_count()).map(StripeId) {
            if self.tables.stripe(stripe).state == StripeState::Free {
                self.tables.release_slots(stripe);
            }
            for &home in self.tables.homes(stripe).iter().flatten() {
                // Tables of different age may disagree; checksums tell whose content a chunk has.
                if !allocator.claim(home) && self.mode != OpenMode::LastResort {
                    let (chunk, member) = (home.chunk, home.member.0);
                    return Err(
                        self.damaged(format!("chunk {chunk} of member {member} belongs to two stripes"))
                    );
                }
            }
        }
        for (_, copies) in self.tables.pages.written() {
            copies.iter().for_each(|&copy| allocator.claim_page(copy));
        }
        for (&member, &reach) in &self.reaches {
            allocator.set_reach(member, reach);
        }
        let complete = match self.mode {
            OpenMode::LastResort => {
                self.tables.complete_as_far_as_known();
                Ok(())
            }
            _ => self.tables.complete(),
        };
        complete.map_err(|error| self.damaged(error.to_string()))?;
        let journal = Journal::new(config.epoch, ends.last, ends.tail, self.flushed);
        let pinned = config.pinned_volumes();
        let store = Store::new(StoreParts {
            io: self.io,
            index: self.index,
            pool: config.pool,
            members: self.members,
            tables: self.tables,
            allocator,
            journal,
        });
        for volume in pinned.into_iter().filter(|_| !mutation::on(Mutation::ForgetPinned)) {
            store.set_class(volume, StripeClass::Pinned);
        }
        Ok(store)
    }
}
