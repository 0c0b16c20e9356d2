//! Reading: dirty blocks from the journal, all others from their stripes.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::{Extent, VolumeError};
use sinew_format::model::array_shard_layout::Run;

use crate::request::Requests;

impl<I: Io> Requests<I> {
    /// Reads consecutive blocks, as buffers that follow one another.
    ///
    /// # Errors
    /// [`VolumeError::Failed`] when a block cannot be read or reconstructed.
    pub(crate) async fn read(self: &Rc<Self>, local: u64, count: u32) -> Result<Bufs, VolumeError> {
        self.state.counters().reads.add(1);
        self.state.counters().read_bytes.add(u64::from(count) * BLOCK_BYTES as u64);
        let _inside = self.stripes.enter_reading(local, u64::from(count)).await;
        loop {
            let version = self.stripes.given_up_version();
            if self.stripes.is_given_up(local..local + u64::from(count)) {
                self.state.counters().failed_reads.add(1);
                return Err(VolumeError::Failed);
            }
            let read = self.read_parts(local, count).await;
            // Zeros may have come to stand in for a block meanwhile.
            if self.stripes.given_up_version() == version {
                return read;
            }
        }
    }

    async fn read_parts(self: &Rc<Self>, local: u64, count: u32) -> Result<Bufs, VolumeError> {
        let mut parts = Vec::with_capacity(1);
        for run in self.state.layout().runs(local, u64::from(count)) {
            self.stripes.note_use(run.stripe, false);
            self.split_by_journal(run, &mut parts);
        }
        if let [ReadPart::Place(run)] = parts[..] {
            return self.stripes.read_run(run).await.map(Buf::into);
        }
        let reads = parts.into_iter().map(|part| async {
            match part {
                ReadPart::Journal(buf) => Ok(buf),
                ReadPart::Place(run) => self.stripes.read_run(run).await,
            }
        });
        join_all(reads).await.into_iter().collect()
    }

    /// An array stores everything.
    pub(crate) fn extents(&self, count: u32) -> Vec<Extent> {
        vec![Extent { bytes: u64::from(count) * BLOCK_BYTES as u64, allocated: true }]
    }

    /// Splits a run into parts that the journal has and parts that it does not have, in order.
    fn split_by_journal(&self, run: Run, parts: &mut Vec<ReadPart>) {
        let dirty = self.journal.dirty();
        let (mut slot, end) = (run.slot, run.slot + run.blocks);
        for (found, block) in dirty.range(run.stripe, run.slot, run.blocks) {
            if slot < found {
                parts.push(ReadPart::Place(Run { slot, blocks: found - slot, ..run }));
            }
            let joined = match parts.last_mut() {
                Some(ReadPart::Journal(buf)) => buf.join(&block.data),
                _ => false,
            };
            if !joined {
                parts.push(ReadPart::Journal(block.data.clone()));
            }
            slot = found + 1;
        }
        if slot < end {
            parts.push(ReadPart::Place(Run { slot, blocks: end - slot, ..run }));
        }
    }
}

/// A part of a read, by where its content is.
enum ReadPart {
    Journal(Buf),
    Place(Run),
}
