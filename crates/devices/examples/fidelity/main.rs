//! Prints how the models compare with closed forms and with published measurements.
//!
//! `cargo run --release -p sinew-devices --example fidelity`

mod measure;

use measure::*;
use sinew_devices::flash::{self, Config, Policy, Ssd};
use sinew_devices::{Device, Kind, Ns, Rng, theory};

fn main() {
    cleaning();
    queueing();
    pitfalls();
    consumer();
    datacenter();
}

fn cleaning() {
    println!("write amplification of random overwrites, 64 pages to an erase block");
    println!("| spare | alpha | policy | measured | closed form | off by |");
    println!("|---|---|---|---|---|---|");
    for spare in [0.07, 0.10, 0.15, 0.25, 0.5, 1.0] {
        let base = cleaning_drive(1 << 20, spare);
        let alpha = base.usable_alpha();
        for (name, policy, expected) in [
            ("greedy", Policy::Greedy, theory::greedy_write_amplification(alpha, base.pages)),
            ("10 choices", Policy::Choices(10), theory::choices_write_amplification(alpha, base.pages, 10)),
            ("2 choices", Policy::Choices(2), theory::choices_write_amplification(alpha, base.pages, 2)),
            ("FIFO", Policy::Fifo, theory::fifo_write_amplification(alpha)),
        ] {
            let measured = write_amplification(Config { policy, ..base.clone() });
            let off = (measured / expected - 1.0) * 100.0;
            println!(
                "| {:.0} % | {alpha:.3} | {name} | {measured:.3} | {expected:.3} | {off:+.1} % |",
                spare * 100.0
            );
        }
    }
}

fn queueing() {
    println!("\nmean wait in service times");
    println!("| load | one die | M/D/1 | host link | M/M/1 |");
    println!("|---|---|---|---|---|");
    for load in [0.3, 0.5, 0.7, 0.8, 0.9] {
        let die = wait_of_one_die(load, 2_000_000);
        let (link, real) = wait_of_the_link(load, 2_000_000);
        let (md1, mm1) = (theory::md1_wait(load), theory::mm1_wait(real));
        println!("| {load} | {die:.3} | {md1:.3} | {link:.3} | {mm1:.3} |");
    }
}

fn pitfalls() {
    println!("\nsustained random 4 KiB writes");
    println!("| spare | writes/s | amplification | speed-up |");
    println!("|---|---|---|---|");
    let mut first = None;
    for spare in [0.03, 0.035, 0.04, 0.05, 0.07, 0.15, 0.3, 0.6, 1.0, 2.0] {
        let config = pitfalls_drive(spare);
        let (rate, amplification) = sustained_writes(config);
        let base = *first.get_or_insert(rate);
        println!("| {:.1} % | {rate:.0} | {amplification:.2} | {:.1} |", spare * 100.0, rate / base);
    }
}

fn print(name: &str, spikes: &Spikes) {
    println!(
        "{name}: mean {:.3} ms, {:.0} MB/s, {} spikes, height {:.1} ms ({:.1} times the mean), gap {:.1} ms",
        spikes.mean_ns / 1e6,
        spikes.rate / 1e6,
        spikes.spikes,
        spikes.height_ns / 1e6,
        spikes.height_ns / spikes.mean_ns,
        spikes.gap_ns / 1e6,
    );
}

fn consumer() {
    println!("\nconsumer drive, 64 KiB writes in order, one at a time");
    let mut ssd = Ssd::new(flash::consumer().sized(8 << 18, 0.145), 1);
    let done = sequential_writes(&mut ssd, 100_000, 8 << 18);
    print("clean, whole drive", &spikes(&done, 2e6, 65536.0));
    let done = sequential_writes(&mut ssd, 200_000, 2 << 18);
    print("within 2 GiB, all spikes", &spikes(&done, 2e6, 65536.0));
    print("within 2 GiB, cleaning", &spikes(&done, 20e6, 65536.0));
    println!("{:?}", ssd.stats());
    let mut ssd = Ssd::new(flash::consumer().sized(8 << 18, 0.145), 1);
    ssd.age(1.0);
    let done = sequential_writes(&mut ssd, 100_000, 2 << 18);
    print("aged, within 2 GiB, cleaning", &spikes(&done, 20e6, 65536.0));
}

fn datacenter() {
    println!("\ndatacenter drive, 64 KiB writes");
    let mut ssd = Ssd::new(flash::datacenter().sized(8 << 18, 0.145), 1);
    let done = sequential_writes(&mut ssd, 100_000, 8 << 18);
    print("clean, in order", &spikes(&done, 2e6, 65536.0));
    ssd.age(1.0);
    let mut rng = Rng::new(7);
    let blocks = ssd.blocks();
    let (begin, interval) = (ssd.now(), 65536.0 / 100e6 * 1e9);
    let done = open_loop(
        &mut ssd,
        begin,
        60_000,
        |last| last + interval as Ns,
        || (Kind::Write, rng.below(blocks / 16) * 16, 16),
    );
    for second in done.chunks(3_000) {
        let latency = mean(second, |c| c.latency_ns() as f64);
        println!(
            "at {:5.1} s: {:8.1} ms",
            second[0].submitted_at as f64 / 1e9 - begin as f64 / 1e9,
            latency / 1e6
        );
    }
    println!("{:?} {:.2}", ssd.stats(), ssd.stats().write_amplification());
}
