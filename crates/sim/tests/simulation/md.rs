//! Writes to arrays of md under crashes and losses of members: md's superblocks never call an array consistent that may be
//! inconsistent, flushed data is kept, and a resync restores redundancy.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Io};
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::pool::Candidate;
use sinew_engine::pool::md_arrays::{self, MdArray, MdError, MdOptions};
use sinew_format::model::array_geometry::Access;
use sinew_layout::md::{Array, MdError as BlockError, SUPERBLOCK_BYTES, Superblock, Version};
use sinew_layout::{Geometry, Home, Role};
use sinew_sim::{CrashPolicy, DeviceConfig, OpenPool, Rng, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const MEMBERS: u64 = 4;
const MEMBER_BYTES: u64 = 4 << 20;
/// Writers, each with its own blocks: runs of three in turn, so that all share every stripe.
const WRITERS: u64 = 4;
const RUN: u64 = 3;

/// The superblocks of an array of four members by mdadm, made into another level: (level, layout, sectors of a chunk).
fn superblocks(level: (i32, u32, u32)) -> Vec<Vec<u8>> {
    let text = include_str!("../../../layout/tests/fixtures/superblocks.txt");
    let lines: Vec<&str> = text.lines().collect();
    (0..MEMBERS).map(|i| remade(&lines, &format!("raid5-v1.0.{i} "), level)).collect()
}

fn remade(lines: &[&str], name: &str, (level, layout, chunk): (i32, u32, u32)) -> Vec<u8> {
    let first = lines.iter().position(|line| line.starts_with(name)).unwrap() + 1;
    let digits: String = lines[first..].iter().take_while(|line| !line.is_empty()).copied().collect();
    let byte = |i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap();
    let mut bytes: Vec<u8> = (0..digits.len() / 2).map(byte).collect();
    bytes.resize(SUPERBLOCK_BYTES, 0);
    bytes[72..76].copy_from_slice(&level.to_le_bytes());
    bytes[76..80].copy_from_slice(&layout.to_le_bytes());
    bytes[88..92].copy_from_slice(&chunk.to_le_bytes());
    with_checksum(bytes)
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Err(BlockError::Checksum { computed, .. }) = Superblock::parse(&bytes, superblock_at()) {
        bytes[216..220].copy_from_slice(&computed.to_le_bytes());
    }
    bytes
}

fn superblock_at() -> u64 {
    Version::V1_0.offset(MEMBER_BYTES).unwrap()
}

fn levels() -> [(&'static str, (i32, u32, u32)); 4] {
    [("raid1", (1, 0, 0)), ("raid10", (10, 0x102, 128)), ("raid5", (5, 2, 32)), ("raid6", (6, 0, 32))]
}

/// The versions of a block as clients know them: last requested, last acknowledged, and last flushed.
#[derive(Clone, Copy, Default)]
struct Known {
    asked: u64,
    acked: u64,
    durable: u64,
}

type Oracle = Rc<RefCell<BTreeMap<u64, Known>>>;

struct Rig {
    world: World,
    oracle: Oracle,
    rng: Rng,
    blocks: u64,
    geometry: Geometry,
}

impl Rig {
    fn new(seed: u64, level: (i32, u32, u32)) -> Rig {
        let world = World::new(seed);
        for block in superblocks(level) {
            let device = world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
            world.device(device).poke(superblock_at(), &block);
        }
        let rng = world.rng("rig");
        let mut rig = Rig {
            geometry: Geometry::new(sinew_layout::Level::Raid0, 1, 4096, 4096).unwrap(),
            world,
            oracle: Oracle::default(),
            rng,
            blocks: 0,
        };
        rig.geometry = rig.array().geometry;
        rig.blocks = rig.geometry.data_chunks() * u64::from(rig.geometry.chunk_bytes()) / BLOCK;
        rig
    }

    fn candidates(&self) -> Vec<Candidate> {
        let here = |id: &DeviceId| !self.world.device(*id).is_gone();
        let name = |device: DeviceId| Candidate { device, path: format!("m{}", device.0) };
        self.world.devices().into_iter().filter(here).map(name).collect()
    }

    fn array(&self) -> Array {
        let (io, candidates) = (self.world.io(), self.candidates());
        let examined = self.world.block_on(async move { md_arrays::examine(&io, &candidates).await });
        let MdArray { array, .. } = examined.unwrap().unwrap();
        array
    }

    /// The written content, durable or not.
    fn superblock(&self, device: DeviceId) -> Superblock {
        let bytes = self.world.device(device).peek(superblock_at(), SUPERBLOCK_BYTES);
        Superblock::parse(&bytes, superblock_at()).unwrap()
    }

    fn open(&self, access: Access, force: bool) -> Result<Rc<OpenPool>, MdError> {
        let (io, candidates) = (self.world.io(), self.candidates());
        let options = MdOptions { access, force, shards: 2, seconds: 1_700_000_000 };
        self.world
            .block_on(async move {
                let found = md_arrays::discover(&io, &candidates, &options).await?;
                Ok(Rc::new(OpenPool::open_found(io, found, || false).await.unwrap()))
            })
            .unwrap()
    }

    /// Starts the writers, which end after a number of writes, or with the world.
    fn write(&mut self, pool: &Rc<OpenPool>, writes: u64) -> Rc<RefCell<u64>> {
        let left = Rc::new(RefCell::new(WRITERS));
        for writer in 0..WRITERS {
            let (pool, oracle, left) = (Rc::clone(pool), Rc::clone(&self.oracle), Rc::clone(&left));
            let (mut rng, runs) = (
                self.world.rng(&format!("writer {writer} {}", self.rng.bits())),
                self.blocks / RUN / WRITERS,
            );
            self.world.spawn(async move {
                let volume = pool.volume(&pool.control.catalog().names()[0]).unwrap();
                for _ in 0..writes {
                    // Few places, so that they are written again and again.
                    let first = (rng.below(runs.min(24)) * WRITERS + writer) * RUN;
                    let count = rng.between(1, RUN);
                    let mut data = Buf::zeroed((count * BLOCK) as usize);
                    for (i, bytes) in data.bytes_mut().chunks_exact_mut(BLOCK_BYTES).enumerate() {
                        let block = first + i as u64;
                        let mut oracle = oracle.borrow_mut();
                        let known = oracle.entry(block).or_default();
                        known.asked += 1;
                        bytes.copy_from_slice(
                            &(block << 32 | known.asked).to_le_bytes().repeat(BLOCK_BYTES / 8),
                        );
                    }
                    volume.write(first * BLOCK, data, false).await.unwrap();
                    for block in first..first + count {
                        let mut oracle = oracle.borrow_mut();
                        let known = oracle.get_mut(&block).unwrap();
                        known.acked = known.asked;
                    }
                    if rng.chance(0.2) {
                        let own = |block: &u64| block / RUN % WRITERS == writer;
                        let before: Vec<(u64, u64)> = oracle
                            .borrow()
                            .iter()
                            .filter(|(b, _)| own(b))
                            .map(|(b, k)| (*b, k.acked))
                            .collect();
                        volume.flush().await.unwrap();
                        for (block, acked) in before {
                            oracle.borrow_mut().get_mut(&block).unwrap().durable = acked;
                        }
                    }
                }
                *left.borrow_mut() -= 1;
            });
        }
        left
    }

    /// Reads all blocks, and checks that the content of each is legal. From here on it is known.
    fn check_content(&self, pool: &Rc<OpenPool>) {
        let (reader, bytes) = (Rc::clone(pool), self.blocks * BLOCK);
        let read = self.world.block_on(async move {
            let volume = reader.volume(&reader.control.catalog().names()[0]).unwrap();
            volume.read(0, bytes as u32).await
        });
        let parts = read.unwrap().unwrap();
        let content: Vec<u8> = parts.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
        for (block, known) in self.oracle.borrow_mut().iter_mut() {
            let bytes = &content[(block * BLOCK) as usize..][..BLOCK_BYTES];
            let word = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes.chunks(8).all(|part| part == word.to_le_bytes()), "block {block} is torn");
            let version = if word == 0 { 0 } else { word ^ (block << 32) };
            assert!((known.durable..=known.asked).contains(&version), "block {block} has version {version}");
            // Numbers are not used twice: what a crash undid must not be taken for what comes.
            (known.acked, known.durable) = (version, version);
        }
    }

    fn await_resync(&self, pool: &Rc<OpenPool>) {
        let (io, pool) = (self.world.io(), Rc::clone(pool));
        let waited = async move {
            while pool.control.status().await.unwrap().resync_stripes_left > 0 {
                io.sleep(10_000_000).await;
            }
        };
        self.world.block_on(waited).unwrap();
    }

    fn close(&self, pool: &Rc<OpenPool>) {
        let pool = Rc::clone(pool);
        self.world.block_on(async move { pool.control.close().await }).unwrap().unwrap();
    }

    fn chunk(&self, home: Home) -> Vec<u8> {
        let bytes = u64::from(self.geometry.chunk_bytes());
        self.world.device(DeviceId(home.member)).peek(home.chunk * bytes, bytes as usize)
    }

    /// Copies are equal and parity matches data on all members but those given.
    fn check_redundancy(&self, without: &[u32]) {
        let g = self.geometry;
        let mut sums: BTreeMap<(u64, u32), Vec<u8>> = BTreeMap::new();
        for logical in 0..g.data_chunks() {
            let homes: Vec<Home> = g.homes(logical).filter(|home| !without.contains(&home.member)).collect();
            let first = self.chunk(homes[0]);
            assert!(homes.iter().all(|&home| self.chunk(home) == first), "copies of chunk {logical} differ");
            for which in 0..g.parities() {
                let sum = sums.entry((g.stripe_of(logical), which)).or_insert_with(|| vec![0; first.len()]);
                let factor = if which == 0 { 0 } else { g.column_of(logical) };
                sum.iter_mut().zip(&first).for_each(|(sum, &byte)| *sum ^= times_two(byte, factor));
            }
        }
        for ((stripe, which), sum) in sums {
            let home = g.parity(stripe).nth(which as usize).unwrap();
            assert!(matches!(g.role(home), Role::P { .. } | Role::Q { .. }));
            assert!(self.chunk(home) == sum, "parity {which} of stripe {stripe} is wrong");
        }
    }

    fn snapshots(&self) -> Vec<u64> {
        self.world.devices().into_iter().map(|device| self.world.device(device).snapshot()).collect()
    }
}

/// Doubles a number of times, in the field of Q.
fn times_two(byte: u8, times: u32) -> u8 {
    (0..times).fold(byte, |byte, _| byte << 1 ^ if byte & 0x80 != 0 { 0x1d } else { 0 })
}

#[test]
fn nothing_is_written_to_an_array_served_read_only() {
    for (name, level) in levels() {
        let mut rig = Rig::new(3, level);
        let pool = rig.open(Access::ReadWrite, false).unwrap();
        let left = rig.write(&pool, 30);
        rig.world.run_until(|| *left.borrow() == 0).unwrap();
        // Not closed: what is read is an array that md would resync.
        rig.world.crash(CrashPolicy::KeepAll);
        let (before, dirty) = (rig.snapshots(), rig.array().resync_offset);
        assert_eq!(dirty, Some(0), "{name}");
        let pool = rig.open(Access::ReadOnly, false).unwrap();
        rig.check_content(&pool);
        let client = Rc::clone(&pool);
        let refused = rig.world.block_on(async move {
            let volume = client.volume(&client.control.catalog().names()[0]).unwrap();
            volume.write(0, Buf::zeroed(BLOCK_BYTES), false).await
        });
        assert_eq!(refused.unwrap(), Err(VolumeError::ReadOnly));
        rig.world.run_for(2_000_000_000).unwrap();
        rig.world.device(DeviceId(1)).detach(CrashPolicy::KeepAll);
        rig.check_content(&pool);
        rig.close(&pool);
        rig.world.device(DeviceId(1)).attach();
        assert_eq!(rig.snapshots(), before, "{name}");
    }
}

#[test]
fn after_any_crash_an_array_is_resynced_and_has_what_was_flushed() {
    for (name, level) in levels() {
        for seed in 0..8 {
            let mut rig = Rig::new(seed, level);
            for round in 0..4 {
                let pool = rig.open(Access::ReadWrite, false).unwrap();
                rig.check_content(&pool);
                rig.write(&pool, 200);
                let steps = rig.rng.below(4000);
                rig.world.run_steps(steps);
                drop(pool);
                rig.world.crash(CrashPolicy::Random);
                let array = rig.array();
                assert_eq!(array.missing(), 0, "{name}, seed {seed}, round {round}");
                if array.resync_offset.is_none() {
                    rig.check_redundancy(&[]);
                }
            }
            let pool = rig.open(Access::ReadWrite, false).unwrap();
            rig.check_content(&pool);
            rig.await_resync(&pool);
            rig.check_redundancy(&[]);
            rig.check_content(&pool);
            rig.close(&pool);
            assert_eq!(rig.array().resync_offset, None, "{name}, seed {seed}");
        }
    }
}

#[test]
fn an_array_at_rest_is_called_clean_and_a_crash_then_needs_no_resync() {
    for (name, level) in levels() {
        let mut rig = Rig::new(5, level);
        let pool = rig.open(Access::ReadWrite, false).unwrap();
        for _ in 0..3 {
            let left = rig.write(&pool, 20);
            rig.world.run_until(|| *left.borrow() == 0).unwrap();
            rig.world.run_for(1_000_000_000).unwrap();
        }
        // Everything was flushed before it was called clean.
        rig.world.crash(CrashPolicy::DropAll);
        rig.oracle.borrow_mut().values_mut().for_each(|known| known.durable = known.acked);
        assert_eq!(rig.array().resync_offset, None, "{name}");
        rig.check_redundancy(&[]);
        let pool = rig.open(Access::ReadWrite, false).unwrap();
        rig.check_content(&pool);
    }
}

#[test]
fn what_is_called_clean_was_flushed_before() {
    let mut clean = 0;
    for (name, level) in levels() {
        for seed in 0..8 {
            let mut rig = Rig::new(seed, level);
            let pool = rig.open(Access::ReadWrite, false).unwrap();
            let left = rig.write(&pool, 20);
            rig.world.run_until(|| *left.borrow() == 0).unwrap();
            // The first superblock that says so is written, and maybe not durable.
            let devices = rig.world.devices();
            let called = || devices.iter().any(|&device| rig.superblock(device).resync_offset().is_none());
            rig.world.run_until(called).unwrap();
            let more = rig.rng.below(20);
            rig.world.run_steps(more);
            drop(pool);
            rig.world.crash(CrashPolicy::Random);
            if rig.array().resync_offset.is_none() {
                rig.oracle.borrow_mut().values_mut().for_each(|known| known.durable = known.acked);
                rig.check_redundancy(&[]);
                clean += 1;
            }
            let pool = rig.open(Access::ReadWrite, false).unwrap();
            rig.check_content(&pool);
            assert_eq!(rig.array().missing(), 0, "{name}");
        }
    }
    assert!(clean > 8, "{clean}");
}

#[test]
fn a_bitmap_is_out_of_date_once_the_array_was_written() {
    let mut rig = Rig::new(4, levels()[2].1);
    // As after a crash between the writes of bitmap and superblock, and so as far ahead as it gets.
    let counted = rig.array().events + 1;
    let head_at = superblock_at() - 16 * 512;
    for member in (0..4).map(DeviceId) {
        let mut bytes = rig.world.device(member).peek(superblock_at(), SUPERBLOCK_BYTES);
        bytes[8] |= 1;
        bytes[96..100].copy_from_slice(&(-16_i32).to_le_bytes());
        rig.world.device(member).poke(superblock_at(), &with_checksum(bytes));
        let mut head = vec![0; BLOCK as usize];
        head[..4].copy_from_slice(b"bitm");
        head[24..32].copy_from_slice(&counted.to_le_bytes());
        rig.world.device(member).poke(head_at, &head);
    }
    let pool = rig.open(Access::ReadWrite, false).unwrap();
    assert!(rig.array().events < counted, "nothing was written, and the bitmap is as good as ever");
    let left = rig.write(&pool, 1);
    rig.world.run_until(|| *left.borrow() == 0).unwrap();
    assert!(rig.array().events > counted && rig.array().resync_offset == Some(0));
    rig.close(&pool);
    assert!(rig.array().events > counted && rig.array().resync_offset.is_none());
}

#[test]
fn what_must_not_be_written_is_refused_and_can_be_read() {
    let change = |rig: &Rig, device: u32, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = rig.world.device(DeviceId(device)).peek(superblock_at(), SUPERBLOCK_BYTES);
        change(&mut bytes);
        rig.world.device(DeviceId(device)).poke(superblock_at(), &with_checksum(bytes));
    };
    let raid5 = levels()[2].1;
    let recovering = Rig::new(1, raid5);
    change(&recovering, 3, &|bytes| bytes[8] |= 2);
    assert!(matches!(recovering.open(Access::ReadWrite, false), Err(MdError::Recovering { .. })));
    let pool = recovering.open(Access::ReadOnly, false).unwrap();
    assert_eq!(pool.control.config().out(), [false, false, false, true]);

    let reshaping = Rig::new(1, raid5);
    let refused = |access| matches!(reshaping.open(access, true), Err(MdError::Array { .. }));
    (0..4).for_each(|member| change(&reshaping, member, &|bytes| bytes[8] |= 4));
    assert!(refused(Access::ReadWrite) && refused(Access::ReadOnly));

    let two = Rig::new(1, raid5);
    let mut bytes = two.world.device(DeviceId(1)).peek(superblock_at(), SUPERBLOCK_BYTES);
    bytes[144..152].copy_from_slice(&8u64.to_le_bytes());
    two.world.device(DeviceId(1)).poke(4096, &with_checksum(bytes));
    assert!(matches!(two.open(Access::ReadOnly, false), Err(MdError::TwoBlocks(_))));

    let few = Rig::new(1, raid5);
    few.world.device(DeviceId(0)).detach(CrashPolicy::KeepAll);
    few.world.device(DeviceId(1)).detach(CrashPolicy::KeepAll);
    let missing = few.open(Access::ReadOnly, false);
    assert!(matches!(missing, Err(MdError::TooFewMembers { missing: 2, members: 4, .. })));
}

