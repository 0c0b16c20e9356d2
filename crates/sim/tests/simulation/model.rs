//! Devices that take the time of a model.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather, Io, IoError};
use sinew_devices::flash::{self, Compression, Redundancy, Ssd, Striping};
use sinew_devices::{Command, Device as _, Kind, disk};
use sinew_sim::{ControllerLimits, CrashPolicy, DeviceConfig, EIO, Lengths, Model, Usage, World};

const BLOCKS: u32 = 1 << 14;

fn ssd() -> Ssd {
    Ssd::new(flash::slc().sized(BLOCKS, 0.2), 3)
}

fn bytes() -> u64 {
    u64::from(BLOCKS) * BLOCK_BYTES as u64
}

fn with_model(world: &World, model: Model) -> DeviceId {
    let device = world.add_device(DeviceConfig::of_bytes(bytes()));
    world.device(device).set_model(model);
    device
}

fn block(byte: u8) -> Gather {
    Rc::new([Buf::copy_of(&[byte; BLOCK_BYTES])])
}

/// Requests at rising times: when, what, where, how many blocks.
fn requests() -> Vec<(u64, Kind, u32, u32)> {
    let request = |i: u32| {
        let kind = [Kind::Write, Kind::Read, Kind::Write, Kind::Flush][i as usize % 4];
        (u64::from(i) * 40_000, kind, i.wrapping_mul(2_654_435_761) % (BLOCKS - 8), 1 + i % 8)
    };
    (0..400).map(request).collect()
}

#[test]
fn the_world_takes_the_time_that_the_model_takes() {
    let mut alone = ssd();
    let mut completions = Vec::new();
    for (tag, (at, kind, lba, blocks)) in (0..).zip(requests()) {
        alone.advance(at, &mut completions);
        alone.submit(at, Command { tag, kind, lba, blocks });
    }
    alone.advance(u64::MAX >> 13, &mut completions);
    let mut wanted: Vec<_> = completions.iter().map(|done| (done.tag, done.completed_at)).collect();
    wanted.sort_unstable();

    let world = World::new(1);
    let device = with_model(&world, Model::Flash(Box::new(ssd())));
    let seen = Rc::new(RefCell::new(Vec::new()));
    for (tag, (at, kind, lba, blocks)) in (0u64..).zip(requests()) {
        let (io, seen) = (world.io(), Rc::clone(&seen));
        world.spawn(async move {
            io.sleep(at).await;
            let (offset, len) = (u64::from(lba) * BLOCK_BYTES as u64, blocks as usize * BLOCK_BYTES);
            match kind {
                Kind::Read => io.read(device, offset, Buf::zeroed(len)).await.1.unwrap(),
                Kind::Write => io.write(device, offset, Rc::new([Buf::zeroed(len)])).await.unwrap(),
                Kind::Flush | Kind::Discard => io.flush(device).await.unwrap(),
            }
            seen.borrow_mut().push((tag, io.now()));
        });
    }
    world.run_for(1_000_000_000).unwrap();
    seen.borrow_mut().sort_unstable();
    assert_eq!(*seen.borrow(), wanted);

    let Usage { busy_ns, request_ns } = world.device(device).usage().unwrap();
    let latencies: u64 = completions.iter().map(|done| done.latency_ns()).sum();
    assert_eq!(request_ns, u128::from(latencies));
    assert!(busy_ns > 0 && busy_ns <= wanted.iter().map(|done| done.1).max().unwrap());
}

/// Crashes, kills and detaches while a model is at work.
fn storm(seed: u64) -> (u64, u64) {
    let world = World::new(seed);
    let device = with_model(&world, Model::Flash(Box::new(ssd())));
    let mut rng = world.rng("storm");
    for round in 0..40u8 {
        for task in 0..20u64 {
            let io = world.io();
            world.spawn(async move {
                loop {
                    let offset = io.random() % u64::from(BLOCKS) * BLOCK_BYTES as u64;
                    if io.write(device, offset, block(round)).await == Err(IoError::Gone) {
                        io.sleep(1000 * (task + 1)).await;
                    }
                }
            });
        }
        world.run_steps(rng.between(100, 2000));
        match rng.below(3) {
            0 => world.crash(CrashPolicy::Random),
            1 => world.kill_process(),
            _ => {
                world.device(device).detach(CrashPolicy::Random);
                world.run_steps(rng.between(1, 200));
                world.device(device).attach();
            }
        }
    }
    (world.trace_hash(), world.device(device).snapshot())
}

