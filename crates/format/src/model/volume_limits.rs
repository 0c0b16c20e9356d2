//! Limits of the requests of a volume. They are part of the configuration, so that they hold after a restart.

use std::fmt;

/// Requests per second that may be asked for at most: their distance is whole nanoseconds.
const IOPS_MAX: u64 = 1_000_000_000;
/// The least bytes per second: with less, the next request of a client would wait for minutes.
const BYTES_MIN: u64 = 64 << 10;
/// The most bytes per second.
const BYTES_MAX: u64 = 1 << 50;
/// The longest burst, in milliseconds: an hour.
const BURST_MAX_MS: u32 = 3_600_000;

/// What clients may ask of a volume per second. Zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Requests per second.
    pub iops: u64,
    /// Bytes per second that are read and written.
    pub bytes_per_second: u64,
    /// An idle volume saves up what the limits allow in this many milliseconds, and may use that at once.
    pub burst_ms: u32,
}

impl VolumeLimits {
    /// No limits.
    pub const NONE: VolumeLimits = VolumeLimits { iops: 0, bytes_per_second: 0, burst_ms: 1000 };

    /// Whether requests and bytes are not limited.
    pub fn is_unlimited(&self) -> bool {
        self.iops == 0 && self.bytes_per_second == 0
    }

    /// Why these limits cannot be set.
    pub fn fault(&self) -> Option<&'static str> {
        if self.iops > IOPS_MAX {
            return Some("a limit of requests is at most 1000000000 per second");
        }
        if self.bytes_per_second != 0 && !(BYTES_MIN..=BYTES_MAX).contains(&self.bytes_per_second) {
            return Some("a limit of bytes is at least 64K and at most 1024T per second");
        }
        (self.burst_ms > BURST_MAX_MS).then_some("a burst is at most an hour")
    }
}

impl Default for VolumeLimits {
    fn default() -> VolumeLimits {
        VolumeLimits::NONE
    }
}

impl fmt::Display for VolumeLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str("no limits");
        }
        if self.iops > 0 {
            write!(f, "{} requests/s, ", self.iops)?;
        }
        if self.bytes_per_second > 0 {
            write!(f, "{} bytes/s, ", self.bytes_per_second)?;
        }
        write!(f, "bursts of {} ms", self.burst_ms)
    }
}
