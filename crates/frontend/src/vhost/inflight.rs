//! Which requests are in flight, in memory that outlives this process: the client keeps it, and gives it to the next server.
//!
//! For each descriptor of a ring a flag says whether a request that it begins is in flight, and a counter in which order they
//! were taken. An answer is three steps: the descriptor is noted as the last one to be answered, the answer is put on the ring,
//! and the flag is cleared together with a note of how many answers there are. If that number is one behind the ring's, the
//! process ended between the last two steps, and the note says whose flag is to be cleared.
//!
//! The layout is the one that the vhost-user specification proposes for split rings. Only servers look into it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memfd::MemfdOptions;
use vhost::vhost_user::Error;
use vhost::vhost_user::message::VhostUserInflight;
use vm_memory::bitmap::BitmapSlice;
use vm_memory::mmap::MmapRegion;
use vm_memory::{Bytes, FileOffset, VolatileMemory, VolatileSlice};

use super::terms::{QUEUE_SIZE_MAX, QUEUES_MAX};

const HEADER_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 16;
/// Regions of queues begin at multiples of this.
const ALIGNMENT: u64 = 64;
const VERSION: u16 = 1;

/// Fields of a region of one queue, and of an entry of it.
const VERSION_AT: usize = 8;
const SIZE_AT: usize = 10;
const LAST_AT: usize = 12;
const USED_AT: usize = 14;
const FLAG_AT: usize = 0;
const COUNTER_AT: usize = 8;

/// The memory for all queues of a client.
#[derive(Clone)]
pub(super) struct Inflight {
    mapped: Arc<MmapRegion>,
    queues: u16,
    queue_size: u16,
}

fn queue_bytes(queue_size: u16) -> u64 {
    (HEADER_BYTES + ENTRY_BYTES * u64::from(queue_size)).next_multiple_of(ALIGNMENT)
}

/// Creates the memory for the queues of a client, and describes it in the form of the protocol's reply.
///
/// # Errors
/// When there are too many, or the system has no memory.
pub(super) fn create(wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File), Error> {
    let (queues, queue_size) = (wanted.num_queues, wanted.queue_size);
    if queues > QUEUES_MAX || queue_size > QUEUE_SIZE_MAX {
        return Err(Error::InvalidParam);
    }
    let bytes = queue_bytes(queue_size) * u64::from(queues);
    let file = MemfdOptions::default().close_on_exec(true).create("sinew-inflight");
    let file = file.map_err(|_| Error::MemFdCreateError)?.into_file();
    file.set_len(bytes).map_err(|_| Error::FileTruncateError)?;
    Ok((VhostUserInflight::new(bytes, 0, queues, queue_size), file))
}

impl Inflight {
    /// Maps the memory that a client has kept.
    ///
    /// # Errors
    /// When it is too small for what it is said to hold.
    pub(super) fn map(described: &VhostUserInflight, file: File) -> Result<Inflight, Error> {
        let (queues, queue_size) = (described.num_queues, described.queue_size);
        let needed = queue_bytes(queue_size) * u64::from(queues);
        let end = described.mmap_offset.checked_add(described.mmap_size).ok_or(Error::InvalidParam)?;
        let meta = file.metadata().map_err(Error::ReqHandlerError)?;
        let is_good = queues <= QUEUES_MAX
            && queue_size <= QUEUE_SIZE_MAX
            && (1..=described.mmap_size).contains(&needed)
            && meta.is_file()
            && meta.len() >= end;
        if !is_good {
            return Err(Error::InvalidParam);
        }
        let mapped = MmapRegion::from_file(FileOffset::new(file, described.mmap_offset), needed as usize);
        let mapped = mapped.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?;
        Ok(Inflight { mapped: Arc::new(mapped), queues, queue_size })
    }

    /// The part of one queue, if there is one for a ring of this size.
    pub(super) fn queue(&self, index: u16, size: u16) -> Option<InflightQueue> {
        let at = queue_bytes(self.queue_size) as usize * usize::from(index);
        (index < self.queues && size <= self.queue_size).then(|| InflightQueue {
            mapped: Arc::clone(&self.mapped),
            at,
            size,
            counter: 0,
        })
    }
}

/// The memory for one queue.
pub(super) struct InflightQueue {
    mapped: Arc<MmapRegion>,
    at: usize,
    size: u16,
    /// What the next request is counted with.
    counter: u64,
}

impl InflightQueue {
    /// What an earlier server left, on a ring with this number of answers: the first descriptors of the requests in flight, in
    /// the order in which they were taken.
    pub(super) fn recover(&mut self, used: u16) -> Vec<u16> {
        if self.get(VERSION_AT) == 0 {
            self.set(VERSION_AT, VERSION);
            self.set(SIZE_AT, self.size);
        } else if self.get(USED_AT) != used {
            let last = self.get(LAST_AT);
            if last < self.size {
                self.set_flag(last, 0);
            }
        }
        self.set(USED_AT, used);
        let mut left: Vec<(u64, u16)> = (0..self.size)
            .filter(|head| self.flag(*head) != 0)
            .map(|head| (self.counter(head), head))
            .collect();
        left.sort_unstable();
        self.counter = left.last().map_or(0, |(counter, _)| counter.wrapping_add(1));
        left.into_iter().map(|(_, head)| head).collect()
    }