#[test]
fn crashes_and_losses_leave_a_model_usable_and_runs_repeatable() {
    for seed in 0..4 {
        assert_eq!(storm(seed), storm(seed));
    }
    assert_ne!(storm(1), storm(2));
}

#[test]
fn a_disk_is_a_model_too() {
    let world = World::new(1);
    let device = with_model(&world, Model::Disk(Box::new(disk::Disk::new(disk::constellation2()))));
    let io = world.io();
    world
        .block_on(async move {
            for i in 0..20 {
                io.write(device, i * 7919 % 1000 * BLOCK_BYTES as u64, block(1)).await.unwrap();
            }
        })
        .unwrap();
    assert!(world.now() > 20_000_000, "a disk takes milliseconds, {} ns are too few", world.now());
    assert_eq!(world.device(device).model(|model| matches!(model, Model::Disk(_))), Some(true));
}

#[test]
fn zeros_need_not_be_stored() {
    let zeros: Gather = Rc::new([Buf::zeroed(4 * BLOCK_BYTES)]);
    let contents = [false, true].map(|drop_zeros| {
        let world = World::new(1);
        let config = DeviceConfig { drop_zeros, cache_writes: 0, ..DeviceConfig::of_bytes(1 << 20) };
        let device = world.add_device(config);
        let (io, zeros) = (world.io(), Rc::clone(&zeros));
        world
            .block_on(async move {
                let b = BLOCK_BYTES as u64;
                io.write(device, 0, Rc::clone(&zeros)).await.unwrap();
                io.write(device, b, block(7)).await.unwrap();
                io.write(device, 8 * b, block(9)).await.unwrap();
                io.write(device, 8 * b, zeros).await.unwrap();
            })
            .unwrap();
        world.crash(CrashPolicy::DropAll);
        (world.device(device).peek(0, 1 << 20), world.device(device).snapshot())
    });
    assert_eq!(contents[0], contents[1]);
    assert!(contents[1].0[BLOCK_BYTES..2 * BLOCK_BYTES].iter().all(|&byte| byte == 7));
}

/// After the loss of a die a drive refuses writes. It reads all that its redundancy covers, or fails to read what was lost;
/// what it reads is right.
#[test]
fn a_drive_that_loses_a_die_reads_what_its_redundancy_covers() {
    let elastic = Redundancy::Elastic(Striping::new(8, 1_000_000));
    for (redundancy, survives) in [(Redundancy::EccOnly, false), (elastic, true)] {
        let world = World::new(1);
        let config = flash::Config { redundancy, ..flash::slc() }.sized(BLOCKS, 0.3);
        let device = with_model(&world, Model::Flash(Box::new(Ssd::new(config, 3))));
        let io = world.io();
        world
            .block_on(async move {
                for at in 0..800 {
                    io.write(device, at * BLOCK_BYTES as u64, block(at as u8)).await.unwrap();
                }
            })
            .unwrap();
        assert!(world.device(device).lose_die(3) && !world.device(device).lose_die(2));
        let io = world.io();
        let unreadable = world.block_on(async move {
            assert_eq!(io.write(device, 0, block(9)).await, Err(IoError::Failed(EIO)));
            let mut unreadable = 0;
            for at in 0..800 {
                let (buf, outcome) = io.read(device, at * BLOCK_BYTES as u64, Buf::zeroed(BLOCK_BYTES)).await;
                match outcome {
                    Ok(()) => assert_eq!(buf.bytes()[0], at as u8),
                    Err(error) => {
                        assert_eq!(error, IoError::Failed(EIO));
                        unreadable += 1;
                    }
                }
            }
            unreadable
        });
        assert_eq!(unreadable.unwrap(), if survives { 0 } else { 100 });
        let counts = world.fault_counts();
        assert_eq!((counts.dies_lost, counts.refused_writes), (1, 1));
        assert_eq!(counts.unreadable, if survives { 0 } else { 100 });
    }
}

