//! Each fault by itself: what the client sees, what is stored, what is counted and logged.

use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather, Io, IoError};
use sinew_sim::{
    CorruptionKind, CrashPolicy, Device, DeviceConfig, DeviceFaults, EIO, Fault, Latency, OpKind, World,
};

const BLOCK: u64 = BLOCK_BYTES as u64;
const FAILED: IoError = IoError::Failed(EIO);

fn filled(byte: u8, blocks: usize) -> Gather {
    Rc::new([Buf::copy_of(&vec![byte; blocks * BLOCK_BYTES])])
}

fn world() -> (World, Device) {
    let world = World::new(11);
    let id = world.add_device(DeviceConfig::of_bytes(64 * BLOCK));
    let device = world.device(id);
    (world, device)
}

fn write(world: &World, device: DeviceId, block: u64, data: Gather) -> Result<(), IoError> {
    let io = world.io();
    world.block_on(async move { io.write(device, block * BLOCK, data).await }).unwrap()
}

fn flush(world: &World, device: DeviceId) -> Result<(), IoError> {
    let io = world.io();
    world.block_on(async move { io.flush(device).await }).unwrap()
}

/// The first byte of each block.
fn read(world: &World, device: DeviceId, block: u64, blocks: usize) -> Result<Vec<u8>, IoError> {
    let io = world.io();
    let (buf, result) = world
        .block_on(async move { io.read(device, block * BLOCK, Buf::zeroed(blocks * BLOCK_BYTES)).await })
        .unwrap();
    result.map(|()| buf.bytes().chunks(BLOCK_BYTES).map(|block| block[0]).collect())
}

#[test]
fn a_read_error_is_for_one_request() {
    let (world, device) = world();
    write(&world, device.id(), 0, filled(7, 1)).unwrap();
    device.script(OpKind::Read, Some(0..BLOCK), Fault::Error(EIO));
    assert_eq!(read(&world, device.id(), 1, 1), Ok(vec![0]), "elsewhere nothing happens");
    assert_eq!(read(&world, device.id(), 0, 1), Err(FAILED));
    assert_eq!(read(&world, device.id(), 0, 1), Ok(vec![7]));
    assert_eq!((device.fault_counts().read_errors, device.scripts_waiting()), (1, 0));
}

#[test]
fn a_spoilt_block_is_unreadable_until_rewritten() {
    let (world, device) = world();
    let id = device.id();
    write(&world, id, 0, filled(7, 4)).unwrap();
    flush(&world, id).unwrap();
    device.spoil(BLOCK..2 * BLOCK);
    assert_eq!(read(&world, id, 0, 4), Err(FAILED));
    assert_eq!(read(&world, id, 2, 2), Ok(vec![7, 7]));
    assert!(device.is_damaged(BLOCK));
    write(&world, id, 1, filled(8, 1)).unwrap();
    assert_eq!(read(&world, id, 0, 4), Ok(vec![7, 8, 7, 7]));
    assert!(!device.is_damaged(BLOCK));
    // The write that healed it is dropped, so it never happened.
    world.crash(CrashPolicy::DropAll);
    assert_eq!(read(&world, id, 0, 4), Err(FAILED));
    assert!(device.is_damaged(BLOCK));
    write(&world, id, 1, filled(9, 1)).unwrap();
    flush(&world, id).unwrap();
    world.crash(CrashPolicy::DropAll);
    assert_eq!(read(&world, id, 0, 4), Ok(vec![7, 9, 7, 7]));
    let log = world.corruptions();
    assert_eq!((log.len(), log[0].kind, log[0].overwritten), (1, CorruptionKind::LatentError, true));
}