    /// A request was taken.
    pub(super) fn take(&mut self, head: u16) {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        self.store(self.entry(head) + COUNTER_AT, counter);
        self.set_flag(head, 1);
    }

    /// A request is about to be answered.
    pub(super) fn before_answer(&self, head: u16) {
        self.set(LAST_AT, head);
    }

    /// It was answered; `used` is the number of answers with it.
    pub(super) fn after_answer(&self, head: u16, used: u16) {
        self.set_flag(head, 0);
        self.set(USED_AT, used);
    }

    fn entry(&self, head: u16) -> usize {
        self.at + HEADER_BYTES as usize + usize::from(head) * ENTRY_BYTES as usize
    }

    fn flag(&self, head: u16) -> u8 {
        self.slice().load(self.entry(head) + FLAG_AT, Ordering::SeqCst).unwrap_or(0)
    }

    fn set_flag(&self, head: u16, flag: u8) {
        self.store(self.entry(head) + FLAG_AT, flag);
    }

    fn counter(&self, head: u16) -> u64 {
        self.slice().load(self.entry(head) + COUNTER_AT, Ordering::SeqCst).unwrap_or(0)
    }

    fn get(&self, field: usize) -> u16 {
        self.slice().load(self.at + field, Ordering::SeqCst).unwrap_or(0)
    }

    fn set(&self, field: usize, value: u16) {
        self.store(self.at + field, value);
    }

    /// Stores are in the order of the program, also for a process that comes later.
    fn store<T: vm_memory::AtomicAccess>(&self, at: usize, value: T) {
        self.slice().store(value, at, Ordering::SeqCst).expect("inside the mapping");
    }

    fn slice(&self) -> VolatileSlice<'_, impl BitmapSlice> {
        self.mapped.as_volatile_slice()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u16 = 8;

    fn region(queues: u16) -> (VhostUserInflight, File) {
        create(&VhostUserInflight::new(0, 0, queues, SIZE)).expect("created")
    }

    fn queue(described: &VhostUserInflight, file: &File) -> InflightQueue {
        let mapped = Inflight::map(described, file.try_clone().expect("a clone")).expect("mapped");
        mapped.queue(1, SIZE).expect("a queue")
    }

    #[test]
    fn descriptions_that_lie_are_refused() {
        let (good, file) = region(2);
        let bad = |change: fn(&mut VhostUserInflight)| {
            let mut described = good;
            change(&mut described);
            Inflight::map(&described, file.try_clone().expect("a clone")).is_err()
        };
        assert!(!bad(|_| ()));
        assert!(bad(|described| described.mmap_size -= 1));
        assert!(bad(|described| described.mmap_offset = 4096));
        assert!(bad(|described| described.mmap_offset = u64::MAX));
        assert!(bad(|described| described.num_queues = 3));
        assert!(bad(|described| described.queue_size = 64));
        assert!(bad(|described| described.num_queues = 0));
        assert!(create(&VhostUserInflight::new(0, 0, 65, SIZE)).is_err());
        assert!(create(&VhostUserInflight::new(0, 0, 1, 2048)).is_err());
        let mapped = Inflight::map(&good, file).expect("mapped");
        assert!(mapped.queue(2, SIZE).is_none() && mapped.queue(0, 2 * SIZE).is_none());
    }

    #[test]
    fn any_content_is_harmless() {
        for byte in [1, 0x7f, 0xff] {
            let (described, mut file) = region(2);
            io::Write::write_all(&mut file, &vec![byte; described.mmap_size as usize]).expect("written");
            let mut queue = queue(&described, &file);
            assert!(queue.recover(5).len() <= usize::from(SIZE));
            queue.take(SIZE - 1);
        }
    }

    proptest! {
        /// A server ends between any two stores: the next one finds what was taken and not answered, in order.
        #[test]
        fn what_was_taken_and_not_answered_is_found(
            lives in proptest::collection::vec(
                (proptest::collection::vec((any::<bool>(), 0usize..8), 0..12), 0usize..5), 1..5),
            first in prop_oneof![Just(0u16), Just(u16::MAX - 3)],
        ) {
            let (described, file) = region(2);
            // The ring: its answers, and requests that were taken, in order.
            let (mut used, mut taken): (u16, Vec<u16>) = (first, Vec::new());
            for (acts, step) in lives {
                let mut queue = queue(&described, &file);
                prop_assert_eq!(&queue.recover(used), &taken);
                for (takes, choice) in acts {
                    let free: Vec<u16> = (0..SIZE).filter(|head| !taken.contains(head)).collect();
                    if takes && !free.is_empty() {
                        let head = free[choice % free.len()];
                        queue.take(head);
                        taken.push(head);
                    } else if !taken.is_empty() {
                        let head = taken.remove(choice % taken.len());
                        queue.before_answer(head);
                        used = used.wrapping_add(1);
                        queue.after_answer(head, used);
                    }
                }
                // The last answer of this life is interrupted at a step.
                if let Some(head) = taken.first().copied() {
                    if step >= 1 {
                        queue.before_answer(head);
                    }
                    if step >= 2 {
                        used = used.wrapping_add(1);
                        taken.remove(0);
                    }
                    if step >= 3 {
                        queue.set_flag(head, 0);
                    }
                    if step >= 4 {
                        queue.set(USED_AT, used);
                    }
                }
            }
        }
    }
}
