//! Tasks on simulated cores: the time that they take there, cores that sleep, and the throughput of a pool on several cores.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_sim::scaling::{self, Scaled, ScalingSpec};
use sinew_sim::{DeviceConfig, Latency, ProcessorCosts, World};

const US: u64 = 1000;
const POLL: ProcessorCosts = ProcessorCosts {
    poll_ns: US,
    cross_ns: 0,
    request_ns: 0,
    read_block_ns: 0,
    write_block_ns: 0,
    ring_ns: 0,
    call_ns: 0,
    wake_ns: 0,
    spin_ns: 0,
};

/// Two tasks of ten polls each, on these cores. Returns for how long the busier core was busy.
fn two_tasks(cores: [usize; 2], costs: ProcessorCosts) -> u64 {
    let world = World::new(1);
    world.set_processors(2, costs);
    let left = Rc::new(Cell::new(2));
    for core in cores {
        let (io, left) = (world.io(), Rc::clone(&left));
        world.io().spawn_on(core, async move {
            for _ in 0..9 {
                io.sleep(0).await;
            }
            left.set(left.get() - 1);
        });
    }
    world.run_until(|| left.get() == 0).unwrap();
    assert_eq!(world.processor_usage().iter().map(|usage| usage.polls).sum::<u64>(), 20);
    world.processor_usage().iter().map(|usage| usage.busy_ns).max().unwrap()
}

#[test]
fn a_core_does_one_thing_at_a_time() {
    assert_eq!(two_tasks([1, 1], POLL), 20 * US);
    assert_eq!(two_tasks([0, 1], POLL), 10 * US);
    assert_eq!(two_tasks([0, 1], ProcessorCosts::default()), 0);
}

/// When a task of the second core gets the message that one of the first core sends after this time.
fn received_at(after: u64, costs: ProcessorCosts) -> u64 {
    let world = World::new(1);
    world.set_processors(2, costs);
    let (sender, receiver) = async_channel::bounded::<()>(1);
    let at = Rc::new(Cell::new(None));
    let (io, seen) = (world.io(), Rc::clone(&at));
    world.io().spawn_on(1, async move {
        receiver.recv().await.unwrap();
        seen.set(Some(io.now()));
    });
    let io = world.io();
    world.io().spawn_on(0, async move {
        io.sleep(after).await;
        sender.send(()).await.unwrap();
    });
    world.run_until(|| at.get().is_some()).unwrap();
    let usage = world.processor_usage();
    let wakes = u64::from(after > costs.spin_ns);
    assert_eq!((usage[0].rings, usage[0].wakes, usage[1].wakes), (1, wakes, wakes));
    at.get().unwrap()
}

#[test]
fn a_core_sleeps_when_it_has_found_nothing_for_a_while() {
    let costs = ProcessorCosts { wake_ns: 5 * US, spin_ns: 20 * US, ..ProcessorCosts::default() };
    assert_eq!(received_at(15 * US, costs), 15 * US);
    // Both cores do by then: one is woken by the clock, the other by the message.
    assert_eq!(received_at(100 * US, costs), 110 * US);
}

#[test]
fn requests_take_time_on_the_core_that_makes_them() {
    let world = World::new(1);
    let latency = Latency { read_ns: 0, write_ns: 0, block_ns: 0, jitter_ns: 0, ..Latency::default() };
    for inline in [false, true] {
        let device = world.add_device(DeviceConfig {
            latency: latency.clone(),
            inline,
            ..DeviceConfig::of_bytes(64 * BLOCK_BYTES as u64)
        });
        let costs = ProcessorCosts { request_ns: 3 * US, read_block_ns: US, write_block_ns: 2 * US, ..POLL };
        world.set_processors(1, costs);
        let before = world.processor_usage()[0];
        let io = world.io();
        let written = async move {
            for _ in 0..10 {
                io.write(device, 0, vec![Buf::zeroed(4 * BLOCK_BYTES)].into()).await.unwrap();
            }
        };
        world.block_on(written).unwrap();
        let usage = world.processor_usage()[0] - before;
        assert_eq!((usage.requests, usage.blocks), (10, 40));
        // What ends at once needs no poll of its own.
        assert_eq!(usage.polls, if inline { 1 } else { 11 });
        assert_eq!(usage.busy_ns, usage.polls * US + 10 * 3 * US + 40 * 2 * US);
        let before = world.processor_usage()[0];
        let io = world.io();
        world.block_on(async move { io.read(device, 0, Buf::zeroed(BLOCK_BYTES)).await.1.unwrap() }).unwrap();
        let usage = world.processor_usage()[0] - before;
        assert_eq!(usage.busy_ns, usage.polls * US + 3 * US + US);
    }
}

fn scaled(cores: usize, depth: usize, write_percent: u64) -> Scaled {
    let spec = ScalingSpec {
        seed: 1,
        cores,
        depth,
        request_bytes: 4096,
        write_percent,
        costs: ProcessorCosts::measured(),
        warm_up_ns: 1_000_000,
        run_ns: 2_000_000,
    };
    scaling::serve(spec).unwrap()
}

#[test]
fn throughput_grows_with_cores() {
    for write_percent in [0, 100] {
        let [one, four] = [1, 4].map(|cores| scaled(cores, 32 * cores, write_percent).requests);
        assert!(2 * one < four && four < 4 * one, "{one} requests on one core, {four} on four");
    }
}

#[test]
fn writes_are_gathered_less_when_they_are_dealt_to_more_cores() {
    let requests = |cores| {
        let scaled = scaled(cores, 64, 100);
        let requests: u64 = scaled.usage.iter().map(|usage| usage.requests).sum();
        requests as f64 / scaled.requests as f64
    };
    let [one, eight] = [1, 8].map(requests);
    assert!(2.0 * one < eight, "{one} requests to members for each write on one core, {eight} on eight");
}

#[test]
fn equal_loads_are_served_equally() {
    let [one, other] = [(); 2].map(|()| scaled(2, 64, 50));
    assert_eq!(one.requests, other.requests);
    assert_eq!(one.usage, other.usage);
}
