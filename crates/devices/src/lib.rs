//! Timing models of storage devices on a virtual clock.
//!
//! A model is a state machine without input or output of its own: the caller submits [`Command`]s, asks when something
//! happens next, and moves the clock there. It holds no data, only where data would be and when it would arrive;
//! the simulator keeps the content. A run is a function of the configuration and of the calls made.
//!
//! ```
//! use sinew_devices::{Command, Device, Kind, flash};
//!
//! let mut ssd = flash::Ssd::new(flash::femu().sized(1 << 18, 0.25), 7);
//! let mut done = Vec::new();
//! ssd.submit(0, Command { tag: 1, kind: Kind::Write, lba: 0, blocks: 16 });
//! while let Some(at) = ssd.next_event() {
//!     ssd.advance(at, &mut done);
//! }
//! assert_eq!(done.len(), 1);
//! ```
//!
//! ```text
//! command     Command, Completion, the trait Device
//! flash       Ssd: dies, channels, mapping, cleaning, buffer, compression
//! disk        Disk: seek, rotation, zones, read cache
//! theory      published closed forms that the models are checked against
//! calendar    pending events
//! random      seeded numbers
//! ```

mod calendar;
mod command;
pub mod disk;
pub mod flash;
mod random;
pub mod theory;

pub use command::{BLOCK_BYTES, Command, Completion, Device, Kind, Ns, Outcome};
pub use random::Rng;
