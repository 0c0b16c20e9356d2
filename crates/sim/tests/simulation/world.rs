//! Time, tasks, determinism and the ways a run gets stuck.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather, Io, IoError, yield_now};
use sinew_sim::{CrashPolicy, DeviceConfig, DeviceFaults, FaultCounts, Latency, SimIo, StuckReason, World};

fn block(byte: u8) -> Gather {
    Rc::new([Buf::copy_of(&[byte; BLOCK_BYTES])])
}

#[test]
fn sleeps_end_in_order_of_time_then_of_call() {
    let world = World::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    for (name, ns) in [(0, 30), (1, 10), (2, 30), (3, 0), (4, 20)] {
        let (io, order) = (world.io(), Rc::clone(&order));
        world.spawn(async move {
            io.sleep(ns).await;
            order.borrow_mut().push((io.now(), name));
        });
    }
    world.run_for(100).unwrap();
    assert_eq!(*order.borrow(), [(0, 3), (10, 1), (20, 4), (30, 0), (30, 2)]);
    assert_eq!(world.now(), 100);
}

#[test]
fn run_for_leaves_later_events_alone() {
    let world = World::new(1);
    let woke = Rc::new(Cell::new(false));
    let (io, flag) = (world.io(), Rc::clone(&woke));
    world.spawn(async move {
        io.sleep(50).await;
        flag.set(true);
    });
    world.run_for(49).unwrap();
    assert!(!woke.get());
    world.run_for(1).unwrap();
    assert!(woke.get());
}

/// Tasks that read, write, flush, discard and sleep at random until the world ends them.
fn busy(world: &World, devices: &[DeviceId], tasks: u64) {
    for task in 0..tasks {
        let (io, devices) = (world.io(), devices.to_vec());
        world.spawn(async move {
            loop {
                let device = devices[(io.random() % devices.len() as u64) as usize];
                let offset = io.random() % 60 * BLOCK_BYTES as u64;
                match io.random() % 8 {
                    0 => _ = io.flush(device).await,
                    1 => _ = io.discard(device, offset, 3 * BLOCK_BYTES as u64).await,
                    2 => io.sleep(io.random() % 100_000).await,
                    3 | 4 => drop(io.read(device, offset, Buf::zeroed(2 * BLOCK_BYTES)).await),
                    _ => {
                        let buf = Buf::copy_of(&[(task ^ io.random()) as u8; 4 * BLOCK_BYTES]);
                        let _ = io.write(device, offset, Rc::new([buf])).await;
                    }
                }
            }
        });
    }
}

fn everything_on() -> DeviceFaults {
    DeviceFaults {
        read_error: 0.01,
        latent_error: 0.01,
        write_error: 0.01,
        flush_error: 0.05,
        bit_rot: 0.01,
        misdirected_write: 0.01,
        misdirected_read: 0.01,
        lost_write: 0.01,
        gone: 0.001,
        stall: 0.01,
        stall_ns: (1_000_000, 50_000_000),
        slow: 0.002,
        slow_factor: (10, 1000),
        slow_ns: (1_000_000, 20_000_000),
    }
}

fn storm(seed: u64) -> (u64, Vec<u64>, FaultCounts, u64) {
    let world = World::new(seed);
    let devices: Vec<_> = (0..3)
        .map(|_| {
            world.add_device(DeviceConfig {
                faults: everything_on(),
                ..DeviceConfig::of_bytes(64 * BLOCK_BYTES as u64)
            })
        })
        .collect();
    devices.iter().for_each(|&id| world.allow_corruption(id, 0..64 * BLOCK_BYTES as u64));
    let mut rng = world.rng("storm");
    for _ in 0..20 {
        busy(&world, &devices, 8);
        world.run_steps(rng.between(100, 2000));
        if rng.chance(0.3) {
            world.device(devices[0]).silence(rng.between(1_000_000, 20_000_000));
        }
        world.run_steps(rng.between(100, 2000));
        if rng.chance(0.3) {
            world.kill_process()
        } else {
            world.crash(CrashPolicy::Random)
        }
        devices.iter().for_each(|&id| world.device(id).attach());
    }
    let contents = devices.iter().map(|&id| world.device(id).snapshot()).collect();
    (world.trace_hash(), contents, world.fault_counts(), world.now())
}

#[test]
fn same_seed_same_trace() {
    for seed in 0..8 {
        assert_eq!(storm(seed), storm(seed));
    }
    assert_ne!(storm(1).0, storm(2).0);
}

