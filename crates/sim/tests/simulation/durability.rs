//! Power loss and process death: each block ends with a legal version.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use proptest::prelude::*;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather, Io};
use sinew_sim::{CrashPolicy, DeviceConfig, DiscardReads, World};

const BLOCKS: u64 = 6;
const BLOCK: u64 = BLOCK_BYTES as u64;

fn content(tag: u64, blocks: u64) -> Gather {
    let one = |index: u64| Buf::copy_of(&(tag * 16 + index).to_le_bytes().repeat(BLOCK_BYTES / 8));
    (0..blocks).map(one).collect()
}

fn tag_at(world: &World, device: DeviceId, block: u64) -> u64 {
    let bytes = world.device(device).peek(block * BLOCK, BLOCK_BYTES);
    let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes.chunks(8).all(|chunk| chunk == word.to_le_bytes()), "torn inside a block");
    word / 16
}

#[derive(Clone, Copy, Debug)]
enum Do {
    Write { first: u64, blocks: u64 },
    Flush,
    Discard { first: u64, blocks: u64 },
}

fn operation() -> impl Strategy<Value = Do> {
    let range = (0..BLOCKS, 1..=3u64).prop_map(|(first, blocks)| (first, blocks.min(BLOCKS - first)));
    prop_oneof![
        5 => range.clone().prop_map(|(first, blocks)| Do::Write { first, blocks }),
        2 => Just(Do::Flush),
        1 => range.prop_map(|(first, blocks)| Do::Discard { first, blocks }),
    ]
}

/// The legal versions of each block, derived from the requests only, without knowledge of the device.
#[derive(Default)]
struct Oracle {
    /// Order of calls and returns.
    clock: u64,
    /// For each block: (called at, returned at, tag).
    versions: BTreeMap<u64, Vec<(u64, Option<u64>, u64)>>,
    /// Completed flushes: when they were called.
    flushes: Vec<u64>,
}

impl Oracle {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Tags a block may hold after a power loss: a version is out only when another one that started after it had
    /// ended is covered by a completed flush. Without power loss, ended is enough.
    fn legal(&self, block: u64, power_loss: bool) -> BTreeSet<u64> {
        let flushed = self.flushes.iter().max().copied().unwrap_or(0);
        let mut all = self.versions.get(&block).cloned().unwrap_or_default();
        all.push((0, Some(0), 0));
        let certain = |ended: Option<u64>| ended.is_some_and(|at| !power_loss || at < flushed || at == 0);
        let out = |(_, ended, _): &(u64, Option<u64>, u64)| {
            all.iter().any(|(began, other, _)| certain(*other) && ended.is_some_and(|at| at < *began))
        };
        all.iter().filter(|version| !out(version)).map(|version| version.2).collect()
    }
}

fn run(world: &World, device: DeviceId, operations: &[Do], oracle: &Rc<RefCell<Oracle>>) {
    for (index, &operation) in operations.iter().enumerate() {
        let (io, oracle) = (world.io(), Rc::clone(oracle));
        world.spawn(async move {
            io.sleep(index as u64 * 25_000).await;
            let began = oracle.borrow_mut().tick();
            let (first, blocks, tag) = match operation {
                Do::Write { first, blocks } => (first, blocks, began),
                Do::Discard { first, blocks } => (first, blocks, 0),
                Do::Flush => (0, 0, 0),
            };
            let slot = |oracle: &mut Oracle, block| oracle.versions.entry(block).or_default().len();
            let slots: Vec<_> = (first..first + blocks)
                .map(|block| {
                    let index = slot(&mut oracle.borrow_mut(), block);
                    oracle.borrow_mut().versions.entry(block).or_default().push((began, None, tag));
                    (block, index)
                })
                .collect();
            match operation {
                Do::Write { .. } => io.write(device, first * BLOCK, content(tag, blocks)).await,
                Do::Discard { .. } => io.discard(device, first * BLOCK, blocks * BLOCK).await,
                Do::Flush => io.flush(device).await,
            }
            .unwrap();
            let mut oracle = oracle.borrow_mut();
            let ended = oracle.tick();
            match operation {
                Do::Flush => oracle.flushes.push(began),
                _ => slots.into_iter().for_each(|(block, index)| {
                    oracle.versions.get_mut(&block).unwrap()[index].1 = Some(ended);
                }),
            }
        });
    }
}

