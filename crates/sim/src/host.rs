//! Opening a pool in the simulated world, as a server does.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;

use async_channel::{Receiver, Sender};
use sinew_core::buf::{Buf, Bufs};
use sinew_core::io::Io;
use sinew_core::volume::{Extent, Volume, VolumeError};
use sinew_engine::client::{PoolClient, ShardLink, VolumeHandle};
use sinew_engine::control::Control;
use sinew_engine::handover::{self, Handover};
use sinew_engine::pool::{self, Candidate, Found, Opener, PoolError};
use sinew_engine::shard::{self, Shard};
use sinew_engine::thread_shards::thread_seeds;
use sinew_members::message::{ControlRequest, ShardEvent};
use sinew_members::open_error::RecoverError;
use sinew_members::recovery_report::RecoveryReport;

use crate::world::SimIo;

/// Limit of the requests in a shard's mailbox.
const MAILBOX: usize = 64;

/// An open pool.
pub struct OpenPool {
    /// Its control.
    pub control: Rc<Control<SimIo>>,
    client: SimClient,
    recovery: RecoveryReport,
    shards: Vec<Shard<SimIo>>,
}

/// Why a pool could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// It was not found.
    Pool(PoolError),
    /// It could not be recovered.
    Recover(RecoverError),
    /// One device fails when it is written; without it, opening may work.
    Device {
        /// Its name.
        path: String,
        /// How.
        why: String,
    },
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OpenError::Pool(error) => error.fmt(f),
            OpenError::Recover(error) => error.fmt(f),
            OpenError::Device { path, why } => write!(f, "{path}: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    fn of_discovery(error: PoolError) -> OpenError {
        match error {
            PoolError::Device { path, error } => OpenError::Device { path, why: error.to_string() },
            other => OpenError::Pool(other),
        }
    }

    fn of_recovery(error: RecoverError, found: &Found) -> OpenError {
        match error {
            RecoverError::MemberFailed { member, .. } => OpenError::Device {
                path: found.config.members[usize::from(member.0)].path.clone(),
                why: error.to_string(),
            },
            other => OpenError::Recover(other),
        }
    }
}

/// A future on the heap. Async functions are compiled again, with all that they call, by every crate that awaits them;
/// one behind this is compiled here alone. The engine is the greatest part of what the tests compile.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Messages that the rings of the handover have room for: few, so that some seeds fill them.
const HANDOVER_ROOM: usize = 8;

/// Which of the shards are reached by the handover.
type Remote<'a> = Box<dyn FnMut() -> bool + 'a>;

impl OpenPool {
    /// The work that recovery did.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Opens the pool on these devices. Shards for which `remote` is true are reached by the handover, as if on another
    /// thread, the others directly.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such pool, or too few of its members.
    pub async fn open(
        io: SimIo,
        devices: Vec<Candidate>,
        remote: impl FnMut() -> bool,
    ) -> Result<OpenPool, OpenError> {
        OpenPool::open_by(io, devices, &Opener::default(), remote).await
    }

    /// As [`OpenPool::open`], with this bound of the table cache.
    ///
    /// # Errors
    /// As there.
    pub async fn open_bounded(
        io: SimIo,
        devices: Vec<Candidate>,
        table_cache: Option<u64>,
        remote: impl FnMut() -> bool,
    ) -> Result<OpenPool, OpenError> {
        let found = discover(&io, &devices, &Opener::default()).await.map_err(OpenError::of_discovery)?;
        open_found(io, Found { table_cache, ..found }, Box::new(remote)).await
    }

    /// As [`OpenPool::open`], by this opener.
    ///
    /// # Errors
    /// As there, and when another host has the pool open.
    pub async fn open_by(
        io: SimIo,
        devices: Vec<Candidate>,
        opener: &Opener,
        remote: impl FnMut() -> bool,
    ) -> Result<OpenPool, OpenError> {
        let found = discover(&io, &devices, opener).await.map_err(OpenError::of_discovery)?;
        open_found(io, found, Box::new(remote)).await
    }

