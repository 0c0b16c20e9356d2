//! Arrays in which a failure happens at the worst time.
//!
//! The scenario that shows a deliberate defect says what is wrong instead of panicking.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::config::MemberState;
use sinew_format::superblock::{SLOT_BYTES, SLOT_OFFSETS, Superblock};
use sinew_layout::{Level, Rotation};
use sinew_members::latency::SpikeAvoidance;
use sinew_members::throttle::Limits;
use sinew_sim::{DeviceConfig, DeviceFaults, Latency, OpenPool, World};

const MEMBER_BYTES: u64 = 8 << 20;
const LOOK_NS: u64 = 10_000_000;

fn candidates(world: &World, count: usize) -> Vec<Candidate> {
    let candidate = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("m{i}"),
    };
    (0..count).map(candidate).collect()
}

fn spec(level: Level) -> PoolSpec {
    let array =
        ArraySpec { level, chunk_bytes: 65536, journal: true, spares: 0, zeroed: false, elastic: None };
    let kind = PoolKind::Array(array);
    PoolSpec { name: "v".to_owned(), kind, shards: 1, journal_blocks: Some(512), force: true, physical: None }
}

/// A new member first gets the configuration by which it is known, before the others do. That configuration must survive a
/// torn write of the next one, which makes the device a member.
#[test]
fn a_new_member_has_two_superblocks_in_two_places() {
    for (level, method, added) in [
        (Level::Raid10 { copies: 2 }, GrowMethod::FastScale, 2),
        (Level::Raid5(Rotation::LeftSymmetric), GrowMethod::Spread, 1),
    ] {
        let world = World::new(1);
        let members = candidates(&world, 4 + added);
        let io = world.io();
        let growing = async move {
            pool::create(&io, &members[..4], &spec(level)).await.unwrap();
            let open = OpenPool::open(io.clone(), members[..4].to_vec(), || false).await.ok().unwrap();
            open.control.grow(&members[4..], Some(method), false).await.unwrap();
            for member in &members[4..] {
                let mut generations = Vec::new();
                for offset in SLOT_OFFSETS {
                    let (buf, read) = io.read(member.device, offset, Buf::stale(SLOT_BYTES)).await;
                    read.unwrap();
                    generations.extend(Superblock::decode(buf.bytes()).map(|found| found.config.generation));
                }
                assert_eq!(generations.len(), 2, "one copy is overwritten by the next: {generations:?}");
            }
        };
        world.block_on(growing).unwrap();
    }
}

