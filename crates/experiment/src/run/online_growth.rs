//! The growth of a pool or array under load.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_engine::control::{Control, ControlError};
use sinew_engine::pool::Candidate;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_sim::{OpenPool, SimIo, World};

use crate::file::spec::{OnlineGrowthSpec, Spec};
use crate::results::simulated::{KindResult, OnlineGrowthResult};
use crate::system::members::Member;
use crate::system::target::Target;
use crate::{Error, Result};

/// How often the end of an addition is checked.
const CHECK_NS: u64 = 10_000_000;

/// A growth in progress, or ended.
pub(crate) struct OnlineGrowth {
    began: u64,
    ended: Rc<Cell<Option<u64>>>,
    /// The error that ended it.
    failed: Rc<Cell<Option<String>>>,
    /// The bytes at its beginning.
    before: ChunkBytes,
}

/// Adds members: to an array with a method, to a pool without.
async fn add(
    control: &Control<SimIo>,
    addition: Vec<Candidate>,
    method: Option<GrowMethod>,
) -> Result<(), ControlError> {
    if method.is_some() {
        return control.grow(&addition, method, true).await;
    }
    for candidate in addition {
        control.add(candidate, true).await?;
    }
    Ok(())
}

/// Whether chunks have still to be moved.
async fn is_growing(control: &Control<SimIo>) -> bool {
    match control.config().geometry {
        PoolGeometry::Array(array) => array.grown.is_some_and(|grown| grown.method().is_some()),
        PoolGeometry::Mapped(_) => control.status().await.is_ok_and(|status| status.balance_chunks_left > 0),
    }
}

/// Bytes of the chunks of a pool or array.
struct ChunkBytes {
    /// Moved since the pool was opened.
    moved: u64,
    /// Those that growth may move: all data of an array without copies, or the used chunks of a pool.
    movable: u64,
}

impl ChunkBytes {
    fn of(world: &World, pool: &OpenPool) -> ChunkBytes {
        let control = Rc::clone(&pool.control);
        let shape = control.config().geometry;
        let status = world.block_on(async move { control.status().await });
        let status = status.ok().and_then(Result::ok).unwrap_or_default();
        match shape {
            PoolGeometry::Array(array) => {
                let chunk = u64::from(array.layout.chunk_bytes());
                ChunkBytes { moved: status.counters.chunks_moved * chunk, movable: array.data_bytes() }
            }
            PoolGeometry::Mapped(_) => {
                let moved = status.counters.chunks_balanced * CHUNK_BYTES;
                ChunkBytes { moved, movable: status.raw_bytes - status.free_bytes }
            }
        }
    }
}

impl OnlineGrowth {
    /// Starts a task that makes the additions, one after the other.
    pub(crate) fn start(
        world: &World,
        spec: &Spec,
        grows: &OnlineGrowthSpec,
        pool: &OpenPool,
        members: &[Member],
    ) -> OnlineGrowth {
        let growth = OnlineGrowth {
            began: world.now(),
            ended: Rc::default(),
            failed: Rc::default(),
            before: ChunkBytes::of(world, pool),
        };
        let mut next = spec.members_at_creation(members.len());
        let mut additions = Vec::new();
        for &added in &grows.added {
            additions.push((next..next + added).map(|i| members[i].candidate(i)).collect::<Vec<_>>());
            next += added;
        }
        let (control, io) = (Rc::clone(&pool.control), world.io());
        let method = grows.method;
        let (ended, failed) = (Rc::clone(&growth.ended), Rc::clone(&growth.failed));
        world.spawn(async move {
            for addition in additions {
                if let Err(error) = add(&control, addition, method).await {
                    failed.set(Some(error.to_string()));
                    break;
                }
                while is_growing(&control).await {
                    io.sleep(CHECK_NS).await;
                }
            }
            ended.set(Some(io.now()));
        });
        growth
    }

    /// Whether it has ended, with success or an error.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Runs the world until the growth has ended and the volume has its new size.
    ///
    /// # Errors
    /// [`Error::Engine`] if the growth failed or the world makes no progress.
    pub(crate) fn wait(&self, world: &World, pool: &OpenPool, target: &Target) -> Result<()> {
        let is_resized = || target.bytes(0) == pool.control.config().volumes[0].bytes;
        world
            .run_until(|| self.has_ended() && is_resized())
            .map_err(|stuck| Error::engine("growing the pool", stuck))?;
        self.failed.take().map_or(Ok(()), |why| Err(Error::engine("growing the pool", why)))
    }

    /// The result. `requests` are those of the measurement.
    ///
    /// # Errors
    /// [`Error::Engine`] if the growth failed.
    pub(crate) fn result<'a>(
        &self,
        world: &World,
        pool: &OpenPool,
        requests: impl Iterator<Item = &'a KindResult> + Clone,
    ) -> Result<OnlineGrowthResult> {
        if let Some(why) = self.failed.take() {
            return Err(Error::engine("growing the pool", why));
        }
        let moved_bytes = ChunkBytes::of(world, pool).moved - self.before.moved;
        let count: u64 = requests.clone().map(|kind| kind.summary.requests).sum();
        let sum: f64 = requests.clone().map(|k| k.summary.latency.mean_ns * k.summary.requests as f64).sum();
        Ok(OnlineGrowthResult {
            took_ns: self.ended.get().map(|ended| ended - self.began),
            moved_bytes,
            moved: (moved_bytes as f64 / self.before.movable as f64 * 1e6).round() / 1e6,
            latency_max_ns: requests.map(|kind| kind.summary.latency.max_ns).max().unwrap_or(0),
            latency_mean_ns: if count > 0 { (sum / count as f64).round() } else { 0.0 },
        })
    }
}
