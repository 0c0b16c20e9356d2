//! The table cache: slots and map pages that leave memory are found again on the members, and nothing is read without them.

use std::ops::Range;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::sync::join_all;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{Candidate, PoolKind};
use sinew_format::model::mapped_geometry::{PAGE_BYTES, PAGE_INDICES, Protection};
use sinew_members::status::ShardStatus;
use sinew_sim::{CrashPolicy, OpenError, OpenPool, World};

use crate::opening::made_of;

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
        let mut scene = Scene::empty(members, 8 << 20, blocks);
        let mut rng = scene.world.rng("overwrites");
        (0..blocks).for_each(|block| scene.write(block));
        (0..blocks).for_each(|_| scene.write(rng.below(blocks)));
        scene.reopen(None);
        scene
    }

    /// A pool with an empty volume.
    pub(crate) fn empty(members: usize, member_bytes: u64, blocks: u64) -> Scene {
        let world = World::new(5);
        let kind = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true };
        let members = made_of(&world, members, member_bytes, kind);
        let pool = Scene::open(&world, &members, None);
        let scene = Scene { world, members, pool, versions: vec![0; blocks as usize] };
        let control = Rc::clone(&scene.pool.control);
        let made = async move { control.create_volume("v", blocks * BLOCK).await };
        scene.world.block_on(made).unwrap().unwrap();
        scene
    }

    pub(crate) fn open(world: &World, members: &[Candidate], table_cache: Option<u64>) -> Rc<OpenPool> {
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

    pub(crate) fn content(&self, block: u64) -> Vec<u8> {
        Scene::content_of(block, self.versions[block as usize])
    }

    pub(crate) fn content_of(block: u64, version: u8) -> Vec<u8> {
        let version = u64::from(version);
        (0..BLOCK).map(|i| (i * 3 + block * 17 + version * 101) as u8).collect()
    }

    pub(crate) fn write(&mut self, block: u64) {
        self.versions[block as usize] += 1;
        self.try_write(block, &self.content(block)).unwrap();
    }

    fn try_write(&self, block: u64, content: &[u8]) -> Result<(), VolumeError> {
        let (volume, data) = (self.pool.volume("v").unwrap(), Buf::copy_of(content));
        self.world.block_on(async move { volume.write(block * BLOCK, data, false).await }).unwrap()
    }

    fn discard(&self, blocks: Range<u64>) {
        let volume = self.pool.volume("v").unwrap();
        let (offset, bytes) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
        self.world.block_on(async move { volume.discard(offset, bytes).await }).unwrap().unwrap();
    }

    pub(crate) fn read(&self, block: u64) -> Result<Vec<u8>, VolumeError> {
        let volume = self.pool.volume("v").unwrap();
        let bufs =
            self.world.block_on(async move { volume.read(block * BLOCK, BLOCK as u32).await }).unwrap()?;
        Ok(bufs.iter().flat_map(|buf| buf.bytes().to_vec()).collect())
    }

    /// Stops the pool and opens it with this bound of the table cache.
    pub(crate) fn reopen(&mut self, table_cache: Option<u64>) {
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
    // A write must know what it replaces. The server can be stopped.
    assert_eq!(scene.try_write(7, &scene.content(7)), Err(VolumeError::Failed));
    scene.close();
}

/// Blocks of a map page.
const PAGE: u64 = PAGE_INDICES as u64;

/// A volume of 24 map pages, of which some blocks of each are stored.
fn wide() -> Scene {
    let mut scene = Scene::empty(4, 256 << 20, 24 * PAGE);
    (0..24 * PAGE).step_by(500).for_each(|block| scene.write(block));
    scene
}

impl Scene {
    /// Whether each block is as it was written last, or zero if it was not written, or discarded since.
    fn check(&self) {
        for block in (0..self.versions.len() as u64).step_by(250) {
            let is_stored = self.versions[block as usize] > 0;
            let expected = if is_stored { self.content(block) } else { vec![0; BLOCK_BYTES] };
            assert!(self.read(block).unwrap() == expected, "block {block}");
        }
    }

    fn stored(&self) -> u64 {
        self.versions.iter().filter(|&&version| version > 0).count() as u64 * BLOCK
    }
}

#[test]
fn map_pages_are_read_when_they_are_needed() {
    let mut scene = wide();
    scene.reopen(None);
    let whole = scene.status().table_bytes;
    scene.reopen(Some(0));
    let before = scene.status();
    assert!(before.table_bytes < whole, "{} of {whole} bytes", before.table_bytes);
    assert_eq!((before.counters.map_pages_read, before.stored_bytes), (0, scene.stored()));
    scene.check();
    assert!(scene.status().counters.map_pages_read >= 24);
    // Blocks are written again, written first, and discarded across pages.
    (0..24 * PAGE).step_by(1000).for_each(|block| scene.write(block));
    (250..24 * PAGE).step_by(5000).for_each(|block| scene.write(block));
    scene.discard(PAGE / 2..5 * PAGE + 7);
    scene.versions[PAGE as usize / 2..5 * PAGE as usize + 7].fill(0);
    scene.check();
    assert_eq!(scene.status().stored_bytes, scene.stored());
    // Recovery reads those that the journal changes, and counts the blocks of the others.
    scene.world.crash(CrashPolicy::KeepAll);
    scene.pool = Scene::open(&scene.world, &scene.members, Some(0));
    assert_eq!(scene.status().stored_bytes, scene.stored());
    scene.check();
    // With room, none is read after the opening.
    scene.reopen(None);
    scene.check();
    assert_eq!(scene.status().counters.map_pages_read, 0);
    // A volume is deleted although its pages are on the members.
    scene.reopen(Some(0));
    let control = Rc::clone(&scene.pool.control);
    scene.world.block_on(async move { control.delete_volume("v").await }).unwrap().unwrap();
    assert_eq!(scene.status().stored_bytes, 0);
}

#[test]
fn a_lost_map_page_fails_what_needs_it() {
    let mut scene = wide();
    scene.reopen(Some(0));
    assert!(scene.read(0).is_ok());
    scene.spoil_pages();
    let lost = (0..24 * PAGE).step_by(500).filter(|&block| scene.read(block).is_err()).count();
    assert!(lost > 0, "all pages are in memory");
    let volume = scene.pool.volume("v").unwrap();
    let discard =
        scene.world.block_on(async move { volume.discard(20 * PAGE * BLOCK, BLOCK).await }).unwrap();
    assert_eq!(discard, Err(VolumeError::Failed));
    scene.close();
}

/// Blocks all over a volume are written again, several at once, with a cache of a tenth of its map.
pub(crate) fn changed_pages_keep_to_the_bound() -> Result<(), String> {
    const PAGES: u64 = 40;
    let mut scene = Scene::empty(4, 256 << 20, PAGES * PAGE);
    // One block of each group: then the map has a word for every block of the group.
    let blocks: Vec<u64> = (0..PAGES * PAGE).step_by(16).collect();
    let write_all = |scene: &Scene| {
        let volume = scene.pool.volume("v").unwrap();
        let order: Vec<u64> = (0..blocks.len()).map(|i| blocks[i * 7919 % blocks.len()]).collect();
        let writes = async move {
            for some in order.chunks(4) {
                let write = |&block| volume.write(block * BLOCK, Buf::zeroed(BLOCK_BYTES), false);
                let written = join_all(some.iter().map(write)).await;
                written.into_iter().for_each(|result| result.unwrap());
            }
        };
        scene.world.block_on(writes).unwrap();
    };
    write_all(&scene);
    scene.reopen(None);
    let whole = scene.status().table_bytes;
    scene.reopen(Some(0));
    let rest = scene.status().table_bytes;
    let bound = (whole - rest) / 10;
    scene.reopen(Some(bound));
    write_all(&scene);
    // Memory of the map is allocated 64 KiB at a time and not given back, so this is the most that it took; it has new slots as
    // well.
    let taken = scene.status().table_bytes - rest;
    if taken < 6 * bound {
        Ok(())
    } else {
        Err(format!("{taken} bytes, {bound} are the bound, {rest} the rest"))
    }
}

#[test]
fn changed_pages_are_written_for_room_in_the_cache() {
    assert_eq!(changed_pages_keep_to_the_bound(), Ok(()));
}