fn policy() -> impl Strategy<Value = CrashPolicy> {
    prop_oneof![
        Just(CrashPolicy::Random),
        Just(CrashPolicy::KeepAll),
        Just(CrashPolicy::DropAll),
        Just(CrashPolicy::Prefix),
        (0.0..1.0, 0.0..1.0).prop_map(|(keep, torn)| CrashPolicy::Mix { keep, torn }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_power_loss_each_block_is_legal(
        seed: u64,
        operations in prop::collection::vec(operation(), 1..16),
        steps in 0..120u64,
        policy in policy(),
        cache_writes in 1..20usize,
    ) {
        let world = World::new(seed);
        let device = world.add_device(DeviceConfig { cache_writes, ..DeviceConfig::of_bytes(BLOCKS * BLOCK) });
        let oracle = Rc::default();
        run(&world, device, &operations, &oracle);
        world.run_steps(steps);
        world.crash(policy);
        for block in 0..BLOCKS {
            let (found, legal) = (tag_at(&world, device, block), oracle.borrow().legal(block, true));
            prop_assert!(legal.contains(&found), "block {block}: {found} not in {legal:?}");
            let handle = world.device(device);
            prop_assert_eq!(handle.peek(block * BLOCK, 8), handle.peek_durable(block * BLOCK, 8));
        }
        prop_assert_eq!(world.device(device).unflushed_count(), 0);
    }

    #[test]
    fn after_process_death_completed_writes_are_there(
        seed: u64,
        operations in prop::collection::vec(operation(), 1..16),
        steps in 0..120u64,
    ) {
        let world = World::new(seed);
        let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
        let oracle = Rc::default();
        run(&world, device, &operations, &oracle);
        world.run_steps(steps);
        world.kill_process();
        for block in 0..BLOCKS {
            let (found, legal) = (tag_at(&world, device, block), oracle.borrow().legal(block, false));
            prop_assert!(legal.contains(&found), "block {block}: {found} not in {legal:?}");
        }
    }
}

fn block_on<T: 'static>(world: &World, task: impl Future<Output = T> + 'static) -> T {
    world.block_on(task).unwrap()
}

/// Every legal outcome of a small case occurs, and none else: flushed A, then unflushed two-block B, then C over its
/// second block, then D in flight over its first.
#[test]
fn every_legal_outcome_of_a_small_case_occurs() {
    let mut seen = BTreeSet::new();
    for seed in 0..2000 {
        let world = World::new(seed);
        let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
        let io = world.io();
        block_on(&world, async move {
            io.write(device, 0, content(1, 2)).await.unwrap();
            io.flush(device).await.unwrap();
            io.write(device, 0, content(2, 2)).await.unwrap();
            io.write(device, BLOCK, content(3, 1)).await.unwrap();
        });
        let io = world.io();
        world.spawn(async move { io.write(device, 0, content(4, 1)).await.unwrap() });
        world.run_steps(1);
        assert_eq!((tag_at(&world, device, 0), tag_at(&world, device, 1)), (2, 3));
        assert_eq!(world.device(device).unflushed_count(), 2);
        world.crash(CrashPolicy::Random);
        seen.insert((tag_at(&world, device, 0), tag_at(&world, device, 1)));
    }
    let legal: BTreeSet<_> = [1, 2, 4].into_iter().flat_map(|a| [1, 2, 3].map(|b| (a, b))).collect();
    assert_eq!(seen, legal);
}

#[test]
fn a_flush_covers_what_completed_before_the_call_and_no_more() {
    let world = World::new(3);
    let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
    let io = world.io();
    block_on(&world, async move {
        io.write(device, 0, content(1, 1)).await.unwrap();
        let flush = io.flush(device);
        io.write(device, 0, content(2, 1)).await.unwrap();
        flush.await.unwrap();
    });
    assert_eq!(world.device(device).unflushed_count(), 1);
    world.crash(CrashPolicy::DropAll);
    assert_eq!(tag_at(&world, device, 0), 1);
}

#[test]
fn keep_all_and_drop_all_do_so() {
    for (policy, expected) in [(CrashPolicy::KeepAll, [2, 3]), (CrashPolicy::DropAll, [1, 0])] {
        let world = World::new(3);
        let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
        let io = world.io();
        block_on(&world, async move {
            io.write(device, 0, content(1, 1)).await.unwrap();
            io.flush(device).await.unwrap();
            io.write(device, 0, content(2, 1)).await.unwrap();
        });
        let io = world.io();
        world.spawn(async move { io.write(device, BLOCK, content(3, 1)).await.unwrap() });
        world.run_steps(1);
        world.crash(policy);
        assert_eq!([tag_at(&world, device, 0), tag_at(&world, device, 1)], expected);
    }
}

#[test]
fn each_device_may_have_its_own_policy() {
    let world = World::new(3);
    let devices = [0, 1].map(|_| world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK)));
    let io = world.io();
    block_on(&world, async move {
        for device in devices {
            io.write(device, 0, content(1, 1)).await.unwrap();
        }
    });
    world.crash_each(|id| if id == devices[0] { CrashPolicy::KeepAll } else { CrashPolicy::DropAll });
    assert_eq!(devices.map(|device| tag_at(&world, device, 0)), [1, 0]);
}