    /// As [`OpenPool::open_bounded`], read-only: with any number of members missing.
    ///
    /// # Errors
    /// [`OpenError`] when there is no such pool, or nothing of it can be read.
    pub async fn open_read_only(
        io: SimIo,
        devices: Vec<Candidate>,
        table_cache: Option<u64>,
        remote: impl FnMut() -> bool,
    ) -> Result<OpenPool, OpenError> {
        let found = discover_read_only(&io, &devices).await.map_err(OpenError::of_discovery)?;
        open_found(io, Found { table_cache, ..found }, Box::new(remote)).await
    }

    /// Opens the pool on these devices as a server with a thread on each of the first `cores` cores does. Returns the ways of
    /// all threads to its volumes, too, in the order of their cores.
    ///
    /// # Errors
    /// As for [`OpenPool::open`].
    pub async fn open_on_cores(
        io: SimIo,
        devices: Vec<Candidate>,
        cores: usize,
    ) -> Result<(OpenPool, Vec<SimClient>), OpenError> {
        let found = discover(&io, &devices, &Opener::default()).await.map_err(OpenError::of_discovery)?;
        open_on_cores(io, found, cores).await
    }

    /// Opens a pool that was discovered, whether it is Sinew's or md's.
    ///
    /// # Errors
    /// [`OpenError`] when there are too few of its members.
    pub async fn open_found(
        io: SimIo,
        found: Found,
        remote: impl FnMut() -> bool,
    ) -> Result<OpenPool, OpenError> {
        open_found(io, found, Box::new(remote)).await
    }

    /// Resources that the shards hold without use; see [`Shard::leaks`].
    pub fn leaks(&self) -> Vec<String> {
        self.shards.iter().flat_map(|shard| shard.leaks()).collect()
    }

    /// Moves of chunks that would make members noticeably more even; see [`Shard::unbalanced`].
    pub fn unbalanced(&self) -> Vec<String> {
        self.shards.iter().flat_map(|shard| shard.unbalanced()).collect()
    }

    /// A volume by name.
    pub fn volume(&self, name: &str) -> Option<SimVolume> {
        self.client.volume(name)
    }
}

#[inline(never)]
fn discover<'a>(
    io: &'a SimIo,
    devices: &'a [Candidate],
    opener: &'a Opener,
) -> Boxed<'a, Result<Found, PoolError>> {
    Box::pin(pool::discover(io, devices, opener))
}

#[inline(never)]
fn discover_read_only<'a>(io: &'a SimIo, devices: &'a [Candidate]) -> Boxed<'a, Result<Found, PoolError>> {
    Box::pin(pool::discover_read_only(io, devices))
}

#[inline(never)]
fn open_found<'a>(io: SimIo, found: Found, mut remote: Remote<'a>) -> Boxed<'a, Result<OpenPool, OpenError>> {
    Box::pin(async move {
        let (control, receivers, events) = start_control(&io, &found);
        let mailboxes = receivers.into_iter().enumerate().collect();
        let Found { config, devices, mode, table_cache, .. } = &found;
        let opened = shard::open_shards(&io, config, devices, mailboxes, &events, *mode, *table_cache).await;
        let (shards, recovery) = opened.map_err(|error| OpenError::of_recovery(error, &found))?;
        let mut ends = handover::endpoints(2, HANDOVER_ROOM).into_iter().map(Handover::new);
        let (here, there) = (ends.next().expect("the first of two"), ends.next().expect("the second of two"));
        let link = |shard: &Shard<SimIo>| match remote() {
            true => ShardLink::There { handover: Rc::clone(&here), thread: 1 },
            false => ShardLink::Here(shard.clone()),
        };
        let links = shards.values().map(link).collect();
        here.start(&io, BTreeMap::new());
        there.start(&io, shards.clone());
        let shards: Vec<Shard<SimIo>> = shards.into_values().collect();
        control.resume(&found).await;
        let client = PoolClient::new(io, &found.config, links);
        let client = SimClient { control: Rc::clone(&control), client };
        Ok(OpenPool { control, client, recovery, shards })
    })
}

