//! Prints how the models compare with closed forms and with published measurements.
//!
//! `cargo run --release -p sinew-devices --example fidelity`

mod measure;

use measure::*;
use sinew_devices::disk;
use sinew_devices::flash::{self, Config, Policy, Ssd};
use sinew_devices::{Completion, theory};

fn main() {
    cleaning();
    queueing();
    disks();
    pitfalls();
    stops();
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

fn disks() {
    println!("\nrandom 4 KiB reads from disks, first come first served");
    println!("| disk | mean access | load | mean wait | M/G/1 |");
    println!("|---|---|---|---|---|");
    for (name, config) in [("36Z15", disk::ultrastar_36z15()), ("Constellation.2", disk::constellation2())] {
        for load in [0.3, 0.6, 0.9] {
            let (service, wait, expected) = wait_of_a_disk(config.clone(), load, 1_000_000);
            println!(
                "| {name} | {:.2} ms | {load} | {:.2} ms | {:.2} ms |",
                service / 1e6,
                wait / 1e6,
                expected / 1e6
            );
        }
    }
}

fn pitfalls() {
    println!("\nsustained random 4 KiB writes");
    println!("| spare | writes/s | amplification | speed-up |");
    println!("|---|---|---|---|");
    let mut first = None;
    for spare in [0.03, 0.035, 0.04, 0.05, 0.07, 0.15, 0.3, 0.6, 1.0, 2.0] {
        let config = flash::pitfalls().sized(1 << 19, spare);
        let (rate, amplification) = sustained_writes(config);
        let base = *first.get_or_insert(rate);
        println!("| {:.1} % | {rate:.0} | {amplification:.2} | {:.1} |", spare * 100.0, rate / base);
    }
}

fn row(name: &str, done: &[Completion], floor_ns: f64) {
    let spikes = spikes(done, floor_ns);
    println!(
        "| {name} | {:.3} ms | {:.0} MB/s | {} | {:.1} ms | {:.0} | {:.0} ms |",
        spikes.mean_ns / 1e6,
        rate(done) * 65536.0 / 1e6,
        spikes.spikes,
        spikes.height_ns / 1e6,
        spikes.height_ns / spikes.mean_ns,
        spikes.gap_ns / 1e6,
    );
}

/// Latencies above this belong to a stop of any kind, or to one for cleaning.
const STOP_NS: f64 = 2e6;
const CLEANING_NS: f64 = 20e6;

fn stops() {
    println!("\n64 KiB writes, one at a time, drives of 8 GiB");
    println!("| load | mean | rate | spikes | height (median) | in means | gap (median) |");
    println!("|---|---|---|---|---|---|---|");
    let size = 8 << 18;
    let mut ssd = Ssd::new(flash::consumer().sized(size, 0.145), 1);
    row("consumer, clean, in order", &sequential_writes(&mut ssd, 100_000, size), STOP_NS);
    let within = sequential_writes(&mut ssd, 300_000, 2 << 18);
    row("consumer, within 2 GiB: cleaning only", &within, CLEANING_NS);
    ssd.age(1.0);
    let random = random_writes(&mut ssd, 20_000, 1);
    row("consumer, aged, random: cleaning only", &random, CLEANING_NS);
    let mut ssd = Ssd::new(flash::datacenter().sized(size, 0.145), 1);
    row("datacenter, clean, in order", &sequential_writes(&mut ssd, 100_000, size), STOP_NS);
}

fn datacenter() {
    println!("\ndatacenter drive of 8 GiB, aged, random 64 KiB writes, 128 at a time");
    println!("| from | mean latency | median | 99 % below | seconds with a latency above 100 ms |");
    println!("|---|---|---|---|---|");
    let mut ssd = Ssd::new(flash::datacenter().sized(8 << 18, 0.145), 1);
    ssd.age(1.0);
    let done = random_writes(&mut ssd, 60_000, 128);
    for part in done.chunks(10_000) {
        let begin = part[0].completed_at;
        let seconds = seconds_above(part, 1e8);
        println!(
            "| {:.1} s | {:.0} ms | {:.0} ms | {:.0} ms | {} of {} |",
            begin as f64 / 1e9,
            mean(part, |c| c.latency_ns() as f64) / 1e6,
            quantile(part, 0.5) / 1e6,
            quantile(part, 0.99) / 1e6,
            seconds.0,
            seconds.1,
        );
    }
}
