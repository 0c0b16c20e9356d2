//! A member that is slower for good: the events tell of it once, and once that it has recovered.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::control::events::{Event, MemberChange};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::Protection;
use sinew_layout::{Level, Rotation};
use sinew_members::latency::Response;
use sinew_sim::{DeviceConfig, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const VOLUME_BLOCKS: u64 = 2048;
const SECOND: u64 = 1_000_000_000;
const SLOW: usize = 1;

/// An open pool with a volume `v` and clients at work.
struct Scene {
    world: World,
    candidates: Vec<Candidate>,
    pool: Rc<OpenPool>,
    ends: Rc<Cell<bool>>,
}

impl Scene {
    fn new(kind: PoolKind) -> Scene {
        let world = World::new(3);
        let candidates: Vec<Candidate> = (0..5)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(64 << 20));
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let is_mapped = matches!(kind, PoolKind::Mapped { .. });
        let name = "v".to_owned();
        let spec = PoolSpec { name, kind, shards: 2, journal_blocks: None, force: false, physical: None };
        let (io, members) = (world.io(), candidates.clone());
        let pool = world.block_on(async move {
            pool::create(&io, &members, &spec).await.unwrap();
            let pool = OpenPool::open(io, members, || false).await.unwrap();
            if is_mapped {
                pool.control.create_volume("v", VOLUME_BLOCKS * BLOCK).await.unwrap();
            }
            pool
        });
        let scene = Scene { world, candidates, pool: Rc::new(pool.unwrap()), ends: Rc::default() };
        for number in 0..6 {
            scene.start_client(number);
        }
        scene
    }

    /// A client that writes and reads blocks, one request after the other, until the scene ends.
    fn start_client(&self, number: u64) {
        let (volume, io, ends) = (self.pool.volume("v").unwrap(), self.world.io(), Rc::clone(&self.ends));
        let mut rng = self.world.rng(&format!("client {number}"));
        self.world.spawn(async move {
            while !ends.get() {
                let at = rng.below(VOLUME_BLOCKS) * BLOCK;
                let data = Buf::copy_of(&[number as u8; BLOCK_BYTES]);
                volume.write(at, data, false).await.expect("a write");
                volume.read(rng.below(VOLUME_BLOCKS) * BLOCK, BLOCK as u32).await.expect("a read");
                io.sleep(5_000_000).await;
            }
        });
    }

    /// Looks once a second; gives how often the slow member was suspect at a look and not at the next.
    fn look(&self, seconds: u64) -> usize {
        let (mut changes, mut before) = (0, Response::Responsive);
        for _ in 0..seconds {
            self.world.run_for(SECOND).unwrap();
            let control = Rc::clone(&self.pool.control);
            let look = async move {
                control.observe().await.unwrap();
                control.status().await.unwrap()
            };
            let now: Response = self.world.block_on(look).unwrap().member_latency[SLOW].response;
            changes += usize::from(before == Response::Suspect && now != before);
            before = now;
        }
        changes
    }

    /// What events tell of slow members.
    fn told(&self) -> Vec<(usize, MemberChange)> {
        let is_of_speed =
            |change: &MemberChange| matches!(change, MemberChange::Slow | MemberChange::NotSlow);
        let told = self.pool.control.events().after(0).into_iter().filter_map(|entry| match entry.event {
            Event::Member { member, change, .. } => Some((member, change)),
            _ => None,
        });
        told.filter(|(_, change)| is_of_speed(change)).collect()
    }
}

#[test]
fn a_member_that_is_slower_for_good_is_told_once() {
    let parity = PoolKind::Mapped { protection: Protection::Parity1, data_columns: 3, checksums: true };
    let array = PoolKind::Array(ArraySpec {
        level: Level::Raid5(Rotation::LeftSymmetric),
        chunk_bytes: 65536,
        journal: true,
        spares: 0,
        zeroed: true,
        elastic: None,
    });
    let mut changes = 0;
    for kind in [parity, array] {
        let scene = Scene::new(kind);
        scene.look(3);
        assert_eq!(scene.told(), []);
        let device = scene.world.device(scene.candidates[SLOW].device);
        device.slow_down(10, 160 * SECOND);
        changes += scene.look(155);
        assert_eq!(scene.told(), [(SLOW, MemberChange::Slow)]);
        scene.look(60);
        assert_eq!(scene.told(), [(SLOW, MemberChange::Slow), (SLOW, MemberChange::NotSlow)]);
        scene.ends.set(true);
    }
    assert!(changes > 4, "the member is not in spikes now and then: {changes}");
}
