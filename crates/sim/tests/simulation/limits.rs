//! Limits of volumes: rate, order, bursts and debt, on the virtual clock.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_layout::Level;
use sinew_sim::{DeviceConfig, OpenPool, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MS: u64 = 1_000_000;

/// An open pool with a volume `v`.
struct Limited {
    world: World,
    candidates: Vec<Candidate>,
    pool: Rc<OpenPool>,
}

fn mapped() -> PoolKind {
    PoolKind::Mapped { protection: Protection::Mirror { copies: 2 }, data_columns: 0, checksums: true }
}

fn array() -> PoolKind {
    let level = Level::Raid0;
    PoolKind::Array(ArraySpec {
        level,
        chunk_bytes: 65536,
        journal: false,
        spares: 0,
        zeroed: true,
        elastic: None,
    })
}

impl Limited {
    fn new(kind: PoolKind) -> Limited {
        let world = World::new(5);
        let candidates: Vec<Candidate> = (0..4)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(64 << 20));
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let is_mapped = matches!(kind, PoolKind::Mapped { .. });
        let spec = PoolSpec {
            name: "v".to_owned(),
            kind,
            shards: 2,
            journal_blocks: Some(64),
            force: false,
            physical: None,
        };
        let (io, members) = (world.io(), candidates.clone());
        world.block_on(async move { pool::create(&io, &members, &spec).await }).unwrap().unwrap();
        let pool = open(&world, &candidates);
        if is_mapped {
            let control = Rc::clone(&pool.control);
            world.block_on(async move { control.create_volume("v", 16 << 20).await }).unwrap().unwrap();
        }
        Limited { world, candidates, pool }
    }

    fn set(&self, iops: u64, bytes_per_second: u64, burst_ms: u32) {
        let limits = VolumeLimits { iops, bytes_per_second, burst_ms };
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.set_volume_limits("v", limits).await }).unwrap().unwrap();
    }

    /// Sends reads at once; the list gets the number and the time of each that ends, in milliseconds.
    fn send(&self, sizes: &[u64]) -> Rc<RefCell<Vec<(usize, u64)>>> {
        let ended: Rc<RefCell<Vec<(usize, u64)>>> = Rc::default();
        let began = self.world.now();
        for (i, &blocks) in sizes.iter().enumerate() {
            let (volume, io, ended) = (self.pool.volume("v").unwrap(), self.world.io(), Rc::clone(&ended));
            self.world.spawn(async move {
                volume.read(i as u64 * BLOCK, (blocks * BLOCK) as u32).await.expect("a readable block");
                ended.borrow_mut().push((i, (io.now() - began) / MS));
            });
        }
        ended
    }
}

fn open(world: &World, candidates: &[Candidate]) -> Rc<OpenPool> {
    let (io, members) = (world.io(), candidates.to_vec());
    let mut shards = 0..;
    // One of the shards is on another thread.
    let remote = move || shards.next() == Some(1);
    Rc::new(world.block_on(OpenPool::open(io, members, remote)).unwrap().unwrap())
}

#[test]
fn requests_wait_in_order_for_both_kinds_of_pool() {
    for kind in [mapped(), array()] {
        let limited = Limited::new(kind);
        limited.set(100, 0, 50);
        let ended = limited.send(&[1; 50]);
        limited.world.run_for(1000 * MS).unwrap();
        let ended = ended.borrow();
        // Six at once: those saved up in 50 ms, and the one that is paid for afterwards. Then one in 10 ms.
        for (place, &(number, ms)) in ended.iter().enumerate() {
            let due = (place as u64).saturating_sub(5) * 10;
            assert!(
                (due..due + 5).contains(&ms),
                "request {number} ended as {place} after {ms} ms: {ended:?}"
            );
            assert!(place < 6 || place == number, "{ended:?}");
        }
        assert_eq!(ended.len(), 50);
        assert_eq!(limited.pool.control.catalog().get("v").unwrap().delayed().requests, 44);
    }
}

