//! Pools on thin members: members with less physical space than addresses are full, and not failed.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::physical::PhysicalSource;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::control::physical_space::PoolSpace;
use sinew_engine::pool::{self, Candidate, PoolError, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::config::MemberState;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Elastic;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{Level, Rotation};
use sinew_members::ring::group_form::GroupForm;
use sinew_sim::{DeviceConfig, DiscardReads, OpenPool, World};

const MEMBER_BYTES: u64 = 16 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Virtual time in which every write is answered that can be.
const WHILE_NS: u64 = 2_000_000_000;

fn mapped() -> PoolKind {
    PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true }
}

fn spec(level: Level, journal: bool) -> ArraySpec {
    ArraySpec { level, chunk_bytes: 65536, journal, spares: 0, zeroed: true, elastic: None }
}

fn array(level: Level, journal: bool) -> PoolKind {
    PoolKind::Array(spec(level, journal))
}

fn elastic(level: Level, elastic: Elastic) -> PoolKind {
    PoolKind::Array(ArraySpec { elastic: Some(elastic), ..spec(level, true) })
}

fn kinds() -> [PoolKind; 7] {
    [
        mapped(),
        elastic(Level::Raid5(Rotation::LeftSymmetric), Elastic::BY_ADDRESSES),
        elastic(Level::Raid6(Rotation::LeftSymmetric), Elastic::BY_ADDRESSES),
        array(Level::Raid5(Rotation::LeftSymmetric), true),
        array(Level::Raid6(Rotation::LeftSymmetric), true),
        array(Level::Raid5(Rotation::LeftSymmetric), false),
        array(Level::Raid10 { copies: 2 }, false),
    ]
}

struct Thin {
    world: World,
    candidates: Vec<Candidate>,
}

impl Thin {
    /// A new pool on four members with this much physical space each.
    fn new(kind: PoolKind, physical: u64) -> Thin {
        Thin::of_members(4, kind, physical)
    }

    /// As `new`, on this many members.
    fn of_members(count: usize, kind: PoolKind, physical: u64) -> Thin {
        let world = World::new(7);
        let candidates: Vec<Candidate> = (0..count)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
                world.device(device).set_physical(physical);
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let spec = PoolSpec {
            name: "v0".to_owned(),
            kind,
            shards: 1,
            journal_blocks: Some(64),
            force: false,
            physical: None,
        };
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap().unwrap();
        let thin = Thin { world, candidates };
        if !matches!(kind, PoolKind::Array(ArraySpec { elastic: None, .. })) {
            let pool = thin.open();
            let control = Rc::clone(&pool.control);
            let set_up = thin.world.block_on(async move {
                if matches!(kind, PoolKind::Mapped { .. }) {
                    control.create_volume("v0", MEMBER_BYTES * 2).await?;
                } else {
                    // The governor would use the free space for copies, and give it back while a client waits.
                    control.set_elastic_policy(ElasticPolicy::pinned(0)).await?;
                }
                control.close().await
            });
            set_up.unwrap().unwrap();
            drop(pool);
            thin.world.kill_process();
        }
        thin
    }

    fn open(&self) -> OpenPool {
        let (io, members) = (self.world.io(), self.candidates.clone());
        self.world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap()
    }

    /// Gives every member this much room beyond what it holds.
    fn set_room(&self, room: u64) {
        for candidate in &self.candidates {
            let device = self.world.device(candidate.device);
            device.set_physical(device.physical_used() + room);
        }
    }
}

/// The answers to the writes of the first blocks of a volume, each with a content of its own; `None` where there is none yet.
type Answers = Rc<Vec<Cell<Option<Result<(), VolumeError>>>>>;

fn content(block: u64, version: u64) -> Buf {
    let mut buf = Buf::stale(BLOCK_BYTES);
    for (i, byte) in buf.bytes_mut().iter_mut().enumerate() {
        *byte = (i as u64 * 31 + block * 7 + version * 101) as u8 | 1;
    }
    buf
}

fn write_all(thin: &Thin, pool: &OpenPool, blocks: u64, version: u64) -> Answers {
    let answers: Answers = Rc::new((0..blocks).map(|_| Cell::new(None)).collect());
    for first in 0..4 {
        let (volume, answers) = (pool.volume("v0").unwrap(), Rc::clone(&answers));
        thin.world.spawn(async move {
            for block in (first..blocks).step_by(4) {
                let answer = volume.write(block * BLOCK, content(block, version), false).await;
                answers[block as usize].set(Some(answer));
            }
        });
    }
    thin.world.run_for(WHILE_NS).unwrap();
    answers
}