#[test]
fn a_storm_reaches_every_fault() {
    let mut sum = FaultCounts::default();
    (0..20).for_each(|seed| sum += storm(seed).2);
    for (name, count) in sum.named() {
        // Only models of flash run out of space or lose dies, and only thin devices are squeezed; these are neither.
        let others = ["no_space", "squeezes", "dies_lost", "refused_writes", "unreadable"];
        assert_eq!(count > 0, !others.contains(&name), "{name}: {count}");
    }
}

#[test]
fn what_the_caller_traces_counts() {
    let (a, b) = (World::new(1), World::new(1));
    assert_eq!(a.trace_hash(), b.trace_hash());
    a.trace(b"note");
    assert_ne!(a.trace_hash(), b.trace_hash());
    b.trace(b"note");
    assert_eq!(a.trace_hash(), b.trace_hash());
}

#[test]
fn deadlock_is_reported_with_its_tasks() {
    let world = World::new(1);
    let stuck = world.block_on(std::future::pending::<()>()).unwrap_err();
    assert_eq!(stuck.reason, StuckReason::Deadlock);
    assert_eq!(stuck.tasks.len(), 1);
    assert!(stuck.to_string().contains("simulation/world.rs"), "{stuck}");
}

#[test]
fn livelock_is_reported_with_time_and_requests() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(1 << 20));
    world.set_step_limit(1000);
    let io = world.io();
    io.spawn(async move {
        loop {
            yield_now().await;
        }
    });
    let stuck = world.block_on(async move { io.flush(device).await }).unwrap_err();
    assert_eq!((stuck.reason, stuck.now_ns, stuck.tasks.len()), (StuckReason::StepLimit, 0, 2));
    assert_eq!(stuck.requests, ["Flush device 0 offset 0 bytes 0"]);
    assert!(stuck.tasks.iter().all(|site| site.file().ends_with("world.rs")));

    let sleeper = World::new(1);
    sleeper.set_step_limit(1000);
    let io = sleeper.io();
    let poller = async move {
        loop {
            io.sleep(10).await;
        }
    };
    let stuck = sleeper.block_on::<()>(poller).unwrap_err();
    assert_eq!(stuck.reason, StuckReason::StepLimit);
    assert!(stuck.now_ns > 1000);
}

#[test]
fn dropping_io_in_flight_is_reported_dropping_a_sleep_is_not() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(1 << 20));
    let io = world.io();
    async fn poll_once(future: impl Future) {
        let mut future = Box::pin(future);
        poll_fn(|context| {
            assert!(future.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    let sleeping = io.clone();
    world.block_on(async move { poll_once(sleeping.sleep(5)).await }).unwrap();
    assert_eq!(world.run_until(|| false).unwrap_err().reason, StuckReason::Deadlock);
    assert_eq!(world.now(), 0, "the dropped sleep left no event behind");
    let stuck = world.block_on(async move { poll_once(io.flush(device)).await }).unwrap_err();
    assert_eq!(stuck.reason, StuckReason::DroppedInFlight);
}

/// Counts its drops and, like a careless destructor, uses the world while it is dropped.
struct Witness {
    drops: Rc<Cell<u32>>,
    io: SimIo,
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.drops.set(self.drops.get() + 1);
        let io = self.io.clone();
        self.io.spawn(async move { io.sleep(1).await });
    }
}

#[test]
fn a_crash_drops_all_tasks_whatever_they_share() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(1 << 20));
    let drops = Rc::new(Cell::new(0));
    let ran_after = Rc::new(Cell::new(false));
    type Shelf = Rc<RefCell<Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>>>>;
    let shelf: Shelf = Rc::default();
    for _ in 0..10 {
        let (io, shelf) = (world.io(), Rc::clone(&shelf));
        let witness = Witness { drops: Rc::clone(&drops), io: world.io() };
        let ran_after = Rc::clone(&ran_after);
        world.spawn(async move {
            // A future in flight that sits in shared state, reachable from every task.
            let (reader, witness) = (io.clone(), Rc::new(witness));
            let held = Rc::clone(&witness);
            let mut request: std::pin::Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
                let _held = held;
                drop(reader.read(device, 0, Buf::zeroed(BLOCK_BYTES)).await);
            });
            poll_fn(|context| {
                assert!(request.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
            shelf.borrow_mut().push(request);
            let _ = io.write(device, 0, block(1)).await;
            ran_after.set(true);
        });
    }
    world.run_steps(11);
    drop(shelf);
    world.crash(CrashPolicy::DropAll);
    assert_eq!(drops.get(), 10);
    assert_eq!(world.incarnation(), 1);
    let left = world.run_until(|| false).unwrap_err();
    assert_eq!((left.reason, left.tasks.len(), left.requests.len()), (StuckReason::Deadlock, 0, 0));
    assert!(!ran_after.get());
    let io = world.io();
    world.block_on(async move { io.write(device, 0, block(2)).await }).unwrap().unwrap();
    assert_eq!(world.device(device).peek(0, 1), [2]);
}

#[test]
fn the_end_of_the_world_drops_its_tasks() {
    let drops = Rc::new(Cell::new(0));
    let world = World::new(1);
    let witness = Witness { drops: Rc::clone(&drops), io: world.io() };
    world.spawn(async move {
        std::future::pending::<()>().await;
        drop(witness);
    });
    world.run_steps(10);
    drop(world);
    assert_eq!(drops.get(), 1);
}

#[test]
fn futures_of_an_earlier_incarnation_never_complete() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(1 << 20));
    let io: &'static SimIo = Box::leak(Box::new(world.io()));
    let stale = io.write(device, 0, block(1));
    world.crash(CrashPolicy::KeepAll);
    let stuck = world.block_on(stale).unwrap_err();
    assert_eq!(stuck.reason, StuckReason::Deadlock);
    assert_eq!(world.device(device).peek(0, 1), [0]);
}

