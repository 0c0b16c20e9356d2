//! What clients asked of each volume, how long the answers took, and what failed.
//!
//! Each thread counts for itself, in numbers that only it changes: a count costs a load and a store, and no thread waits for
//! another. A reader adds up the threads. Counts begin with the server and end with the volume.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sinew_core::buf::{Buf, Bufs};
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::volume::{Extent, Volume, VolumeError};

/// Kinds of requests, by the names of their label.
pub(super) const OPS: [&str; 5] = ["read", "write", "flush", "discard", "write_zeroes"];
/// Kinds of errors, by the names of their label.
pub(super) const ERRORS: [&str; 6] =
    ["out_of_range", "no_space", "failed", "read_only", "unsupported", "gone"];
/// Upper ends of the buckets of times, in nanoseconds; one bucket more has no end.
pub(super) const BOUNDS_NS: [u64; 18] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    10_000_000_000,
];

#[derive(Clone, Copy)]
enum Op {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

fn error_index(error: VolumeError) -> usize {
    match error {
        VolumeError::OutOfRange => 0,
        VolumeError::NoSpace => 1,
        VolumeError::Failed => 2,
        VolumeError::ReadOnly => 3,
        VolumeError::Unsupported => 4,
        VolumeError::Gone => 5,
    }
}

/// Requests of one kind by their time.
#[derive(Default)]
struct Times {
    buckets: [AtomicU64; BOUNDS_NS.len() + 1],
    sum_ns: AtomicU64,
}

/// The counts of one thread for one volume.
#[derive(Default)]
struct Counts {
    times: [Times; OPS.len()],
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    errors: [AtomicU64; ERRORS.len()],
}

/// Adds to a number that this thread alone changes.
fn add(number: &AtomicU64, n: u64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl Counts {
    fn count(&self, op: Op, ns: u64, error: Option<VolumeError>) {
        let times = &self.times[op as usize];
        add(&times.buckets[BOUNDS_NS.partition_point(|end| *end < ns)], 1);
        add(&times.sum_ns, ns);
        if let Some(error) = error {
            add(&self.errors[error_index(error)], 1);
        }
    }
}

/// Requests of one kind by their time, of all threads.
#[derive(Clone, Copy, Default)]
pub(super) struct TimesSum {
    /// Requests in each bucket.
    pub(super) buckets: [u64; BOUNDS_NS.len() + 1],
    /// All times together.
    pub(super) sum_ns: u64,
}

/// The counts of all threads for one volume.
#[derive(Default)]
pub(super) struct VolumeSums {
    /// By [`OPS`].
    pub(super) times: [TimesSum; OPS.len()],
    /// Bytes read.
    pub(super) read_bytes: u64,
    /// Bytes written.
    pub(super) written_bytes: u64,
    /// By [`ERRORS`].
    pub(super) errors: [u64; ERRORS.len()],
}

impl VolumeSums {
    fn add(&mut self, counts: &Counts) {
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        for (sum, times) in self.times.iter_mut().zip(&counts.times) {
            for (sum, requests) in sum.buckets.iter_mut().zip(&times.buckets) {
                *sum += load(requests);
            }
            sum.sum_ns += load(&times.sum_ns);
        }
        self.read_bytes += load(&counts.read_bytes);
        self.written_bytes += load(&counts.written_bytes);
        for (sum, requests) in self.errors.iter_mut().zip(&counts.errors) {
            *sum += load(requests);
        }
    }
}

/// The counts of all volumes and threads.
#[derive(Clone, Default)]
pub(super) struct VolumeStats(Arc<Mutex<BTreeMap<VolumeId, Vec<Arc<Counts>>>>>);

impl VolumeStats {
    /// The sums of a volume; zeros if it was never used.
    pub(super) fn of(&self, volume: VolumeId) -> VolumeSums {
        let mut sums = VolumeSums::default();
        self.lock().get(&volume).into_iter().flatten().for_each(|counts| sums.add(counts));
        sums
    }

    /// Forgets all volumes but these.
    pub(super) fn retain(&self, volumes: &[VolumeId]) {
        self.lock().retain(|volume, _| volumes.contains(volume));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<VolumeId, Vec<Arc<Counts>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts of one thread.
pub(super) struct ThreadStats {
    all: VolumeStats,
    mine: RefCell<BTreeMap<VolumeId, Weak<Counts>>>,
}

impl ThreadStats {
    /// Of a thread that has counted nothing yet.
    pub(super) fn new(all: VolumeStats) -> ThreadStats {
        ThreadStats { all, mine: RefCell::default() }
    }

    /// The volume, whose requests are counted.
    pub(super) fn counted<I: Io, V: Volume>(&self, io: &I, id: VolumeId, volume: V) -> Counted<I, V> {
        let mut mine = self.mine.borrow_mut();
        let counts = mine.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
            let counts = Arc::new(Counts::default());
            self.all.lock().entry(id).or_default().push(Arc::clone(&counts));
            mine.insert(id, Arc::downgrade(&counts));
            counts
        });
        Counted { io: io.clone(), volume, counts }
    }
}

/// A volume whose requests are counted.
#[derive(Clone)]
pub(super) struct Counted<I, V> {
    io: I,
    volume: V,
    counts: Arc<Counts>,
}

impl<I: Io, V> Counted<I, V> {
    /// Counts a request that began at `began`. The requests are not passed on to be waited for: that would copy their futures.
    fn counted<T>(&self, op: Op, began: u64, result: Result<T, VolumeError>) -> Result<T, VolumeError> {
        self.counts.count(op, self.io.now() - began, result.as_ref().err().copied());
        result
    }
}

impl<I: Io, V: Volume> Volume for Counted<I, V> {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Bufs, VolumeError> {
        let began = self.io.now();
        let data = self.counted(Op::Read, began, self.volume.read(offset, len).await)?;
        add(&self.counts.read_bytes, u64::from(len));
        Ok(data)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        let (began, bytes) = (self.io.now(), data.len() as u64);
        self.counted(Op::Write, began, self.volume.write(offset, data, fua).await)?;
        add(&self.counts.written_bytes, bytes);
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        let began = self.io.now();
        self.counted(Op::Flush, began, self.volume.flush().await)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let began = self.io.now();
        self.counted(Op::Discard, began, self.volume.discard(offset, len).await)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        let began = self.io.now();
        self.counted(Op::WriteZeroes, began, self.volume.write_zeroes(offset, len, fua).await)
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, VolumeError> {
        self.volume.status(offset, len).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(thread: &ThreadStats, id: VolumeId) -> Arc<Counts> {
        let io = sinew_uring::Runtime::new(sinew_uring::Config::default()).expect("a runtime");
        thread.counted(&io.io(), id, NoVolume).counts
    }

    #[derive(Clone)]
    struct NoVolume;

    impl Volume for NoVolume {
        fn size_bytes(&self) -> u64 {
            0
        }
        async fn read(&self, _: u64, _: u32) -> Result<Bufs, VolumeError> {
            Ok(Bufs::new())
        }
        async fn write(&self, _: u64, _: Buf, _: bool) -> Result<(), VolumeError> {
            Ok(())
        }
        async fn flush(&self) -> Result<(), VolumeError> {
            Ok(())
        }
        async fn discard(&self, _: u64, _: u64) -> Result<(), VolumeError> {
            Ok(())
        }
        async fn write_zeroes(&self, _: u64, _: u64, _: bool) -> Result<(), VolumeError> {
            Ok(())
        }
        async fn status(&self, _: u64, _: u64) -> Result<Vec<Extent>, VolumeError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn threads_add_up_and_deleted_volumes_begin_anew() {
        let stats = VolumeStats::default();
        let (one, other) = (ThreadStats::new(stats.clone()), ThreadStats::new(stats.clone()));
        let id = VolumeId(3);
        counts(&one, id).count(Op::Read, 10_000, None);
        counts(&one, id).count(Op::Read, 10_001, Some(VolumeError::NoSpace));
        counts(&other, id).count(Op::Flush, u64::MAX / 2, None);
        let sums = stats.of(id);
        assert_eq!(sums.times[Op::Read as usize].buckets[..3], [1, 1, 0]);
        assert_eq!(sums.times[Op::Flush as usize].buckets[BOUNDS_NS.len()], 1);
        assert_eq!((sums.times[0].sum_ns, sums.errors), (20_001, [0, 1, 0, 0, 0, 0]));
        stats.retain(&[id]);
        assert_eq!(stats.of(id).times[0].sum_ns, 20_001);
        stats.retain(&[]);
        counts(&one, id).count(Op::Read, 1, None);
        assert_eq!(stats.of(id).times[0].sum_ns, 1);
    }
}