fn read(thin: &Thin, pool: &OpenPool, block: u64) -> Vec<u8> {
    let volume = pool.volume("v0").unwrap();
    let read = thin.world.block_on(async move { volume.read(block * BLOCK, BLOCK as u32).await });
    read.unwrap().unwrap().iter().flat_map(|buf| buf.bytes().to_vec()).collect()
}

fn assert_stored(thin: &Thin, pool: &OpenPool, answers: &Answers, version: u64) {
    for (block, answer) in answers.iter().enumerate() {
        if answer.get() == Some(Ok(())) {
            let block = block as u64;
            assert!(read(thin, pool, block) == content(block, version).bytes(), "block {block}");
        }
    }
}

fn assert_active(pool: &OpenPool) {
    let config = pool.control.config();
    assert!(config.members.iter().all(|member| member.state == MemberState::Active));
}

fn flush(thin: &Thin, pool: &OpenPool) {
    let volume = pool.volume("v0").unwrap();
    thin.world.block_on(async move { volume.flush().await }).unwrap().unwrap();
}

fn refused(answers: &Answers) -> usize {
    answers.iter().filter(|answer| answer.get() == Some(Err(VolumeError::NoSpace))).count()
}

#[test]
fn full_members_stay_and_keep_what_was_acknowledged() {
    let forms = [GroupForm::Copies, GroupForm::Auto, GroupForm::Striped];
    for (kind, form) in kinds().into_iter().flat_map(|kind| forms.map(|form| (kind, form))) {
        let thin = Thin::new(kind, MEMBER_BYTES);
        let pool = thin.open();
        let control = Rc::clone(&pool.control);
        thin.world.block_on(async move { control.set_group_form(form).await }).unwrap();
        let first = write_all(&thin, &pool, 200, 1);
        assert!(first.iter().all(|answer| answer.get() == Some(Ok(()))));
        flush(&thin, &pool);
        // A little more than the metadata takes.
        thin.set_room(700 << 10);
        let more = write_all(&thin, &pool, 1600, 2);
        assert!(refused(&more) > 0, "the members were to run full");
        assert!(more.iter().flat_map(Cell::get).all(|a| matches!(a, Ok(()) | Err(VolumeError::NoSpace))));
        assert_active(&pool);
        assert_stored(&thin, &pool, &more, 2);
        // With room again every request is answered, and writes succeed.
        thin.set_room(MEMBER_BYTES);
        thin.world.run_for(WHILE_NS).unwrap();
        assert!(more.iter().all(|answer| answer.get().is_some()));
        let again = write_all(&thin, &pool, 400, 3);
        assert!(again.iter().all(|answer| answer.get() == Some(Ok(()))));
        assert_stored(&thin, &pool, &again, 3);
        flush(&thin, &pool);
        assert_active(&pool);
    }
}

fn sample(thin: &Thin, pool: &OpenPool) -> PoolSpace {
    let control = Rc::clone(&pool.control);
    thin.world.block_on(async move { control.sample_space().await }).unwrap();
    pool.control.space()
}

#[test]
fn physical_space_is_what_the_devices_tell() {
    for kind in kinds() {
        let thin = Thin::new(kind, MEMBER_BYTES / 2);
        let pool = thin.open();
        write_all(&thin, &pool, 100, 1);
        let space = sample(&thin, &pool);
        for (candidate, physical) in thin.candidates.iter().zip(&space.members) {
            let physical = physical.expect("the member is thin");
            assert_eq!(physical.used, thin.world.device(candidate.device).physical_used());
            assert_eq!((physical.total(), physical.source), (Some(MEMBER_BYTES / 2), PhysicalSource::Device));
        }
        assert_eq!(space.domains.len(), thin.candidates.len());
        assert!(space.domains.iter().all(|domain| domain.is_overcommitted));
    }
}

#[test]
fn a_limit_by_hand_is_kept_when_the_pool_is_opened_again() {
    let thin = Thin::new(mapped(), MEMBER_BYTES);
    let pool = thin.open();
    let limit = MEMBER_BYTES / 4;
    let control = Rc::clone(&pool.control);
    thin.world.block_on(async move { control.set_physical(2, limit).await }).unwrap().unwrap();
    let total = |space: &PoolSpace, member: usize| space.members[member].and_then(|p| p.total());
    let space = sample(&thin, &pool);
    assert_eq!((total(&space, 1), total(&space, 2)), (Some(MEMBER_BYTES), Some(limit)));
    drop(pool);
    thin.world.kill_process();
    let pool = thin.open();
    let space = sample(&thin, &pool);
    assert_eq!((total(&space, 1), total(&space, 2)), (Some(MEMBER_BYTES), Some(limit)));
    let control = Rc::clone(&pool.control);
    thin.world.block_on(async move { control.set_physical(2, 0).await }).unwrap().unwrap();
    assert_eq!(total(&sample(&thin, &pool), 2), Some(MEMBER_BYTES));
}