#[test]
fn unflushed_writes_survive_the_process_but_not_a_later_power_loss() {
    let world = World::new(3);
    let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
    let io = world.io();
    block_on(&world, async move { io.write(device, 0, content(1, 1)).await.unwrap() });
    world.kill_process();
    assert_eq!((tag_at(&world, device, 0), world.device(device).unflushed_count()), (1, 1));
    world.crash(CrashPolicy::DropAll);
    assert_eq!(tag_at(&world, device, 0), 0);
}

#[test]
fn a_full_cache_makes_its_oldest_write_durable() {
    let world = World::new(3);
    let device = world.add_device(DeviceConfig { cache_writes: 2, ..DeviceConfig::of_bytes(BLOCKS * BLOCK) });
    let io = world.io();
    block_on(&world, async move {
        for block in 0..3 {
            io.write(device, block * BLOCK, content(block + 1, 1)).await.unwrap();
        }
    });
    assert_eq!(world.device(device).unflushed_count(), 2);
    world.crash(CrashPolicy::DropAll);
    assert_eq!([0, 1, 2].map(|block| tag_at(&world, device, block)), [1, 0, 0]);
}

#[test]
fn discarded_blocks_read_as_configured() {
    for (discard, legal) in [
        (DiscardReads::Zeros, vec![0u8]),
        (DiscardReads::Kept, vec![7]),
        (DiscardReads::Anything, vec![0, 7, 0xd1]),
    ] {
        let world = World::new(3);
        let device = world.add_device(DeviceConfig { discard, ..DeviceConfig::of_bytes(64 * BLOCK) });
        let io = world.io();
        block_on(&world, async move {
            io.write(device, 0, Rc::new([Buf::copy_of(&[7; 64 * BLOCK_BYTES])])).await.unwrap();
            io.discard(device, 0, 64 * BLOCK).await.unwrap();
        });
        let bytes = world.device(device).peek(0, 64 * BLOCK_BYTES);
        let seen: BTreeSet<u8> = bytes.chunks(BLOCK_BYTES).map(|block| block[0]).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), legal);
    }
}

#[test]
fn a_device_that_copies_leaves_the_writer_its_buffer() {
    let world = World::new(3);
    let device =
        world.add_device(DeviceConfig { share_writes: false, ..DeviceConfig::of_bytes(BLOCKS * BLOCK) });
    let (io, mut data) = (world.io(), content(1, 2));
    block_on(&world, async move {
        io.write(device, 0, Rc::clone(&data)).await.unwrap();
        let buffers = Rc::get_mut(&mut data).expect("the device holds no handle");
        buffers[0].bytes_mut().fill(0xff);
    });
    assert_eq!((tag_at(&world, device, 0), tag_at(&world, device, 1)), (1, 1));
}

#[test]
fn a_prefix_has_no_holes() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let world = World::new(seed);
        let device = world.add_device(DeviceConfig::of_bytes(BLOCKS * BLOCK));
        let io = world.io();
        block_on(&world, async move {
            for block in 0..BLOCKS {
                io.write(device, block * BLOCK, content(1, 1)).await.unwrap();
            }
        });
        world.crash(CrashPolicy::Prefix);
        let kept: Vec<_> = (0..BLOCKS).map(|block| tag_at(&world, device, block)).collect();
        assert!(kept.is_sorted_by(|a, b| a >= b), "{kept:?}");
        lengths.insert(kept.iter().sum::<u64>());
    }
    assert_eq!(lengths.len() as u64, BLOCKS + 1);
}
