//! Prints how many requests per second one core simulates.
//!
//! Seconds are those of the processor where Linux tells them, so that other work of the machine counts less; otherwise
//! those of the wall clock.
//!
//! `cargo run --release -p sinew-devices --example speed [-- MODEL [GIB]]`

use std::sync::LazyLock;
use std::time::Instant;

use sinew_devices::flash::{self, Config, Redundancy, Ssd, Striping};
use sinew_devices::{Command, Device, Kind, Rng};

const DEPTH: u64 = 32;
const REQUESTS: u64 = 1_000_000;
const PARITY_WAIT_NS: u64 = 200_000_000;

fn main() {
    let wanted = std::env::args().nth(1);
    let gib: u32 = std::env::args().nth(2).map_or(16, |gib| gib.parse().expect("a number of GiB"));
    let elastic = |units| slc_with(Redundancy::Elastic(Striping::new(units, PARITY_WAIT_NS)));
    let all = [
        ("slc", flash::slc()),
        ("mqsim", flash::mqsim()),
        ("femu", flash::femu()),
        ("consumer", flash::consumer()),
        ("datacenter", flash::datacenter()),
        ("slc-rows", Config { rows: true, ..flash::slc() }),
        ("slc-esap-8", elastic(8)),
        ("slc-esap-16", elastic(16)),
        ("slc-esap-32", elastic(32)),
        ("slc-raid5-8", slc_with(Redundancy::Raid5(Striping::new(8, PARITY_WAIT_NS)))),
    ];
    for (name, config) in all {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            measure(name, config.sized(gib << 18, 0.15));
        }
    }
}

fn slc_with(redundancy: Redundancy) -> Config {
    Config { redundancy, ..flash::slc() }
}

/// Seconds this thread has computed.
fn clock() -> f64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let scheduled = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let on_processor = scheduled.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    on_processor.map_or_else(|| START.elapsed().as_secs_f64(), |ns| ns / 1e9)
}

fn measure(name: &str, config: Config) {
    let mut ssd = Ssd::new(config, 1);
    let start = clock();
    ssd.age(0.5);
    let aged = f64::from(ssd.blocks()) * 1.5 / (clock() - start);
    println!("{name:11} aging             {:6.2} M blocks/s", aged / 1e6);
    for (what, write_percent, blocks) in [
        ("4 KiB reads", 0, 1),
        ("4 KiB writes", 100, 1),
        ("half and half", 50, 1),
        ("64 KiB writes", 100, 16),
    ] {
        ssd.reset_stats();
        let (requests, virtual_s, real_s) = run(&mut ssd, write_percent, blocks);
        println!(
            "{name:11} {what:17} {:6.2} M requests/s; {:8.0} per simulated second, amplification {:.2}",
            requests as f64 / real_s / 1e6,
            requests as f64 / virtual_s,
            ssd.stats().write_amplification(),
        );
    }
}

/// Issues random requests at a constant queue depth; returns their number, simulated and real seconds.
fn run(ssd: &mut Ssd, write_percent: u32, blocks: u32) -> (u64, f64, f64) {
    let mut rng = Rng::new(u64::from(write_percent + blocks));
    let mut done = Vec::new();
    let requests = REQUESTS / u64::from(blocks);
    let begin = ssd.now();
    let start = clock();
    let (mut submitted, mut completed, mut now) = (0, 0, begin);
    while completed < requests {
        while submitted < requests && submitted - completed < DEPTH {
            let kind = if rng.below(100) < write_percent { Kind::Write } else { Kind::Read };
            let lba = rng.below(ssd.blocks() / blocks) * blocks;
            ssd.submit(now, Command { tag: submitted, kind, lba, blocks });
            submitted += 1;
        }
        now = ssd.next_event().expect("requests are under way");
        ssd.advance(now, &mut done);
        completed += done.len() as u64;
        done.clear();
    }
    let real_s = clock() - start;
    // What is still in the buffer goes to flash, so that the next run starts alike.
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
    }
    (requests, (now - begin) as f64 / 1e9, real_s)
}
