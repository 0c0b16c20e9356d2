//! Pools on thin members: members with less physical space than addresses are full, and not failed.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{Level, Rotation};
use sinew_sim::{DeviceConfig, OpenPool, World};

const MEMBER_BYTES: u64 = 16 << 20;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Virtual time in which every write is answered that can be.
const WHILE_NS: u64 = 2_000_000_000;

fn mapped() -> PoolKind {
    PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true }
}

fn array(level: Level, journal: bool) -> PoolKind {
    PoolKind::Array(ArraySpec { level, chunk_bytes: 65536, journal, spares: 0, zeroed: true, elastic: None })
}

fn kinds() -> [PoolKind; 5] {
    [
        mapped(),
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
        let world = World::new(7);
        let candidates: Vec<Candidate> = (0..4)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
                world.device(device).set_physical(physical);
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let is_mapped = matches!(kind, PoolKind::Mapped { .. });
        let spec =
            PoolSpec { name: "v0".to_owned(), kind, shards: 1, journal_blocks: Some(64), force: false };
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap().unwrap();
        let thin = Thin { world, candidates };
        if is_mapped {
            let pool = thin.open();
            let control = Rc::clone(&pool.control);
            let made = thin.world.block_on(async move {
                control.create_volume("v0", MEMBER_BYTES * 2).await?;
                control.close().await
            });
            made.unwrap().unwrap();
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
    for kind in kinds() {
        let thin = Thin::new(kind, MEMBER_BYTES);
        let pool = thin.open();
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
