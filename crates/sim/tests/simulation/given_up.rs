//! Given up blocks: a stripe of an array with several lost blocks at one offset is written block by block, and what is not written
//! stays lost.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::volume::Volume;
use sinew_engine::control::health::Health;
use sinew_engine::pool::Candidate;
use sinew_layout::{Level, Rotation};
use sinew_sim::{DeviceConfig, Rng};

use crate::damage::{BLOCK, BLOCKS, MEMBER_BYTES, Scene, array, content};

/// Loses all blocks of one offset of a stripe, and writes one of them. It is written for good, and the others stay lost until
/// they are written, whatever happens to the stripe meanwhile.
fn one_of_several_lost_blocks_is_written(level: Level, journal: bool) -> Result<(), String> {
    let mut scene = Scene::new(array(level, journal));
    // An opening leaves nothing in the journal.
    scene.crash();
    scene.pool().control.set_wall_clock(1_000_000);
    // The blocks are at one offset of their members.
    let (_, at) = scene.places(20)[0];
    let lost: BTreeSet<u64> = (0..BLOCKS).filter(|&block| scene.places(block)[0].1 == at).collect();
    assert!(lost.contains(&20) && lost.len() >= 2, "{lost:?}");
    for candidate in &scene.candidates {
        scene.world.device(candidate.device).spoil(at..at + BLOCK);
    }
    let what = format!("{level}, journal {journal}");
    scene.check_content(&lost, &what)?;
    let mut left = lost.clone();
    left.remove(&20);
    if !scene.try_write(20) {
        return Err(format!("{what}: the lost block cannot be written"));
    }
    // Many more than the log has room for.
    for i in 0..8 * BLOCKS {
        let block = i * 7 % BLOCKS;
        if !left.contains(&block) && !scene.try_write(block) {
            return Err(format!("{what}: write {i} is refused"));
        }
    }
    scene.check_content(&left, &format!("{what}: after writes"))?;
    scene.flush();
    scene.crash();
    scene.pool().control.set_wall_clock(2_000_000);
    scene.check_content(&left, &format!("{what}: after a crash"))?;
    scene.scrub();
    scene.check_content(&left, &format!("{what}: after a scrub"))?;
    scene.look();
    let listed: BTreeSet<u64> =
        scene.stored().into_iter().flat_map(|(first, blocks)| first..first + blocks).collect();
    if listed != left || scene.health() != Health::Damaged {
        return Err(format!("{what}: {left:?} are lost, and {listed:?} are listed"));
    }
    // The stripe has all its redundancy.
    for number in 0..scene.candidates.len() {
        let spare = scene.world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
        let device = Candidate { device: spare, path: format!("spare{number}") };
        let (control, new) = (Rc::clone(&scene.pool().control), device.clone());
        let replace = async move {
            control.offline(number).await.unwrap();
            control.replace(number, Some(new), false).await.unwrap();
        };
        scene.world.block_on(replace).unwrap();
        scene.check_content(&left, &format!("{what}: without member {number}"))?;
        scene.world.run_for(60_000_000_000).unwrap();
        scene.candidates[number] = device;
        scene.check_content(&left, &format!("{what}: after the rebuild of member {number}"))?;
    }
    write_lost(&mut scene, &mut left, &what)?;
    scene.flush();
    scene.crash();
    scene.pool().control.set_wall_clock(3_000_000);
    scene.check_content(&left, &format!("{what}: after the last crash"))?;
    scene.look();
    if scene.stored().is_empty() && scene.health() == Health::Healthy {
        Ok(())
    } else {
        Err(format!("{what}: {:?} are listed at the end", scene.stored()))
    }
}

/// Writes the blocks that are lost, one after the other: each has content again then, and those left stay lost.
fn write_lost(scene: &mut Scene, lost: &mut BTreeSet<u64>, what: &str) -> Result<(), String> {
    while let Some(block) = lost.first().copied() {
        if !scene.try_write(block) {
            return Err(format!("{what}: the lost block {block} cannot be written"));
        }
        lost.remove(&block);
        scene.check_content(lost, &format!("{what}: after the write of {block}"))?;
    }
    Ok(())
}

/// For mutations: a lost block of a stripe with others can be written, and the others are never read as something else.
pub(crate) fn lost_blocks_are_written_one_by_one() -> Result<(), String> {
    for level in [Level::Raid5(Rotation::LeftSymmetric), Level::Raid6(Rotation::LeftSymmetric)] {
        for journal in [true, false] {
            one_of_several_lost_blocks_is_written(level, journal)?;
        }
    }
    Ok(())
}

#[test]
fn a_lost_block_is_written_while_others_of_its_stripe_are_lost() {
    lost_blocks_are_written_one_by_one().unwrap();
}

