//! Damage: blocks without a good copy are told with their places, kept over crashes, and forgotten once they are good again.

use std::collections::BTreeSet;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::control::events::Event;
use sinew_engine::control::health::{Health, Observed, assess};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::damage::DamagedRange;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::pool_geometry::PoolGeometry;
use sinew_layout::{Level, Rotation};
use sinew_sim::{CrashPolicy, Device, DeviceConfig, OpenPool, Rng, World};

pub(crate) const MEMBER_BYTES: u64 = 16 << 20;
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
pub(crate) const BLOCKS: u64 = 64;

pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) candidates: Vec<Candidate>,
    pool: Option<Rc<OpenPool>>,
    /// The number of the last event that was looked at.
    seen: u64,
}

/// The content of a block, which no other block has.
pub(crate) fn content(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|i| (i * 7 + block * 13 + 5) as u8 ^ (block as u8)).collect()
}

impl Scene {
    /// A pool with a volume of 64 blocks that hold their contents, durably.
    pub(crate) fn new(kind: PoolKind) -> Scene {
        let world = World::new(11);
        let candidates: Vec<Candidate> = (0..4)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let is_mapped = matches!(kind, PoolKind::Mapped { .. });
        let name = "v".to_owned();
        let spec = PoolSpec { name, kind, shards: 2, journal_blocks: Some(64), force: false, physical: None };
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap().unwrap();
        let mut scene = Scene { world, candidates, pool: None, seen: 0 };
        scene.open();
        let control = Rc::clone(&scene.pool().control);
        if is_mapped {
            let made = scene.world.block_on(async move { control.create_volume("v", BLOCKS * BLOCK).await });
            made.unwrap().unwrap();
        }
        for block in 0..BLOCKS {
            scene.write(block);
        }
        let volume = scene.pool().volume("v").unwrap();
        scene.world.block_on(async move { volume.flush().await }).unwrap().unwrap();
        scene
    }

    pub(crate) fn pool(&self) -> &Rc<OpenPool> {
        self.pool.as_ref().expect("it is open")
    }

    fn open(&mut self) {
        let (io, members) = (self.world.io(), self.candidates.clone());
        let open = self.world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap();
        (self.pool, self.seen) = (Some(Rc::new(open)), 0);
    }

    pub(crate) fn crash(&mut self) {
        self.pool = None;
        self.world.kill_process();
        self.open();
    }

    pub(crate) fn lose_power(&mut self) {
        self.pool = None;
        self.world.crash(CrashPolicy::Random);
        self.open();
    }

    pub(crate) fn is_readable(&self, block: u64) -> bool {
        self.read(block, 1).is_ok()
    }

    fn write(&self, block: u64) {
        let volume = self.pool().volume("v").unwrap();
        let data = Buf::copy_of(&content(block));
        self.world.block_on(async move { volume.write(block * BLOCK, data, false).await }).unwrap().unwrap();
    }

    fn read(&self, first: u64, blocks: u64) -> Result<Vec<u8>, VolumeError> {
        let volume = self.pool().volume("v").unwrap();
        let read = async move { volume.read(first * BLOCK, (blocks * BLOCK) as u32).await };
        let bufs = self.world.block_on(read).unwrap()?;
        Ok(bufs.iter().flat_map(|buf| buf.bytes().to_vec()).collect())
    }

    /// The copies of a block on the members: device and offset.
    fn copies(&self, block: u64) -> Vec<(Device, u64)> {
        let found = self.places(block);
        assert!(found.len() >= 2, "block {block} has {} copies", found.len());
        found
    }

    /// The places of a block's content, apart from those in the log of an array.
    pub(crate) fn places(&self, block: u64) -> Vec<(Device, u64)> {
        let wanted = content(block);
        let data_offset = match self.pool().control.config().geometry {
            PoolGeometry::Array(array) => array.data_offset(),
            PoolGeometry::Mapped(_) => 0,
        };
        let mut found = Vec::new();
        for candidate in &self.candidates {
            let all = self.world.device(candidate.device).peek(0, MEMBER_BYTES as usize);
            let here = all
                .chunks(BLOCK_BYTES)
                .enumerate()
                .filter(|(i, chunk)| *i as u64 * BLOCK >= data_offset && *chunk == wanted);
            found.extend(here.map(|(i, _)| (self.world.device(candidate.device), i as u64 * BLOCK)));
        }
        found
    }

