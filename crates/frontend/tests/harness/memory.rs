//! A volume in memory, and a world that only has tasks and time: what a frontend needs to be tried out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::io::{DeviceId, Gather, Io, IoError, Space};
use sinew_core::volume::{Extent, Volume, VolumeError};
use sinew_frontend::exports::{Export, Exports};

const BLOCK: u64 = BLOCK_BYTES as u64;

struct Content {
    bytes: u64,
    blocks: BTreeMap<u64, Buf>,
    /// What every request fails with.
    error: Option<VolumeError>,
    flushes: u64,
    fuas: u64,
    discards: u64,
}

/// Blocks in memory, shared by all handles.
#[derive(Clone)]
pub(crate) struct MemoryVolume {
    content: Arc<Mutex<Content>>,
    /// How often a request lets others go first; varied per request, so that replies come out of order.
    pub(crate) yields: u64,
    /// Requests wait while this is set.
    pub(crate) held: Arc<Mutex<Option<Vec<Waker>>>>,
}

impl MemoryVolume {
    pub(crate) fn new(bytes: u64) -> MemoryVolume {
        let content =
            Content { bytes, blocks: BTreeMap::new(), error: None, flushes: 0, fuas: 0, discards: 0 };
        MemoryVolume { content: Arc::new(Mutex::new(content)), yields: 0, held: Arc::default() }
    }

    /// From now on every request fails so, or none.
    pub(crate) fn fail(&self, error: Option<VolumeError>) {
        self.content.lock().unwrap().error = error;
    }

