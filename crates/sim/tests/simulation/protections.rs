//! Volumes with a protection of their own: mirrors in a pool with parity.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::control::{ControlError, VolumeOptions};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Policy;
use sinew_members::status::ShardStatus;
use sinew_sim::{DeviceConfig, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MIRROR: Protection = Protection::Mirror { copies: 2 };
const MEMBERS: usize = 5;

/// A pool of one parity chunk and two data columns a stripe, which converts mirrored stripes as soon as it can.
struct Scene {
    world: World,
    members: Vec<Candidate>,
    pool: Rc<OpenPool>,
}

impl Scene {
    fn new() -> Scene {
        let world = World::new(3);
        let member = |i| Candidate {
            device: world.add_device(DeviceConfig::of_bytes(32 << 20)),
            path: format!("d{i}"),
        };
        let members: Vec<Candidate> = (0..MEMBERS).map(member).collect();
        let kind = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 2, checksums: true };
        let (name, journal_blocks) = ("pool".to_owned(), Some(64));
        let spec = PoolSpec { name, kind, shards: 2, journal_blocks, force: false, physical: None };
        let (io, candidates) = (world.io(), members.clone());
        world.block_on(async move { pool::create(&io, &candidates, &spec).await }).unwrap().unwrap();
        let pool = open(&world, &members);
        Scene { world, members, pool }
    }

    /// Stops the pool, cleanly or by a crash, and opens it again.
    fn reopen(&mut self, cleanly: bool) {
        if cleanly {
            let control = Rc::clone(&self.pool.control);
            self.world.block_on(async move { control.close().await }).unwrap().unwrap();
        }
        self.world.kill_process();
        self.pool = open(&self.world, &self.members);
    }

    fn make(
        &self,
        name: &'static str,
        bytes: u64,
        protection: Option<Protection>,
    ) -> Result<(), ControlError> {
        let control = Rc::clone(&self.pool.control);
        let options = VolumeOptions { protection, ..VolumeOptions::default() };
        let making = async move { control.create_volume_with(name, bytes, options).await };
        self.world.block_on(making).unwrap().map(|_| ())
    }

    /// Writes blocks of a volume, one after the other; gives the number that the pool took.
    fn fill(&self, name: &str, first: u64, count: u64) -> u64 {
        let volume = self.pool.volume(name).unwrap();
        let filling = async move {
            for block in first..first + count {
                match volume.write(block * BLOCK, content(block), false).await {
                    Ok(()) => {}
                    Err(VolumeError::NoSpace) => return block - first,
                    Err(error) => panic!("block {block}: {error}"),
                }
            }
            count
        };
        self.world.block_on(filling).unwrap()
    }

    fn check(&self, name: &str, blocks: u64) {
        let volume = self.pool.volume(name).unwrap();
        let reading = async move {
            for block in 0..blocks {
                let read = volume.read(block * BLOCK, BLOCK as u32).await.unwrap();
                assert!(read[0].bytes() == content(block).bytes(), "block {block}");
            }
        };
        self.world.block_on(reading).unwrap();
    }

    /// The state once nothing is left to be done.
    fn status(&self) -> ShardStatus {
        self.world.run_for(5_000_000_000).unwrap();
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.status().await }).unwrap().unwrap()
    }
}

fn open(world: &World, members: &[Candidate]) -> Rc<OpenPool> {
    let opening = OpenPool::open(world.io(), members.to_vec(), || false);
    let pool = Rc::new(world.block_on(opening).unwrap().unwrap());
    let control = Rc::clone(&pool.control);
    let policy = Policy { convert_above_mirrored: 0, ..Policy::default() };
    world.block_on(async move { control.set_policy(policy).await }).unwrap().unwrap();
    pool
}

fn content(block: u64) -> Buf {
    Buf::copy_of(&[block as u8 ^ (block >> 8) as u8; BLOCK_BYTES])
}

