//! Growing an array under load.

use std::cell::Cell;
use std::rc::Rc;

use sinew_engine::io::Io;
use sinew_engine::shape::Shape;
use sinew_sim::{OpenPool, SimIo, World};

use crate::members::Member;
use crate::results::{GrewResult, KindResult};
use crate::run::candidate;
use crate::spec::{GrowsSpec, Spec};
use crate::{Error, Result};

/// How often it is looked whether an array has grown.
const LOOK_NS: u64 = 1_000_000;

/// A growth under way.
pub(crate) struct Growing {
    began: u64,
    ended: Rc<Cell<Option<u64>>>,
    failed: Rc<Cell<Option<String>>>,
    /// Chunks moved before.
    moved: u64,
}

/// Members that an array is made of at first.
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
        moved: chunks_moved(world, pool),
    };
    let mut next = first_members(spec, members.len());
    let mut additions = Vec::new();
    for &added in &grows.added {
        additions.push((next..next + added).map(|i| candidate(i, &members[i])).collect::<Vec<_>>());
        next += added;
    }
    let (control, io, method) = (Rc::clone(&pool.control), world.io(), grows.method.into());
    let (ended, failed) = (Rc::clone(&growing.ended), Rc::clone(&growing.failed));
    world.spawn(async move {
        for addition in additions {
            if let Err(error) = control.grow(&addition, method, true).await {
                failed.set(Some(error.to_string()));
                break;
            }
            while is_growing(&control) {
                io.sleep(LOOK_NS).await;
            }
        }
        ended.set(Some(io.now()));
    });
    growing
}

fn is_growing(control: &sinew_engine::control::Control<SimIo>) -> bool {
    match control.config().shape {
        Shape::Array(array) => array.grown.is_some_and(|grown| grown.method().is_some()),
        Shape::Mapped(_) => false,
    }
}

fn chunks_moved(world: &World, pool: &OpenPool) -> u64 {
    let control = Rc::clone(&pool.control);
    let status = world.block_on(async move { control.status().await });
    status.ok().and_then(|status| status.ok()).map_or(0, |status| status.counters.chunks_moved)
}

impl Growing {
    /// Whether it has ended, well or not.
    pub(crate) fn has_ended(&self) -> bool {
        let ended = self.ended.take();
        self.ended.set(ended);
        ended.is_some()
    }

    /// Waits for its end.
    pub(crate) fn wait(&self, world: &World) -> Result<()> {
        world.run_until(|| self.has_ended()).map_err(|stuck| Error::engine("growing the array", stuck))?;
        self.failed.take().map_or(Ok(()), |why| Err(Error::engine("growing the array", why)))
    }

    /// What came of it.
    pub(crate) fn result<'a>(
        &self,
        world: &World,
        spec: &Spec,
        pool: &OpenPool,
        bytes_before: u64,
        requests: impl Iterator<Item = &'a KindResult> + Clone,
    ) -> Result<GrewResult> {
        if let Some(why) = self.failed.take() {
            return Err(Error::engine("growing the array", why));
        }
        let moved_bytes = (chunks_moved(world, pool) - self.moved) * spec.array.chunk.0;
        let count: u64 = requests.clone().map(|kind| kind.summary.requests).sum();
        let sum: f64 = requests.clone().map(|k| k.summary.latency.mean_ns * k.summary.requests as f64).sum();
        Ok(GrewResult {
            took_s: self.ended.get().map(|ended| (ended - self.began) as f64 / 1e9),
            moved_bytes,
            moved: (moved_bytes as f64 / bytes_before as f64 * 1e6).round() / 1e6,
            latency_max_ns: requests.map(|kind| kind.summary.latency.max_ns).max().unwrap_or(0),
            latency_mean_ns: if count > 0 { (sum / count as f64).round() } else { 0.0 },
        })
    }
}
