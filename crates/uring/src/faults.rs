//! Injected faults of members, to observe the reaction of a pool on real devices.
//!
//! Faults are set before a pool is opened and begin at a time that the setting gives, so that they affect the open pool
//! and not its opening. Errors and corruption are drawn from a seed and the number of the request, so they
//! depend only on the order of requests.

mod drive;

use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Gather, IoError};
use sinew_devices::Rng;

use crate::clock::now;

pub use drive::DriveModel;
pub(crate) use drive::{Drive, Modelled, lock};

/// Bytes of a sector, the unit in which a drive detects errors and loses data.
const SECTOR_BYTES: u64 = 512;

/// A fault of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Latency spikes.
    Spikes(Spikes),
    /// No request is answered, for a time or for ever.
    Silence(Silence),
    /// Every request takes the additional time of a modelled drive.
    Latency(Box<DriveModel>),
    /// Reads or writes fail with EIO.
    Errors(Side, Chance),
    /// Reads return, or writes store, wrong data without an error.
    Corruption(Side, Chance, Damage),
}

/// The kind of requests that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
}

/// The extent of corruption in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// One bit.
    #[default]
    Bit,
    /// Every bit of one sector.
    Sector,
}

/// The requests that a fault affects; all three conditions must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Chance {
    /// The fraction of requests; 1 is all.
    pub rate: f64,
    /// The range of the member that a request must touch.
    pub range: Range<u64>,
    /// The number of requests of the same kind that pass before the fault begins.
    pub after: u64,
    /// The seed of the draws.
    pub seed: u64,
}

/// Periodic latency spikes: requests that arrive within `length` of the beginning of a `period` take `height` longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spikes {
    /// From the beginning of one spike to that of the next.
    pub period: Duration,
    /// The duration of each.
    pub length: Duration,
    /// The additional latency of a request that arrives during one.
    pub height: Duration,
}

/// A period without answers: requests that arrive in it complete at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Its beginning, from the activation of the faults.
    pub after: Duration,
    /// Its duration; `None` is for ever.
    pub length: Option<Duration>,
}

impl Silence {
    /// The delay of a request that arrives `ns` nanoseconds after the faults began.
    fn delay_ns(&self, ns: u64) -> u64 {
        let after = self.after.as_nanos() as u64;
        match self.length {
            _ if ns < after => 0,
            None => u64::MAX,
            Some(length) => (after + length.as_nanos() as u64).saturating_sub(ns),
        }
    }
}

impl Spikes {
    /// Nanoseconds that a request arriving at `now` is held up.
    fn delay_ns(&self, now: u64) -> u64 {
        let period = (self.period.as_nanos() as u64).max(1);
        if now % period < self.length.as_nanos() as u64 { self.height.as_nanos() as u64 } else { 0 }
    }
}

impl Chance {
    /// Whether the fault befalls request `number` of its side, and random numbers for what it does.
    fn strikes(&self, number: u64, offset: u64, bytes: u64) -> Option<Rng> {
        let touches = offset < self.range.end && self.range.start < offset + bytes;
        if number < self.after || !touches {
            return None;
        }
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        (rng.unit() < self.rate).then_some(rng)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Side::Reads { "reads" } else { "writes" })
    }
}

impl fmt::Display for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} % of them", self.rate * 100.0)?;
        if self.range != (0..u64::MAX) {
            write!(f, " at bytes {} to {}", self.range.start, self.range.end)?;
        }
        if self.after > 0 {
            write!(f, " after {}", self.after)?;
        }
        write!(f, ", seed {}", self.seed)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Spikes(Spikes { period, length, height }) => {
                write!(f, "requests take {height:?} longer, for {length:?} of every {period:?}")
            }
            Fault::Silence(Silence { after, length: None }) => {
                write!(f, "nothing is answered after {after:?}")
            }
            Fault::Silence(Silence { after, length: Some(length) }) => {
                write!(f, "nothing is answered for {length:?} after {after:?}")
            }
            Fault::Latency(model) => write!(f, "requests take longer by what they would on {model}"),
            Fault::Errors(side, chance) => write!(f, "{side} fail: {chance}"),
            Fault::Corruption(side, chance, damage) => {
                let damage = if *damage == Damage::Bit { "bit" } else { "sector" };
                write!(f, "{side} have a wrong {damage}: {chance}")
            }
        }
    }
}

/// The faults of one member.
pub(crate) struct Faults {
    list: Vec<Given>,
    /// When they began, in nanoseconds; 0 until then.
    began: AtomicU64,
    /// Requests of each kind since the faults became active.
    reads: AtomicU64,
    writes: AtomicU64,
}

/// A fault, and the number of requests it affected.
struct Given {
    fault: Fault,
    drive: Option<Drive>,
    struck: AtomicU64,
}

impl Given {
    fn new(fault: Fault, bytes: u64) -> Given {
        let drive = match &fault {
            Fault::Latency(model) => Some(Drive::new(model, bytes)),
            _ => None,
        };
        Given { fault, drive, struck: AtomicU64::new(0) }
    }