    /// The control looks; follows the damage that events tell of, and compares it with the list and with what is stored.
    fn check_told(&mut self, told: &mut BTreeSet<u64>, when: &str) -> Result<(), String> {
        for event in self.look() {
            let (Event::DamageFound { offset, bytes, .. } | Event::DamageEnded { offset, bytes, .. }) = event
            else {
                continue;
            };
            for block in offset / BLOCK..(offset + bytes) / BLOCK {
                let is_new = match event {
                    Event::DamageFound { .. } => told.insert(block),
                    _ => told.remove(&block),
                };
                if !is_new {
                    return Err(format!("{when}: {event} says nothing new"));
                }
            }
        }
        let blocks = |ranges: Vec<(u64, u64)>| -> BTreeSet<u64> {
            ranges.into_iter().flat_map(|(first, blocks)| first..first + blocks).collect()
        };
        let listed = self.pool().control.damage().into_iter().flat_map(|(_, damage)| {
            damage.ranges().iter().map(|range| (range.first, range.blocks)).collect::<Vec<_>>()
        });
        let (listed, stored) = (blocks(listed.collect()), blocks(self.stored()));
        if listed != *told || stored != *told {
            return Err(format!(
                "{when}: events tell {told:?}, the list has {listed:?}, stored are {stored:?}"
            ));
        }
        Ok(())
    }

    /// All blocks of the volume that a client cannot read. Those of stripes that hold no content here read well together.
    fn unreadable(&self) -> BTreeSet<u64> {
        let all = self.pool().volume("v").unwrap().size_bytes() / BLOCK;
        let of_stripes = all.min(2 * BLOCKS);
        for first in (of_stripes..all).step_by(256) {
            assert!(self.read(first, 256.min(all - first)).is_ok(), "nothing of it was damaged");
        }
        (0..of_stripes).filter(|&block| self.read(block, 1).is_err()).collect()
    }

    /// Every block has its content, but for these, which cannot be read.
    pub(crate) fn check_content(&self, lost: &BTreeSet<u64>, when: &str) -> Result<(), String> {
        // Blocks behind them may share their stripes.
        let all = self.pool().volume("v").unwrap().size_bytes() / BLOCK;
        for block in 0..all.min(2 * BLOCKS) {
            let is_right = |read: &[u8]| {
                let is_unwritten = block >= BLOCKS && read.iter().all(|&byte| byte == 0);
                read == content(block) || is_unwritten
            };
            let what = match self.read(block, 1) {
                Ok(_) if lost.contains(&block) => "is lost, and read",
                Ok(read) if !is_right(&read) => "is wrong",
                Err(_) if !lost.contains(&block) => "is not read",
                _ => continue,
            };
            return Err(format!("{when}: block {block} {what}"));
        }
        Ok(())
    }

    pub(crate) fn flush(&self) {
        let volume = self.pool().volume("v").unwrap();
        self.world.block_on(async move { volume.flush().await }).unwrap().unwrap();
    }

    pub(crate) fn scrub(&self) {
        let control = Rc::clone(&self.pool().control);
        self.world.block_on(async move { control.scrub(true).await }).unwrap().unwrap();
        self.world.run_for(60_000_000_000).unwrap();
    }

    pub(crate) fn try_write(&self, block: u64) -> bool {
        let volume = self.pool().volume("v").unwrap();
        let data = Buf::copy_of(&content(block));
        self.world.block_on(async move { volume.write(block * BLOCK, data, true).await }).unwrap().is_ok()
    }

    /// The control looks; gives what it tells of damage since the last look.
    pub(crate) fn look(&mut self) -> Vec<Event> {
        let control = Rc::clone(&self.pool().control);
        self.world.block_on(async move { control.observe().await }).unwrap().unwrap();
        let new = self.pool().control.events().after(self.seen);
        self.seen = new.last().map_or(self.seen, |entry| entry.number);
        let is_of_damage = |event: &Event| {
            matches!(
                event,
                Event::DamageFound { .. }
                    | Event::DamageEnded { .. }
                    | Event::RebuildWaits
                    | Event::RebuildGoesOn
                    | Event::PoolFailed
            )
        };
        new.into_iter().map(|entry| entry.event).filter(is_of_damage).collect()
    }