#[inline(never)]
fn open_on_cores<'a>(
    io: SimIo,
    found: Found,
    cores: usize,
) -> Boxed<'a, Result<(OpenPool, Vec<SimClient>), OpenError>> {
    Box::pin(async move {
        let (control, receivers, events) = start_control(&io, &found);
        let (done, opened) = async_channel::bounded(cores);
        for (core, seed) in thread_seeds(&found, cores, receivers, &events).into_iter().enumerate() {
            let (io_of, done) = (io.clone(), done.clone());
            io.spawn_on(core, async move {
                let opened = seed.open(&io_of).await;
                let _ = done.send((core, opened)).await;
            });
        }
        drop(done);
        let (mut clients, mut shards) = (BTreeMap::new(), Vec::new());
        let mut recovery = RecoveryReport::default();
        while let Ok((core, opened)) = opened.recv().await {
            let opened = opened.map_err(|error| OpenError::of_recovery(error, &found))?;
            recovery.add(&opened.recovery);
            shards.extend(opened.shards.into_values());
            clients.insert(core, SimClient { control: Rc::clone(&control), client: opened.client });
        }
        control.resume(&found).await;
        let clients: Vec<SimClient> = clients.into_values().collect();
        let client = clients[0].clone();
        Ok((OpenPool { control, client, recovery, shards }, clients))
    })
}

/// The control of a pool, the mailboxes of its shards, and where these send their events.
type Started = (Rc<Control<SimIo>>, Vec<Receiver<ControlRequest>>, Sender<ShardEvent>);

fn start_control(io: &SimIo, found: &Found) -> Started {
    let (events, inbox) = async_channel::bounded(MAILBOX);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..found.config.geometry.shards()).map(|_| async_channel::bounded(MAILBOX)).unzip();
    let control = Control::new(io.clone(), found, senders);
    io.spawn(Rc::clone(&control).run(inbox));
    (control, receivers, events)
}

/// The way of one thread to the volumes of a pool.
#[derive(Clone)]
pub struct SimClient {
    control: Rc<Control<SimIo>>,
    client: PoolClient<SimIo>,
}

impl SimClient {
    /// A volume by name.
    pub fn volume(&self, name: &str) -> Option<SimVolume> {
        Some(SimVolume(self.client.volume(self.control.catalog().get(name)?)))
    }
}

/// A volume of an open pool, for one connection. All clones are that connection.
#[derive(Clone)]
pub struct SimVolume(VolumeHandle<SimIo>);

#[expect(refining_impl_trait, reason = "on the heap, so that other crates do not compile the engine again")]
impl Volume for SimVolume {
    #[inline(never)]
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    #[inline(never)]
    fn read(&self, offset: u64, len: u32) -> Boxed<'_, Result<Bufs, VolumeError>> {
        Box::pin(self.0.read(offset, len))
    }

    #[inline(never)]
    fn write(&self, offset: u64, data: Buf, fua: bool) -> Boxed<'_, Result<(), VolumeError>> {
        Box::pin(self.0.write(offset, data, fua))
    }

    #[inline(never)]
    fn flush(&self) -> Boxed<'_, Result<(), VolumeError>> {
        Box::pin(self.0.flush())
    }

    #[inline(never)]
    fn discard(&self, offset: u64, len: u64) -> Boxed<'_, Result<(), VolumeError>> {
        Box::pin(self.0.discard(offset, len))
    }

    #[inline(never)]
    fn write_zeroes(&self, offset: u64, len: u64, fua: bool) -> Boxed<'_, Result<(), VolumeError>> {
        Box::pin(self.0.write_zeroes(offset, len, fua))
    }

    #[inline(never)]
    fn status(&self, offset: u64, len: u64) -> Boxed<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(self.0.status(offset, len))
    }
}
