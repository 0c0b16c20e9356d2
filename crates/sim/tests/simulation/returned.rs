//! Members that are back, and the copies of the tables that they lack.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::ops::Range;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::PoolKind;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::Level;
use sinew_sim::{CrashPolicy, OpenPool, Rng, World};

use crate::damage;
use crate::opening::made;

const BYTES: u64 = 1 << 20;
/// Steps of the world in which tables are written.
const STEPS: u64 = 60;
const WHILE_NS: u64 = 1_000_000;

/// A member comes back, the other one is taken offline as soon as the pool lets it go, and power fails: what was discarded while the
/// first one was out does not come back.
fn other_member_goes_at_once(kind: PoolKind, seed: u64) -> Result<(), String> {
    let mut rng = Rng::stream(seed, "returned", 0);
    let world = World::new(seed);
    let members = made(&world, 2, kind);
    let open = || world.block_on(OpenPool::open(world.io(), members.clone(), || false)).unwrap();
    let pool = open().unwrap();
    if matches!(kind, PoolKind::Mapped { .. }) {
        let control = Rc::clone(&pool.control);
        world.block_on(async move { control.create_volume("v", BYTES).await }).unwrap().unwrap();
    }
    let (control, volume) = (Rc::clone(&pool.control), pool.volume("v").unwrap());
    let (io, first) = (world.io(), members[0].clone());
    let parted = async move {
        volume.write(0, Buf::copy_of(&vec![7; BYTES as usize]), true).await.unwrap();
        control.offline(0).await.unwrap();
        volume.discard(0, BYTES).await.unwrap();
        volume.flush().await.unwrap();
        io.sleep(WHILE_NS).await;
        control.online(0, first).await.unwrap();
        while control.offline(1).await.is_err() {
            io.sleep(WHILE_NS).await;
        }
    };
    world.block_on(parted).unwrap();
    world.run_steps(rng.below(STEPS));
    drop(pool);
    world.crash(CrashPolicy::Random);
    let pool = open().map_err(|error| format!("seed {seed}: not opened: {error}"))?;
    let volume = pool.volume("v").unwrap();
    let read = world.block_on(async move { volume.read(0, BYTES as u32).await }).unwrap();
    let read = read.map_err(|error| format!("seed {seed}: not read: {error}"))?;
    let blocks = read.iter().map(|buf| buf.bytes().chunks(BLOCK_BYTES).filter(|block| block[0] != 0).count());
    match blocks.sum::<usize>() {
        0 => Ok(()),
        blocks => Err(format!("seed {seed}: {blocks} discarded blocks are back")),
    }
}

/// For mutations: power fails at one moment in each of these runs.
pub(crate) fn tables_are_on_members_that_stay(seeds: Range<u64>) -> Result<(), String> {
    let pool =
        PoolKind::Mapped { protection: Protection::Mirror { copies: 2 }, data_columns: 0, checksums: true };
    let array = damage::array(Level::Raid1, true);
    seeds.into_iter().try_for_each(|seed| {
        other_member_goes_at_once(pool, seed)?;
        other_member_goes_at_once(array, seed)
    })
}

#[test]
fn a_member_goes_once_the_tables_are_on_the_others() {
    tables_are_on_members_that_stay(0..64).unwrap();
}