#[test]
fn a_failed_write_leaves_any_part_of_itself() {
    let (world, device) = world();
    let mut seen = BTreeSet::new();
    for round in 0..100 {
        device.poke(0, &[0; 2 * BLOCK_BYTES]);
        device.script(OpKind::Write, None, Fault::Error(28));
        assert_eq!(write(&world, device.id(), 0, filled(1, 2)), Err(IoError::Failed(28)));
        seen.insert((device.peek(0, 1)[0], device.peek(BLOCK, 1)[0]));
        assert_eq!(device.fault_counts().write_errors, round + 1);
    }
    assert_eq!(seen, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
}

#[test]
fn a_failed_flush_makes_nothing_durable() {
    let (world, device) = world();
    write(&world, device.id(), 0, filled(7, 1)).unwrap();
    device.script(OpKind::Flush, None, Fault::Error(EIO));
    assert_eq!(flush(&world, device.id()), Err(FAILED));
    assert_eq!((device.unflushed_count(), device.fault_counts().flush_errors), (1, 1));
    world.crash(CrashPolicy::DropAll);
    assert_eq!(device.peek(0, 1), [0]);
}

#[test]
fn a_device_goes_and_comes_back_with_what_it_kept() {
    let (world, device) = world();
    let id = device.id();
    write(&world, id, 0, filled(1, 1)).unwrap();
    flush(&world, id).unwrap();
    write(&world, id, 0, filled(2, 1)).unwrap();
    let (io, outcome) = (world.io(), Rc::new(std::cell::Cell::new(None)));
    let told = Rc::clone(&outcome);
    world.spawn(async move { told.set(Some(io.write(id, 0, filled(3, 1)).await)) });
    world.run_steps(1);
    device.detach(CrashPolicy::DropAll);
    let until = Rc::clone(&outcome);
    world.run_until(|| until.get().is_some()).unwrap();
    assert_eq!(outcome.get(), Some(Err(IoError::Gone)));
    assert_eq!(read(&world, id, 0, 1), Err(IoError::Gone));
    assert_eq!(flush(&world, id), Err(IoError::Gone));
    assert_eq!(world.io().space(id), Err(IoError::Gone));
    world.crash(CrashPolicy::DropAll);
    assert!(device.is_gone());
    device.attach();
    assert_eq!(read(&world, id, 0, 1), Ok(vec![1]));
    let counts = device.fault_counts();
    assert_eq!((counts.detached, counts.attached, counts.dropped_writes), (1, 1, 2));
    device.script(OpKind::Read, None, Fault::Gone);
    assert_eq!(read(&world, id, 0, 1), Err(IoError::Gone));
    assert!(device.is_gone());
    device.replace_by_blank();
    assert_eq!(read(&world, id, 0, 1), Ok(vec![0]));
}

#[test]
fn rot_flips_one_bit_for_good() {
    let (world, device) = world();
    write(&world, device.id(), 3, filled(0x10, 1)).unwrap();
    device.rot(3 * BLOCK + 5, 2);
    assert_eq!(device.peek(3 * BLOCK + 4, 3), [0x10, 0x14, 0x10]);
    flush(&world, device.id()).unwrap();
    assert_eq!(device.peek_durable(3 * BLOCK + 4, 3), [0x10, 0x14, 0x10]);
    write(&world, device.id(), 3, filled(0x20, 1)).unwrap();
    assert!(!device.is_damaged(3 * BLOCK));
    world.crash(CrashPolicy::DropAll);
    assert_eq!(device.peek(3 * BLOCK + 5, 1), [0x14]);
    assert!(device.is_damaged(3 * BLOCK));
    assert_eq!(device.fault_counts().bit_rot, 1);
}

#[test]
fn a_lost_write_is_acknowledged() {
    let (world, device) = world();
    write(&world, device.id(), 0, filled(1, 2)).unwrap();
    device.script(OpKind::Write, None, Fault::Lost);
    write(&world, device.id(), 0, filled(2, 2)).unwrap();
    flush(&world, device.id()).unwrap();
    assert_eq!(read(&world, device.id(), 0, 2), Ok(vec![1, 1]));
    let log = world.corruptions();
    assert_eq!(
        log.iter().map(|c| (c.block, c.kind)).collect::<Vec<_>>(),
        [(0, CorruptionKind::Stale), (1, CorruptionKind::Stale)]
    );
    write(&world, device.id(), 1, filled(3, 1)).unwrap();
    assert_eq!((device.is_damaged(0), device.is_damaged(BLOCK)), (true, false));
}

#[test]
fn a_misdirected_write_lands_elsewhere() {
    let (world, device) = world();
    write(&world, device.id(), 0, filled(1, 10)).unwrap();
    device.script(OpKind::Write, Some(0..BLOCK), Fault::Misdirected(5 * BLOCK));
    write(&world, device.id(), 0, filled(2, 1)).unwrap();
    assert_eq!(read(&world, device.id(), 0, 10), Ok(vec![1, 1, 1, 1, 1, 2, 1, 1, 1, 1]));
    assert_eq!((0..10).filter(|block| device.is_damaged(block * BLOCK)).collect::<Vec<_>>(), [0, 5]);
    assert_eq!(device.fault_counts().misdirected_writes, 1);
}

#[test]
fn a_misdirected_read_returns_another_place_once() {
    let (world, device) = world();
    write(&world, device.id(), 0, filled(1, 1)).unwrap();
    write(&world, device.id(), 9, filled(9, 1)).unwrap();
    device.script(OpKind::Read, None, Fault::Misdirected(9 * BLOCK));
    assert_eq!(read(&world, device.id(), 0, 1), Ok(vec![9]));
    assert_eq!(read(&world, device.id(), 0, 1), Ok(vec![1]));
    assert_eq!((device.fault_counts().misdirected_reads, world.corruptions().len()), (1, 0));
}

#[test]
fn stalls_and_slow_periods_take_long() {
    let (world, device) = world();
    device.set_latency(Latency { read_ns: 1000, block_ns: 0, jitter_ns: 0, ..Latency::default() });
    let took = || {
        let before = world.now();
        read(&world, device.id(), 0, 1).unwrap();
        world.now() - before
    };
    assert_eq!(took(), 1000);
    device.script(OpKind::Read, None, Fault::Stall(500_000));
    assert_eq!((took(), took()), (501_000, 1000));
    device.slow_down(100, 150_000);
    assert_eq!((took(), took(), took()), (100_000, 100_000, 1000));
    assert_eq!((device.fault_counts().stalls, device.fault_counts().slow_periods), (1, 1));
}

#[test]
fn what_a_silent_device_was_asked_is_done_later_even_if_it_was_given_up() {
    let (world, device) = world();
    let (id, io) = (device.id(), world.io());
    write(&world, id, 0, filled(1, 2)).unwrap();
    device.silence(1_000_000_000);
    let begun = world.now();
    assert_eq!(read(&world, id, 0, 1), Ok(vec![1]));
    assert!(world.now() - begun >= 1_000_000_000 && !device.is_silent());
    assert!(device.was_silent(1_000_000));

    device.silence(5_000_000_000);
    // A shorter hang meanwhile does not end it.
    device.silence(1_000_000);
    let begun = world.now();
    let (reader, writer, giver) = (world.io(), world.io(), world.io());
    let ended = world.block_on(async move {
        let (done, ends) = async_channel::unbounded();
        let second = done.clone();
        giver.spawn(async move { done.send(writer.write(id, 0, filled(2, 1)).await).await.unwrap() });
        giver.spawn(async move { second.send(reader.read(id, 0, Buf::stale(4096)).await.1).await.unwrap() });
        giver.sleep(1_000_000_000).await;
        giver.abandon(id);
        [ends.recv().await.unwrap(), ends.recv().await.unwrap(), io.flush(id).await]
    });
    assert_eq!(ended.unwrap(), [Err(IoError::Gone); 3]);
    assert!(world.now() - begun < 2_000_000_000, "no request waits any more");
    assert!(device.is_abandoned() && !device.reopen(), "it owes answers");
    assert_eq!(device.peek(0, 1), [1]);
    world.run_for(6_000_000_000).unwrap();
    assert_eq!(device.peek(0, 1), [2], "the write landed all the same");
    assert_eq!(read(&world, id, 0, 1), Err(IoError::Gone), "not before it is opened again");
    assert!(device.reopen());
    assert_eq!(read(&world, id, 0, 2), Ok(vec![2, 1]));
}

#[test]
fn random_damage_stays_where_it_is_allowed_and_is_logged() {
    let world = World::new(5);
    let faults = DeviceFaults {
        latent_error: 0.05,
        bit_rot: 0.05,
        misdirected_write: 0.05,
        lost_write: 0.05,
        ..DeviceFaults::default()
    };
    let config = DeviceConfig { faults, ..DeviceConfig::of_bytes(64 * BLOCK) };
    let devices = [0, 1].map(|_| world.add_device(config.clone()));
    world.allow_corruption(devices[0], 16 * BLOCK..32 * BLOCK);
    let mut model = vec![[0u8; 64]; 2];
    let mut rng = world.rng("test");
    for round in 0..4000 {
        let (device, block) = (rng.below(2) as usize, rng.below(64));
        let byte = round as u8;
        if rng.chance(0.7) {
            write(&world, devices[device], block, filled(byte, 1)).unwrap();
            model[device][block as usize] = byte;
        } else {
            let found = read(&world, devices[device], block, 1);
            let damaged = world.device(devices[device]).is_damaged(block * BLOCK);
            assert!(damaged || found == Ok(vec![model[device][block as usize]]));
        }
    }
    for (device, model) in devices.iter().zip(&model) {
        for block in 0..64u64 {
            let good = world.device(*device).peek(block * BLOCK, BLOCK_BYTES)
                == [model[block as usize]; BLOCK_BYTES];
            assert!(good || world.device(*device).is_damaged(block * BLOCK), "unlogged damage");
        }
    }
    let log = world.corruptions();
    assert!(log.iter().all(|c| c.device == devices[0] && (16..32).contains(&c.block)));
    let kinds: BTreeSet<_> = log.iter().map(|c| format!("{:?}", c.kind)).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    world.forbid_corruption();
    let before = world.corruptions().len();
    for block in 0..64 {
        write(&world, devices[0], block, filled(1, 1)).unwrap();
    }
    assert_eq!(world.corruptions().len(), before);
    assert!(world.corruptions().iter().all(|corruption| corruption.overwritten));
}

#[test]
fn poke_and_snapshot_see_content_not_history() {
    let (world, device) = world();
    let empty = device.snapshot();
    device.poke(BLOCK - 2, b"abcd");
    assert_eq!(device.peek(BLOCK - 3, 6), b"\0abcd\0");
    let poked = device.snapshot();
    assert_ne!(empty, poked);
    write(&world, device.id(), 0, filled(0, 2)).unwrap();
    assert_eq!(device.snapshot(), empty);
    world.crash(CrashPolicy::DropAll);
    assert_eq!(device.snapshot(), poked, "a poke survives, the write over it does not");
}
