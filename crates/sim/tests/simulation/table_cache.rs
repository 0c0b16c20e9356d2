//! The table cache: slots that leave memory are found again on the members, and nothing is read without them.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{Candidate, PoolKind};
use sinew_format::model::mapped_geometry::{PAGE_BYTES, Protection};
use sinew_members::status::ShardStatus;
use sinew_sim::{CrashPolicy, OpenError, OpenPool, World};

use crate::opening::made;

const BLOCK: u64 = BLOCK_BYTES as u64;
pub(crate) const BLOCKS: u64 = 1000;

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) members: Vec<Candidate>,
    pub(crate) pool: Rc<OpenPool>,
    /// The version that each block has.
    pub(crate) versions: Vec<u8>,
}

impl Scene {
    /// A pool of four members.
    pub(crate) fn new() -> Scene {
        Scene::of(4, BLOCKS)
    }

    /// A pool with a volume whose blocks were overwritten in random order, after a clean stop.
    fn of(members: usize, blocks: u64) -> Scene {
        let world = World::new(5);
        let kind = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true };
        let members = made(&world, members, kind);
        let pool = Scene::open(&world, &members, None);
        let mut scene = Scene { world, members, pool, versions: vec![0; blocks as usize] };
        let control = Rc::clone(&scene.pool.control);
        let made = async move { control.create_volume("v", blocks * BLOCK).await };
        scene.world.block_on(made).unwrap().unwrap();
        let mut rng = scene.world.rng("overwrites");
        (0..blocks).for_each(|block| scene.write(block));
        (0..blocks).for_each(|_| scene.write(rng.below(blocks)));
        scene.reopen(None);
        scene
    }

    fn open(world: &World, members: &[Candidate], table_cache: Option<u64>) -> Rc<OpenPool> {
        Scene::try_open(world, members, table_cache).unwrap()
    }

    pub(crate) fn try_open(
        world: &World,
        members: &[Candidate],
        table_cache: Option<u64>,
    ) -> Result<Rc<OpenPool>, OpenError> {
        let opening = OpenPool::open_bounded(world.io(), members.to_vec(), table_cache, || false);
        world.block_on(opening).unwrap().map(Rc::new)
    }

    pub(crate) fn close(&self) {
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.close().await }).unwrap().unwrap();
    }

    fn content(&self, block: u64) -> Vec<u8> {
        Scene::content_of(block, self.versions[block as usize])
    }

    pub(crate) fn content_of(block: u64, version: u8) -> Vec<u8> {
        let version = u64::from(version);
        (0..BLOCK).map(|i| (i * 3 + block * 17 + version * 101) as u8).collect()
    }

    fn write(&mut self, block: u64) {
        self.versions[block as usize] += 1;
        let (volume, data) = (self.pool.volume("v").unwrap(), Buf::copy_of(&self.content(block)));
        self.world.block_on(async move { volume.write(block * BLOCK, data, false).await }).unwrap().unwrap();
    }

    pub(crate) fn read(&self, block: u64) -> Result<Vec<u8>, VolumeError> {
        let volume = self.pool.volume("v").unwrap();
        let bufs =
            self.world.block_on(async move { volume.read(block * BLOCK, BLOCK as u32).await }).unwrap()?;
        Ok(bufs.iter().flat_map(|buf| buf.bytes().to_vec()).collect())
    }

    /// Stops the pool and opens it with this bound of the table cache.
    fn reopen(&mut self, table_cache: Option<u64>) {
        self.close();
        self.pool = Scene::open(&self.world, &self.members, table_cache);
    }

    /// Every copy of every page becomes unreadable, as no number of faults that the pool survives would make it.
    fn spoil_pages(&self) {
        (0..self.members.len()).for_each(|member| self.spoil_pages_of(member)());
    }

    /// What makes the pages on a member unreadable.
    pub(crate) fn spoil_pages_of(&self, member: usize) -> impl FnOnce() + use<> {
        let layout = &self.pool.control.config().members[member].layout;
        let first = layout.page_offset(0, 0);
        let bytes = u64::from(layout.page_slots) * PAGE_BYTES as u64;
        let device = self.world.device(self.members[member].device);
        move || device.spoil(first..first + bytes)
    }

    fn status(&self) -> ShardStatus {
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.status().await }).unwrap().unwrap()
    }
}

