//! A world for the engine to run in: virtual time, faulty devices, crashes, all from one seed.
//!
//! [`World`] holds a clock in nanoseconds, an executor and devices, and hands out [`SimIo`], which implements the
//! engine's `Io`. Nothing here reads a real clock or real randomness, so a run is a function of its seed and of what
//! the caller does; [`World::trace_hash`] is the proof, equal for equal runs.
//!
//! A device keeps what was *written* apart from what is *durable*, so that a power loss may keep, drop or tear every
//! write that no flush covers. Faults are drawn from probabilities ([`DeviceFaults`]) or placed by hand
//! ([`Device::script`]), counted in [`FaultCounts`], and those that destroy data are logged as [`Corruption`]s, so that
//! an oracle can tell what may legally be lost.
//!
//! ```text
//! world       World, SimIo: the whole and the way in
//! executor    tasks, dropping them all at a crash
//! processor   cores, the time that tasks take on them
//! core        requests and the event queue
//! device      one device: cache, durability, power loss
//! inject      one device: the fault that a request meets
//! handle      Device: what tests and oracles see and do
//! host        opening a pool in a world
//! blocks      sparse content, shared by reference
//! lengths     the space that a block takes
//! latency     when a request completes
//! model       when it completes on a modelled SSD or disk
//! controller  what several modelled devices share
//! op          the operations that requests carry
//! faults      fault settings, scripts, counts, the log of corruption
//! thin        the physical space of a device
//! domain      the physical space that several devices share
//! random      seeded streams, one per purpose
//! scaling     how throughput grows with cores
//! torture     random pools under random faults, and the oracle
//! trace       the hash of everything that happened
//! ```

mod blocks;
mod controller;
mod core;
mod device;
mod domain;
mod executor;
mod faults;
mod handle;
mod host;
mod inject;
mod latency;
mod lengths;
mod model;
mod op;
mod processor;
mod random;
pub mod scaling;
mod shared;
mod thin;
pub mod torture;
mod trace;
mod world;

pub use controller::{ControllerLimits, ControllerUsage};
pub use device::{CrashPolicy, DeviceConfig, DeviceStats, DiscardReads};
pub use faults::{Corruption, CorruptionKind, DeviceFaults, EIO, ENOSPC, Fault, FaultCounts, OpKind};
pub use handle::Device;
pub use host::{OpenError, OpenPool, SimClient, SimVolume};
pub use latency::Latency;
pub use lengths::{LengthOf, Lengths};
pub use model::{Model, Usage};
pub use processor::{ProcessorCosts, ProcessorUsage};
pub use random::Rng;
pub use world::{SimIo, Stuck, StuckReason, World};
