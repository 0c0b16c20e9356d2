//! The only interface between the engine and the outside world.
//!
//! Everything the engine needs from outside comes through [`Io`]: time, tasks, random numbers and asynchronous access
//! to numbered devices. `sinew-uring` implements it on Linux, `sinew-sim` on a virtual clock. The engine imports no
//! clock, no thread and no operating-system randomness of its own, so a run under the simulator is a function of its
//! seed.
//!
//! Three rules of async keep it correct: only owned buffers cross an `.await`; no decision survives an `.await` unless
//! what it was based on is pinned or locked; a future with I/O in flight is never dropped.

use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use crate::buf::Buf;
use crate::coverage::MarkName;
use crate::physical::Physical;

/// A device as its world numbers it. Only the world knows what it is: a file, a block device, memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

/// The buffers of one write, in order, written as one contiguous range. Shared, so that writes to several members send the
/// same memory.
pub type Gather = Rc<[Buf]>;

/// The size of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Addressable bytes.
    pub bytes: u64,
}

/// The effect of discards on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discards {
    /// None.
    Ignored,
    /// Discarded blocks read as anything, and differently each time: SSDs, which need not preserve them when they clean.
    Unspecified,
    /// Discarded blocks read as zeros until they are written again: zram.
    Zeros,
    /// Holes in a file. They read as zeros and give space back, but make no write faster, and the next one there slower.
    Holes,
}

/// Why a request to a device failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The device answered this request with an error; other requests may succeed. Carries the errno.
    #[error("I/O error (errno {0})")]
    Failed(i32),
    /// The device has the addresses but no physical space for the blocks (a thin device that is full). It is not broken: reads,
    /// flushes and discards succeed, and so do writes once there is space again.
    #[error("the device has no physical space left")]
    NoSpace,
    /// The device was removed, or was abandoned because it did not answer.
    #[error("device is gone, or does not answer")]
    Gone,
    /// The request reaches past the end of the device, or is not a whole number of blocks.
    #[error("request outside the device or not block-aligned")]
    OutOfRange,
}

/// A world: devices, time, tasks, randomness. Cheap to clone; single-threaded.
///
/// Offsets and lengths are bytes and multiples of [`crate::buf::BLOCK_BYTES`]. A completed write is visible to later
/// reads and survives the end of the process; only a completed `flush` that began after it makes it survive power loss.
/// Writes in flight at the same time may complete in any order and, on power loss, be torn at block granularity.
pub trait Io: Clone + 'static {
    /// Nanoseconds since an arbitrary, fixed moment; never goes back.
    fn now(&self) -> u64;
    /// As `now`, but cheap: the time may be as old as the present turn of the executor.
    #[inline(always)]
    fn now_coarse(&self) -> u64 {
        self.now()
    }
    /// Resolves `ns` nanoseconds later.
    fn sleep(&self, ns: u64) -> impl Future<Output = ()>;
    /// Starts a task on this executor. It runs until it ends and cannot be cancelled.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);
    /// A random number that cannot be predicted from earlier ones.
    fn random(&self) -> u64;
    /// Fills `buf`, which must be the only handle to its memory, from `offset`.
    ///
    /// # Errors
    /// [`IoError::Failed`] with the errno of the device; [`IoError::Gone`] when the device was removed or abandoned;
    /// [`IoError::OutOfRange`] when the range is not inside the device or not whole blocks. The buffer is returned in any
    /// case; after an error its content is unspecified.
    fn read(
        &self,
        device: DeviceId,
        offset: u64,
        buf: Buf,
    ) -> impl Future<Output = (Buf, Result<(), IoError>)>;
    /// Writes the buffers contiguously from `offset`.
    ///
    /// # Errors
    /// [`IoError::Failed`] with the errno of the device; [`IoError::NoSpace`] when a thin device is full; [`IoError::Gone`]
    /// when the device was removed or abandoned; [`IoError::OutOfRange`] when the range is not inside the device or not
    /// whole blocks. After an error any subset of the blocks may have been written.
    fn write(&self, device: DeviceId, offset: u64, data: Gather)
    -> impl Future<Output = Result<(), IoError>>;
    /// Makes every write completed before this call durable.
    ///
    /// # Errors
    /// [`IoError::Failed`] or [`IoError::Gone`]; what the flush was to cover is then not known to be durable.
    fn flush(&self, device: DeviceId) -> impl Future<Output = Result<(), IoError>>;
    /// Tells the device that the range's content is no longer needed; reads of it return unspecified data afterwards.
    ///
    /// # Errors
    /// [`IoError::Failed`] with the errno of the device; [`IoError::Gone`] when the device was removed or abandoned;
    /// [`IoError::OutOfRange`] when the range is not inside the device or not whole blocks.
    fn discard(&self, device: DeviceId, offset: u64, bytes: u64)
    -> impl Future<Output = Result<(), IoError>>;
    /// Abandons a device that does not answer: every request to it that is in flight, on any thread, soon ends with `Gone`, and
    /// so does every later one. The memory of the requests stays allocated until the device answers after all; until then the
    /// device cannot be opened again.
    fn abandon(&self, device: DeviceId);
    /// Records a coverage mark: the engine has reached a place that only unusual conditions lead to. A world that tests the
    /// engine counts the marks.
    #[inline(always)]
    fn mark(&self, _mark: impl Into<MarkName>) {}
    /// Whether requests to the device complete when they are issued, so that none is ever pending.
    fn answers_at_once(&self, _device: DeviceId) -> bool {
        false
    }
    /// The effect of discards on the device.
    fn discards(&self, _device: DeviceId) -> Discards {
        Discards::Ignored
    }
    /// Reads the bytes after the last whole block, which `read` and `write` do not reach. Foreign metadata may lie there.
    ///
    /// # Errors
    /// As for `read`.
    fn read_rest(&self, _device: DeviceId) -> impl Future<Output = Result<Vec<u8>, IoError>> {
        async { Ok(Vec::new()) }
    }
    /// Overwrites the bytes after the last whole block with zeros; a later `flush` makes that durable.
    ///
    /// # Errors
    /// As for `write`.
    fn clear_rest(&self, _device: DeviceId) -> impl Future<Output = Result<(), IoError>> {
        async { Ok(()) }
    }
    /// The device's size.
    ///
    /// # Errors
    /// [`IoError::Gone`] when there is no such device.
    fn space(&self, device: DeviceId) -> Result<Space, IoError>;
    /// The physical space of a thin device at this moment; `None` if the device has as much as it has addresses, or does not
    /// tell. It may take as long as a read, so it is not for the path of requests.
    fn physical(&self, _device: DeviceId) -> impl Future<Output = Option<Physical>> {
        async { None }
    }
}

/// Lets every other task that is ready run before this one continues.
pub async fn yield_now() {
    let mut asked = false;
    poll_fn(|context| {
        if std::mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
