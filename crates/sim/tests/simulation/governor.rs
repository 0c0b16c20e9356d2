//! The governor of an elastic array: forms follow physical use, heat and compressibility, and come to rest.
//!
//! Scenarios that show deliberate defects say what is wrong instead of panicking.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::form::Elastic;
use sinew_layout::{Level, Rotation};
use sinew_members::status::ShardStatus;
use sinew_sim::{DeviceConfig, Lengths, OpenPool, Rng, World};

const MEMBERS: usize = 4;
const COLUMNS: u64 = MEMBERS as u64 - 1;
const BLOCK: u64 = BLOCK_BYTES as u64;
const MEMBER_BYTES: u64 = 96 << 20;
const SECOND_NS: u64 = 1_000_000_000;

/// An open elastic array with chunks of a block, on members that compress.
struct Array {
    world: World,
    candidates: Vec<Candidate>,
    pool: OpenPool,
}

impl Array {
    /// All members have this much physical space.
    fn new(physical: u64) -> Array {
        let world = World::new(11);
        let candidates: Vec<Candidate> = (0..MEMBERS)
            .map(|i| {
                let device = world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES));
                world.device(device).set_compressing(physical, Lengths::Lz4);
                Candidate { device, path: format!("d{i}") }
            })
            .collect();
        let kind = PoolKind::Array(ArraySpec {
            level: Level::Raid5(Rotation::LeftSymmetric),
            chunk_bytes: BLOCK_BYTES as u32,
            journal: true,
            spares: 0,
            zeroed: true,
            elastic: Some(Elastic::BY_ADDRESSES),
        });
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
        let (io, members) = (world.io(), candidates.clone());
        let pool = world.block_on(OpenPool::open(io, members, || false)).unwrap().unwrap();
        Array { world, candidates, pool }
    }

    fn set_policy(&self, policy: ElasticPolicy) {
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.set_elastic_policy(policy).await }).unwrap().unwrap();
    }

    fn blocks(&self) -> u64 {
        self.pool.volume("v0").unwrap().size_bytes() / BLOCK
    }

    /// Writes blocks with the content of their numbers, and flushes.
    fn fill(&self, blocks: u64, content: fn(u64) -> Buf) {
        for first in 0..16 {
            let volume = self.pool.volume("v0").unwrap();
            self.world.spawn(async move {
                for block in (first..blocks).step_by(16) {
                    volume.write(block * BLOCK, content(block), false).await.expect("there is space");
                }
            });
        }
        self.world.run_for(20 * SECOND_NS).unwrap();
        let volume = self.pool.volume("v0").unwrap();
        self.world.block_on(async move { volume.flush().await }).unwrap().unwrap();
    }

    /// Reads blocks that `draw` chooses, about 200 in a second, for some seconds.
    fn read_for(&self, seconds: u64, draw: impl Fn(&mut Rng) -> u64 + 'static) {
        let (volume, io) = (self.pool.volume("v0").unwrap(), self.world.io());
        let mut rng = Rng::stream(3, "reads", self.world.now());
        self.world.spawn(async move {
            for _ in 0..seconds * 200 {
                volume.read(draw(&mut rng) * BLOCK, BLOCK as u32).await.expect("a readable block");
                sinew_core::io::Io::sleep(&io, SECOND_NS / 200).await;
            }
        });
        self.world.run_for(seconds * SECOND_NS).unwrap();
    }

    fn status(&self) -> ShardStatus {
        let control = Rc::clone(&self.pool.control);
        self.world.block_on(async move { control.status().await }).unwrap().unwrap()
    }

    fn used(&self) -> u64 {
        self.candidates.iter().map(|candidate| self.world.device(candidate.device).physical_used()).sum()
    }

    fn set_physical(&self, bytes: u64) {
        for candidate in &self.candidates {
            self.world.device(candidate.device).set_physical(bytes);
        }
    }

    /// The share of reads of these blocks that find a mirrored stripe now.
    fn hits(&self, seconds: u64, draw: impl Fn(&mut Rng) -> u64 + 'static) -> f64 {
        // Those seen so far are forgotten after a minute.
        self.read_for(seconds.max(70), draw);
        let governor = self.status().governor;
        governor.hits as f64 / governor.requests.max(1) as f64
    }
}

/// A block whose data compresses to about a half, at a place of its own, so that parity compresses badly.
fn half_random(block: u64) -> Buf {
    let mut rng = Rng::stream(5, "content", block);
    let mut buf = Buf::zeroed(BLOCK_BYTES);
    let from = rng.below(BLOCK / 2) as usize;
    let bytes = buf.bytes_mut();
    bytes.fill(0x5a);
    for chunk in bytes[from..from + BLOCK_BYTES / 2].chunks_exact_mut(8) {
        chunk.copy_from_slice(&rng.bits().to_le_bytes());
    }
    buf
}

