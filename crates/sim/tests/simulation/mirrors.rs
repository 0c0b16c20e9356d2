//! Mirrors without a journal, whose copies may differ after a crash.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::Volume;
use sinew_sim::{OpenPool, World};

use crate::opening::{made, mirror};

const BLOCK: u64 = BLOCK_BYTES as u64;
const BLOCKS: u64 = 64;
/// A time after which some writes to a member have ended and others have not.
const WHILE_NS: u64 = 250_000;

/// Begins to write this byte to all blocks, all at once.
fn begin_writes(world: &World, pool: &OpenPool, byte: u8) {
    for block in 0..BLOCKS {
        let volume = pool.volume("v").unwrap();
        world.spawn(async move {
            volume.write(block * BLOCK, Buf::copy_of(&[byte; BLOCK_BYTES]), false).await.unwrap();
        });
    }
}

/// The first byte of each block, read all at once.
fn read_all(world: &World, pool: &OpenPool) -> Vec<u8> {
    let found = Rc::new(RefCell::new(vec![None; BLOCKS as usize]));
    for block in 0..BLOCKS {
        let (volume, found) = (pool.volume("v").unwrap(), Rc::clone(&found));
        world.spawn(async move {
            let read = volume.read(block * BLOCK, BLOCK as u32).await.unwrap();
            found.borrow_mut()[block as usize] = Some(read[0].bytes()[0]);
        });
    }
    world.run_for(1_000_000_000).unwrap();
    found.take().into_iter().map(|byte| byte.expect("an answer")).collect()
}

/// After a crash in writes, a read-only opening reads what the next opening makes of both copies.
pub(crate) fn reads_after_a_crash_are_of_one_copy() -> Result<(), String> {
    for seed in 0..8 {
        let world = World::new(seed);
        let members = made(&world, 2, mirror(BLOCK_BYTES as u32));
        let open = || world.block_on(OpenPool::open(world.io(), members.clone(), || false)).unwrap().unwrap();
        let pool = open();
        begin_writes(&world, &pool, 1);
        world.run_for(1_000_000_000).unwrap();
        begin_writes(&world, &pool, 2);
        world.run_for(WHILE_NS).unwrap();
        drop(pool);
        world.kill_process();
        let opening = OpenPool::open_read_only(world.io(), members.clone(), None, || false);
        let pool = world.block_on(opening).unwrap().unwrap();
        let before = read_all(&world, &pool);
        drop(pool);
        world.kill_process();
        let after = read_all(&world, &open());
        if before != after {
            return Err(format!("seed {seed}: read-only {before:?}, then {after:?}"));
        }
        assert!(after.contains(&1) && after.contains(&2), "the crash was to interrupt the writes: {after:?}");
    }
    Ok(())
}

#[test]
fn a_read_only_opening_after_a_crash_reads_one_copy() {
    reads_after_a_crash_are_of_one_copy().unwrap();
}