/// Power fails while one of several lost blocks is written, or a while later. It has its new content or stays lost, it has it if
/// that was acknowledged as durable, and the others stay lost.
fn power_fails_while_a_lost_block_is_written(level: Level, journal: bool, seed: u64) -> Result<(), String> {
    const WRITTEN: u64 = 20;
    const STEPS_OF_WRITE: u64 = 200;
    let mut rng = Rng::stream(seed, "given up", 0);
    let mut scene = Scene::new(array(level, journal));
    scene.crash();
    let (_, at) = scene.places(WRITTEN)[0];
    let mut lost: BTreeSet<u64> = (0..BLOCKS).filter(|&block| scene.places(block)[0].1 == at).collect();
    lost.remove(&WRITTEN);
    for candidate in &scene.candidates {
        scene.world.device(candidate.device).spoil(at..at + BLOCK);
    }
    // Some of the others are written before it, so that their regions are marked.
    let others: Vec<u64> =
        (0..2 * BLOCKS).map(|_| rng.below(BLOCKS)).filter(|block| !lost.contains(block)).collect();
    let volume = scene.pool().volume("v").unwrap();
    let (has_begun, is_durable) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (began, acknowledged) = (Rc::clone(&has_begun), Rc::clone(&is_durable));
    let before = rng.below(others.len() as u64) as usize;
    scene.world.spawn(async move {
        for (i, &block) in others.iter().enumerate() {
            if i == before {
                began.set(true);
                let data = Buf::copy_of(&content(WRITTEN));
                acknowledged.set(volume.write(WRITTEN * BLOCK, data, true).await.is_ok());
            }
            if block != WRITTEN {
                let _ = volume.write(block * BLOCK, Buf::copy_of(&content(block)), false).await;
            }
        }
    });
    // Half of the moments are in this write.
    if seed.is_multiple_of(2) {
        scene.world.run_until(|| has_begun.get()).unwrap();
        scene.world.run_steps(rng.below(STEPS_OF_WRITE));
    } else {
        scene.world.run_steps(rng.below(6000));
    }
    scene.lose_power();
    let when = format!("{level}, journal {journal}, seed {seed}");
    if !is_durable.get() && !scene.is_readable(WRITTEN) {
        lost.insert(WRITTEN);
    }
    scene.check_content(&lost, &format!("{when}: after the power loss"))?;
    scene.scrub();
    scene.check_content(&lost, &format!("{when}: after a scrub"))?;
    write_lost(&mut scene, &mut lost, &when)
}

/// For mutations: power fails at one moment in each of these runs.
pub(crate) fn power_failures_show_no_zeros(seeds: Range<u64>) -> Result<(), String> {
    for seed in seeds {
        for level in [Level::Raid5(Rotation::LeftSymmetric), Level::Raid6(Rotation::LeftSymmetric)] {
            for journal in [true, false] {
                power_fails_while_a_lost_block_is_written(level, journal, seed)?;
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_lost_stays_lost_when_power_fails() {
    power_failures_show_no_zeros(0..8).unwrap();
}

/// A member is out, and another has lost a block at the same offset: its content is not lost as long as the member may return.
fn beside_a_member_that_is_out() -> (Scene, usize, u64, u64) {
    let mut scene = Scene::new(array(Level::Raid5(Rotation::LeftSymmetric), true));
    scene.crash();
    let (first, at) = scene.places(20).remove(0);
    let other = (0..BLOCKS).find(|&block| block != 20 && scene.places(block)[0].1 == at).unwrap();
    let number = scene.candidates.iter().position(|c| c.device == first.id()).unwrap();
    let control = Rc::clone(&scene.pool().control);
    scene.world.block_on(async move { control.offline(number).await }).unwrap().unwrap();
    scene.places(other)[0].0.spoil(at..at + BLOCK);
    (scene, number, 20, other)
}

#[test]
fn a_lost_block_waits_for_a_member_that_is_out_while_the_journal_has_room() {
    let (mut scene, number, written, waiting) = beside_a_member_that_is_out();
    let lost = BTreeSet::from([waiting]);
    assert!(scene.try_write(written));
    scene.world.run_for(60_000_000_000).unwrap();
    scene.check_content(&lost, "without the member").unwrap();
    let (control, device) = (Rc::clone(&scene.pool().control), scene.candidates[number].clone());
    scene.world.block_on(async move { control.online(number, device).await }).unwrap().unwrap();
    scene.world.run_for(60_000_000_000).unwrap();
    scene.check_content(&BTreeSet::new(), "with the member").unwrap();
    scene.crash();
    scene.scrub();
    scene.check_content(&BTreeSet::new(), "after a crash").unwrap();
}

#[test]
fn a_lost_block_does_not_wait_for_a_member_when_the_journal_fills() {
    let (mut scene, number, written, given_up) = beside_a_member_that_is_out();
    let lost = BTreeSet::from([given_up]);
    assert!(scene.try_write(written));
    for i in 0..4 * BLOCKS {
        let block = i * 7 % BLOCKS;
        assert!(block == given_up || scene.try_write(block), "write {i} is refused");
    }
    scene.check_content(&lost, "without the member").unwrap();
    let (control, device) = (Rc::clone(&scene.pool().control), scene.candidates[number].clone());
    scene.world.block_on(async move { control.online(number, device).await }).unwrap().unwrap();
    scene.world.run_for(60_000_000_000).unwrap();
    scene.check_content(&lost, "with the member").unwrap();
    scene.crash();
    scene.scrub();
    scene.check_content(&lost, "after a crash").unwrap();
    assert!(scene.try_write(given_up));
    scene.check_content(&BTreeSet::new(), "at the end").unwrap();
}