/// A block that repeats some bytes, in another period than its neighbours: they compress very well, their parity does not.
fn periodic(block: u64) -> Buf {
    let mut rng = Rng::stream(6, "content", block);
    let period = [251, 257, 263][(block % 3) as usize];
    let motif: Vec<u8> = (0..period).map(|_| rng.bits() as u8).collect();
    let mut buf = Buf::zeroed(BLOCK_BYTES);
    buf.bytes_mut().iter_mut().zip(motif.iter().cycle()).for_each(|(byte, from)| *byte = *from);
    buf
}

const POLICY: ElasticPolicy = ElasticPolicy { low: 94, high: 96, ..ElasticPolicy::DEFAULT };

/// Stripes that became mirrored or got parity so far.
fn converted(status: &ShardStatus) -> u64 {
    status.counters.stripes_promoted + status.counters.stripes_demoted
}

fn share(status: &ShardStatus) -> f64 {
    status.stripes_mirrored as f64 / (status.stripes_mirrored + status.stripes_parity) as f64
}

/// Bytes that a stripe takes with parity, and mirrored, on average of some stripes.
fn stripe_bytes(content: fn(u64) -> Buf) -> (f64, f64) {
    let length = |bytes: &[u8]| match lz4_flex::block::compress(bytes).len() {
        length if length <= BLOCK_BYTES * 4 / 5 => length as f64,
        _ => BLOCK as f64,
    };
    let (mut with_parity, mut mirrored) = (0.0, 0.0);
    const STRIPES: u64 = 200;
    for stripe in 0..STRIPES {
        let columns: Vec<Buf> = (0..COLUMNS).map(|column| content(stripe * COLUMNS + column)).collect();
        let mut parity = vec![0; BLOCK_BYTES];
        for column in &columns {
            parity.iter_mut().zip(column.bytes()).for_each(|(parity, byte)| *parity ^= byte);
        }
        let data: f64 = columns.iter().map(|column| length(column.bytes())).sum();
        with_parity += data + length(&parity);
        mirrored += 2.0 * data;
    }
    (with_parity / STRIPES as f64, mirrored / STRIPES as f64)
}

/// Gives the members, which hold stripes with parity alone, space for the copies of this part of them. Then that is the share of
/// the closed form of figures 9 to 11, with the measured lengths of data and parity, at the lower limit of the policy.
fn make_room_for(array: &Array, part: f64) {
    let (with_parity, mirrored) = stripe_bytes(half_random);
    let used = array.used() as f64 + array.status().stripes_parity as f64 * part * (mirrored - with_parity);
    array.set_physical((used / f64::from(POLICY.low) * 100.0) as u64 / MEMBERS as u64);
}

#[test]
fn the_share_that_the_governor_finds_is_that_of_the_closed_form() {
    for part in [0.25, 0.6, 0.9] {
        let array = Array::new(MEMBER_BYTES);
        array.set_policy(ElasticPolicy { governed: false, ..POLICY });
        let blocks = array.blocks();
        array.fill(blocks, half_random);
        // The log holds clients' data; while the governor works it holds what conversions leave there, which takes less space.
        for share in [20, 0] {
            array.set_policy(ElasticPolicy::pinned(share));
            array.world.run_for(60 * SECOND_NS).unwrap();
        }
        array.set_policy(ElasticPolicy { governed: false, ..POLICY });
        assert_eq!(array.status().stripes_parity, blocks / COLUMNS, "all stripes have parity at first");
        make_room_for(&array, part);
        array.set_policy(POLICY);
        array.read_for(120, move |rng| rng.below(blocks));
        let found = share(&array.status());
        assert!((found - part).abs() < 0.05, "the governor finds {found}, the closed form gives {part}");
    }
}

/// A uniform load comes to rest: hardly any stripe is converted after some minutes.
pub(crate) fn uniform_load_rests() -> Result<(), String> {
    let array = Array::new(MEMBER_BYTES);
    array.set_policy(ElasticPolicy { governed: false, ..POLICY });
    let blocks = array.blocks() / 2;
    array.fill(blocks, half_random);
    array.set_physical(array.used() / MEMBERS as u64 * 100 / 85);
    array.set_policy(POLICY);
    array.read_for(300, move |rng| rng.below(blocks));
    let at_first = array.status();
    if !(0.05..0.95).contains(&share(&at_first)) {
        return Err(format!("a share of {} leaves nothing to exchange", share(&at_first)));
    }
    array.read_for(300, move |rng| rng.below(blocks));
    let later = converted(&array.status()) - converted(&at_first);
    let stripes = at_first.stripes_mirrored + at_first.stripes_parity;
    match later * 4 <= stripes {
        true => Ok(()),
        false => {
            Err(format!("{later} of {stripes} stripes were converted in five minutes of a uniform load"))
        }
    }
}

#[test]
fn a_uniform_load_comes_to_rest() {
    uniform_load_rests().unwrap();
}

