//! Delays of requests by the injected faults of their member.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use sinew_core::io::IoError;
use sinew_devices::Kind;

use crate::core::Core;
use crate::device::Device;
use crate::faults::{Delay, Drive, Faults, Modelled, lock};

/// The longest sleep between two checks whether the device was abandoned.
const PIECE_NS: u64 = 50_000_000;

/// Delays a request by the faults of its device. Fails if the device is abandoned meanwhile.
pub(crate) async fn hold_up(
    faults: &Faults,
    core: &Rc<Core>,
    device: &Device,
    kind: Kind,
    offset: u64,
    bytes: u64,
) -> Result<(), IoError> {
    for delay in faults.delays() {
        match delay {
            Delay::Ns(ns) => wait(core, device, ns).await?,
            Delay::Drive(drive) => serve(core, drive, kind, offset, bytes).await,
        }
    }
    Ok(())
}

/// Waits until the given time, or until shortly after the device is abandoned.
async fn wait(core: &Rc<Core>, device: &Device, ns: u64) -> Result<(), IoError> {
    let mut left = ns;
    while left > 0 {
        let piece = left.min(PIECE_NS);
        core.sleep(piece).await;
        left -= piece;
        if device.is_closed() {
            return Err(IoError::Gone);
        }
    }
    Ok(())
}

/// Waits until the modelled drive completes the request.
async fn serve(core: &Rc<Core>, drive: &Drive, kind: Kind, offset: u64, bytes: u64) {
    let submitted = drive.submit(kind, offset, bytes);
    if let Some(at) = submitted.look_at {
        core.spawn(watch(Rc::clone(core), drive.model(), at));
    }
    // The sender is dropped unused only if the runtime that drives the model has ended.
    let _ = submitted.answered.await;
}

/// Advances a model at its events, until another task takes over or no events are left.
async fn watch(core: Rc<Core>, drive: Arc<Mutex<Modelled>>, mut at: u64) {
    loop {
        let wait = at.saturating_sub(lock(&drive).clock());
        core.sleep(wait).await;
        match lock(&drive).look(at) {
            Some(next) => at = next,
            None => return,
        }
    }
}
