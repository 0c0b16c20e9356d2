//! Members made slow on purpose, so that people see on real devices what a latency spike does.

use std::time::Duration;

/// Latency spikes that come again and again: requests that arrive within `length` of the beginning of a `period` take
/// `height` longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spikes {
    /// From the beginning of one spike to that of the next.
    pub period: Duration,
    /// How long each lasts.
    pub length: Duration,
    /// How much longer a request takes that arrives meanwhile.
    pub height: Duration,
}

impl Spikes {
    /// Nanoseconds that a request arriving at `now` is held up.
    pub(crate) fn delay_ns(&self, now: u64) -> u64 {
        let period = (self.period.as_nanos() as u64).max(1);
        if now % period < self.length.as_nanos() as u64 { self.height.as_nanos() as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spikes_come_and_go() {
        let ms = Duration::from_millis;
        let spikes = Spikes { period: ms(200), length: ms(50), height: ms(20) };
        let delayed = (0..1000).filter(|now| spikes.delay_ns(now * 1_000_000) == 20_000_000);
        assert_eq!(delayed.count(), 250);
    }
}