#[test]
fn hot_stripes_end_mirrored() {
    let array = Array::new(MEMBER_BYTES);
    array.set_policy(ElasticPolicy { governed: false, ..POLICY });
    let blocks = array.blocks();
    array.fill(blocks, half_random);
    make_room_for(&array, 0.3);
    array.set_policy(POLICY);
    // Three of ten stripes become mirrored under a uniform load, whichever they are.
    array.read_for(100, move |rng| rng.below(blocks));
    let uniform = share(&array.status());
    assert!((0.2..0.4).contains(&uniform), "{uniform}");
    // Then four of five requests go to a fifth of the volume.
    let skewed = move |rng: &mut Rng| match rng.chance(0.8) {
        true => blocks / 2 + rng.below(blocks / 5),
        false => rng.below(blocks),
    };
    array.read_for(600, skewed);
    let hits = array.hits(70, skewed);
    assert!(hits > 0.7, "{hits} of the requests find a mirrored stripe, of which there are {uniform}");
}

#[test]
fn pressure_takes_copies_of_cold_stripes_first() {
    let array = Array::new(MEMBER_BYTES);
    let blocks = array.blocks() / 2;
    array.set_policy(ElasticPolicy::pinned(100));
    array.fill(blocks, half_random);
    assert_eq!(share(&array.status()), 1.0);
    array.set_policy(ElasticPolicy { mirrored_share: None, low: 50, high: 60, ..POLICY });
    let hot = move |rng: &mut Rng| blocks / 3 + rng.below(blocks / 4);
    array.read_for(20, hot);
    // Another tenant takes space: copies of some stripes have to go. The reserve, a quarter of the space here, is left.
    array.set_physical(array.used() / MEMBERS as u64 * 100 / 65);
    array.read_for(30, hot);
    let status = array.status();
    assert!((0.3..0.95).contains(&share(&status)), "{}", share(&status));
    assert!(array.hits(70, hot) > 0.9, "{:?}", status.governor);
}

/// Writes that the credit has no room for get the space of copies, also where the use is below the upper limit.
#[test]
fn writes_get_the_space_of_copies_below_the_upper_limit() {
    let array = Array::new(MEMBER_BYTES);
    array.set_policy(ElasticPolicy::pinned(100));
    array.fill(6000, half_random);
    assert_eq!(share(&array.status()), 1.0);
    array.set_physical(array.used() / MEMBERS as u64 + (5 << 18));
    array.set_policy(ElasticPolicy { mirrored_share: None, low: 97, high: 99, ..POLICY });
    // The figures of the members come once a second.
    array.world.run_for(3 * SECOND_NS).unwrap();
    let (volume, io) = (array.pool.volume("v0").unwrap(), array.world.io());
    let written = Rc::new(Cell::new(0));
    let so_far = Rc::clone(&written);
    array.world.spawn(async move {
        for block in 0..500 {
            let mut buf = Buf::zeroed(BLOCK_BYTES);
            let mut rng = Rng::stream(6, "incompressible", block);
            buf.bytes_mut()
                .chunks_exact_mut(8)
                .for_each(|word| word.copy_from_slice(&rng.bits().to_le_bytes()));
            while volume.write(block * BLOCK, buf.clone(), false).await.is_err() {
                sinew_core::io::Io::sleep(&io, SECOND_NS / 10).await;
            }
            so_far.set(block + 1);
        }
    });
    array.world.run_for(60 * SECOND_NS).unwrap();
    let status = array.status();
    assert_eq!(written.get(), 500, "{status:?}");
    // Copies gave way to the reserve, of which the members lacked nearly a half, and to the writes.
    assert!((0.1..0.9).contains(&share(&status)), "{}", share(&status));
}

/// Stripes whose parity takes more space than their copies become mirrored, and pressure does not take that back.
pub(crate) fn demotion_never_grows() -> Result<(), String> {
    let array = Array::new(MEMBER_BYTES);
    let blocks = array.blocks() / 4;
    array.set_policy(ElasticPolicy { autonomous_period_s: 5, ..POLICY });
    array.fill(blocks, periodic);
    array.read_for(90, move |rng| rng.below(blocks));
    let before = array.used();
    if share(&array.status()) < 0.99 {
        return Err(format!("{} of the stripes are mirrored", share(&array.status())));
    }
    // All space is in use.
    array.set_physical(before / MEMBERS as u64 * 101 / 100);
    array.read_for(60, move |rng| rng.below(blocks));
    match array.used() {
        after if after <= before => Ok(()),
        after => Err(format!("under pressure the use grew from {before} to {after} bytes")),
    }
}

#[test]
fn stripes_that_take_less_space_mirrored_stay_so() {
    demotion_never_grows().unwrap();
}

#[test]
fn a_policy_is_kept_and_an_array_at_rest_does_nothing() {
    let array = Array::new(MEMBER_BYTES);
    let policy = ElasticPolicy { low: 40, high: 50, convert_rate: 1 << 20, ..ElasticPolicy::DEFAULT };
    array.set_policy(policy);
    array.fill(300, half_random);
    // Without requests the world comes to an end by itself.
    let ended = Rc::new(Cell::new(false));
    let never = Rc::clone(&ended);
    assert!(array.world.run_until(move || never.get()).is_err(), "nothing happens any more");
    let Array { world, candidates, pool } = array;
    drop(pool);
    world.kill_process();
    let pool = world.block_on(OpenPool::open(world.io(), candidates, || false)).unwrap().unwrap();
    assert_eq!(pool.control.elastic_policy(), policy);
}
