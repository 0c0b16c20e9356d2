//! Members that stay away: what they held is rebuilt into free space after the time that was set.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::Volume;
use sinew_engine::control::ControlError;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::Level;
use sinew_sim::{DeviceConfig, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const SECOND: u64 = 1_000_000_000;
const AFTER: u64 = 600 * SECOND;

fn content(block: u64) -> Buf {
    let byte = |i: usize| (i as u64 * 7 + block * 13 + 5) as u8;
    Buf::copy_of(&(0..BLOCK_BYTES).map(byte).collect::<Vec<u8>>())
}

struct Scene {
    world: World,
    candidates: Vec<Candidate>,
}

impl Scene {
    fn new(kind: PoolKind, members: usize) -> Scene {
        let world = World::new(3);
        let candidate = |i: usize| {
            let device = world.add_device(DeviceConfig::of_bytes(16 << 20));
            Candidate { device, path: format!("d{i}") }
        };
        let candidates: Vec<Candidate> = (0..members).map(candidate).collect();
        let name = "v".to_owned();
        let spec = PoolSpec { name, kind, shards: 2, journal_blocks: Some(64), force: false, physical: None };
        let (io, devices) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &devices, &spec).await }).unwrap().unwrap();
        Scene { world, candidates }
    }

    fn open(&self) -> OpenPool {
        let (io, members) = (self.world.io(), self.candidates.clone());
        self.world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap()
    }

    /// Looks once a second for a while, as a server does.
    fn look_for(&self, pool: &OpenPool, seconds: u64) {
        for _ in 0..seconds {
            let control = Rc::clone(&pool.control);
            self.world.block_on(async move { control.observe().await }).unwrap().unwrap();
            self.world.run_for(SECOND).unwrap();
        }
    }

    fn offline(&self, pool: &OpenPool, member: usize) {
        let control = Rc::clone(&pool.control);
        self.world.block_on(async move { control.offline(member).await }).unwrap().unwrap();
    }

    fn online(&self, pool: &OpenPool, member: usize) -> Result<(), ControlError> {
        let (control, candidate) = (Rc::clone(&pool.control), self.candidates[member].clone());
        self.world.block_on(async move { control.online(member, candidate).await }).unwrap()
    }

    fn fail(&self, pool: &OpenPool, member: usize) {
        let control = Rc::clone(&pool.control);
        self.world.block_on(async move { control.fail(member).await }).unwrap().unwrap();
    }
}

fn state(pool: &OpenPool, member: usize) -> MemberState {
    pool.control.config().members[member].state
}

fn mapped(data_columns: usize) -> PoolKind {
    PoolKind::Mapped { protection: Protection::Parity1, data_columns, checksums: true }
}

#[test]
fn a_failed_member_is_rebuilt_into_free_space_in_time() {
    let scene = Scene::new(mapped(2), 5);
    let pool = scene.open();
    let control = Rc::clone(&pool.control);
    scene.world.block_on(async move { control.create_volume("v", 4 << 20).await }).unwrap().unwrap();
    let volume = pool.volume("v").unwrap();
    let written = scene.world.block_on(async move {
        for block in 0..1024 {
            volume.write(block * BLOCK, content(block), false).await?;
        }
        volume.flush().await
    });
    written.unwrap().unwrap();
    scene.fail(&pool, 1);
    scene.look_for(&pool, 700);
    assert_eq!(state(&pool, 1), MemberState::Failed, "nothing was set");
    scene.online(&pool, 1).unwrap();
    pool.control.set_rebuild_after(Some(AFTER)).unwrap();
    // One that comes back in time stays, and one that an operator took offline is waited for.
    scene.fail(&pool, 1);
    scene.look_for(&pool, 500);
    scene.online(&pool, 1).unwrap();
    scene.look_for(&pool, 200);
    assert_eq!(state(&pool, 1), MemberState::Active);
    scene.offline(&pool, 2);
    scene.look_for(&pool, 700);
    assert_eq!(state(&pool, 2), MemberState::Offline);
    scene.online(&pool, 2).unwrap();
    scene.look_for(&pool, 60);
    // One that stays away does not: a second one may then fail.
    scene.fail(&pool, 1);
    scene.look_for(&pool, 590);
    assert_eq!(state(&pool, 1), MemberState::Failed);
    scene.look_for(&pool, 120);
    assert_eq!(state(&pool, 1), MemberState::Removed);
    scene.fail(&pool, 3);
    let volume = pool.volume("v").unwrap();
    for block in 0..1024 {
        let volume = volume.clone();
        let read = scene.world.block_on(async move { volume.read(block * BLOCK, BLOCK as u32).await });
        let read: Vec<u8> = read.unwrap().unwrap().iter().flat_map(|buf| buf.bytes().to_vec()).collect();
        assert!(read == content(block).bytes(), "block {block}");
    }
}

#[test]
fn nothing_begins_where_too_few_members_are_left() {
    let scene = Scene::new(mapped(2), 3);
    let pool = scene.open();
    pool.control.set_rebuild_after(Some(AFTER)).unwrap();
    scene.fail(&pool, 1);
    scene.look_for(&pool, 700);
    assert_eq!(state(&pool, 1), MemberState::Failed);
    scene.online(&pool, 1).unwrap();
    assert_eq!(state(&pool, 1), MemberState::Active);
}

#[test]
fn an_array_has_spares_for_that() {
    let spec = ArraySpec {
        level: Level::Raid10 { copies: 2 },
        chunk_bytes: 65536,
        journal: true,
        spares: 0,
        zeroed: true,
        elastic: None,
    };
    let scene = Scene::new(PoolKind::Array(spec), 4);
    let pool = scene.open();
    let refused = pool.control.set_rebuild_after(Some(AFTER));
    assert!(matches!(refused, Err(ControlError::NoEvacuation)), "{refused:?}");
}
