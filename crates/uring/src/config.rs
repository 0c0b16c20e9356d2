//! The settings of a runtime.

use std::fmt;
use std::time::Duration;

use crate::devices::Devices;

/// Settings of a runtime.
#[derive(Clone)]
pub struct Config {
    /// The members its tasks may use.
    pub devices: Devices,
    /// The time that an idle thread polls for work before it sleeps; up to four times as long while work arrives soon after that.
    /// Polling saves a wake-up and costs a core; see docs/io-choice.md.
    pub spin: Duration,
    /// The limit of tasks run between two visits of the ring.
    pub burst: u32,
    /// The limit of bytes moved synchronously before the ring and other tasks are served; a small request counts as a
    /// block. It bounds the delay that large transfers of background work cause to clients.
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