    fn count(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }
}

/// The delay of a request.
pub(crate) enum Delay<'a> {
    /// A fixed time.
    Ns(u64),
    /// Until the modelled drive completes it.
    Drive(&'a Drive),
}

/// The effect of the faults on a request.
#[derive(Default)]
pub(crate) struct Fate {
    fails: bool,
    /// Corruption of bits or sectors, and the random numbers that select them.
    damage: Vec<(Damage, Range<u64>, Rng)>,
}

impl Faults {
    /// Faults of a member of `bytes` bytes; not yet active.
    pub(crate) fn new(faults: Vec<Fault>, bytes: u64) -> Faults {
        let list = faults.into_iter().map(|fault| Given::new(fault, bytes)).collect();
        Faults { list, began: AtomicU64::new(0), reads: AtomicU64::new(0), writes: AtomicU64::new(0) }
    }

    pub(crate) fn begin(&self) {
        self.began.store(now(), Ordering::Release);
    }

    pub(crate) fn are_on(&self) -> bool {
        self.began.load(Ordering::Acquire) > 0
    }

    /// Whether the faults may delay requests.
    pub(crate) fn delay(&self) -> bool {
        let delays =
            |fault: &Fault| matches!(fault, Fault::Spikes(_) | Fault::Silence(_) | Fault::Latency(_));
        self.list.iter().any(|given| delays(&given.fault))
    }

    /// The faults as text, each with the number of requests it affected.
    pub(crate) fn told(&self) -> Vec<(String, u64)> {
        self.list.iter().map(|g| (g.fault.to_string(), g.struck.load(Ordering::Relaxed))).collect()
    }

    /// The delays, one after another, of a request that arrives now.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Delay<'_>> {
        self.list.iter().filter_map(|given| {
            if let Some(drive) = &given.drive {
                given.count();
                return Some(Delay::Drive(drive));
            }
            let ns = match &given.fault {
                Fault::Spikes(spikes) => spikes.delay_ns(now()),
                Fault::Silence(silence) => silence.delay_ns(now() - self.began.load(Ordering::Acquire)),
                _ => 0,
            };
            (ns > 0).then(|| {
                given.count();
                Delay::Ns(ns)
            })
        })
    }

    /// Draws the effect on a request.
    pub(crate) fn draw(&self, side: Side, offset: u64, bytes: u64) -> Fate {
        let seen = if side == Side::Reads { &self.reads } else { &self.writes };
        let number = seen.fetch_add(1, Ordering::Relaxed);
        let mut fate = Fate::default();
        for given in &self.list {
            match &given.fault {
                Fault::Errors(of, chance)
                    if *of == side && chance.strikes(number, offset, bytes).is_some() =>
                {
                    given.count();
                    fate.fails = true;
                }
                Fault::Corruption(of, chance, damage) if *of == side => {
                    if let Some(rng) = chance.strikes(number, offset, bytes) {
                        given.count();
                        let from = chance.range.start.max(offset) - offset;
                        let to = chance.range.end.min(offset + bytes) - offset;
                        fate.damage.push((*damage, from..to, rng));
                    }
                }
                _ => {}
            }
        }
        fate
    }
}

impl Fate {
    /// The error of the kernel for a sector that a drive cannot read or write.
    pub(crate) fn error(&self) -> Option<IoError> {
        self.fails.then_some(IoError::Failed(libc::EIO))
    }

    /// Corrupts data that was read.
    pub(crate) fn spoil(mut self, read: &mut Buf) {
        for (damage, range, rng) in &mut self.damage {
            let (place, mask) = place_of(*damage, range, rng);
            let end = place.end.min(read.len() as u64);
            for byte in &mut read.bytes_mut()[place.start as usize..end as usize] {
                *byte ^= mask;
            }
        }
    }

    /// Returns the corrupted data to write: a copy, since other handles share the original.
    pub(crate) fn spoiled(self, data: Gather) -> Gather {
        if self.damage.is_empty() {
            return data;
        }
        let bytes = data.iter().map(Buf::len).sum::<usize>();
        let mut copy = Buf::zeroed(bytes.next_multiple_of(BLOCK_BYTES));
        let mut at = 0;
        for part in data.iter() {
            copy.bytes_mut()[at..at + part.len()].copy_from_slice(part.bytes());
            at += part.len();
        }
        self.spoil(&mut copy);
        Rc::from([copy])
    }
}

/// The corrupted bytes within `range`, and their wrong bits.
fn place_of(damage: Damage, range: &Range<u64>, rng: &mut Rng) -> (Range<u64>, u8) {
    let at = range.start + rng.bits() % (range.end - range.start);
    match damage {
        Damage::Bit => (at..at + 1, 1 << rng.below(8)),
        Damage::Sector => {
            let sector = at / SECTOR_BYTES * SECTOR_BYTES;
            (sector..sector + SECTOR_BYTES, 0xff)
        }
    }
}

#[cfg(test)]
mod tests;
