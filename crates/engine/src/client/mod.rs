//! Volumes as frontends use them: requests split over shards and blocks, and sent to the thread of each shard.
//!
//! A shard of the client's own thread is called directly; one of another thread through the handover.

pub mod directory;
mod known_damage;
mod limiter;

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

pub(crate) use crate::client::known_damage::KnownDamage;
use crate::client::limiter::Limiter;
use crate::handover::Handover;
use crate::shard::Shard;
use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::ids::VolumeId;
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::{Extent, Volume, VolumeError};
use sinew_format::model::config::{Config, VolumeConfig};
use sinew_format::model::damage::DamagedRanges;
use sinew_format::model::sharding::{ShardRange, dealt, shard_ranges};
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::message::{Reply, Request};
use sinew_members::status::Delayed;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Reads by which the damage in a range that cannot be read is narrowed down, at most. What is left is damaged as a whole,
/// until its blocks are read well or written.
const PROBES_MAX: u32 = 256;

/// What all clients of a volume share.
#[derive(Debug)]
pub struct VolumeShared {
    /// The volume.
    pub id: VolumeId,
    /// Whether requests that change it are refused.
    pub read_only: bool,
    bytes: AtomicU64,
    gone: AtomicBool,
    connections: AtomicUsize,
    refused_for_room: AtomicU64,
    damage: KnownDamage,
    limiter: Limiter,
}

impl VolumeShared {
    pub(crate) fn new(volume: &VolumeConfig, read_only: bool, damage: DamagedRanges) -> VolumeShared {
        VolumeShared {
            id: volume.id,
            read_only,
            bytes: AtomicU64::new(volume.bytes),
            gone: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            refused_for_room: AtomicU64::new(0),
            damage: KnownDamage::new(damage),
            limiter: Limiter::new(volume.limits),
        }
    }

    /// What is known of its damage.
    pub(crate) fn damage(&self) -> &KnownDamage {
        &self.damage
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::SeqCst);
        let end = bytes / BLOCK;
        self.damage.note_good(end, u64::MAX - end);
    }

    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Handles on the volume: one for each connection of a client, on all threads.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Requests that were refused since no space was left in the pool.
    pub(crate) fn refused_for_room(&self) -> u64 {
        self.refused_for_room.load(Ordering::Relaxed)
    }

    /// Changes what clients may ask for.
    pub(crate) fn set_limits(&self, now: u64, limits: VolumeLimits) {
        self.limiter.set(now, limits);
    }

    /// Requests that the limits of the volume have delayed.
    pub fn delayed(&self) -> Delayed {
        self.limiter.delayed()
    }

    /// Its size now; 0 once it is gone.
    pub fn bytes(&self) -> u64 {
        self.end().unwrap_or(0)
    }

    fn end(&self) -> Result<u64, VolumeError> {
        if self.gone.load(Ordering::SeqCst) {
            Err(VolumeError::Gone)
        } else {
            Ok(self.bytes.load(Ordering::SeqCst))
        }
    }
}

/// The way to one shard.
pub enum ShardLink<I: Io> {
    /// It runs on this thread.
    Here(Shard<I>),
    /// It runs on another.
    There {
        /// This thread's end of the handover.
        handover: Rc<Handover>,
        /// The other thread.
        thread: usize,
    },
}

/// A thread's way to all shards of a pool.
pub struct PoolClient<I: Io> {
    io: I,
    shards: Rc<Vec<ShardLink<I>>>,
    /// Blocks of an extent: consecutive extents of a volume belong to different shards.
    extent_blocks: u64,
}

impl<I: Io> Clone for PoolClient<I> {
    fn clone(&self) -> Self {
        let (io, shards) = (self.io.clone(), Rc::clone(&self.shards));
        PoolClient { io, shards, extent_blocks: self.extent_blocks }
    }
}

impl<I: Io> PoolClient<I> {
    /// A client of the shards, in order, of a pool of this configuration.
    pub fn new(io: I, config: &Config, shards: Vec<ShardLink<I>>) -> PoolClient<I> {
        PoolClient { io, shards: Rc::new(shards), extent_blocks: config.geometry.extent_blocks() }
    }

