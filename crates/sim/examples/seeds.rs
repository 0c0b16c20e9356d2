//! Plays seeds of the torture on all cores: for the inner loop, since it needs nothing but the simulator.
//!
//!     cargo run --profile checks -p sinew-sim --example seeds -- [NUMBER [FIRST]]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use sinew_sim::torture::{Plan, run};

/// Seeds played if the number is not said.
const SEEDS: u64 = 100;

fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let (seeds, first) = match numbers {
        Ok(numbers) => (*numbers.first().unwrap_or(&SEEDS), *numbers.get(1).unwrap_or(&0)),
        Err(error) => {
            eprintln!("the number of seeds, and the first: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    if let Err(failure) = run(&Plan::draw(seed)) {
                        failed.fetch_add(1, Ordering::Relaxed);
                        eprintln!("{failure}\n  to see it again: {}", failure.plan.command());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{seeds} seeds, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