#[test]
fn a_limit_by_hand_counts_what_the_pool_uses() {
    let world = World::new(3);
    let discard = [DiscardReads::Zeros, DiscardReads::Kept];
    for (discard, is_known) in discard.into_iter().zip([true, false]) {
        let config = DeviceConfig { discard, ..DeviceConfig::of_bytes(MEMBER_BYTES) };
        let candidates: Vec<Candidate> = (0..4)
            .map(|i| Candidate { device: world.add_device(config.clone()), path: format!("d{i}") })
            .collect();
        let spec = PoolSpec {
            name: "v0".to_owned(),
            kind: array(Level::Raid5(Rotation::LeftSymmetric), true),
            shards: 1,
            journal_blocks: Some(64),
            force: false,
            physical: Some(MEMBER_BYTES / 2),
        };
        let (io, members) = (world.io(), candidates.clone());
        let made = world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap();
        if !is_known {
            assert!(matches!(made, Err(PoolError::UnknownUse { .. })), "{made:?}");
            continue;
        }
        let (io, members) = (world.io(), candidates.clone());
        let pool = world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap();
        let control = Rc::clone(&pool.control);
        world.block_on(async move { control.sample_space().await }).unwrap();
        let config = pool.control.config();
        for (member, physical) in pool.control.space().members.into_iter().enumerate() {
            let physical = physical.expect("a limit was given");
            assert_eq!(physical.source, PhysicalSource::Given);
            assert_eq!(physical.used, config.end_bytes(member), "an array uses all of its places");
        }
    }
}

#[test]
fn an_expected_ratio_needs_the_space_that_members_tell() {
    let world = World::new(5);
    let add = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("d{i}"),
    };
    let candidates: Vec<Candidate> = (0..4).map(add).collect();
    let ratio = Elastic { expect_milli: 1500, ..Elastic::BY_ADDRESSES };
    let create = || {
        let (io, members) = (world.io(), candidates.clone());
        let spec = PoolSpec {
            name: "v0".to_owned(),
            kind: elastic(Level::Raid5(Rotation::LeftSymmetric), ratio),
            shards: 1,
            journal_blocks: Some(64),
            force: true,
            physical: None,
        };
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap()
    };
    assert!(matches!(create(), Err(PoolError::UnknownSpace { path }) if path == "d0"));
    let limits = [5 << 20, 4 << 20, 6 << 20, 5 << 20];
    for (candidate, limit) in candidates.iter().zip(limits) {
        world.device(candidate.device).set_physical(limit);
    }
    let config = create().unwrap();
    let planned = config.geometry.array().and_then(|array| array.elastic).map(|elastic| elastic.physical);
    assert_eq!(planned, Some(4 << 20));
    assert!(config.members.iter().all(|member| member.physical == 0), "no limit by hand");
    let bytes = config.volumes[0].bytes;
    assert!((15 << 20..=18 << 20).contains(&bytes), "three members of 4 MiB hold 1.5 times as much: {bytes}");
}

/// Writes that members had to refuse.
fn refused_by_members(thin: &Thin) -> u64 {
    thin.world.fault_counts().no_space
}

#[test]
fn clients_are_refused_before_members_are_full() {
    for kind in kinds() {
        let thin = Thin::new(kind, MEMBER_BYTES / 2);
        let pool = thin.open();
        let answers = write_all(&thin, &pool, 6000, 1);
        assert!(refused(&answers) > 0, "{kind:?}: more was written than there is space for");
        assert!(answers.iter().filter(|answer| answer.get() == Some(Ok(()))).count() > 1000, "{kind:?}");
        flush(&thin, &pool);
        assert_eq!(refused_by_members(&thin), 0, "{kind:?}");
        assert_stored(&thin, &pool, &answers, 1);
        // Blocks of zeros take no space, so they make some in an array.
        if matches!(kind, PoolKind::Array(_)) {
            let volume = pool.volume("v0").unwrap();
            let discarded = thin.world.block_on(async move { volume.discard(0, 4 << 20).await });
            discarded.unwrap().unwrap();
            flush(&thin, &pool);
            // The first write may be refused while the zeros are on their way to their places.
            write_all(&thin, &pool, 1, 2);
            let again = write_all(&thin, &pool, 64, 2);
            assert_eq!(refused(&again), 0, "{kind:?}: there is space again");
            // More than fits one set of figures: a shortage that has ended must not have later ones refused at once.
            let all = thin.world.block_on({
                let volume = pool.volume("v0").unwrap();
                async move { volume.discard(0, volume.size_bytes()).await }
            });
            all.unwrap().unwrap();
            flush(&thin, &pool);
            let much = write_all(&thin, &pool, 1400, 3);
            assert_eq!(refused(&much), 0, "{kind:?}: the credit is counted anew");
        }
        assert_active(&pool);
        assert_eq!(refused_by_members(&thin), 0, "{kind:?}");
    }
}