#[test]
fn absent_slots_are_read_when_they_are_needed() {
    let mut scene = Scene::new();
    scene.reopen(Some(0));
    for block in 0..BLOCKS {
        assert!(scene.read(block).unwrap() == scene.content(block), "block {block}");
    }
    let pages_read = scene.status().counters.slot_pages_read;
    assert!(pages_read > 1, "{pages_read} pages read");
    // Compaction and pages that are written again need slots as well.
    for round in 0..4 {
        (round..BLOCKS).step_by(3).for_each(|block| scene.write(block));
    }
    for block in 0..BLOCKS {
        assert!(scene.read(block).unwrap() == scene.content(block), "block {block}");
    }
    // With room, none is read after the opening.
    scene.reopen(None);
    (0..BLOCKS).for_each(|block| drop(scene.read(block).unwrap()));
    assert_eq!(scene.status().counters.slot_pages_read, 0);
}

#[test]
fn an_opening_leaves_slots_on_the_members() {
    let mut scene = Scene::new();
    let whole = scene.status().table_bytes;
    scene.reopen(Some(0));
    assert_eq!(scene.pool.control.table_cache(), Some(0));
    let before = scene.status();
    assert!(before.table_bytes < whole, "{} of {whole} bytes", before.table_bytes);
    assert_eq!(before.counters.slot_pages_read, 0);
    for block in 0..BLOCKS {
        assert!(scene.read(block).unwrap() == scene.content(block), "block {block}");
    }
    assert!(scene.status().counters.slot_pages_read > 1);
    // After a crash, recovery reads the slots that the end of the journal is about.
    (0..BLOCKS).step_by(7).for_each(|block| scene.write(block));
    scene.world.crash(CrashPolicy::KeepAll);
    scene.pool = Scene::open(&scene.world, &scene.members, Some(0));
    for block in 0..BLOCKS {
        assert!(scene.read(block).unwrap() == scene.content(block), "block {block}");
    }
}

#[test]
fn pages_that_were_read_stay_while_there_is_room() {
    let blocks = 6 * BLOCKS;
    let mut scene = Scene::of(12, blocks);
    let whole = scene.status().table_bytes;
    scene.reopen(Some(0));
    let of_slots = whole - scene.status().table_bytes;
    let mut pages_read = |bound| {
        scene.reopen(Some(bound));
        // What is read in sequence moves together.
        (0..blocks).for_each(|i| drop(scene.read(i * 7919 % blocks).unwrap()));
        scene.status().counters.slot_pages_read
    };
    let (without, with) = (pages_read(0), pages_read(of_slots / 2));
    assert!(with > 0 && with < without * 3 / 4, "{with} pages read, {without} without room");
}

/// The pages on one member cannot be read when the pool is opened, and those on another one from some moment of the opening on. It
/// may fail, but a pool that is open has the slots.
pub(crate) fn slots_stay_in_memory_while_their_page_lacks_a_copy() -> Result<(), String> {
    let mut opening_ns = 0;
    // The first opening is undisturbed, and the others are disturbed in their second half.
    for moment in 0..=20 {
        let mut scene = Scene::new();
        scene.close();
        scene.spoil_pages_of(0)();
        let (io, spoil) = (scene.world.io(), scene.spoil_pages_of(1));
        if moment > 0 {
            scene.world.spawn(async move {
                io.sleep(opening_ns / 40 * (20 + moment)).await;
                spoil();
            });
        }
        let begun = scene.world.now();
        let Ok(pool) = Scene::try_open(&scene.world, &scene.members, Some(0)) else { continue };
        scene.pool = pool;
        if moment == 0 {
            opening_ns = scene.world.now() - begun;
        }
        for block in 0..BLOCKS {
            if scene.read(block) != Ok(scene.content(block)) {
                return Err(format!("moment {moment}: block {block} is lost"));
            }
        }
    }
    Ok(())
}

#[test]
fn pages_that_lack_a_copy_are_written_before_slots_leave_memory() {
    assert_eq!(slots_stay_in_memory_while_their_page_lacks_a_copy(), Ok(()));
}

#[test]
fn nothing_is_read_without_checksums() {
    // What is in memory counts.
    let scene = Scene::new();
    scene.spoil_pages();
    assert!((0..BLOCKS).all(|block| scene.read(block).unwrap() == scene.content(block)));
    let mut scene = Scene::new();
    scene.reopen(Some(0));
    scene.spoil_pages();
    let mut failed = 0;
    for block in 0..BLOCKS {
        match scene.read(block) {
            Ok(found) => assert!(found == scene.content(block), "block {block}"),
            Err(error) => {
                assert_eq!(error, VolumeError::Failed, "block {block}");
                failed += 1;
            }
        }
    }
    assert!(failed > 0, "all pages are in memory");
    // Writes do not need them, and the server can be stopped.
    scene.write(7);
    scene.close();
}
