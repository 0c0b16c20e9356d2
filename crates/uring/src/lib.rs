//! The engine's world on Linux: one thread, one executor and one io_uring per core.
//!
//! [`Runtime`] runs the tasks of one thread; [`UringIo`] is its handle and implements the engine's `Io`. [`Devices`] is
//! shared by all runtimes of the process. [`net`] moves bytes for frontends, [`event`] wakes and is
//! woken by other processes, [`signal`] waits for SIGINT and SIGTERM,
//! [`inherited`] has the sockets that the process was started with, [`threads`] starts a runtime on a core of its own.
//! [`Fault`]s can be injected into members.
//!
//! A request the kernel still works on owns its memory in a slot of the ring, so dropping its future is sound: the slot
//! frees the memory when the completion arrives.

// Rings, shared mappings and sockets are system calls on raw memory; this is the only crate that may make them.
#![allow(unsafe_code)]

pub mod aside;
mod clock;
mod config;
mod core;
mod device;
mod devices;
pub mod event;
mod executor;
mod fault_delays;
mod faults;
mod file_space;
mod idle_polling;
pub mod inherited;
mod io;
mod iovecs;
mod memory;
pub mod net;
mod nvme;
mod ring;
mod runtime;
pub mod signal;
mod sysfs;
mod thin;
pub mod threads;
mod timers;
pub mod ublk;
mod zram;

pub use config::Config;
pub use device::{Harm, IoRoute, OpenError, OpenOptions};
pub use devices::Devices;
pub use faults::{Chance, Damage, DriveModel, Fault, Side, Silence, Spikes};
pub use io::UringIo;
pub use runtime::Runtime;
