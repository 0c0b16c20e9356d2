//! Growing a pool or array under load.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_engine::control::{Control, ControlError};
use sinew_engine::pool::Candidate;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_format::model::pool_geometry::Shape;
use sinew_sim::{OpenPool, SimIo, World};

use crate::members::Member;
use crate::results::{GrewResult, KindResult};
use crate::spec::{GrowsSpec, Spec};
use crate::system::candidate;
use crate::target::Target;
use crate::{Error, Result};

/// How often it is looked whether it has grown.
const LOOK_NS: u64 = 10_000_000;

/// A growth under way.
pub(crate) struct Growing {
    began: u64,
    ended: Rc<Cell<Option<u64>>>,
    failed: Rc<Cell<Option<String>>>,
    /// What there was at its beginning.
    before: Bytes,
}

/// Members that it is made of at first.
pub(crate) fn first_members(spec: &Spec, members: usize) -> usize {
    members - spec.grows.iter().flat_map(|grows| &grows.added).sum::<usize>()
}

/// Begins the additions, one after the other.
pub(crate) fn start(
    world: &World,
    spec: &Spec,
    grows: &GrowsSpec,
    pool: &OpenPool,
    members: &[Member],
) -> Growing {
    let growing = Growing {
        began: world.now(),
        ended: Rc::default(),
        failed: Rc::default(),
        before: Bytes::of(world, pool),
    };
    let mut next = first_members(spec, members.len());
    let mut additions = Vec::new();
    for &added in &grows.added {
        additions.push((next..next + added).map(|i| candidate(i, &members[i])).collect::<Vec<_>>());
        next += added;
    }
    let (control, io) = (Rc::clone(&pool.control), world.io());
    let method: Option<GrowMethod> = grows.method.map(Into::into);
    let (ended, failed) = (Rc::clone(&growing.ended), Rc::clone(&growing.failed));
    world.spawn(async move {
        for addition in additions {
            if let Err(error) = add(&control, addition, method).await {
                failed.set(Some(error.to_string()));
                break;
            }
            while is_growing(&control).await {
                io.sleep(LOOK_NS).await;
            }
        }
        ended.set(Some(io.now()));
    });
    growing
}

/// Adds members, to an array by a method.
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

/// Whether chunks are still to be moved.
async fn is_growing(control: &Control<SimIo>) -> bool {
    match control.config().shape {
        Shape::Array(array) => array.grown.is_some_and(|grown| grown.method().is_some()),
        Shape::Mapped(_) => control.status().await.is_ok_and(|status| status.balance_chunks_left > 0),
    }
}

/// What a pool or array has of chunks.
struct Bytes {
    /// Moved so far.
    moved: u64,
    /// Of chunks that may have to: all of an array, copies not counted, and those in use of a pool.
    all: u64,
}

impl Bytes {
    fn of(world: &World, pool: &OpenPool) -> Bytes {
        let control = Rc::clone(&pool.control);
        let shape = control.config().shape;
        let status = world.block_on(async move { control.status().await });
        let status = status.ok().and_then(Result::ok).unwrap_or_default();
        match shape {
            Shape::Array(array) => {
                let chunk = u64::from(array.layout.chunk_bytes());
                Bytes { moved: status.counters.chunks_moved * chunk, all: array.data_bytes() }
            }
            Shape::Mapped(_) => {
                let moved = status.counters.chunks_balanced * CHUNK_BYTES;
                Bytes { moved, all: status.raw_bytes - status.free_bytes }
            }
        }
    }
}

impl Growing {
    /// Whether it has ended, well or not.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Waits for its end, and for the room that it made.
    pub(crate) fn wait(&self, world: &World, pool: &OpenPool, target: &Target) -> Result<()> {
        let has_room = || target.bytes(0) == pool.control.config().volumes[0].bytes;
        world
            .run_until(|| self.has_ended() && has_room())
            .map_err(|stuck| Error::engine("growing", stuck))?;
        self.failed.take().map_or(Ok(()), |why| Err(Error::engine("growing", why)))
    }

    /// What came of it.
    pub(crate) fn result<'a>(
        &self,
        world: &World,
        pool: &OpenPool,
        requests: impl Iterator<Item = &'a KindResult> + Clone,
    ) -> Result<GrewResult> {
        if let Some(why) = self.failed.take() {
            return Err(Error::engine("growing", why));
        }
        let moved_bytes = Bytes::of(world, pool).moved - self.before.moved;
        let count: u64 = requests.clone().map(|kind| kind.summary.requests).sum();
        let sum: f64 = requests.clone().map(|k| k.summary.latency.mean_ns * k.summary.requests as f64).sum();
        Ok(GrewResult {
            took_ns: self.ended.get().map(|ended| ended - self.began),
            moved_bytes,
            moved: (moved_bytes as f64 / self.before.all as f64 * 1e6).round() / 1e6,
            latency_max_ns: requests.map(|kind| kind.summary.latency.max_ns).max().unwrap_or(0),
            latency_mean_ns: if count > 0 { (sum / count as f64).round() } else { 0.0 },
        })
    }
}
