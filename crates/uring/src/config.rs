//! The settings of a runtime.

use std::fmt;
use std::time::Duration;

use crate::devices::Devices;

/// How a runtime behaves.
#[derive(Clone)]
pub struct Config {
    /// The members its tasks may use.
    pub devices: Devices,
    /// How long an idle thread looks for work before it sleeps. It saves a wake-up and costs a core; see
    /// docs/io-choice.md.
    pub spin: Duration,
    /// The most tasks run before the ring gets its turn.
    pub burst: u32,
    /// The most bytes moved on the spot before the ring and other tasks get their turn; a small request counts as a
    /// block. It bounds how long background work with large transfers holds up a client.
    pub burst_bytes: usize,
    /// Entries of the submission queue; a fuller queue is submitted early.
    pub entries: u32,
    /// Try to send by a non-blocking system call before going through the ring.
    pub sends_inline: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            devices: Devices::new(),
            spin: Duration::from_micros(20),
            burst: 256,
            burst_bytes: 256 << 10,
            entries: 256,
            sends_inline: true,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { spin, burst, burst_bytes, entries, .. } = self;
        write!(f, "Config(spin {spin:?}, burst {burst} or {burst_bytes} bytes, entries {entries})")
    }
}
