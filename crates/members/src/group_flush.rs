//! Group flush: one flush of the members runs at a time, and requests that come meanwhile share the next one.
//!
//! A flush covers what was written before it began. It does not count when a member is lost meanwhile, since what the member
//! missed must be marked first.

use std::cell::Cell;
use std::future::Future;

use sinew_core::coverage::MarkName;
use sinew_core::io::Io;
use sinew_core::mutation::{self, Mutation};
use sinew_core::sync::{Signal, join_all};
use sinew_core::volume::VolumeError;

use crate::members::Members;

/// The flushes of a shard.
#[derive(Default)]
pub struct GroupFlush {
    running: Cell<bool>,
    begun: Cell<u64>,
    done: Cell<u64>,
    changed: Signal,
}

impl GroupFlush {
    /// Whether a flush is running.
    pub fn is_running(&self) -> bool {
        self.running.get()
    }

    /// Flushes begun so far.
    pub fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// The last flush that counts, by its number; the first has the number 1.
    pub fn done(&self) -> u64 {
        self.done.get()
    }

    /// The signal that a flush has ended. A shard also notifies it when something has changed for which its flushes wait.
    pub fn changed(&self) -> &Signal {
        &self.changed
    }

    /// Waits until no flush is running.
    pub async fn wait_until_idle(&self) {
        self.changed.wait(|| (!self.is_running()).then_some(())).await;
    }
}

/// Coverage marks of flushes in one kind of pool.
pub struct FlushMarks {
    /// A request shares the flush after the one that is running.
    pub shared: MarkName,
    /// A member failed to flush.
    pub member_lost: MarkName,
    /// A flush did not count.
    pub void: MarkName,
}

/// A shard whose members are flushed together.
pub trait FlushedShard<I: Io> {
    /// What one flush covers.
    type Covered;
    /// The coverage marks of this kind of pool.
    const MARKS: FlushMarks;

    /// The members that are flushed.
    fn members(&self) -> &Members<I>;
    /// The flushes of this shard.
    fn group_flush(&self) -> &GroupFlush;
    /// A flush begins as soon as this is ready.
    fn may_begin(&self) -> impl Future<Output = ()>;
    /// A flush begins: what is written by now will be durable.
    fn begin(&self) -> Self::Covered;
    /// A flush that counts has ended: this is durable.
    fn end(&self, covered: Self::Covered);
}

/// Flushes until `is_done`, by flushes that begin from now on.
///
/// # Errors
/// Those of `is_done`, and those of [`flush_members`].
pub async fn flush_until<I: Io, S: FlushedShard<I>>(
    shard: &S,
    is_done: impl Fn() -> Result<bool, VolumeError>,
) -> Result<(), VolumeError> {
    let flush = shard.group_flush();
    while !is_done()? {
        if flush.is_running() {
            shard.members().io.mark(S::MARKS.shared);
            flush.wait_until_idle().await;
        } else {
            flush_members(shard).await?;
        }
    }
    Ok(())
}

/// Flushes every member written since the last flush began; returns whether the flush counts. No other may be running.
///
/// # Errors
/// [`VolumeError::Failed`] when a member fails that the pool keeps all the same, because it cannot do without it.
pub async fn flush_members<I: Io, S: FlushedShard<I>>(shard: &S) -> Result<bool, VolumeError> {
    let (flush, members) = (shard.group_flush(), shard.members());
    debug_assert!(!flush.is_running());
    flush.running.set(true);
    shard.may_begin().await;
    let number = flush.begun.get() + 1;
    flush.begun.set(number);
    let version = members.version();
    let covered = shard.begin();
    let mut written = members.take_unflushed();
    if mutation::on(Mutation::FlushAround) {
        written.retain(|&member| members.responds(member));
    }
    let mut is_kept = false;
    if !mutation::on(Mutation::SkipFlush) {
        let results = join_all(written.iter().map(|&member| members.flush(member))).await;
        for (&member, result) in written.iter().zip(results) {
            if let Err(error) = result {
                members.io.mark(S::MARKS.member_lost);
                members.report_failure(member, error).await;
                if members.is_active(member) {
                    members.set_unflushed(member);
                    is_kept = true;
                }
            }
        }
    }
    let counts = members.version() == version && members.any_active() && !is_kept;
    if counts {
        shard.end(covered);
        flush.done.set(number);
    } else {
        members.io.mark(S::MARKS.void);
    }
    flush.running.set(false);
    flush.changed.notify();
    if is_kept { Err(VolumeError::Failed) } else { Ok(counts) }
}
