//! How far pages reach: an opening reads a page area only so far, and all of it where the member does not say.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::PAGE_BYTES;
use sinew_format::page_reach::PageReach;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use std::rc::Rc;

use crate::table_cache::{BLOCKS, Scene};

/// A pool on large members that has stored little, after a clean stop.
fn large() -> Scene {
    let mut scene = Scene::empty(4, 1 << 30, BLOCKS);
    (0..BLOCKS).for_each(|block| scene.write(block));
    scene.reopen(None);
    scene
}

/// Page slots that the opening read, of those of all members.
fn slots_read(scene: &Scene) -> (u64, u64) {
    let config = scene.pool.control.config();
    let (mut rings, mut slots) = (0, 0);
    for member in &config.members {
        rings += u64::from(member.layout.journal_blocks) * BLOCK_BYTES as u64;
        slots += u64::from(member.layout.page_slots);
    }
    let loaded = scene.pool.recovery().pages * PAGE_BYTES as u64;
    ((scene.pool.recovery().bytes_read - rings - loaded) / PAGE_BYTES as u64, slots)
}

fn assert_stored(scene: &Scene) {
    for block in (0..BLOCKS).step_by(7) {
        assert!(scene.read(block).unwrap() == scene.content(block), "block {block}");
    }
}

fn read(scene: &Scene, member: usize, at: u64, bytes: usize) -> Buf {
    let (io, device) = (scene.world.io(), scene.members[member].device);
    let (buf, result) =
        scene.world.block_on(async move { io.read(device, at, Buf::zeroed(bytes)).await }).unwrap();
    result.unwrap();
    buf
}

fn write(scene: &Scene, member: usize, at: u64, data: Buf) {
    let (io, device) = (scene.world.io(), scene.members[member].device);
    scene.world.block_on(async move { io.write(device, at, Rc::new([data])).await }).unwrap().unwrap();
}

/// The reach that a member states.
fn stated(scene: &Scene, member: usize) -> Option<u32> {
    let at = scene.pool.control.config().members[member].layout.page_offset(0, 0);
    PageReach::decode(read(scene, member, at, BLOCK_BYTES).bytes()).ok().map(|reach| reach.slots)
}

#[test]
fn openings_read_no_further_than_pages_reach() {
    let scene = large();
    let (read, all) = slots_read(&scene);
    assert!(read * 8 < all, "{read} of {all} page slots were read");
    assert_stored(&scene);
}

#[test]
fn a_reach_that_is_damaged_is_stated_again() {
    let mut scene = large();
    let (before, _) = slots_read(&scene);
    scene.close();
    let at = scene.pool.control.config().members[1].layout.page_offset(0, 0);
    write(&scene, 1, at, Buf::zeroed(BLOCK_BYTES));
    assert_eq!(stated(&scene, 1), None);
    scene.pool = Scene::open(&scene.world, &scene.members, None);
    let (read, all) = slots_read(&scene);
    assert!(read > before && read < all, "{read} of {all} page slots were read, {before} before");
    assert_stored(&scene);
    (0..BLOCKS).for_each(|block| scene.write(block));
    scene.reopen(None);
    assert!(stated(&scene, 1).is_some());
    assert_eq!(slots_read(&scene).0 / 2, before / 2, "as before");
    assert_stored(&scene);
}

#[test]
fn members_of_earlier_versions_are_read_wholly() {
    let mut scene = large();
    scene.close();
    for member in 0..scene.members.len() {
        for slot in SLOT_OFFSETS {
            let Ok(mut superblock) = Superblock::decode(read(&scene, member, slot, SLOT_BYTES).bytes())
            else {
                continue;
            };
            superblock.config.states_reach = false;
            write(&scene, member, slot, superblock.encode().unwrap());
        }
    }
    scene.pool = Scene::open(&scene.world, &scene.members, None);
    for _ in 0..3 {
        let (read, all) = slots_read(&scene);
        assert_eq!(read, all);
        assert_stored(&scene);
        (0..BLOCKS).for_each(|block| scene.write(block));
        scene.reopen(None);
    }
    assert!(!scene.pool.control.config().states_reach);
}
