//! The latency of a modelled drive for a member: the flash model of `sinew-devices`, advanced with the clock.
//!
//! Every request is submitted to the model when it arrives, and goes to the real device when the model has completed it.
//! The model has its own queue, buffer and cleaning, so latencies depend on the other requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sinew_devices::flash::{Config, Redundancy, Ssd};
use sinew_devices::{BLOCK_BYTES, Command, Completion, Device, Kind};

use crate::clock::now;

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveModel {
    /// Its name.
    pub name: &'static str,
    /// Its parameters. The model is scaled to the size of the member with the same fraction of spare space, or more if the
    /// minimum number of erase blocks requires it.
    pub config: Config,
    /// Aging before use: the drive is written once in order, then this many times its size at random.
    pub aged: Option<f64>,
    /// Of what it was written with when it was aged.
    pub seed: u64,
}

impl DriveModel {
    /// Scales the drive to the size of a member.
    ///
    /// # Errors
    /// When the model cannot have this size.
    pub fn sized(&self, bytes: u64) -> Result<Config, TooLarge> {
        let blocks = bytes / u64::from(BLOCK_BYTES);
        let spare = self.config.alpha() - 1.0;
        // Its addresses have 32 bits, and those of flash are more.
        let fits = blocks > 0 && (blocks as f64 * (spare + 1.5)) < f64::from(u32::MAX);
        if fits { Ok(self.config.clone().sized(blocks as u32, spare)) } else { Err(TooLarge { bytes }) }
    }
}

/// The member is too large for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a modelled drive cannot have {bytes} bytes: use a smaller member")]
pub struct TooLarge {
    bytes: u64,
}

impl fmt::Display for DriveModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.aged {
            Some(times) => {
                write!(f, "a {} SSD aged by {times} times its size, seed {}", self.name, self.seed)?;
            }
            None => write!(f, "a new {} SSD", self.name)?,
        }
        let (scheme, striping) = match self.config.redundancy {
            Redundancy::EccOnly => return Ok(()),
            Redundancy::Raid5(striping) => ("RAID-5", striping),
            Redundancy::Elastic(striping) => ("eSAP", striping),
        };
        let loss = if self.config.redundancy.survives_a_die(self.config.all_dies()) { "die" } else { "page" };
        write!(f, ", {scheme} of {} elements, which survives the loss of a {loss}", striping.units)
    }
}

pub(crate) struct Drive(Arc<Mutex<Modelled>>);

/// A model, its clock, and the requests that wait for it.
pub(crate) struct Modelled {
    ssd: Ssd,
    /// When its clock began.
    began: u64,
    next_tag: u64,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// The time at which a task will next advance the model; a task that planned another time ends.
    looks_at: Option<u64>,
    completed: Vec<Completion>,
}

impl Drive {
    pub(super) fn new(model: &DriveModel, bytes: u64) -> Drive {
        let config = model.sized(bytes).expect("the caller has checked that the drive fits the member");
        let mut ssd = Ssd::new(config, model.seed);
        if let Some(times) = model.aged {
            ssd.age(times);
        }
        Drive(Arc::new(Mutex::new(Modelled {
            ssd,
            began: now(),
            next_tag: 0,
            waiting: BTreeMap::new(),
            looks_at: None,
            completed: Vec::new(),
        })))
    }

    /// Submits a request to the model. Returns its completion, and the time at which the caller has to advance the model, if
    /// any.
    pub(crate) fn submit(&self, kind: Kind, offset: u64, bytes: u64) -> Submitted {
        let (done, answered) = oneshot::async_channel();
        let block = u64::from(BLOCK_BYTES);
        let (lba, blocks) = ((offset / block) as u32, (bytes / block) as u32);
        let look_at = lock(&self.0).submit(Command { tag: 0, kind, lba, blocks }, done);
        Submitted { answered, look_at }
    }

    /// The model, for the task that advances it.
    pub(crate) fn model(&self) -> Arc<Mutex<Modelled>> {
        Arc::clone(&self.0)
    }
}

/// A request in flight in a modelled drive.
pub(crate) struct Submitted {
    pub(crate) answered: oneshot::AsyncReceiver<()>,
    /// The time of the next event of the model, if no task waits for it yet.
    pub(crate) look_at: Option<u64>,
}

pub(crate) fn lock(drive: &Arc<Mutex<Modelled>>) -> MutexGuard<'_, Modelled> {
    drive.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Modelled {
    /// The time of the model.
    pub(crate) fn clock(&self) -> u64 {
        now().saturating_sub(self.began)
    }

    /// Returns the time of the next advance, if no task plans an earlier one.
    fn submit(&mut self, command: Command, done: oneshot::Sender<()>) -> Option<u64> {
        self.advance();
        let tag = self.next_tag;
        self.next_tag += 1;
        self.waiting.insert(tag, done);
        let at = self.ssd.now();
        self.ssd.submit(at, Command { tag, ..command });
        let next = self.ssd.next_event()?;
        if self.looks_at.is_some_and(|planned| planned <= next) {
            return None;
        }
        self.looks_at = Some(next);
        Some(next)
    }

    /// Advances the model for the task that planned to do so at `at`; returns the next time. `None` if another task is
    /// earlier, or if the model has no more events.
    pub(crate) fn look(&mut self, at: u64) -> Option<u64> {
        if self.looks_at != Some(at) {
            return None;
        }
        self.advance();
        self.looks_at = self.ssd.next_event();
        self.looks_at
    }

    fn advance(&mut self) {
        let at = self.clock().max(self.ssd.now());
        self.ssd.advance(at, &mut self.completed);
        for completion in self.completed.drain(..) {
            if let Some(done) = self.waiting.remove(&completion.tag) {
                // The request may have been dropped.
                let _ = done.send(());
            }
        }
    }
}