    /// What is stored on the members, as an opening finds it.
    pub(crate) fn stored(&self) -> Vec<(u64, u64)> {
        let damage = self.pool().control.config().damage;
        let ranges = damage.iter().flat_map(|damage| damage.ranges.ranges().iter().copied());
        ranges
            .map(|DamagedRange { first, blocks, since_s }| {
                assert!(since_s >= 1_000_000, "it has a time");
                (first, blocks)
            })
            .collect()
    }

    pub(crate) fn health(&self) -> Health {
        let control = Rc::clone(&self.pool().control);
        let status = self.world.block_on(async move { control.status().await }).unwrap().unwrap();
        let control = &self.pool().control;
        let damaged_ranges = control.damage().iter().map(|(_, ranges)| ranges.ranges().len()).sum();
        assess(&Observed {
            config: &control.config(),
            status: &status,
            unnamed: &[],
            mode: control.mode(),
            has_failed: control.has_failed(),
            refused_lately: false,
            thin: Vec::new(),
            damaged_ranges,
        })
        .health
    }
}

fn found(first: u64, blocks: u64) -> Event {
    Event::DamageFound { volume: "v".to_owned(), offset: first * BLOCK, bytes: blocks * BLOCK }
}

fn ended(first: u64, blocks: u64) -> Event {
    Event::DamageEnded { volume: "v".to_owned(), offset: first * BLOCK, bytes: blocks * BLOCK }
}

fn mapped() -> PoolKind {
    PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true }
}

fn mirrors() -> PoolKind {
    array(Level::Raid10 { copies: 2 }, false)
}

pub(crate) fn array(level: Level, journal: bool) -> PoolKind {
    PoolKind::Array(ArraySpec { level, chunk_bytes: 65536, journal, spares: 0, zeroed: true, elastic: None })
}

#[test]
fn damage_is_told_with_its_place_and_kept_until_it_is_overwritten() {
    for kind in [mapped(), mirrors()] {
        let mut scene = Scene::new(kind);
        scene.pool().control.set_wall_clock(1_000_000);
        assert_eq!(scene.look(), []);
        for block in [10, 11, 30] {
            scene.copies(block).iter().for_each(|(device, at)| device.spoil(*at..at + BLOCK));
        }
        assert_eq!(scene.read(0, BLOCKS), Err(VolumeError::Failed));
        assert_eq!(scene.look(), [found(10, 2), found(30, 1)]);
        assert_eq!(scene.stored(), [(10, 2), (30, 1)]);
        assert_eq!(scene.health(), Health::Damaged);
        // What is known already is not told again.
        assert_eq!(scene.read(8, 8), Err(VolumeError::Failed));
        assert_eq!(scene.look(), []);
        scene.crash();
        scene.pool().control.set_wall_clock(2_000_000);
        assert_eq!((scene.stored(), scene.health()), (vec![(10, 2), (30, 1)], Health::Damaged));
        scene.write(10);
        assert_eq!(scene.look(), [ended(10, 1)]);
        scene.crash();
        assert_eq!(scene.stored(), [(11, 1), (30, 1)]);
        scene.write(11);
        scene.write(30);
        assert_eq!(scene.read(0, BLOCKS).unwrap(), (0..BLOCKS).flat_map(content).collect::<Vec<u8>>());
        assert_eq!(scene.look(), [ended(11, 1), ended(30, 1)]);
        assert_eq!((scene.stored(), scene.health()), (vec![], Health::Healthy));
    }
}

#[test]
fn what_background_work_cannot_read_has_its_place() {
    for kind in [mapped(), mirrors()] {
        let mut scene = Scene::new(kind);
        scene.pool().control.set_wall_clock(1_000_000);
        for block in [10, 11, 30] {
            scene.copies(block).iter().for_each(|(device, at)| device.spoil(*at..at + BLOCK));
        }
        let control = Rc::clone(&scene.pool().control);
        scene.world.block_on(async move { control.scrub(true).await }).unwrap().unwrap();
        scene.world.run_for(60_000_000_000).unwrap();
        let told = scene.look();
        assert!(told.contains(&found(10, 2)) && told.contains(&found(30, 1)), "{told:?}");
        assert_eq!((scene.stored(), scene.health()), (vec![(10, 2), (30, 1)], Health::Damaged));
        for block in [10, 11, 30] {
            scene.write(block);
        }
        assert_eq!(scene.look(), [ended(10, 2), ended(30, 1)]);
        assert_eq!(scene.health(), Health::Healthy);
    }
}