/// Issues 16 reads of four unwritten blocks, which take a model no time, to each device at once; returns when the last one ends.
fn read_at_once(world: &World, devices: &[DeviceId]) -> u64 {
    let (from, ended) = (world.now(), Rc::new(RefCell::new(Vec::new())));
    for (device, number) in devices.iter().flat_map(|&device| (0..16u64).map(move |number| (device, number)))
    {
        let (io, ended) = (world.io(), Rc::clone(&ended));
        world.spawn(async move {
            let read = io.read(device, number * 4 * BLOCK_BYTES as u64, Buf::zeroed(4 * BLOCK_BYTES)).await;
            assert_eq!(read.1, Ok(()));
            ended.borrow_mut().push(io.now());
        });
    }
    world.run_until(|| ended.borrow().len() == 16 * devices.len()).unwrap();
    let last = *ended.borrow().iter().max().unwrap();
    last - from
}

#[test]
fn devices_share_the_commands_and_the_links_of_their_controller() {
    let world = World::new(1);
    let devices = [0, 1].map(|_| with_model(&world, Model::Flash(Box::new(ssd()))));
    assert_eq!(read_at_once(&world, &devices), 0);
    // 16 KiB take 16.384 us on a link.
    let limits = ControllerLimits { command_ns: 10_000, bytes_per_s: 1_000_000_000 };
    let both = world.add_controller(limits, &devices);
    assert_eq!(read_at_once(&world, &devices), 10_000 + 32 * 16_384);
    let usage = world.controller_usage(both).unwrap();
    assert_eq!((usage.commands_ns, usage.inward_ns, usage.outward_ns), (320_000, 0, 32 * 16_384));
    let second = world.add_controller(limits, &devices[1..]);
    assert_eq!(read_at_once(&world, &devices), 10_000 + 16 * 16_384);
    assert_eq!(world.controller_usage(second).unwrap().outward_ns, 16 * 16_384);
    assert!(world.controller_usage(second + 1).is_none());
    // With slow commands, these are the limit.
    world.add_controller(ControllerLimits { command_ns: 50_000, ..limits }, &devices);
    assert_eq!(read_at_once(&world, &devices), 32 * 50_000 + 16_384);
    world.add_controller(ControllerLimits::default(), &devices);
    assert_eq!(read_at_once(&world, &devices), 0);
}

#[test]
fn requests_in_a_controller_end_when_their_device_goes_away_or_the_power_fails() {
    let world = World::new(2);
    let device = with_model(&world, Model::Flash(Box::new(ssd())));
    world.add_controller(ControllerLimits { command_ns: 1_000_000, bytes_per_s: 0 }, &[device]);
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let write_all = |count: u64| {
        for number in 0..count {
            let (io, outcomes) = (world.io(), Rc::clone(&outcomes));
            world.spawn(async move {
                let outcome = io.write(device, number * BLOCK_BYTES as u64, block(7)).await;
                outcomes.borrow_mut().push(outcome);
            });
        }
    };
    write_all(10);
    world.run_for(3_500_000).unwrap();
    world.device(device).detach(CrashPolicy::KeepAll);
    world.run_until(|| outcomes.borrow().len() == 10).unwrap();
    assert_eq!(outcomes.take().iter().filter(|outcome| outcome.is_ok()).count(), 3);
    world.device(device).attach();
    write_all(10);
    world.run_for(3_500_000).unwrap();
    world.crash(CrashPolicy::DropAll);
    outcomes.take();
    write_all(10);
    world.run_until(|| outcomes.borrow().len() == 10).unwrap();
    assert!(outcomes.take().iter().all(Result::is_ok));
}

