//! The failure of a member under load, and the rebuild of what it held.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_engine::control::Control;
use sinew_engine::pool::Candidate;
use sinew_format::model::mapped_geometry::CHUNK_BYTES;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_members::status::ShardStatus;
use sinew_sim::{CrashPolicy, OpenPool, SimIo, World};

use crate::file::fails::{FailsSpec, ReplacementName};
use crate::results::simulated::RebuiltResult;
use crate::run::reliability_arithmetic;
use crate::system::members::Member;
use crate::units::nanoseconds;
use crate::{Error, Result};

/// How often the end of the rebuild is checked.
const CHECK_NS: u64 = 20_000_000;

/// A member that fails, or has failed.
pub(crate) struct MemberFailure {
    /// When the member failed, and when nothing was degraded any more.
    began: Rc<Cell<Option<u64>>>,
    ended: Rc<Cell<Option<u64>>>,
    /// What the engine refused.
    refused: Rc<RefCell<Option<String>>>,
    /// Bytes rebuilt before.
    before: u64,
}

impl MemberFailure {
    /// Starts a task that has the member fail, and that replaces it.
    ///
    /// # Errors
    /// [`Error::Engine`] if the pool does not report its status.
    pub(crate) fn start(
        world: &World,
        fails: &FailsSpec,
        pool: &OpenPool,
        members: &[Member],
    ) -> Result<MemberFailure> {
        let failure = MemberFailure {
            began: Rc::default(),
            ended: Rc::default(),
            refused: Rc::default(),
            before: rebuilt_bytes(world, pool)?,
        };
        let (began, ended, refused) =
            (Rc::clone(&failure.began), Rc::clone(&failure.ended), Rc::clone(&failure.refused));
        let (control, io) = (Rc::clone(&pool.control), world.io());
        let (index, device) = (fails.member, world.device(members[fails.member].device));
        let (replace, at) = (fails.replace, nanoseconds(fails.at_s));
        let new = members.last().filter(|_| replace == ReplacementName::New);
        let new = new.map(|member| member.candidate(members.len() - 1));
        world.spawn(async move {
            io.sleep(at).await;
            device.detach(CrashPolicy::DropAll);
            began.set(Some(io.now()));
            if let Err(why) = replace_member(&control, index, replace, new).await {
                *refused.borrow_mut() = Some(why);
                return;
            }
            while replace != ReplacementName::None && !is_whole(&control).await {
                io.sleep(CHECK_NS).await;
            }
            ended.set(Some(io.now()));
        });
        Ok(failure)
    }

    /// Whether everything is rebuilt, or the engine refused something.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get().is_some() || self.refused.borrow().is_some()
    }

    /// The result.
    ///
    /// # Errors
    /// [`Error::Engine`] if the engine refused the replacement, [`Error::Setting`] if the arithmetic of the file has a value
    /// without meaning.
    pub(crate) fn result(
        &self,
        world: &World,
        pool: &OpenPool,
        fails: &FailsSpec,
        seed: u64,
    ) -> Result<RebuiltResult> {
        if let Some(why) = self.refused.borrow_mut().take() {
            return Err(Error::engine("replacing a member", why));
        }
        let bytes = rebuilt_bytes(world, pool)? - self.before;
        let is_rebuilt = fails.replace != ReplacementName::None;
        let times = self.began.get().zip(self.ended.get()).filter(|_| is_rebuilt);
        let took_ns = times.map(|(began, ended)| ended - began);
        let bytes_per_s = took_ns.map(|took| bytes as f64 / (took.max(1) as f64 / 1e9));
        let loss = match (&fails.loss, bytes_per_s) {
            (Some(loss), Some(rate)) if rate > 0.0 => {
                let measured = loss.rebuilt_at(rate);
                Some(reliability_arithmetic::of_pool(&measured, seed)?)
            }
            _ => None,
        };
        Ok(RebuiltResult { took_ns, bytes, bytes_per_s, loss })
    }
}

/// Records the failure, and replaces the member by a new one or has what it held rebuilt into free space. A spare takes its
/// place by itself.
async fn replace_member(
    control: &Control<SimIo>,
    index: usize,
    replace: ReplacementName,
    new: Option<Candidate>,
) -> Result<(), String> {
    control.fail(index).await.map_err(|error| error.to_string())?;
    match replace {
        ReplacementName::New | ReplacementName::FreeSpace => {
            control.replace(index, new, true).await.map_err(|error| error.to_string())
        }
        ReplacementName::Spare | ReplacementName::None => Ok(()),
    }
}

async fn is_whole(control: &Control<SimIo>) -> bool {
    let whole = |status: ShardStatus| {
        status.stripes_degraded == 0
            && status.metadata_unsettled == 0
            && status.rebuild_chunks_left == 0
            && status.member_chunks_stale.iter().all(|&stale| stale == 0)
    };
    control.status().await.is_ok_and(whole)
}

/// Bytes of the chunks rebuilt since the pool was opened.
fn rebuilt_bytes(world: &World, pool: &OpenPool) -> Result<u64> {
    let control = Rc::clone(&pool.control);
    let chunk_bytes = match control.config().geometry {
        PoolGeometry::Array(array) => u64::from(array.layout.chunk_bytes()),
        PoolGeometry::Mapped(_) => CHUNK_BYTES,
    };
    let status = world.block_on(async move { control.status().await });
    let status = status.map_err(|stuck| Error::engine("reading the status", stuck))?;
    let status = status.map_err(|error| Error::engine("reading the status", error))?;
    Ok(status.counters.chunks_rebuilt * chunk_bytes)
}