/// Blocks that are overwritten leave dead ones in stripes that live ones keep. What is stored fits with parity, and in the second
/// case not with mirrors.
#[test]
fn overwrites_of_a_mapped_pool_get_their_space_back() {
    for blocks in [1500, 3600] {
        let thin = Thin::new(mapped(), MEMBER_BYTES / 2);
        let pool = thin.open();
        // In an order that leaves each stripe some live blocks.
        let is_written =
            move |block: u64, version: u64| version == 1 || !(block * 7 + version).is_multiple_of(16);
        for version in 1..=20u64 {
            let volume = pool.volume("v0").unwrap();
            let written = thin.world.block_on(async move {
                for i in 0..blocks {
                    let block = (i * 769 + version * 131) % blocks;
                    if is_written(block, version) {
                        volume.write(block * BLOCK, content(block, version), false).await?;
                    }
                }
                Ok::<(), VolumeError>(())
            });
            assert_eq!(written.unwrap(), Ok(()), "{blocks} blocks, round {version}");
        }
        let control = Rc::clone(&pool.control);
        thin.world.block_on(async move { control.close().await }).unwrap().unwrap();
        drop(pool);
        let pool = thin.open();
        for block in 0..blocks {
            let last = (1..=20).rev().find(|&version| is_written(block, version));
            assert!(read(&thin, &pool, block) == content(block, last.unwrap()).bytes(), "block {block}");
        }
        assert_active(&pool);
        assert_eq!(refused_by_members(&thin), 0);
    }
}

/// Recovery takes what it reads for durable, also what a server that was killed has left in the cache of a member, and also when
/// that member has no space for anything.
pub(crate) fn full_members_are_flushed() -> Result<(), String> {
    for full in 0..8 {
        let thin = Thin::of_members(8, mapped(), MEMBER_BYTES);
        // The first one makes room for pages, so that the third writes nothing else to the member.
        for is_stopped in [true, false] {
            let pool = thin.open();
            let volume = pool.volume("v0").unwrap();
            let written = async move { volume.write(0, content(0, 1), false).await };
            thin.world.block_on(written).unwrap().unwrap();
            if is_stopped {
                let control = Rc::clone(&pool.control);
                thin.world.block_on(async move { control.close().await }).unwrap().unwrap();
            }
            drop(pool);
            thin.world.kill_process();
        }
        let device = thin.world.device(thin.candidates[full].device);
        device.set_physical(BLOCK);
        let flushes = device.stats().flushes;
        thin.open();
        if device.stats().flushes == flushes {
            return Err(format!("member {full} was not flushed"));
        }
    }
    Ok(())
}

#[test]
fn openings_flush_full_members() {
    assert_eq!(full_members_are_flushed(), Ok(()));
}

#[test]
fn a_pool_opens_while_its_members_are_full() {
    for kind in kinds() {
        let thin = Thin::new(kind, MEMBER_BYTES);
        let pool = thin.open();
        let answers = write_all(&thin, &pool, 300, 1);
        flush(&thin, &pool);
        // For the configuration, and the last blocks of a journal, which are written once more.
        thin.set_room(256 << 10);
        drop(pool);
        thin.world.kill_process();
        let pool = thin.open();
        assert_active(&pool);
        assert_stored(&thin, &pool, &answers, 1);
        let during = write_all(&thin, &pool, 8, 2);
        assert_eq!(refused(&during), 8, "{kind:?}");
        assert_stored(&thin, &pool, &answers, 1);
        thin.set_room(MEMBER_BYTES);
        thin.world.run_for(WHILE_NS).unwrap();
        let again = write_all(&thin, &pool, 8, 3);
        assert_eq!(refused(&again), 0, "{kind:?}: there is space again");
    }
}
