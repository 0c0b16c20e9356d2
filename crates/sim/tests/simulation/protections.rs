//! Volumes with a protection of their own: mirrors in a pool with parity.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::control::{ControlError, VolumeOptions};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::Policy;
use sinew_members::status::ShardStatus;
use sinew_sim::{DeviceConfig, Fault, OpKind, OpenPool, World};

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

#[test]
fn a_volume_becomes_a_mirror_and_back_while_it_is_written_and_through_crashes() {
    let mut scene = Scene::new();
    scene.make("v", 8 << 20, None).unwrap();
    assert_eq!(scene.fill("v", 0, 2000), 2000);
    for protection in [MIRROR, Protection::Parity1] {
        let control = Rc::clone(&scene.pool.control);
        let changing = async move { control.set_volume_protection("v", protection).await };
        scene.world.block_on(changing).unwrap().unwrap();
        // The clients overwrite some of it while it moves, and the pool crashes before all has moved.
        assert_eq!(scene.fill("v", 300, 200), 200);
        let config = scene.pool.control.config();
        assert_eq!(
            (config.volumes[0].moving, config.protection_of(&config.volumes[0])),
            (true, Some(protection))
        );
        scene.reopen(false);
        let status = scene.status();
        let config = scene.pool.control.config();
        assert_eq!(
            (config.volumes[0].moving, config.protection_of(&config.volumes[0])),
            (false, Some(protection))
        );
        assert!(status.volume_misplaced_bytes.is_empty());
        let mirrored = status.stored_mirrored_bytes;
        let expected = if protection == MIRROR { 2000 * BLOCK..=2000 * BLOCK } else { 0..=128 * BLOCK };
        assert!(expected.contains(&mirrored), "{protection}: {mirrored} bytes mirrored");
        scene.check("v", 2000);
    }
}

#[test]
fn a_volume_that_has_no_room_as_a_mirror_stays_what_it_is() {
    let scene = Scene::new();
    scene.make("v", 100 << 20, None).unwrap();
    let stored = scene.fill("v", 0, 100 << 8);
    let control = Rc::clone(&scene.pool.control);
    let changing = async move { control.set_volume_protection("v", MIRROR).await };
    assert_eq!(scene.world.block_on(changing).unwrap(), Err(ControlError::NoRoomForMirrors));
    assert_eq!(scene.pool.control.config().volumes[0].protection, None);
    // Nothing is kept for it.
    assert_eq!(scene.fill("v", 0, stored), stored);
    assert_eq!(scene.status().refused_early, 0);
}

/// The first block of a volume is being written to a stripe of the pool's class when the volume becomes a mirror.
pub(crate) fn late_writes_move_as_well() -> Result<(), String> {
    let scene = Scene::new();
    scene.make("v", 1 << 20, None).unwrap();
    for member in &scene.members {
        // Behind the superblocks.
        scene.world.device(member.device).script(
            OpKind::Write,
            Some(1 << 20..32 << 20),
            Fault::Stall(50_000_000),
        );
    }
    let volume = scene.pool.volume("v").unwrap();
    scene.world.spawn(async move { volume.write(0, content(0), false).await.unwrap() });
    scene.world.run_for(1_000_000).unwrap();
    let control = Rc::clone(&scene.pool.control);
    let changing = async move { control.set_volume_protection("v", MIRROR).await };
    scene.world.block_on(changing).unwrap().unwrap();
    let status = scene.status();
    match scene.pool.leaks().as_slice() {
        [] if status.stored_bytes == BLOCK => Ok(()),
        leaks => Err(format!("{} bytes stored, {leaks:?}", status.stored_bytes)),
    }
}

#[test]
fn a_write_under_way_when_its_volume_becomes_a_mirror_moves_as_well() {
    late_writes_move_as_well().unwrap();
}
