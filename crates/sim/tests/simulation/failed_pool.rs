//! A pool that fails because more members vanish than it survives: what is on the members is all there when they are back. The
//! members that stayed must not record that others, which stayed too, miss something.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{Level, Rotation};
use sinew_sim::{CrashPolicy, DeviceConfig, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const BLOCKS: u64 = 512;

fn content(block: u64) -> Buf {
    let byte = |i: usize| (i as u64 * 7 + block * 13 + 5) as u8;
    Buf::copy_of(&(0..BLOCK_BYTES).map(byte).collect::<Vec<u8>>())
}

/// Fails a pool under writes, and opens it again; gives the number of blocks that are not what was flushed.
fn lost_blocks(kind: PoolKind, seed: u64) -> usize {
    let world = World::new(seed);
    let candidate = |i: usize| {
        let device = world.add_device(DeviceConfig::of_bytes(16 << 20));
        Candidate { device, path: format!("d{i}") }
    };
    let candidates: Vec<Candidate> = (0..5).map(candidate).collect();
    let is_mapped = matches!(kind, PoolKind::Mapped { .. });
    let name = "v".to_owned();
    let spec = PoolSpec { name, kind, shards: 2, journal_blocks: Some(64), force: false, physical: None };
    let (io, devices) = (world.io(), candidates.clone());
    world.block_on(async move { pool::create(&io, &devices, &spec).await }).unwrap().unwrap();
    let open = || {
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap()
    };
    let opened = open();
    if is_mapped {
        let control = Rc::clone(&opened.control);
        world.block_on(async move { control.create_volume("v", 4 << 20).await }).unwrap().unwrap();
    }
    let volume = opened.volume("v").unwrap();
    let written = world.block_on(async move {
        for block in 0..BLOCKS {
            volume.write(block * BLOCK, content(block), false).await?;
        }
        volume.flush().await
    });
    written.unwrap().unwrap();
    // Writes go on elsewhere while one member after the other vanishes.
    let (volume, refused) = (opened.volume("v").unwrap(), Rc::new(Cell::new(false)));
    let told = Rc::clone(&refused);
    world.spawn(async move {
        for block in (BLOCKS..2 * BLOCKS).cycle() {
            if volume.write(block * BLOCK, content(block), false).await.is_err() {
                return told.set(true);
            }
        }
    });
    world.run_steps(200 + seed * 7);
    world.device(candidates[1].device).detach(CrashPolicy::Random);
    world.run_steps(1 + seed * 29 % 400);
    world.device(candidates[2].device).detach(CrashPolicy::Random);
    world.run_until(|| refused.get() && opened.control.has_failed()).unwrap();
    world.run_for(100_000_000).unwrap();
    drop(opened);
    world.kill_process();
    for member in [1, 2] {
        world.device(candidates[member].device).attach();
    }
    let opened = open();
    let is_lost = |block: &u64| {
        let (volume, at) = (opened.volume("v").unwrap(), block * BLOCK);
        let read = world.block_on(async move { volume.read(at, BLOCK as u32).await }).unwrap();
        let read = read.map(|bufs| bufs.iter().flat_map(|buf| buf.bytes().to_vec()).collect::<Vec<u8>>());
        read.ok().is_none_or(|read| read != content(*block).bytes())
    };
    (0..BLOCKS).filter(is_lost).count()
}

#[test]
fn nothing_is_lost_when_a_pool_fails_and_its_members_are_back() {
    let mapped = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 2, checksums: true };
    for seed in 0..30 {
        assert_eq!(lost_blocks(mapped, seed), 0, "seed {seed}");
    }
}

#[test]
fn nothing_is_lost_when_an_array_fails_and_its_members_are_back() {
    for seed in 0..30 {
        let spec = ArraySpec {
            level: Level::Raid5(Rotation::default()),
            chunk_bytes: 16384,
            journal: true,
            spares: 0,
            zeroed: true,
            elastic: None,
        };
        assert_eq!(lost_blocks(PoolKind::Array(spec), seed), 0, "seed {seed}");
    }
}