/// A drive whose flash is for `physical` bytes of what blocks compress to, in granules of 512 bytes.
fn compressing(world: &World, physical: u64, lengths: Lengths) -> DeviceId {
    let compression = Compression { granule_bytes: 512, space_query: true, length_query: true };
    let config = flash::Config { pages: 16, ..flash::datacenter() }.compressing(compression);
    let blocks = config.blocks_for_compressed(physical) as u32;
    let sized = config.sized(blocks, 0.1);
    let config = flash::Config { blocks: BLOCKS, ..sized };
    let device = with_model(world, Model::Flash(Box::new(Ssd::new(config, 3))));
    world.device(device).set_compressing(physical, lengths);
    world.device(device).announce_lengths();
    device
}

/// Space in use and length of the first block, as the model knows them.
fn told(world: &World, device: DeviceId) -> (u64, u16) {
    let told = world.device(device).model(|model| match model {
        Model::Flash(ssd) => (ssd.space().unwrap().used, ssd.length_of(0).unwrap()),
        Model::Disk(_) => unreachable!("it is an SSD"),
    });
    told.unwrap()
}

fn write_blocks(world: &World, device: DeviceId, from: u64, blocks: &[u8]) -> Result<(), IoError> {
    let io = world.io();
    let data: Gather = blocks.iter().map(|&byte| Buf::copy_of(&[byte; BLOCK_BYTES])).collect();
    world.block_on(async move { io.write(device, from * BLOCK_BYTES as u64, data).await }).unwrap()
}

#[test]
fn a_model_that_compresses_stores_what_is_written() {
    let world = World::new(1);
    // As many hundreds of bytes as the content says.
    let lengths = Lengths::By(Rc::new(|content| usize::from(content[0]) * 100));
    let device = compressing(&world, 1 << 20, lengths);
    write_blocks(&world, device, 0, &[20, 1, 5, 41]).unwrap();
    // 2000 bytes are four granules, 100 and 500 are one each, 4096 are eight.
    assert_eq!(told(&world, device), (14 * 512, 2048));
    assert_eq!(world.device(device).physical_used(), 14 * 512);
    write_blocks(&world, device, 0, &[6]).unwrap();
    assert_eq!(told(&world, device), (12 * 512, 1024));
    assert_eq!(world.device(device).physical_used(), 12 * 512);
    // A block of zeros takes nothing of the space that is counted, and a granule of flash.
    write_blocks(&world, device, 0, &[0]).unwrap();
    assert_eq!((world.device(device).physical_used(), told(&world, device).0), (10 * 512, 11 * 512));
    let io = world.io();
    let discarded = world.block_on(async move { io.discard(device, 0, 4 * BLOCK_BYTES as u64).await });
    discarded.unwrap().unwrap();
    assert_eq!((world.device(device).physical_used(), told(&world, device).0), (0, 0));
}

#[test]
fn flash_has_room_for_all_that_its_space_allows() {
    for physical in [1 << 20, 5 << 20, 9 << 20] {
        let world = World::new(1);
        // 3000 bytes are six granules, of which a unit of 64 holds ten times six.
        let device = compressing(&world, physical, Lengths::By(Rc::new(|_| 3000)));
        let mut written = 0;
        while write_blocks(&world, device, written, &[1; 2]).is_ok() {
            written += 2;
        }
        let used = world.device(device).physical_used();
        assert!(used <= physical && used + 2 * 3072 > physical, "{used} of {physical}");
        // Overwriting needs room for new content beside the old, and moves data to where there is some.
        let (io, end) = (world.io(), written * BLOCK_BYTES as u64);
        let freed = world.block_on(async move { io.discard(device, end - (16 << 10), 16 << 10).await });
        freed.unwrap().unwrap();
        for turn in 0..8 {
            for block in (0..written - 4).step_by(2) {
                write_blocks(&world, device, block, &[turn + 2; 2]).unwrap();
            }
        }
    }
}

#[test]
fn a_model_without_room_has_not_failed() {
    let world = World::new(1);
    let device = compressing(&world, 1 << 20, Lengths::Whole);
    // More than its flash.
    world.device(device).set_physical(bytes());
    let mut written = 0;
    let refused = loop {
        match write_blocks(&world, device, written, &[1; 8]) {
            Ok(()) => written += 8,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, IoError::NoSpace);
    assert!(written * BLOCK_BYTES as u64 >= 1 << 20 && written < u64::from(BLOCKS));
}