/// Members with arbitrary content, one of which is out during the first resync: P and Q must still agree with each other.
#[test]
fn a_first_resync_with_a_member_out_makes_p_and_q_agree() {
    let world = World::new(1);
    let members = candidates(&world, 5);
    let io = world.io();
    let living = async move {
        for (i, member) in members.iter().enumerate() {
            let content: Vec<u8> = (0..MEMBER_BYTES)
                .map(|at| ((at + i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
                .collect();
            io.write(member.device, 0, Rc::new([Buf::copy_of(&content)])).await.unwrap();
        }
        pool::create(&io, &members, &spec(Level::Raid6(Rotation::LeftSymmetric))).await.unwrap();
        let open = OpenPool::open(io.clone(), members.clone(), || false).await.ok().unwrap();
        let control = Rc::clone(&open.control);
        let bound = |bytes_per_second| Limits { bytes_per_second, pause_above_iops: 0 };
        control.throttle(bound(1 << 20)).await;
        control.offline(1).await.unwrap();
        control.throttle(bound(0)).await;
        while control.status().await.unwrap().resync_stripes_left > 0 {
            io.sleep(LOOK_NS).await;
        }
        let volume = open.volume("v").unwrap();
        for block in (0..volume.size_bytes() / BLOCK_BYTES as u64).step_by(7) {
            let content = Buf::copy_of(&[block as u8; BLOCK_BYTES]);
            volume.write(block * BLOCK_BYTES as u64, content, false).await.unwrap();
        }
        volume.flush().await.unwrap();
        control.online(1, members[1].clone()).await.unwrap();
        while control.status().await.unwrap().rebuild_chunks_left > 0 {
            io.sleep(LOOK_NS).await;
        }
        control.scrub(true).await.unwrap();
        while control.status().await.unwrap().scrub_stripes_left.is_some() {
            io.sleep(LOOK_NS).await;
        }
        let counters = control.status().await.unwrap().counters;
        assert_eq!((counters.scrub_errors, counters.scrub_unrepaired), (0, 0));
    };
    world.block_on(living).unwrap();
}

/// A member returns while another one has blocks that cannot be read: all regions but those of these blocks are rebuilt, and the
/// other member stays, however often they are read.
#[test]
fn a_rebuild_passes_over_what_cannot_be_read() {
    /// Two chunks, which hold a whole one wherever chunks begin.
    const BAD_BLOCKS: std::ops::Range<u64> = 1000..1032;
    /// Chunks of a member in two regions of a small array.
    const CHUNKS_LEFT_MAX: u64 = 16;
    const LOOKS: u32 = 1000;
    let world = World::new(1);
    let mut members = candidates(&world, 4);
    let faults = DeviceFaults { latent_error: 1.0, ..DeviceFaults::default() };
    let faulty = DeviceConfig { faults, ..DeviceConfig::of_bytes(MEMBER_BYTES) };
    members[0].device = world.add_device(faulty);
    let bad = BAD_BLOCKS.start * BLOCK_BYTES as u64..BAD_BLOCKS.end * BLOCK_BYTES as u64;
    let io = world.io();
    let (started, device) = (members.clone(), members[0].device);
    let open = world
        .block_on(async move {
            pool::create(&io, &started, &spec(Level::Raid5(Rotation::LeftSymmetric))).await.unwrap();
            let open = OpenPool::open(io.clone(), started.clone(), || false).await.ok().unwrap();
            open.control.offline(1).await.unwrap();
            let volume = open.volume("v").unwrap();
            for block in 0..volume.size_bytes() / BLOCK_BYTES as u64 {
                let content = Buf::copy_of(&[block as u8; BLOCK_BYTES]);
                volume.write(block * BLOCK_BYTES as u64, content, false).await.unwrap();
            }
            volume.flush().await.unwrap();
            open
        })
        .unwrap();
    world.allow_corruption(device, bad);
    let (io, path) = (world.io(), members[1].clone());
    let living = async move {
        let volume = open.volume("v").unwrap();
        let blocks = volume.size_bytes() / BLOCK_BYTES as u64;
        open.control.online(1, path).await.unwrap();
        for _ in 0..LOOKS {
            io.sleep(LOOK_NS).await;
        }
        let status = open.control.status().await.unwrap();
        let left = status.rebuild_chunks_left as u64;
        assert!((1..=CHUNKS_LEFT_MAX).contains(&left), "{left} chunks are left to rebuild");
        assert!(status.members[0].read_errors > 64, "{} read errors", status.members[0].read_errors);
        assert!(open.control.config().members.iter().all(|member| member.state == MemberState::Active));
        let mut lost = Vec::new();
        for block in 0..blocks {
            match volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await {
                Ok(read) => assert_eq!(read[0].bytes(), [block as u8; BLOCK_BYTES], "block {block}"),
                Err(_) => lost.push(block),
            }
        }
        let most = 2 * (BAD_BLOCKS.end - BAD_BLOCKS.start) as usize;
        assert!(
            (1..=most).contains(&lost.len()),
            "what is in bad blocks, or is computed from them: {lost:?}"
        );
    };
    world.block_on(living).unwrap();
}

/// The longest read of any block while a member stalls. Every read must return the written data.
fn longest_read_in_a_spike(level: Level, mode: SpikeAvoidance) -> u64 {
    const SPIKE_NS: u64 = 50_000_000;
    let world = World::new(1);
    let members = candidates(&world, 6);
    let (io, held_up) = (world.io(), world.device(members[0].device));
    let array =
        ArraySpec { level, chunk_bytes: 65536, journal: false, spares: 0, zeroed: true, elastic: None };
    let spec = PoolSpec { kind: PoolKind::Array(array), ..spec(level) };
    let reading = async move {
        pool::create(&io, &members, &spec).await.unwrap();
        let open = OpenPool::open(io.clone(), members.clone(), || false).await.ok().unwrap();
        open.control.set_spike_avoidance(mode).await;
        let volume = open.volume("v").unwrap();
        let blocks = volume.size_bytes() / BLOCK_BYTES as u64;
        let content = |block: u64| Buf::copy_of(&[(block * 7 + block / 251) as u8; BLOCK_BYTES]);
        for block in 0..blocks {
            volume.write(block * BLOCK_BYTES as u64, content(block), false).await.unwrap();
        }
        held_up.hold_up(SPIKE_NS);
        let mut longest = 0;
        for block in 0..blocks {
            let began = io.now();
            let read = volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
            longest = longest.max(io.now() - began);
            assert_eq!(read[0].bytes(), content(block).bytes(), "block {block}");
        }
        longest
    };
    world.block_on(reading).unwrap()
}

#[test]
fn reads_step_around_a_member_in_a_spike() {
    for level in [
        Level::Raid5(Rotation::LeftSymmetric),
        Level::Raid6(Rotation::LeftSymmetric),
        Level::Raid50 { groups: 2, rotation: Rotation::LeftSymmetric },
        Level::Raid10 { copies: 2 },
    ] {
        let longest = |mode| longest_read_in_a_spike(level, mode);
        let (off, auto) = (longest(SpikeAvoidance::Off), longest(SpikeAvoidance::Auto));
        assert!(off > 40_000_000, "{level}: {off} ns without stepping around");
        assert!(auto < 5_000_000, "{level}: {auto} ns");
    }
    let nothing_to_do = longest_read_in_a_spike(Level::Raid0, SpikeAvoidance::Auto);
    assert!(nothing_to_do > 40_000_000, "without redundancy: {nothing_to_do} ns");
}

/// Members with arbitrary content that are made an array of four, which then grows by two: the stripes resynced by then, and the
/// errors that a scrub finds.
fn resynced_after_growth(level: Level, method: GrowMethod) -> (u64, u64) {
    let world = World::new(1);
    let members = candidates(&world, 6);
    let io = world.io();
    let array =
        ArraySpec { level, chunk_bytes: 65536, journal: false, spares: 0, zeroed: false, elastic: None };
    let spec = PoolSpec { kind: PoolKind::Array(array), ..spec(level) };
    let living = async move {
        for (i, member) in members.iter().enumerate() {
            let content = Buf::copy_of(&vec![i as u8 + 1; MEMBER_BYTES as usize]);
            io.write(member.device, 0, Rc::new([content])).await.unwrap();
        }
        pool::create(&io, &members[..4], &spec).await.unwrap();
        let open = OpenPool::open(io.clone(), members[..4].to_vec(), || false).await.ok().unwrap();
        let control = Rc::clone(&open.control);
        let volume = open.volume("v").unwrap();
        let before = volume.size_bytes() / BLOCK_BYTES as u64;
        let content = |block: u64| Buf::copy_of(&[(block * 7 + block / 251) as u8; BLOCK_BYTES]);
        for block in 0..before {
            volume.write(block * BLOCK_BYTES as u64, content(block), false).await.unwrap();
        }
        control.grow(&members[4..], Some(method), true).await.unwrap();
        while volume.size_bytes() / BLOCK_BYTES as u64 == before
            || control.status().await.unwrap().resync_stripes_left > 0
        {
            io.sleep(LOOK_NS).await;
        }
        // Long enough for work that a status does not show.
        io.sleep(100 * LOOK_NS).await;
        for block in 0..before {
            let read = volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
            assert_eq!(read[0].bytes(), content(block).bytes(), "block {block}");
        }
        let resynced = control.status().await.unwrap().counters.stripes_resynced;
        control.scrub(true).await.unwrap();
        while control.status().await.unwrap().scrub_stripes_left.is_some() {
            io.sleep(LOOK_NS).await;
        }
        let counters = control.status().await.unwrap().counters;
        (resynced, counters.scrub_errors + counters.scrub_unrepaired)
    };
    world.block_on(living).unwrap()
}

/// Where there is nothing to match, a resync would read and write all that is new for nothing, beside clients. Copies on members
/// that held other content must be made to match.
#[test]
fn only_redundancy_is_resynced_after_a_growth() {
    for method in [GrowMethod::FastScale, GrowMethod::RoundRobin] {
        assert_eq!(resynced_after_growth(Level::Raid0, method), (0, 0), "{method:?}");
        let (resynced, wrong) = resynced_after_growth(Level::Raid10 { copies: 2 }, method);
        assert!(resynced > 0 && wrong == 0, "{method:?}: {resynced} stripes resynced, {wrong} wrong");
    }
}

/// For mutations: a growth puts nothing on a member that is still to be rebuilt there. A mirror grows by a pair, one of which is
/// replaced before any stripe has a copy there, and the other one goes: every block can be read all the time.
pub(crate) fn growth_awaits_the_rebuild_of_new_members() -> Result<(), String> {
    const FIRST: usize = 4;
    const GOES: usize = 4;
    const STALE: usize = 5;
    /// The rebuild flushes the new device for each region, which takes it longer than the growth.
    const FLUSH_NS: u64 = 20_000_000;
    const PAUSE_NS: u64 = 1_000_000_000;
    let world = World::new(1);
    let members = candidates(&world, FIRST + 2);
    let latency = Latency { flush_ns: FLUSH_NS, ..Latency::default() };
    let device = world.add_device(DeviceConfig { latency, ..DeviceConfig::of_bytes(MEMBER_BYTES) });
    let replacement = Candidate { device, path: "new".to_owned() };
    let io = world.io();
    let level = Level::Raid10 { copies: 2 };
    let array =
        ArraySpec { level, chunk_bytes: 4096, journal: false, spares: 0, zeroed: true, elastic: None };
    let spec = PoolSpec { kind: PoolKind::Array(array), ..spec(level) };
    let living = async move {
        pool::create(&io, &members[..FIRST], &spec).await.unwrap();
        let open = OpenPool::open(io.clone(), members[..FIRST].to_vec(), || false).await.ok().unwrap();
        let control = Rc::clone(&open.control);
        let volume = open.volume("v").unwrap();
        let blocks = volume.size_bytes() / BLOCK_BYTES as u64;
        let content = |block: u64| Buf::copy_of(&[(block * 7 + block / 251) as u8; BLOCK_BYTES]);
        // These writes are more requests than the growth may run beside.
        control.throttle(Limits { bytes_per_second: 0, pause_above_iops: 10 }).await;
        for block in 0..blocks {
            volume.write(block * BLOCK_BYTES as u64, content(block), false).await.unwrap();
        }
        control.grow(&members[FIRST..], Some(GrowMethod::FastScale), true).await.unwrap();
        control.offline(STALE).await.unwrap();
        control.replace(STALE, Some(replacement), true).await.unwrap();
        control.offline(GOES).await.unwrap();
        control.throttle(Limits::default()).await;
        // Beside reads the growth would be slower than the rebuild.
        io.sleep(PAUSE_NS).await;
        let mut growing = true;
        while growing {
            growing = control.status().await.unwrap().growth_chunks_left.is_some();
            for block in 0..blocks {
                match volume.read(block * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await {
                    Ok(read) if read[0].bytes() == content(block).bytes() => {}
                    Ok(_) => return Err(format!("block {block} has another content")),
                    Err(error) => return Err(format!("block {block} cannot be read: {error}")),
                }
            }
        }
        Ok(())
    };
    world.block_on(living).unwrap()
}

#[test]
fn a_growth_awaits_the_rebuild_of_new_members() {
    growth_awaits_the_rebuild_of_new_members().unwrap();
}
