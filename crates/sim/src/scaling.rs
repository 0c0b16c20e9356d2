//! How the throughput of a mapped pool grows with cores: the engine with a shard and clients on each simulated core, whose time is
//! that of [`ProcessorCosts`].
//!
//! Members answer at once, so that the cores are what bounds it. What a request costs follows from what the engine does for it:
//! polls, requests to members, and messages between cores; batches, groups of the journal and waiting are those of the engine.
//! Latencies are not reported: what a poll does happens at its beginning.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::sharding::shard_ranges;

use crate::device::DeviceConfig;
use crate::host::{OpenPool, SimVolume};
use crate::latency::Latency;
use crate::processor::{ProcessorCosts, ProcessorUsage};
use crate::world::{SimIo, Stuck, World};

const VOLUME: &str = "volume";
const MEMBERS: usize = 8;
const MEMBER_BYTES: u64 = 8 << 30;
const VOLUME_BYTES: u64 = 512 << 20;
const FILL_BYTES: u64 = 1 << 20;
/// The longest request.
pub const REQUEST_BYTES_MAX: u64 = 1 << 20;
const SETTLE_NS: u64 = 2_000_000_000;

/// A load on a number of cores.
#[derive(Clone, Copy, Debug)]
pub struct ScalingSpec {
    /// The seed of the world.
    pub seed: u64,
    /// The cores, each with a thread of the server, a shard and clients.
    pub cores: usize,
    /// Clients over all cores, each with one request under way.
    pub depth: usize,
    /// Bytes of a request, a multiple of 4 KiB and at most [`REQUEST_BYTES_MAX`].
    pub request_bytes: u64,
    /// Writes in a hundred requests.
    pub write_percent: u64,
    /// What takes time on a core.
    pub costs: ProcessorCosts,
    /// How long the load runs before it counts.
    pub warm_up_ns: u64,
    /// For how long it counts.
    pub run_ns: u64,
}

/// What a load was served.
#[derive(Clone, Debug)]
pub struct Scaled {
    /// Requests that ended.
    pub requests: u64,
    /// What each core did.
    pub usage: Vec<ProcessorUsage>,
}

/// Serves a load.
///
/// # Errors
/// [`Stuck`] when the simulated server cannot go on.
///
/// # Panics
/// When the pool cannot be made, or a request fails.
pub fn serve(spec: ScalingSpec) -> Result<Scaled, Stuck> {
    let world = World::new(spec.seed);
    world.trace_no_content();
    world.set_processors(spec.cores, ProcessorCosts::default());
    let latency = Latency { read_ns: 0, write_ns: 0, flush_ns: 0, block_ns: 0, jitter_ns: 0, lanes: 1 };
    let config =
        DeviceConfig { latency, drop_zeros: true, inline: true, ..DeviceConfig::of_bytes(MEMBER_BYTES) };
    let members: Vec<Candidate> = (0..MEMBERS)
        .map(|i| Candidate { device: world.add_device(config.clone()), path: format!("member{i}") })
        .collect();
    let (io, cores) = (world.io(), spec.cores);
    let (pool, clients) = world.block_on(async move {
        let kind = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true };
        let pool = PoolSpec {
            name: "pool".to_owned(),
            kind,
            shards: cores,
            journal_blocks: None,
            force: false,
            physical: None,
        };
        pool::create(&io, &members, &pool).await.expect("the pool can be made");
        let (pool, clients) = OpenPool::open_on_cores(io, members, cores).await.expect("it can be opened");
        pool.control.create_volume(VOLUME, VOLUME_BYTES).await.expect("the volume can be made");
        let volume = pool.volume(VOLUME).expect("just made");
        for offset in (0..VOLUME_BYTES).step_by(FILL_BYTES as usize) {
            let data = Buf::zeroed(FILL_BYTES as usize);
            volume.write(offset, data, false).await.expect("it has room");
        }
        volume.flush().await.expect("it can be flushed");
        (pool, clients)
    })?;
    let extent_blocks = pool.control.config().geometry.extent_blocks();
    // What the volume was filled with is put into stripes first.
    world.run_for(SETTLE_NS)?;
    world.set_processors(spec.cores, spec.costs);
    let ended: Rc<Cell<u64>> = Rc::default();
    for client in 0..spec.depth {
        let core = client % spec.cores;
        let volume = clients[core].volume(VOLUME).expect("it is there");
        let load = Client { spec, core, extent_blocks, volume, io: world.io(), ended: Rc::clone(&ended) };
        world.io().spawn_on(core, async move {
            let failed = load.run().await;
            panic!("members are good, and a request failed: {failed:?}")
        });
    }
    world.run_for(spec.warm_up_ns)?;
    let (ended_before, before) = (ended.get(), world.processor_usage());
    world.run_for(spec.run_ns)?;
    let usage = world.processor_usage().into_iter().zip(before).map(|(now, before)| now - before).collect();
    Ok(Scaled { requests: ended.get() - ended_before, usage })
}

/// A client with one request under way, at random places.
struct Client {
    spec: ScalingSpec,
    core: usize,
    extent_blocks: u64,
    volume: SimVolume,
    io: SimIo,
    ended: Rc<Cell<u64>>,
}

impl Client {
    /// Makes requests for ever.
    async fn run(&self) -> Result<Infallible, VolumeError> {
        let (bytes, places) = (self.spec.request_bytes, VOLUME_BYTES / self.spec.request_bytes);
        loop {
            let offset = self.io.random() % places * bytes;
            if self.crosses(offset) {
                self.io.cross();
            }
            if self.io.random() % 100 < self.spec.write_percent {
                self.volume.write(offset, Buf::zeroed(bytes as usize), false).await?;
            } else {
                self.volume.read(offset, bytes as u32).await?;
            }
            self.ended.set(self.ended.get() + 1);
        }
    }

    /// Whether a request, which is within an extent, belongs to a shard of another core.
    fn crosses(&self, offset: u64) -> bool {
        let (block, cores) = (offset / BLOCK_BYTES as u64, self.spec.cores);
        shard_ranges(block, 1, self.extent_blocks, cores).any(|range| range.shard != self.core)
    }
}

const _: () =
    assert!(VOLUME_BYTES.is_multiple_of(FILL_BYTES) && FILL_BYTES.is_multiple_of(BLOCK_BYTES as u64));
