//! The journal and the background work of an array beside slow members, damaged members and busy clients.

use std::cell::Cell;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::SUPERBLOCK_AREA_BYTES;
use sinew_layout::{Level, Rotation};
use sinew_members::latency::SpikeAvoidance;
use sinew_sim::{DeviceConfig, OpenPool, World};

const MEMBER_BYTES: u64 = 32 << 20;
const RING_BLOCKS: u32 = 2048;
const RAID5: Level = Level::Raid5(Rotation::LeftSymmetric);

fn candidates(world: &World, count: usize) -> Vec<Candidate> {
    let candidate = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("m{i}"),
    };
    (0..count).map(candidate).collect()
}

fn spec(level: Level, journal: bool) -> PoolSpec {
    let kind = PoolKind::Array(ArraySpec {
        level,
        chunk_bytes: 65536,
        journal,
        spares: 0,
        zeroed: true,
        elastic: None,
    });
    PoolSpec {
        name: "v".to_owned(),
        kind,
        shards: 1,
        journal_blocks: Some(RING_BLOCKS),
        force: false,
        physical: None,
    }
}

fn content(block: u64) -> Buf {
    Buf::copy_of(&[(block * 7 + block / 251) as u8; BLOCK_BYTES])
}

/// The members that are left have each one unreadable block in their rings, in which no group lies.
#[test]
fn an_unreadable_block_of_a_ring_costs_itself_alone() {
    const BLOCKS: u64 = 40;
    let world = World::new(1);
    let members = candidates(&world, 3);
    let (io, all) = (world.io(), members.clone());
    let writing = async move {
        pool::create(&io, &all, &spec(RAID5, true)).await.unwrap();
        let open = OpenPool::open(io.clone(), all, || false).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        for block in 0..BLOCKS {
            volume.write(block * BLOCK_BYTES as u64, content(block), true).await.unwrap();
        }
    };
    world.block_on(writing).unwrap();
    world.kill_process();
    let unused = SUPERBLOCK_AREA_BYTES + 250 * BLOCK_BYTES as u64;
    for member in &members[..2] {
        let device = world.device(member.device);
        assert!(device.peek(unused, BLOCK_BYTES).iter().all(|&byte| byte == 0), "no group lies there");
        device.spoil(unused..unused + BLOCK_BYTES as u64);
    }
    let io = world.io();
    let reading = async move {
        let open = OpenPool::open(io, members[..2].to_vec(), || true).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        for block in 0..BLOCKS {
            let read = volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
            assert_eq!(read[0].bytes(), content(block).bytes(), "block {block}");
        }
    };
    world.block_on(reading).unwrap();
}

/// The longest of `writes` writes that begin while a member stalls, in an array with a journal.
fn longest_write_in_a_spike(level: Level, mode: SpikeAvoidance, writes: u64) -> u64 {
    const SPIKE_NS: u64 = 50_000_000;
    let world = World::new(1);
    let members = candidates(&world, 6);
    let (io, held_up) = (world.io(), world.device(members[0].device));
    let writing = async move {
        pool::create(&io, &members, &spec(level, true)).await.unwrap();
        let open = OpenPool::open(io.clone(), members.clone(), || false).await.ok().unwrap();
        open.control.set_spike_avoidance(mode).await;
        let volume = open.volume("v").unwrap();
        let block = |i: u64| i * 37 % (volume.size_bytes() / BLOCK_BYTES as u64);
        for i in 0..u64::from(RING_BLOCKS) {
            volume.write(block(i) * BLOCK_BYTES as u64, content(block(i)), false).await.unwrap();
        }
        held_up.hold_up(SPIKE_NS);
        let mut longest = 0;
        for i in 0..writes {
            let began = io.now();
            volume.write(block(i) * BLOCK_BYTES as u64, content(block(i) + 1), false).await.unwrap();
            longest = longest.max(io.now() - began);
        }
        for i in 0..writes {
            let read = volume.read(block(i) * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
            assert_eq!(read[0].bytes(), content(block(i) + 1).bytes(), "block {}", block(i));
        }
        longest
    };
    world.block_on(writing).unwrap()
}

#[test]
fn the_journal_of_an_array_avoids_a_member_in_a_spike() {
    let levels = [
        RAID5,
        Level::Raid6(Rotation::LeftSymmetric),
        Level::Raid50 { groups: 2, rotation: Rotation::LeftSymmetric },
    ];
    for level in levels {
        let longest = |mode| longest_write_in_a_spike(level, mode, 100);
        let (off, auto) = (longest(SpikeAvoidance::Off), longest(SpikeAvoidance::Auto));
        assert!(off > 40_000_000, "{level}: {off} ns without avoidance");
        assert!(auto < 5_000_000, "{level}: {auto} ns");
    }
}

/// Bytes per second that a scrub reads on each member, and the clients' reads in that time.
fn scrub_rate(with_clients: bool) -> u64 {
    const SPAN_NS: u64 = 200_000_000;
    let world = World::new(1);
    let members = candidates(&world, 4);
    let io = world.io();
    let scrubbing = async move {
        pool::create(&io, &members, &spec(RAID5, false)).await.unwrap();
        let open = OpenPool::open(io.clone(), members.clone(), || false).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        let blocks = volume.size_bytes() / BLOCK_BYTES as u64;
        open.control.scrub(true).await.unwrap();
        let (began, reads) = (io.now(), Cell::new(0u64));
        while io.now() < began + SPAN_NS {
            let left = open.control.status().await.unwrap().scrub_stripes_left;
            if left.is_none() {
                break;
            }
            if with_clients {
                for _ in 0..8 {
                    let block = reads.get() * 37 % blocks;
                    volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
                    reads.set(reads.get() + 1);
                }
            } else {
                io.sleep(1_000_000).await;
            }
        }
        let ns = io.now() - began;
        let stripes = open.control.status().await.unwrap().counters.stripes_scrubbed;
        stripes * 65536 * 1_000_000_000 / ns
    };
    world.block_on(scrubbing).unwrap()
}

/// FusionRAID (FAST '21, section 5.5): background work moves at most 40 MB/s on a drive beside clients.
#[test]
fn background_work_of_an_array_yields_to_clients() {
    let (alone, beside) = (scrub_rate(false), scrub_rate(true));
    assert!(alone > 100_000_000, "{alone} bytes per second without clients");
    assert!(beside < 50_000_000, "{beside} bytes per second beside clients");
}
