//! Requests of a block device of the kernel (`ublk_drv`), carried out on a volume.
//!
//! A queue has tags, and each tag one request at a time: take it, carry it out, answer, which takes the next. So a task for each
//! tag is the whole server. Data is copied once, between the request and a [`Buf`].

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sinew_core::buf::Buf;
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};

use crate::zeroes::store_zeroes;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Fill the request with what is there.
    Read,
    /// Write the data of the request; with `fua` it survives a loss of power before the answer.
    Write {
        /// As for a flush after it.
        fua: bool,
    },
    /// Make all that was answered survive a loss of power.
    Flush,
    /// Free the range.
    Discard,
    /// Make the range zeros.
    WriteZeroes {
        /// As for a write.
        fua: bool,
        /// Whether the range may be freed.
        may_free: bool,
    },
    /// Something that no volume does.
    Unknown,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub command: Command,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A queue of requests.
pub trait Queue: 'static {
    /// Number of tags.
    fn depth(&self) -> u16;

    /// Answers the request of a tag, if there is one, and waits for the next; `None` when there will be none. An answer is the
    /// number of bytes read or written, 0 for other requests, or a negated errno.
    fn next(&self, tag: u16, answer: Option<i32>) -> impl Future<Output = Option<Request>>;

    /// Copies the data of a write from its request; false if that fails.
    fn copy_from(&self, tag: u16, data: &mut [u8]) -> bool;

    /// Copies the data of a read to its request; false if that fails.
    fn copy_to(&self, tag: u16, data: &[Buf]) -> bool;
}

/// The queues of a device, as the threads that serve them and the one that ends them share them.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_leaving: AtomicBool,
    /// Requests under way.
    busy: AtomicUsize,
    /// Tags that may have requests.
    tags: AtomicUsize,
}

impl Progress {
    /// Takes no more requests; those under way are answered. Others stay where they are, for the next server.
    pub fn leave(&self) {
        self.0.is_leaving.store(true, Ordering::SeqCst);
    }

    /// Whether no request is under way, and none will be after [`Progress::leave`].
    pub fn is_idle(&self) -> bool {
        self.0.busy.load(Ordering::SeqCst) == 0
    }

    /// Whether the device has ended for all tags.
    pub fn has_ended(&self) -> bool {
        self.0.tags.load(Ordering::SeqCst) == 0
    }

    /// Counts a request, unless the server is leaving.
    fn begin(&self) -> bool {
        // Counted first: after `leave`, a server that sees no request under way must be right.
        self.0.busy.fetch_add(1, Ordering::SeqCst);
        let is_leaving = self.0.is_leaving.load(Ordering::SeqCst);
        if is_leaving {
            self.end();
        }
        !is_leaving
    }

    fn end(&self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A tag that may have requests.
struct Tag(Progress);

impl Drop for Tag {
    fn drop(&mut self) {
        self.0.0.tags.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves a queue: begins a task for each tag.
pub fn serve_queue<I: Io, V: Volume>(io: &I, volume: &V, queue: impl Queue, progress: &Progress) {
    let queue = Rc::new(queue);
    for tag in 0..queue.depth() {
        progress.0.tags.fetch_add(1, Ordering::SeqCst);
        let (queue, volume, progress) = (Rc::clone(&queue), volume.clone(), progress.clone());
        let counted = Tag(progress.clone());
        io.spawn(async move {
            let _counted = counted;
            let mut answer = None;
            while let Some(request) = queue.next(tag, answer).await {
                if !progress.begin() {
                    return;
                }
                answer = Some(match execute(&volume, &*queue, tag, request).await {
                    Ok(bytes) => bytes as i32,
                    Err(error) => -errno_of(error),
                });
                progress.end();
            }
        });
    }
}

/// Carries a request out; the number of bytes read or written.
async fn execute<V: Volume>(
    volume: &V,
    queue: &impl Queue,
    tag: u16,
    request: Request,
) -> Result<u32, VolumeError> {
    let Request { command, offset, len } = request;
    let short = || u32::try_from(len).map_err(|_| VolumeError::Unsupported);
    match command {
        Command::Read => {
            let data = volume.read(offset, short()?).await?;
            if queue.copy_to(tag, &data) { short() } else { Err(VolumeError::Failed) }
        }
        Command::Write { fua } => {
            let mut data = Buf::stale(short()? as usize);
            if !queue.copy_from(tag, data.bytes_mut()) {
                return Err(VolumeError::Failed);
            }
            volume.write(offset, data, fua).await?;
            short()
        }
        Command::Flush => volume.flush().await.map(|()| 0),
        // Rare, and held on the heap: every tag takes the room of the largest.
        Command::Discard => Box::pin(volume.discard(offset, len)).await.map(|()| 0),
        Command::WriteZeroes { fua, may_free: true } => {
            Box::pin(volume.write_zeroes(offset, len, fua)).await.map(|()| 0)
        }
        Command::WriteZeroes { fua, may_free: false } => {
            Box::pin(store_zeroes(volume, offset, len, fua)).await.map(|()| 0)
        }
        Command::Unknown => Err(VolumeError::Unsupported),
    }
}

/// The number by which Linux knows an error.
fn errno_of(error: VolumeError) -> i32 {
    const EIO: i32 = 5;
    const EINVAL: i32 = 22;
    const ENOSPC: i32 = 28;
    const EROFS: i32 = 30;
    const EOPNOTSUPP: i32 = 95;
    match error {
        VolumeError::OutOfRange => EINVAL,
        VolumeError::NoSpace => ENOSPC,
        VolumeError::ReadOnly => EROFS,
        VolumeError::Unsupported => EOPNOTSUPP,
        VolumeError::Failed | VolumeError::Gone => EIO,
    }
}