#[test]
fn a_request_larger_than_the_burst_leaves_a_debt() {
    let limited = Limited::new(mapped());
    limited.set(0, 1 << 20, 10);
    let ended = limited.send(&[128, 1, 1]);
    limited.world.run_for(2000 * MS).unwrap();
    let times: Vec<u64> = ended.borrow().iter().map(|end| end.1).collect();
    assert!(times[0] < 10 && (490..510).contains(&times[1]) && (493..514).contains(&times[2]), "{times:?}");
}

#[test]
fn flushes_and_unlimited_volumes_do_not_wait() {
    let limited = Limited::new(mapped());
    limited.set(1, 0, 0);
    let ended = limited.send(&[1, 1]);
    limited.world.run_for(10 * MS).unwrap();
    let volume = limited.pool.volume("v").unwrap();
    let began = limited.world.now();
    limited.world.block_on(async move { volume.flush().await }).unwrap().unwrap();
    assert!(limited.world.now() - began < 20 * MS);
    assert_eq!(ended.borrow().len(), 1);
    let control = Rc::clone(&limited.pool.control);
    limited.world.block_on(async move { control.create_volume("w", 1 << 20).await }).unwrap().unwrap();
    let other = limited.pool.volume("w").unwrap();
    let write = async move { other.write(0, Buf::zeroed(BLOCK_BYTES), true).await };
    limited.world.block_on(write).unwrap().unwrap();
    assert!(limited.world.now() - began < 50 * MS);
}

/// Requests that wait for a limit go on soon after it is raised or removed.
pub(crate) fn waiting_requests_see_changes() -> Result<(), String> {
    let limited = Limited::new(mapped());
    limited.set(1, 0, 0);
    let ended = limited.send(&[1; 100]);
    limited.world.run_for(1500 * MS).unwrap();
    limited.set(1000, 0, 0);
    limited.world.run_for(150 * MS).unwrap();
    let after = ended.borrow().len();
    limited.set(0, 0, 0);
    limited.world.run_for(150 * MS).unwrap();
    let all = ended.borrow().len();
    match (after, all) {
        (20..=100, 100) => Ok(()),
        _ => Err(format!("{after} requests ended after the limit was raised, {all} after it was removed")),
    }
}

#[test]
fn changes_hold_for_waiting_requests() {
    waiting_requests_see_changes().unwrap();
}

#[test]
fn limits_last_and_end_with_their_volume() {
    let mut limited = Limited::new(mapped());
    limited.set(7, 1 << 20, 30);
    limited.world.kill_process();
    limited.pool = open(&limited.world, &limited.candidates);
    let limits = VolumeLimits { iops: 7, bytes_per_second: 1 << 20, burst_ms: 30 };
    assert_eq!(limited.pool.control.volume_limits("v"), Ok(limits));
    let wrong = VolumeLimits { bytes_per_second: 1, ..limits };
    let control = Rc::clone(&limited.pool.control);
    let refused = limited.world.block_on(async move { control.set_volume_limits("v", wrong).await }).unwrap();
    assert!(refused.unwrap_err().to_string().contains("at least 64K"));
    let outcomes: Rc<RefCell<Vec<Option<VolumeError>>>> = Rc::default();
    for _ in 0..3 {
        let (volume, outcomes) = (limited.pool.volume("v").unwrap(), Rc::clone(&outcomes));
        limited.world.spawn(async move {
            let read = volume.read(0, 1 << 20).await;
            outcomes.borrow_mut().push(read.err());
        });
    }
    let control = Rc::clone(&limited.pool.control);
    limited.world.block_on(async move { control.delete_volume("v").await }).unwrap().unwrap();
    limited.world.run_for(150 * MS).unwrap();
    assert_eq!(*outcomes.borrow(), [None, Some(VolumeError::Gone), Some(VolumeError::Gone)]);
}
