//! Requests that wait for as long as the faults of their member say.

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use sinew_core::io::IoError;
use sinew_devices::Kind;

use crate::core::Core;
use crate::device::Device;
use crate::faults::{Delay, Drive, Faults, Modelled, lock};

/// The longest sleep between two looks at whether the device was given up.
const PIECE_NS: u64 = 50_000_000;

/// Holds a request up for as long as the faults of its device say. Fails when the device is given up meanwhile.
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

/// Waits, but not much longer than until the device is given up.
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

/// Waits until a modelled drive would have done the request.
async fn serve(core: &Rc<Core>, drive: &Drive, kind: Kind, offset: u64, bytes: u64) {
    let submitted = drive.submit(kind, offset, bytes);
    if let Some(at) = submitted.look_at {
        core.spawn(watch(Rc::clone(core), drive.model(), at));
    }
    // The sender is dropped unused only when the runtime that was to look has ended.
    let _ = submitted.answered.await;
}

/// Moves a model along as its events come, until another task plans to look earlier or there are no more.
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