#[test]
#[should_panic(expected = "its own incarnation")]
fn a_task_cannot_crash_the_world() {
    let world = Rc::new(World::new(1));
    let inner = Rc::clone(&world);
    world.spawn(async move { inner.crash(CrashPolicy::KeepAll) });
    world.step();
}

#[test]
fn misplaced_requests_are_refused() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(8 * BLOCK_BYTES as u64));
    let io = world.io();
    world
        .block_on(async move {
            let b = BLOCK_BYTES as u64;
            let skewed: Gather = Rc::new([Buf::zeroed(2 * BLOCK_BYTES).slice(512, BLOCK_BYTES)]);
            let short: Gather = Rc::new([Buf::zeroed(512)]);
            assert_eq!(io.write(device, 8 * b, block(1)).await, Err(IoError::OutOfRange));
            assert_eq!(io.write(device, 1, block(1)).await, Err(IoError::OutOfRange));
            assert_eq!(io.write(device, 0, skewed).await, Err(IoError::OutOfRange));
            assert_eq!(io.write(device, 0, short).await, Err(IoError::OutOfRange));
            assert_eq!(io.discard(device, u64::MAX - b + 1, b).await, Err(IoError::OutOfRange));
            assert_eq!(
                io.read(device, 7 * b, Buf::zeroed(2 * BLOCK_BYTES)).await.1,
                Err(IoError::OutOfRange)
            );
            assert_eq!(io.flush(DeviceId(9)).await, Err(IoError::Gone));
            assert_eq!(io.write(device, 7 * b, block(1)).await, Ok(()));
            assert_eq!(io.space(device).unwrap().bytes, 8 * b);
        })
        .unwrap();
}

#[test]
fn completions_come_out_of_order() {
    let world = World::new(1);
    let device = world.add_device(DeviceConfig::of_bytes(1 << 20));
    let order = Rc::new(RefCell::new(Vec::new()));
    for index in 0..64u64 {
        let (io, order) = (world.io(), Rc::clone(&order));
        world.spawn(async move {
            io.write(device, index * BLOCK_BYTES as u64, block(1)).await.unwrap();
            order.borrow_mut().push(index);
        });
    }
    world.run_for(1_000_000_000).unwrap();
    assert_eq!(order.borrow().len(), 64);
    assert!(!order.borrow().is_sorted());
    assert_eq!(world.device(device).stats().writes, 64);
}

#[test]
fn lanes_bound_what_is_served_at_once() {
    let took = |lanes| {
        let world = World::new(1);
        let latency = Latency { write_ns: 1000, block_ns: 0, jitter_ns: 0, lanes, ..Latency::default() };
        let device = world.add_device(DeviceConfig { latency, ..DeviceConfig::of_bytes(1 << 20) });
        for index in 0..64u64 {
            let io = world.io();
            world.spawn(async move { io.write(device, index * BLOCK_BYTES as u64, block(1)).await.unwrap() });
        }
        assert_eq!(world.run_until(|| false).unwrap_err().reason, StuckReason::Deadlock);
        world.now()
    };
    assert_eq!((took(1), took(8), took(64)), (64_000, 8_000, 1_000));
}