#[test]
fn a_rebuild_that_waits_for_lost_blocks_is_told_once_and_goes_on_when_they_are_written() {
    let mut scene = Scene::new(mirrors());
    scene.pool().control.set_wall_clock(1_000_000);
    // The other copy of what the member has.
    let copies = scene.copies(20);
    let (replaced, (good, at)) = (&copies[0].0, &copies[1]);
    let number = scene.candidates.iter().position(|c| c.device == replaced.id()).unwrap();
    good.spoil(*at..at + BLOCK);
    let spare = scene.world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
    let control = Rc::clone(&scene.pool().control);
    let device = Candidate { device: spare, path: "spare".to_owned() };
    let replace = async move {
        control.offline(number).await.unwrap();
        control.replace(number, Some(device), false).await.unwrap();
    };
    scene.world.block_on(replace).unwrap();
    scene.world.run_for(20_000_000_000).unwrap();
    let told = scene.look();
    assert!(told.contains(&Event::RebuildWaits) && told.contains(&found(20, 1)), "{told:?}");
    assert_eq!((told.len(), scene.health()), (2, Health::Damaged));
    let before = good.stats().reads;
    scene.world.run_for(100_000_000_000).unwrap();
    assert_eq!(scene.look(), []);
    let reads = good.stats().reads - before;
    assert!(reads < 1000, "it is tried less and less often: {reads} reads");
    scene.write(20);
    scene.world.run_for(5_000_000_000).unwrap();
    let mut told = scene.look();
    told.sort_by_key(|event| event.kind());
    assert_eq!(told, [ended(20, 1), Event::RebuildGoesOn]);
    assert_eq!(scene.health(), Health::Healthy);
    assert_eq!(scene.read(0, BLOCKS).unwrap(), (0..BLOCKS).flat_map(content).collect::<Vec<u8>>());
}

/// Damages blocks at random, whole stripes of it and single copies, lets background work find them, mends some, and compares:
/// each block that a client cannot read has its event and its place in the list, and no other block has.
///
/// Gives how many lost blocks were compared.
fn told_damage_is_true(kind: &PoolKind, seed: u64) -> Result<usize, String> {
    let mut compared = 0;
    let mut rng = Rng::stream(seed, "damage", 0);
    let mut scene = Scene::new(*kind);
    scene.pool().control.set_wall_clock(1_000_000);
    let mut told = BTreeSet::new();
    for round in 0..4 {
        for _ in 0..1 + rng.below(2) {
            let (first, blocks) = (rng.below(BLOCKS), 1 + rng.below(2));
            for block in first..(first + blocks).min(BLOCKS) {
                // What has been lost before has no content to be found by.
                let all = rng.below(3) > 0;
                let places = if told.contains(&block) { Vec::new() } else { scene.places(block) };
                let some = places.iter().filter(|_| all || rng.below(2) == 0);
                some.for_each(|(device, at)| device.spoil(*at..at + BLOCK));
                if all && matches!(kind, PoolKind::Array(_)) {
                    // Parity of its stripe, and the other data with it.
                    for candidate in &scene.candidates {
                        let device = scene.world.device(candidate.device);
                        let at = places.first().map_or(0, |(_, at)| *at);
                        device.spoil(at..at + BLOCK * rng.below(2));
                    }
                }
            }
        }
        let control = Rc::clone(&scene.pool().control);
        scene.world.block_on(async move { control.scrub(true).await }).unwrap().unwrap();
        scene.world.run_for(60_000_000_000).unwrap();
        scene.check_told(&mut told, &format!("seed {seed}, round {round}: after a scrub"))?;
        let lost = scene.unreadable();
        if scene.pool().control.config().out().contains(&true) {
            // A member with many read errors is taken out, and with it go blocks that could be read before.
            return Ok(compared);
        }
        compared += lost.len();
        if lost != told {
            return Err(format!(
                "seed {seed}, round {round}: {lost:?} cannot be read, and {told:?} are told"
            ));
        }
        if rng.below(3) == 0 {
            scene.crash();
            scene.pool().control.set_wall_clock(2_000_000);
        }
        let ended: Vec<u64> = lost.iter().copied().filter(|_| rng.below(2) == 0).collect();
        let mut expected = told.clone();
        for block in ended {
            if !scene.try_write(block) {
                return Err(format!("seed {seed}, round {round}: the lost block {block} cannot be written"));
            }
            expected.remove(&block);
        }
        if rng.below(2) == 0 {
            scene.crash();
            scene.pool().control.set_wall_clock(3_000_000);
        }
        scene.check_content(&expected, &format!("seed {seed}, round {round}: after writes"))?;
        scene.check_told(&mut told, &format!("seed {seed}, round {round}: after writes"))?;
        if told != expected {
            return Err(format!(
                "seed {seed}, round {round}: {told:?} are told, {expected:?} were not written"
            ));
        }
    }
    Ok(compared)
}

