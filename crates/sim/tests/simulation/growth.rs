//! Evenness of the members after others were added, the amount of data moved, and the state of a removed member.
//!
//! With `--nocapture` it prints the figures of docs/growth.md.

use std::rc::Rc;

use sinew_core::buf::Buf;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::config::MemberState;
use sinew_format::model::mapped_geometry::Protection;
use sinew_members::status::{BalanceBlocked, ShardStatus};
use sinew_members::throttle::Limits;
use sinew_sim::{DeviceConfig, OpenPool, World};

const WRITE_BYTES: u64 = 1 << 20;
/// Limit of the polls of the pool's status, and the time between them.
const LOOKS_MAX: usize = 10_000;
const LOOK_NS: u64 = 10_000_000;

struct Pool {
    world: World,
    open: Rc<OpenPool>,
    chunks: Vec<u64>,
}

fn device(world: &World, mebibytes: u64) -> Candidate {
    let device = world.add_device(DeviceConfig::of_bytes(mebibytes << 20));
    Candidate { device, path: format!("d{}", device.0) }
}

impl Pool {
    /// A pool with a volume, of which every mebibyte up to `stored` is written.
    fn new(protection: Protection, data_columns: usize, sizes: &[u64], stored: u64) -> Pool {
        let world = World::new(7);
        let devices: Vec<Candidate> = sizes.iter().map(|&size| device(&world, size)).collect();
        let spec = PoolSpec {
            name: "pool".into(),
            kind: PoolKind::Mapped { protection, data_columns, checksums: true },
            shards: 1,
            journal_blocks: None,
            force: false,
            physical: None,
        };
        let io = world.io();
        let open = world
            .block_on(async move {
                pool::create(&io, &devices, &spec).await.unwrap();
                let open = OpenPool::open(io, devices, || false).await.unwrap();
                open.control.create_volume("v", stored << 20).await.unwrap();
                open
            })
            .unwrap();
        let mut pool = Pool { world, open: Rc::new(open), chunks: Vec::new() };
        pool.write(0..stored);
        pool
    }

    fn write(&mut self, range: std::ops::Range<u64>) {
        let volume = self.open.volume("v").unwrap();
        let writes = async move {
            for mebibyte in range {
                let bytes = (mebibyte + 1).to_le_bytes().repeat(WRITE_BYTES as usize / 8);
                volume.write(mebibyte * WRITE_BYTES, Buf::copy_of(&bytes), false).await.unwrap();
            }
            volume.flush().await.unwrap();
        };
        self.world.block_on(writes).unwrap();
    }

    fn verify(&self, stored: u64) {
        let volume = self.open.volume("v").unwrap();
        let reads = async move {
            for mebibyte in 0..stored {
                let parts = volume.read(mebibyte * WRITE_BYTES, WRITE_BYTES as u32).await.unwrap();
                let expected = (mebibyte + 1).to_le_bytes();
                for part in parts {
                    assert!(part.bytes().chunks_exact(8).all(|word| word == expected), "mebibyte {mebibyte}");
                }
            }
        };
        self.world.block_on(reads).unwrap();
    }

    fn status(&self) -> ShardStatus {
        let control = Rc::clone(&self.open.control);
        self.world.block_on(async move { control.status().await }).unwrap().unwrap()
    }

    fn wait(&mut self, done: impl Fn(&Pool, &ShardStatus) -> bool) -> ShardStatus {
        for _ in 0..LOOKS_MAX {
            let status = self.status();
            if done(self, &status) {
                self.chunks =
                    self.open.control.config().members.iter().map(|m| u64::from(m.layout.chunks)).collect();
                return status;
            }
            self.world.run_for(LOOK_NS).unwrap();
        }
        panic!("that takes too long");
    }

    fn add(&mut self, sizes: &[u64]) -> ShardStatus {
        for &size in sizes {
            let (candidate, control) = (device(&self.world, size), Rc::clone(&self.open.control));
            self.world.block_on(async move { control.add(candidate, false).await }).unwrap().unwrap();
        }
        self.wait(|_, status| status.balance_chunks_left == 0)
    }

    /// Standard deviation divided by mean of the members' use, with these chunks.
    fn variation(&self, used: impl Iterator<Item = u64>) -> f64 {
        let shares: Vec<f64> =
            used.zip(&self.chunks).map(|(used, &chunks)| used as f64 / chunks as f64).collect();
        let count = shares.len() as f64;
        let mean = shares.iter().sum::<f64>() / count;
        (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / count).sqrt() / mean
    }

    fn variations(&self, status: &ShardStatus) -> (f64, f64) {
        let parity = || status.member_chunks_parity.iter().copied();
        let data = status.member_chunks_used.iter().zip(parity()).map(|(all, parity)| all - parity);
        (self.variation(data), self.variation(parity()))
    }
}