#[test]
fn a_member_that_missed_writes_is_not_taken_back() {
    for (name, level) in levels() {
        for seed in 0..4 {
            let mut rig = Rig::new(seed, level);
            let pool = rig.open(Access::ReadWrite, false).unwrap();
            let left = rig.write(&pool, 60);
            let steps = rig.rng.below(1500);
            rig.world.run_steps(steps);
            rig.world.device(DeviceId(2)).detach(CrashPolicy::Random);
            rig.world.run_until(|| *left.borrow() == 0).unwrap();
            rig.check_content(&pool);
            // The power fails before anything is called clean.
            let crash = rig.rng.chance(0.5);
            if crash {
                rig.world.crash(CrashPolicy::KeepAll);
            } else {
                rig.close(&pool);
                drop(pool);
                rig.world.kill_process();
            }
            rig.world.device(DeviceId(2)).attach();
            let array = rig.array();
            assert!(array.seats[2].is_none(), "{name}, seed {seed}: {array:?}");
            assert_eq!(array.missing(), 1, "{name}, seed {seed}");
            if rig.geometry.parities() > 0 && crash {
                assert!(matches!(rig.open(Access::ReadWrite, false), Err(MdError::DirtyDegraded(_))));
            }
            let pool = rig.open(Access::ReadWrite, crash).unwrap();
            rig.check_content(&pool);
            let left = rig.write(&pool, 30);
            rig.world.run_until(|| *left.borrow() == 0).unwrap();
            rig.check_content(&pool);
            rig.close(&pool);
        }
    }
}

#[test]
fn a_member_that_was_away_for_a_while_is_not_taken_back() {
    for (name, level) in levels() {
        let mut rig = Rig::new(9, level);
        rig.world.device(DeviceId(0)).detach(CrashPolicy::KeepAll);
        let pool = rig.open(Access::ReadWrite, false).unwrap();
        // One write is enough.
        let left = rig.write(&pool, 1);
        rig.world.run_until(|| *left.borrow() == 0).unwrap();
        rig.world.crash(CrashPolicy::KeepAll);
        rig.world.device(DeviceId(0)).attach();
        let array = rig.array();
        assert!(array.seats[0].is_none(), "{name}");
        // Not only do the others say so: it is two events behind, which md goes by.
        let old = rig.superblock(DeviceId(0));
        assert!(old.events() + 2 <= array.events, "{name}");
    }
}
