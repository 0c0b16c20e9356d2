//! Devices that take the time of a model of `sinew-devices` instead of a [`crate::Latency`].
//!
//! The model is driven by the world's event queue: a request is submitted to it when it arrives, and the queue holds one
//! event for the model's next one. The model determines when a request ends, the device its effect on data, so faults,
//! crashes and content are as for any other device. After a power loss the model continues with the requests it had; its
//! answers to forgotten requests are ignored.

use sinew_core::io::IoError;
use sinew_devices::disk::Disk;
use sinew_devices::flash::Ssd;
use sinew_devices::{BLOCK_BYTES, Command, Completion, Device as Timed, Kind, Outcome};

use crate::faults::{EIO, ENOSPC, FaultCounts, OpKind};

/// A timing model.
#[derive(Clone, Debug)]
pub enum Model {
    /// A flash SSD.
    Flash(Box<Ssd>),
    /// A disk.
    Disk(Box<Disk>),
}

impl Model {
    fn timed(&self) -> &dyn Timed {
        match self {
            Model::Flash(ssd) => &**ssd,
            Model::Disk(disk) => &**disk,
        }
    }

    fn timed_mut(&mut self) -> &mut dyn Timed {
        match self {
            Model::Flash(ssd) => &mut **ssd,
            Model::Disk(disk) => &mut **disk,
        }
    }

    /// The dies that may fail; none of a disk, or of an SSD that has lost one.
    pub(crate) fn dies(&self) -> u32 {
        match self {
            Model::Flash(ssd) if ssd.lost_die().is_none() => ssd.config().all_dies(),
            Model::Flash(_) | Model::Disk(_) => 0,
        }
    }

    /// The granules in which an SSD that compresses stores blocks, in bytes.
    pub(crate) fn granule_bytes(&self) -> Option<u32> {
        match self {
            Model::Flash(ssd) => ssd.config().compression.map(|compression| compression.granule_bytes),
            Model::Disk(_) => None,
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.timed().blocks()) * u64::from(BLOCK_BYTES)
    }
}

/// The error with which a request ends, if it does, counted. A drive whose space is counted `is_thin`, and has run out of it; any
/// other has failed.
pub(crate) fn error_of(outcome: Outcome, is_thin: bool, counts: &mut FaultCounts) -> Option<IoError> {
    let (error, count) = match outcome {
        Outcome::Done => return None,
        Outcome::NoSpace if is_thin => (IoError::NoSpace, &mut counts.no_space),
        Outcome::NoSpace => (IoError::Failed(ENOSPC), &mut counts.no_space),
        Outcome::ReadOnly => (IoError::Failed(EIO), &mut counts.refused_writes),
        Outcome::Unreadable => (IoError::Failed(EIO), &mut counts.unreadable),
    };
    *count += 1;
    Some(error)
}

/// How busy a device with a model has been since it got the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time with at least one request under way.
    pub busy_ns: u64,
    /// Time times requests under way.
    pub request_ns: u128,
}

/// A model at work.
pub(crate) struct Modelled {
    pub(crate) model: Model,
    /// Order number of the event that stands for the model's next one; 0 when there is none.
    pub(crate) event: u64,
    /// When that is.
    pub(crate) event_at: u64,
    under_way: u64,
    usage: Usage,
    usage_at: u64,
}

impl Modelled {
    pub(crate) fn new(model: Model, now: u64) -> Modelled {
        Modelled { model, event: 0, event_at: 0, under_way: 0, usage: Usage::default(), usage_at: now }
    }

    /// Hands a request over. Addresses are bytes.
    pub(crate) fn submit(&mut self, now: u64, tag: u64, kind: OpKind, offset: u64, bytes: u64) {
        self.count(now);
        self.under_way += 1;
        let kind = match kind {
            OpKind::Read => Kind::Read,
            OpKind::Write => Kind::Write,
            OpKind::Flush => Kind::Flush,
            OpKind::Discard => Kind::Discard,
        };
        let block = u64::from(BLOCK_BYTES);
        let command = Command { tag, kind, lba: (offset / block) as u32, blocks: (bytes / block) as u32 };
        self.model.timed_mut().submit(now, command);
    }

    /// Announces to an SSD that compresses the lengths of blocks from this one on, for their next write.
    pub(crate) fn announce_lengths(&mut self, block: u64, lengths: &[u16]) {
        if let Model::Flash(ssd) = &mut self.model {
            ssd.announce_lengths(block as u32, lengths);
        }
    }

    /// A die of the SSD fails now.
    pub(crate) fn lose_die(&mut self, now: u64, die: u32) {
        if let Model::Flash(ssd) = &mut self.model {
            ssd.lose_die(now, die);
        }
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        self.model.timed().next_event()
    }

    /// Moves the model's clock, and collects the requests that have ended.
    pub(crate) fn advance(&mut self, now: u64, ended: &mut Vec<Completion>) {
        let before = ended.len();
        self.model.timed_mut().advance(now, ended);
        if ended.len() > before {
            self.count(now);
            self.under_way -= (ended.len() - before) as u64;
        }
    }

    fn count(&mut self, now: u64) {
        let span = now - self.usage_at;
        self.usage_at = now;
        if self.under_way > 0 {
            self.usage.busy_ns += span;
            self.usage.request_ns += u128::from(span) * u128::from(self.under_way);
        }
    }

    pub(crate) fn usage(&mut self, now: u64) -> Usage {
        self.count(now);
        self.usage
    }
}