/// For mutations: mapped pools and arrays tell their damage.
pub(crate) fn damage_is_told_truly() -> Result<(), String> {
    let levels = [
        Level::Raid10 { copies: 2 },
        Level::Raid5(Rotation::LeftSymmetric),
        Level::Raid6(Rotation::LeftSymmetric),
    ];
    let arrays = levels.into_iter().flat_map(|level| [array(level, false), array(level, true)]);
    let kinds: Vec<PoolKind> = arrays.chain([mapped()]).collect();
    for kind in &kinds {
        let mut compared = 0;
        for seed in 0..5 {
            compared += told_damage_is_true(kind, seed).map_err(|what| format!("{kind:?}: {what}"))?;
        }
        if compared < 5 {
            return Err(format!("{kind:?}: only {compared} lost blocks were compared"));
        }
    }
    Ok(())
}

#[test]
fn each_lost_block_is_told_and_none_is_invented() {
    damage_is_told_truly().unwrap();
}

#[test]
fn damage_that_reads_well_again_is_forgotten() {
    let mut scene = Scene::new(mapped());
    scene.pool().control.set_wall_clock(1_000_000);
    let copies = scene.copies(20);
    copies.iter().for_each(|(device, at)| device.rot(at + 100, 3));
    assert_eq!(scene.read(20, 1), Err(VolumeError::Failed));
    assert_eq!(scene.look(), [found(20, 1)]);
    // As memory that was wrong for a while.
    copies.iter().for_each(|(device, at)| device.rot(at + 100, 3));
    assert_eq!(scene.read(0, BLOCKS).unwrap(), (0..BLOCKS).flat_map(content).collect::<Vec<u8>>());
    assert_eq!(scene.look(), [ended(20, 1)]);
    assert_eq!(scene.health(), Health::Healthy);
}

#[test]
fn a_discard_and_the_end_of_a_volume_end_its_damage() {
    let mut scene = Scene::new(mapped());
    scene.pool().control.set_wall_clock(1_000_000);
    for block in [40, 50] {
        scene.copies(block).iter().for_each(|(device, at)| device.rot(at + 100, 3));
    }
    assert_eq!(scene.read(32, 32), Err(VolumeError::Failed));
    assert_eq!(scene.look(), [found(40, 1), found(50, 1)]);
    let volume = scene.pool().volume("v").unwrap();
    scene.world.block_on(async move { volume.discard(40 * BLOCK, BLOCK).await }).unwrap().unwrap();
    assert_eq!(scene.look(), [ended(40, 1)]);
    let control = Rc::clone(&scene.pool().control);
    scene.world.block_on(async move { control.delete_volume("v").await }).unwrap().unwrap();
    assert_eq!((scene.look(), scene.stored()), (vec![], vec![]));
}

#[test]
fn a_pool_that_has_failed_invents_no_damage() {
    let mut scene = Scene::new(mapped());
    scene.pool().control.set_wall_clock(1_000_000);
    for candidate in scene.candidates.iter().take(2) {
        scene.world.device(candidate.device).detach(CrashPolicy::DropAll);
    }
    let volume = scene.pool().volume("v").unwrap();
    let data = Buf::copy_of(&content(1));
    let written = scene.world.block_on(async move { volume.write(BLOCK, data, false).await }).unwrap();
    assert!(written.is_err());
    assert_eq!(scene.read(0, BLOCKS), Err(VolumeError::Failed));
    assert_eq!(scene.look(), [Event::PoolFailed]);
    assert_eq!(scene.health(), Health::Failed);
    for candidate in scene.candidates.iter().take(2) {
        scene.world.device(candidate.device).attach();
    }
    scene.crash();
    assert_eq!(scene.stored(), []);
    assert_eq!(scene.read(0, BLOCKS).unwrap(), (0..BLOCKS).flat_map(content).collect::<Vec<u8>>());
    assert_eq!(scene.look(), []);
}