#[test]
fn new_members_get_their_share_and_nothing_more_moves() {
    for (data_columns, old, new, stored) in [
        (3, vec![128; 5], vec![128], 240),
        (3, vec![128; 6], vec![128; 2], 280),
        (3, vec![128; 4], vec![128], 200),
        (3, vec![96, 128, 128, 160, 160], vec![192, 128], 240),
    ] {
        let mut pool = Pool::new(Protection::Parity1, data_columns, &old, stored);
        let before = pool.wait(|_, status| status.balance_chunks_left == 0);
        let (data_before, parity_before) = pool.variations(&before);
        let used: u64 = before.member_chunks_used.iter().sum();
        let after = pool.add(&new);
        let moved = (after.counters.chunks_balanced - before.counters.chunks_balanced) as f64 / used as f64;
        let chunks: u64 = pool.chunks.iter().sum();
        let fair = pool.chunks[old.len()..].iter().sum::<u64>() as f64 / chunks as f64;
        let (data, parity) = pool.variations(&after);
        println!(
            "{old:?} + {new:?}, {data_columns}+1, {used} chunks: moved {moved:.4}, fair share {fair:.4}; variation of data {data_before:.4} -> {data:.4}, of parity {parity_before:.4} -> {parity:.4}"
        );
        assert!((moved - fair).abs() < 0.005, "{moved} of {fair}");
        assert!(data < 0.01 && parity < 0.02, "{data} {parity}");
        assert_eq!(pool.open.unbalanced(), [""; 0]);
        pool.verify(stored);
    }
}

#[test]
fn new_writes_use_new_members_at_once() {
    let mut pool = Pool::new(Protection::Mirror { copies: 2 }, 2, &[64; 3], 10);
    let (candidate, control) = (device(&pool.world, 64), Rc::clone(&pool.open.control));
    let rate = 1 << 16;
    pool.world
        .block_on(async move {
            control.throttle(Limits { bytes_per_second: rate, pause_above_iops: 0 }).await;
            control.add(candidate, false).await
        })
        .unwrap()
        .unwrap();
    pool.write(0..10);
    let status = pool.status();
    let moved = status.counters.chunks_balanced;
    assert!(status.member_chunks_used[3] > moved + 20, "{moved} moved of {:?}", status.member_chunks_used);
}

#[test]
fn a_member_leaves_with_nothing_on_it_and_its_number_is_used_again() {
    for (protection, data_columns, members) in
        [(Protection::Parity1, 3, 5), (Protection::Mirror { copies: 2 }, 4, 5), (Protection::Parity2, 2, 5)]
    {
        let stored = 60;
        let mut pool = Pool::new(protection, data_columns, &vec![64; members], stored);
        let control = Rc::clone(&pool.open.control);
        let gone = pool.open.control.devices_in_use()[2].1;
        pool.world.block_on(async move { control.remove(2).await }).unwrap().unwrap();
        let after = pool.wait(|pool, _| pool.open.control.config().members[2].state == MemberState::Removed);
        assert_eq!(after.member_chunks_used[2], 0);
        pool.world.device(gone).replace_by_blank();
        pool.verify(stored);
        let capacity = after.capacity_bytes;
        let again = pool.add(&[64]);
        assert_eq!(pool.open.control.config().members.len(), members);
        assert!(again.capacity_bytes > capacity && again.member_chunks_used[2] > 0);
        pool.verify(stored);
    }
}

#[test]
fn a_removal_that_cannot_be_is_refused() {
    let pool = Pool::new(Protection::Parity1, 3, &[64; 5], 180);
    let control = Rc::clone(&pool.open.control);
    let full = pool.world.block_on(async move { control.remove(0).await }).unwrap();
    assert!(full.unwrap_err().to_string().contains("too little room"));
    let narrow = Pool::new(Protection::Parity1, 3, &[64; 4], 1);
    let control = Rc::clone(&narrow.open.control);
    let refused = narrow.world.block_on(async move { control.remove(0).await }).unwrap();
    assert!(refused.unwrap_err().to_string().contains("too few"));
}

#[test]
fn the_status_says_why_shares_differ() {
    // Each stripe has a chunk on every member, so the large one cannot have its share.
    let mut pool = Pool::new(Protection::Parity1, 3, &[64, 64, 64, 192], 90);
    let status = pool.wait(|_, status| status.balance_chunks_left == 0 && status.balance_blocked.chunks > 0);
    let blocked = status.balance_blocked;
    assert!(blocked.together > 0 && (blocked.no_room, blocked.unmovable) == (0, 0), "{blocked:?}");
    // With more members there are stripes that can move.
    let after = pool.add(&[192; 4]);
    assert!(after.counters.chunks_balanced > 0);
    assert_eq!(after.balance_blocked, BalanceBlocked::default());
    pool.verify(90);
}