#[test]
fn mirrors_stay_mirrored_beside_parity_and_through_restarts() {
    let mut scene = Scene::new();
    scene.make("parity", 4 << 20, None).unwrap();
    scene.make("mirror", 4 << 20, Some(MIRROR)).unwrap();
    for (cleanly, part) in [(false, 0), (true, 1), (false, 2), (true, 3)] {
        for name in ["parity", "mirror"] {
            assert_eq!(scene.fill(name, part * 250, 250), 250);
        }
        scene.reopen(cleanly);
    }
    let status = scene.status();
    let (mirrored, parity) = (status.stored_mirrored_bytes, status.stored_parity_bytes);
    assert_eq!(mirrored + parity, 2000 * BLOCK);
    // The last stripes that small writes of the pool's own volumes are appended to are mirrored as well.
    let open = 4 * 2 * 16 * BLOCK;
    assert!((1000 * BLOCK..=1000 * BLOCK + open).contains(&mirrored), "{mirrored} of {}", mirrored + parity);
    scene.check("parity", 1000);
    scene.check("mirror", 1000);
}

#[test]
fn mirrors_survive_a_lost_member() {
    let scene = Scene::new();
    scene.make("mirror", 4 << 20, Some(MIRROR)).unwrap();
    assert_eq!(scene.fill("mirror", 0, 1000), 1000);
    let control = Rc::clone(&scene.pool.control);
    let failing = async move { control.fail(1).await };
    scene.world.block_on(failing).unwrap().unwrap();
    scene.check("mirror", 1000);
    assert_eq!(scene.fill("mirror", 0, 1000), 1000);
    scene.check("mirror", 1000);
}

#[test]
fn protections_that_a_pool_does_not_offer_are_refused() {
    let scene = Scene::new();
    let refused = |protection| scene.make("v", 1 << 20, Some(protection)).unwrap_err().to_string();
    let offered = "a volume of this pool has one of the protections parity1 and mirror";
    assert_eq!(
        refused(Protection::Mirror { copies: 3 }),
        format!("{offered}, not mirror3; choose one of these, or make another pool")
    );
    assert!(refused(Protection::Parity2).starts_with(offered));
    scene.make("v", 1 << 20, Some(Protection::Parity1)).unwrap();
    let control = &scene.pool.control;
    assert_eq!(control.config().volumes[0].protection, None, "the protection of the pool");
}

#[test]
fn a_mirror_takes_more_of_the_capacity_and_is_not_refused_early() {
    let scene = Scene::new();
    scene.make("mirror", 64 << 20, Some(MIRROR)).unwrap();
    let capacity = scene.status().capacity_bytes / BLOCK;
    let taken = scene.fill("mirror", 0, 64 << 8);
    // Two chunks of each block instead of three of two.
    let expected = capacity * 3 / 4;
    // One shard may be full while another has room for an extent.
    assert!((expected - 320..=expected).contains(&taken), "{taken} of {capacity} blocks");
    // What is stored can be overwritten as often as one likes.
    assert_eq!(scene.fill("mirror", 0, taken), taken);
    scene.check("mirror", taken);
    let status = scene.status();
    assert_eq!(status.refused_early, 0);
    assert!(status.stored_bytes <= status.capacity_bytes && status.capacity_bytes < capacity * BLOCK);
}

#[test]
fn a_full_pool_takes_no_first_mirror() {
    let scene = Scene::new();
    scene.make("parity", 100 << 20, None).unwrap();
    scene.fill("parity", 0, 100 << 8);
    assert_eq!(scene.make("mirror", 1 << 20, Some(MIRROR)), Err(ControlError::NoRoomForMirrors));
    let discarding = scene.pool.volume("parity").unwrap();
    scene.world.block_on(async move { discarding.discard(0, 4 << 20).await }).unwrap().unwrap();
    scene.make("mirror", 1 << 20, Some(MIRROR)).unwrap();
}
