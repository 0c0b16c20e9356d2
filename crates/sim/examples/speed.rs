//! How fast the simulator is: 4 KiB requests by tasks on faultless devices, per second of real time on one core.
//!
//!     cargo run --release -p sinew-sim --example speed

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Gather, Io};
use sinew_sim::{DeviceConfig, World};

const DEVICES: u32 = 8;
const DEVICE_BLOCKS: u64 = 8 * 1024;
const TASKS: u32 = 128;
const REQUESTS: u64 = 4_000_000;

fn main() {
    println!("8 devices of 32 MiB, 128 tasks, 4 KiB at random places, a flush every 64 requests of a task");
    let cases = [
        ("writes", 0, false),
        ("writes, each of a new buffer", 0, true),
        ("half and half", 50, false),
        ("half and half, new buffers", 50, true),
        ("reads of zeros", 100, false),
    ];
    for (name, reads_percent, fresh) in cases {
        let mut rates: Vec<f64> = (0..3).map(|round| run(round, reads_percent, fresh)).collect();
        rates.sort_by(f64::total_cmp);
        println!("{name:30} {:.2} M/s (lowest {:.2}, highest {:.2} of 3 runs)", rates[1], rates[0], rates[2]);
    }
}

fn run(seed: u64, reads_percent: u64, fresh: bool) -> f64 {
    let world = World::new(seed);
    let bytes = DEVICE_BLOCKS * BLOCK_BYTES as u64;
    let devices: Vec<_> = (0..DEVICES).map(|_| world.add_device(DeviceConfig::of_bytes(bytes))).collect();
    let ended = Rc::new(Cell::new(0));
    for task in 0..TASKS {
        let (io, devices, ended) = (world.io(), devices.clone(), Rc::clone(&ended));
        let mut rng = world.rng(&format!("task {task}"));
        world.spawn(async move {
            let new_data = || -> Gather { Rc::new([Buf::copy_of(&[task as u8; BLOCK_BYTES])]) };
            let data = new_data();
            let mut buf = Buf::zeroed(BLOCK_BYTES);
            for request in 1..=REQUESTS / u64::from(TASKS) {
                let device = devices[rng.below(u64::from(DEVICES)) as usize];
                let offset = rng.below(DEVICE_BLOCKS) * BLOCK_BYTES as u64;
                if rng.below(100) < reads_percent {
                    let (back, result) = io.read(device, offset, buf).await;
                    buf = back;
                    result.expect("no faults are on");
                } else {
                    let data = if fresh { new_data() } else { Rc::clone(&data) };
                    io.write(device, offset, data).await.expect("no faults are on");
                }
                if request % 64 == 0 {
                    io.flush(device).await.expect("no faults are on");
                }
            }
            ended.set(ended.get() + 1);
        });
    }
    let start = Instant::now();
    world.run_until(|| ended.get() == TASKS).expect("tasks end");
    REQUESTS as f64 / start.elapsed().as_secs_f64() / 1e6
}
