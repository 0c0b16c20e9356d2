//! What is in use is tried again for a moment: the kernel ends what a killed server had under way after the server itself.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long something in use is tried again, at least, and how often.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(10);

/// The first result of `attempt` that is not in use, or the last one until this time, and for half a second in any case.
pub(crate) fn retry<T>(until: Instant, attempt: impl Fn() -> T, is_in_use: impl Fn(&T) -> bool) -> T {
    let until = until.max(Instant::now() + PATIENCE);
    loop {
        let result = attempt();
        if !is_in_use(&result) || Instant::now() >= until {
            return result;
        }
        sleep(PAUSE);
    }
}