    /// A volume of the pool, for one connection. All clones of the handle are that connection.
    pub fn volume(&self, shared: Arc<VolumeShared>) -> VolumeHandle<I> {
        self.volume_of(&Connection::new(shared))
    }

    /// The volume of a connection that several threads serve.
    pub fn volume_of(&self, connection: &Connection) -> VolumeHandle<I> {
        let Connection(counted) = connection;
        let (volume, _counted) = (Arc::clone(&counted.0), Arc::clone(counted));
        VolumeHandle { client: self.clone(), shared: Rc::new(Connected { volume, _counted }) }
    }
}

/// A connection of a client to a volume: counted until all clones, and all handles made of them, are dropped.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Counted>);

impl Connection {
    /// Another connection.
    pub fn new(volume: Arc<VolumeShared>) -> Connection {
        volume.connections.fetch_add(1, Ordering::SeqCst);
        Connection(Arc::new(Counted(volume)))
    }

    /// The volume.
    pub fn volume(&self) -> &Arc<VolumeShared> {
        &self.0.0
    }
}

#[derive(Debug)]
struct Counted(Arc<VolumeShared>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The volume of a connection, as one thread uses it.
struct Connected {
    volume: Arc<VolumeShared>,
    _counted: Arc<Counted>,
}

impl Deref for Connected {
    type Target = VolumeShared;

    fn deref(&self) -> &VolumeShared {
        &self.volume
    }
}

/// One volume, as a client on one thread sees it.
pub struct VolumeHandle<I: Io> {
    client: PoolClient<I>,
    shared: Rc<Connected>,
}

impl<I: Io> Clone for VolumeHandle<I> {
    fn clone(&self) -> Self {
        VolumeHandle { client: self.client.clone(), shared: Rc::clone(&self.shared) }
    }
}

impl<I: Io> VolumeHandle<I> {
    fn check(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let end = self.shared.end()?;
        if offset.checked_add(len).is_some_and(|last| last <= end) {
            Ok(())
        } else {
            Err(VolumeError::OutOfRange)
        }
    }

    /// Checks the range of a request, and waits until the limits of the volume let it begin, if there are any. `bytes` are those
    /// that it is charged for.
    async fn admit(&self, offset: u64, len: u64, bytes: u64) -> Result<(), VolumeError> {
        self.check(offset, len)?;
        if self.shared.limiter.is_limited() {
            let is_over = || self.shared.end().is_err();
            // On the heap: a future inside this one would make each request a larger task.
            Box::pin(self.shared.limiter.admit(&self.client.io, bytes, is_over)).await;
            // The volume may be gone or smaller now.
            self.check(offset, len)?;
        }
        Ok(())
    }

    fn parts(&self, first: u64, blocks: u64) -> impl Iterator<Item = ShardRange> {
        shard_ranges(first, blocks, self.client.extent_blocks, self.shards())
    }

    fn shards(&self) -> usize {
        self.client.shards.len()
    }

    async fn call(&self, index: usize, request: Request) -> Result<Reply, VolumeError> {
        let answer = match &self.client.shards[index] {
            ShardLink::Here(shard) => shard.serve(self.shared.id, request).await,
            ShardLink::There { handover, thread } => {
                handover.call(*thread, index, self.shared.id, request).await
            }
        };
        if matches!(answer, Err(VolumeError::NoSpace)) {
            self.shared.refused_for_room.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// The part that a range consists of, if it is one alone.
    fn only_part(&self, first: u64, blocks: u64) -> Option<ShardRange> {
        self.parts(first, blocks).next().filter(|part| part.blocks == blocks)
    }

    /// Sends one request per part and gives the replies in order.
    async fn call_parts(
        &self,
        first: u64,
        blocks: u64,
        mut request: impl FnMut(ShardRange) -> Request,
    ) -> Result<Vec<Reply>, VolumeError> {
        let calls: Vec<_> =
            self.parts(first, blocks).map(|part| self.call(part.shard, request(part))).collect();
        join_all(calls).await.into_iter().collect()
    }

    async fn read_blocks(&self, first: u64, blocks: u64) -> Result<Bufs, VolumeError> {
        if let Some(part) = self.only_part(first, blocks) {
            let request = Request::Read { local: part.local, count: blocks as u32 };
            return self.call(part.shard, request).await.map(data_of);
        }
        let request = |part: ShardRange| Request::Read { local: part.local, count: part.blocks as u32 };
        let replies = Box::pin(self.call_parts(first, blocks, request)).await?;
        Ok(replies.into_iter().flat_map(data_of).collect())
    }

    async fn write_blocks(&self, first: u64, data: Buf) -> Result<(), VolumeError> {
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        match self.only_part(first, blocks) {
            Some(part) => {
                self.call(part.shard, Request::Write { local: part.local, data }).await?;
            }
            None => Box::pin(self.write_parts(first, data)).await?,
        }
        self.shared.damage.note_good(first, blocks);
        Ok(())
    }

    /// Writes blocks that belong to several extents.
    async fn write_parts(&self, first: u64, data: Buf) -> Result<(), VolumeError> {
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        let mut rest = data;
        let cut = |part: ShardRange| {
            let bytes = part.blocks as usize * BLOCK_BYTES;
            let front = rest.slice(0, bytes);
            rest = rest.slice(bytes, rest.len() - bytes);
            Request::Write { local: part.local, data: front }
        };
        self.call_parts(first, blocks, cut).await.map(drop)
    }

    /// Finds the blocks of a range that cannot be read, by halves.
    async fn find_damage(&self, first: u64, blocks: u64) {
        let mut left = vec![(first, blocks)];
        let mut probes = 0;
        while let Some((first, blocks)) = left.pop() {
            probes += 1;
            match self.read_blocks(first, blocks).await {
                Ok(_) => self.shared.damage.note_good(first, blocks),
                Err(VolumeError::Failed) if blocks > 1 && probes < PROBES_MAX => {
                    let half = blocks / 2;
                    left.extend([(first + half, blocks - half), (first, half)]);
                }
                Err(VolumeError::Failed) => self.shared.damage.note_unreadable(first, blocks),
                // The volume or its server is going away.
                Err(_) => return,
            }
        }
    }

    async fn merge(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        let mut parts = self.parts(offset / BLOCK, 1);
        let part = parts.next().expect("one block has one part");
        let request =
            Request::Merge { local: part.local, at: (offset % BLOCK) as usize, bytes: bytes.to_vec() };
        self.call(part.shard, request).await?;
        self.shared.damage.note_good(offset / BLOCK, 1);
        Ok(())
    }

    async fn write_unaligned(&self, offset: u64, data: &Buf) -> Result<(), VolumeError> {
        let (mut at, mut rest) = (offset, data.bytes());
        while !rest.is_empty() {
            let within = at % BLOCK;
            let whole = rest.len() as u64 / BLOCK * BLOCK;
            let bytes = if within == 0 && whole > 0 {
                self.write_blocks(at / BLOCK, Buf::copy_of(&rest[..whole as usize])).await?;
                whole
            } else {
                let bytes = (BLOCK - within).min(rest.len() as u64);
                self.merge(at, &rest[..bytes as usize]).await?;
                bytes
            };
            at += bytes;
            rest = &rest[bytes as usize..];
        }
        Ok(())
    }

    async fn unmap(&self, first: u64, blocks: u64) -> Result<(), VolumeError> {
        // One request per shard, not per extent: what lies between two extents of a shard is its neighbour there.
        let shards = self.shards();
        let calls = (0..shards).filter_map(|shard| {
            let local = dealt(first, self.client.extent_blocks, shard, shards);
            let count = dealt(first + blocks, self.client.extent_blocks, shard, shards) - local;
            (count > 0).then(|| self.call(shard, Request::Unmap { local, count }))
        });
        join_all(calls).await.into_iter().try_for_each(|reply| reply.map(|_| ()))?;
        self.shared.damage.note_good(first, blocks);
        Ok(())
    }
}

impl<I: Io> Volume for VolumeHandle<I> {
    fn size_bytes(&self) -> u64 {
        self.shared.end().unwrap_or(0)
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Bufs, VolumeError> {
        self.admit(offset, u64::from(len), u64::from(len)).await?;
        let (first, end) = (offset / BLOCK, (offset + u64::from(len)).div_ceil(BLOCK));
        let mut bufs = match self.read_blocks(first, end - first).await {
            Err(VolumeError::Failed) => {
                // On the heap: a future inside this one would make each read a larger task.
                Box::pin(self.find_damage(first, end - first)).await;
                return Err(VolumeError::Failed);
            }
            bufs => bufs?,
        };
        self.shared.damage.note_good(first, end - first);
        trim(&mut bufs, (offset % BLOCK) as usize, len as usize);
        Ok(bufs)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        self.admit(offset, data.len() as u64, data.len() as u64).await?;
        if offset.is_multiple_of(BLOCK) && data.len().is_multiple_of(BLOCK_BYTES) {
            self.write_blocks(offset / BLOCK, data).await?;
        } else {
            Box::pin(self.write_unaligned(offset, &data)).await?;
        }
        if fua { Box::pin(self.flush()).await } else { Ok(()) }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.shared.end()?;
        let calls = (0..self.shards()).map(|shard| self.call(shard, Request::Flush));
        join_all(calls).await.into_iter().try_for_each(|reply| reply.map(|_| ()))
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.admit(offset, len, 0).await?;
        let (first, end) = (offset.div_ceil(BLOCK), (offset + len) / BLOCK);
        if first < end { self.unmap(first, end - first).await } else { Ok(()) }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.admit(offset, len, 0).await?;
        let end = offset + len;
        let (first_whole, end_whole) = (offset.div_ceil(BLOCK) * BLOCK, end / BLOCK * BLOCK);
        if first_whole >= end_whole {
            // Nothing whole inside: at most two partial blocks.
            self.write_unaligned(offset, &Buf::zeroed(len as usize)).await?;
        } else {
            self.write_unaligned(offset, &Buf::zeroed((first_whole - offset) as usize)).await?;
            self.unmap(first_whole / BLOCK, (end_whole - first_whole) / BLOCK).await?;
            self.write_unaligned(end_whole, &Buf::zeroed((end - end_whole) as usize)).await?;
        }
        if fua { self.flush().await } else { Ok(()) }
    }

    async fn status(&self, offset: u64, len: u64) -> Result<Vec<Extent>, VolumeError> {
        self.check(offset, len)?;
        let (first, end) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
        let mut merged: Vec<Extent> = Vec::new();
        let request = |part: ShardRange| Request::Extents { local: part.local, count: part.blocks as u32 };
        for reply in self.call_parts(first, end - first, request).await? {
            let Reply::Extents(extents) = reply else { unreachable!("extents are answered with extents") };
            for extent in extents {
                match merged.last_mut() {
                    Some(last) if last.allocated == extent.allocated => last.bytes += extent.bytes,
                    _ => merged.push(extent),
                }
            }
        }
        if let Some(front) = merged.first_mut() {
            front.bytes -= offset % BLOCK;
        }
        if let Some(back) = merged.last_mut() {
            back.bytes -= end * BLOCK - (offset + len);
        }
        Ok(merged)
    }
}

/// What a read is answered with.
fn data_of(reply: Reply) -> Bufs {
    match reply {
        Reply::Data(data) => data,
        _ => unreachable!("a read is answered with data"),
    }
}

/// Cuts buffers that hold whole blocks down to the bytes asked for.
fn trim(bufs: &mut [Buf], skip: usize, len: usize) {
    if skip > 0
        && let Some(first) = bufs.first_mut()
    {
        *first = first.slice(skip, first.len() - skip);
    }
    let beyond = bufs.iter().map(Buf::len).sum::<usize>() - len;
    if beyond > 0
        && let Some(last) = bufs.last_mut()
    {
        *last = last.slice(0, last.len() - beyond);
    }
}
