//! The models agree with closed forms and with published measurements. The example of the same name prints the tables.

#[path = "../examples/fidelity/measure.rs"]
mod measure;

use measure::*;
use sinew_devices::disk;
use sinew_devices::flash::{self, Config, Policy, Ssd};
use sinew_devices::theory;

/// Panics unless a value is within some percent of another.
fn assert_near(what: &str, measured: f64, expected: f64, percent: f64) {
    let off = (measured / expected - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: measured {measured}, expected {expected}, off by {off:.1} %");
}

#[test]
fn write_amplification_is_that_of_the_closed_forms() {
    for spare in [0.1, 0.25, 0.5, 1.0] {
        let base = cleaning_drive(1 << 18, spare);
        let alpha = base.usable_alpha();
        let greedy = theory::greedy_write_amplification(alpha, base.pages);
        assert_near("greedy", write_amplification(base.clone()), greedy, 2.0);
        let ten = theory::choices_write_amplification(alpha, base.pages, 10);
        assert_near(
            "ten choices",
            write_amplification(Config { policy: Policy::Choices(10), ..base.clone() }),
            ten,
            2.0,
        );
        let fifo = theory::fifo_write_amplification(alpha);
        assert_near("fifo", write_amplification(Config { policy: Policy::Fifo, ..base.clone() }), fifo, 2.0);
    }
}

#[test]
fn a_die_is_a_queue_with_constant_service_and_the_link_one_with_exponential_service() {
    for load in [0.5, 0.8] {
        assert_near("one die", wait_of_one_die(load, 400_000), theory::md1_wait(load), 3.0);
        let (wait, load) = wait_of_the_link(load, 400_000);
        assert_near("host link", wait, theory::mm1_wait(load), 5.0);
    }
}

#[test]
fn a_disk_is_a_queue_with_general_service() {
    let (_, wait, expected) = wait_of_a_disk(disk::ultrastar_36z15(), 0.6, 200_000);
    assert_near("disk", wait, expected, 5.0);
}

#[test]
fn spare_space_speeds_sustained_writes_up_as_the_pitfalls_study_says() {
    let (slowest, _) = sustained_writes(flash::pitfalls().sized(1 << 19, 0.03));
    let (fastest, _) = sustained_writes(flash::pitfalls().sized(1 << 19, 2.0));
    assert_near("without spare space", slowest, 600.0, 10.0);
    assert_near("with a lot of it", fastest, 11_500.0, 10.0);
    assert_near("speed-up", fastest / slowest, 19.0, 10.0);
}

#[test]
fn a_consumer_drive_stops_for_its_buffer_and_longer_for_cleaning() {
    let mut ssd = Ssd::new(flash::consumer().sized(4 << 18, 0.145), 1);
    let clean = sequential_writes(&mut ssd, 20_000, 4 << 18);
    let buffer = spikes(&clean, 2e6);
    assert!(buffer.spikes > 300);
    assert!((3e6..12e6).contains(&buffer.height_ns), "{buffer:?}");
    assert!((5.0..20.0).contains(&(buffer.height_ns / buffer.mean_ns)), "{buffer:?}");
    sequential_writes(&mut ssd, 80_000, 2 << 18);
    let cleaning = spikes(&sequential_writes(&mut ssd, 80_000, 2 << 18), 20e6);
    let times = cleaning.height_ns / buffer.height_ns;
    assert!((15.0..25.0).contains(&times), "{times} {cleaning:?}");
    let gap = cleaning.gap_ns / cleaning.height_ns;
    assert!((7.0..13.0).contains(&gap), "{gap} {cleaning:?}");
}

#[test]
fn a_datacenter_drive_never_stops_but_slows_down_for_long() {
    let mut ssd = Ssd::new(flash::datacenter().sized(4 << 18, 0.145), 1);
    let clean = sequential_writes(&mut ssd, 20_000, 4 << 18);
    assert_eq!(spikes(&clean, 2e6).spikes, 0);
    assert_near("MB/s", rate(&clean) * 65536.0 / 1e6, 280.0, 15.0);
    ssd.age(1.0);
    let aged = random_writes(&mut ssd, 20_000, 128);
    let aged = &aged[5_000..];
    let (late, all) = seconds_above(aged, 100e6);
    assert!(late * 20 >= all * 17 && all > 10, "{late} of {all} seconds");
    let mean_ns = mean(aged, |c| c.latency_ns() as f64);
    assert!((100e6..200e6).contains(&mean_ns) && quantile(aged, 0.99) > 200e6, "{mean_ns}");
    assert_eq!(ssd.stats().stalls, 0);
}