    /// Flushes, and writes with FUA, so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let content = self.content.lock().unwrap();
        (content.flushes, content.fuas)
    }

    /// Discards so far.
    pub(crate) fn discards(&self) -> u64 {
        self.content.lock().unwrap().discards
    }

    /// Makes requests wait until `release`.
    pub(crate) fn hold(&self) {
        *self.held.lock().unwrap() = Some(Vec::new());
    }

    /// Lets waiting requests go on.
    pub(crate) fn release(&self) {
        let waiting = self.held.lock().unwrap().take();
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// Waits, then checks what every request is checked for.
    async fn begin(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        for _ in 0..if self.yields == 0 { 0 } else { offset / BLOCK % self.yields } {
            smol::future::yield_now().await;
        }
        poll_fn(|context| match &mut *self.held.lock().unwrap() {
            Some(waiting) => {
                waiting.push(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        })
        .await;
        let content = self.content.lock().unwrap();
        match content.error {
            Some(error) => Err(error),
            None if offset + len > content.bytes => Err(VolumeError::OutOfRange),
            None => Ok(()),
        }
    }

    fn put(&self, offset: u64, mut data: &[u8]) {
        let mut content = self.content.lock().unwrap();
        let mut at = offset;
        while !data.is_empty() {
            let within = (at % BLOCK) as usize;
            let (head, rest) = data.split_at(data.len().min(BLOCK_BYTES - within));
            let mut block = match content.blocks.get(&(at / BLOCK)) {
                Some(old) if head.len() < BLOCK_BYTES => Buf::copy_of(old.bytes()),
                _ => Buf::zeroed(BLOCK_BYTES),
            };
            block.bytes_mut()[within..within + head.len()].copy_from_slice(head);
            content.blocks.insert(at / BLOCK, block);
            at += head.len() as u64;
            data = rest;
        }
    }

    fn forget(&self, offset: u64, len: u64) {
        let (first, end) = (offset.div_ceil(BLOCK), (offset + len) / BLOCK);
        if first < end {
            let mut content = self.content.lock().unwrap();
            let mut tail = content.blocks.split_off(&first);
            content.blocks.append(&mut tail.split_off(&end));
        }
    }
}

impl Volume for MemoryVolume {
    fn size_bytes(&self) -> u64 {
        self.content.lock().unwrap().bytes
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Bufs, VolumeError> {
        self.begin(offset, u64::from(len)).await?;
        let content = self.content.lock().unwrap();
        let (mut at, end) = (offset, offset + u64::from(len));
        let mut parts = Bufs::new();
        while at < end {
            let within = (at % BLOCK) as usize;
            let len = (BLOCK_BYTES - within).min((end - at) as usize);
            parts.push(match content.blocks.get(&(at / BLOCK)) {
                Some(block) => block.slice(within, len),
                None => Buf::zeroed(len),
            });
            at += len as u64;
        }
        Ok(parts)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        self.begin(offset, data.len() as u64).await?;
        self.content.lock().unwrap().fuas += u64::from(fua);
        self.put(offset, data.bytes());
        Ok(())
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.begin(0, 0).await?;
        self.content.lock().unwrap().flushes += 1;
        Ok(())
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.begin(offset, len).await?;
        self.content.lock().unwrap().discards += 1;
        self.forget(offset, len);
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.begin(offset, len).await?;
        self.content.lock().unwrap().fuas += u64::from(fua);
        let end = offset + len;
        let head_end = offset.next_multiple_of(BLOCK).min(end);
        let tail_start = (end / BLOCK * BLOCK).max(head_end);
        self.put(offset, &vec![0; (head_end - offset) as usize]);
        self.put(tail_start, &vec![0; (end - tail_start) as usize]);
        self.forget(offset, len);
        Ok(())
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, VolumeError> {
        self.begin(offset, len).await?;
        let content = self.content.lock().unwrap();
        let (mut at, end) = (offset, offset + len);
        let mut extents: Vec<Extent> = Vec::new();
        while at < end {
            let block = at / BLOCK;
            let allocated = content.blocks.contains_key(&block);
            // A hole reaches to the next stored block: no walk over a large empty volume.
            let next = if allocated {
                block + 1
            } else {
                content.blocks.range(block..).next().map_or(u64::MAX / BLOCK, |(stored, _)| *stored)
            };
            let bytes = (next * BLOCK).min(end) - at;
            match extents.last_mut() {
                Some(last) if last.allocated == allocated => last.bytes += bytes,
                _ => extents.push(Extent { bytes, allocated }),
            }
            at += bytes;
        }
        Ok(extents)
    }
}

/// Volumes by name; a `*` after a name makes it the default, and a `!` makes it read-only.
#[derive(Clone)]
pub(crate) struct MemoryExports(pub(crate) Vec<(&'static str, MemoryVolume)>);

impl Exports for MemoryExports {
    type Volume = MemoryVolume;

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| name.trim_end_matches(['*', '!']).to_owned()).collect()
    }

    fn open(&self, name: &str) -> Option<Export<MemoryVolume>> {
        let (marked, volume) =
            self.0.iter().find(|(marked, _)| marked.trim_end_matches(['*', '!']) == name)?;
        let description = format!("memory volume {name}");
        let read_only = marked.ends_with('!');
        Some(Export { name: name.to_owned(), description, volume: volume.clone(), read_only })
    }

    fn default_name(&self) -> Option<String> {
        match self.names().as_slice() {
            [only] => Some(only.clone()),
            names => self.0.iter().position(|(name, _)| name.ends_with('*')).map(|at| names[at].clone()),
        }
    }
}

#[derive(Default)]
struct Timers {
    now: u64,
    sleepers: Vec<(u64, Waker)>,
}

/// Tasks on one thread. Time stands still unless it is moved on; there are no devices.
#[derive(Clone)]
pub(crate) struct TaskIo {
    executor: Rc<smol::LocalExecutor<'static>>,
    timers: Rc<RefCell<Timers>>,
}

impl TaskIo {
    pub(crate) fn new() -> TaskIo {
        TaskIo { executor: Rc::new(smol::LocalExecutor::new()), timers: Rc::default() }
    }

    /// Runs tasks until this one ends.
    pub(crate) fn block_on<T>(&self, task: impl Future<Output = T>) -> T {
        smol::block_on(self.executor.run(task))
    }

    /// Runs everything until no task is ready.
    pub(crate) fn settle(&self) {
        while self.executor.try_tick() {}
    }

    /// Moves time on.
    pub(crate) fn advance(&self, ns: u64) {
        let mut timers = self.timers.borrow_mut();
        timers.now += ns;
        timers.sleepers.drain(..).for_each(|(_, waker)| waker.wake());
    }
}

impl Io for TaskIo {
    fn now(&self) -> u64 {
        self.timers.borrow().now
    }

    async fn sleep(&self, ns: u64) {
        let until = self.now() + ns;
        poll_fn(|context| {
            let mut timers = self.timers.borrow_mut();
            if timers.now >= until {
                return Poll::Ready(());
            }
            timers.sleepers.push((until, context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.executor.spawn(task).detach();
    }

    fn random(&self) -> u64 {
        4
    }

    async fn read(&self, _: DeviceId, _: u64, buf: Buf) -> (Buf, Result<(), IoError>) {
        (buf, Err(IoError::Gone))
    }

    async fn write(&self, _: DeviceId, _: u64, _: Gather) -> Result<(), IoError> {
        Err(IoError::Gone)
    }

    async fn flush(&self, _: DeviceId) -> Result<(), IoError> {
        Err(IoError::Gone)
    }

    async fn discard(&self, _: DeviceId, _: u64, _: u64) -> Result<(), IoError> {
        Err(IoError::Gone)
    }

    fn abandon(&self, _: DeviceId) {}

    fn space(&self, _: DeviceId) -> Result<Space, IoError> {
        Err(IoError::Gone)
    }
}
