//! Aborted openings, and the configuration that wins after them; openings by several hosts.

use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::checksum::crc32c;
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, Opener, PoolKind, PoolSpec};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::host_record::HostRecord;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::superblock::SLOT_OFFSETS;
use sinew_layout::Level;
use sinew_sim::{DeviceConfig, EIO, Fault, OpKind, OpenPool, World};

fn filled(byte: u8) -> Buf {
    Buf::copy_of(&[byte; BLOCK_BYTES])
}

/// Opens the array on these members, writes and reads, and closes it.
fn serve(world: &World, members: &[Candidate], write: Option<u8>) -> Result<u8, String> {
    let (io, members) = (world.io(), members.to_vec());
    let served = world.block_on(async move {
        let opened = OpenPool::open(io.clone(), members, || false).await;
        let pool: Rc<OpenPool> = Rc::new(opened.map_err(|error| error.to_string())?);
        let volume = pool.volume("v").unwrap();
        if let Some(byte) = write {
            volume.write(0, filled(byte), true).await.unwrap();
        }
        let found = volume.read(0, BLOCK_BYTES as u32).await.unwrap();
        // Time for a rebuild.
        io.sleep(1_000_000_000).await;
        pool.control.close().await.unwrap();
        Ok(found[0].bytes()[0])
    });
    world.kill_process();
    served.unwrap()
}

/// New members, and a pool or array `v` of them.
pub(crate) fn made(world: &World, count: usize, kind: PoolKind) -> Vec<Candidate> {
    made_of(world, count, 8 << 20, kind)
}

/// As [`made`], of members of this size.
pub(crate) fn made_of(world: &World, count: usize, bytes: u64, kind: PoolKind) -> Vec<Candidate> {
    let device = || world.add_device(DeviceConfig::of_bytes(bytes));
    let members: Vec<Candidate> =
        (0..count).map(|i| Candidate { device: device(), path: format!("m{i}") }).collect();
    let spec = PoolSpec {
        name: "v".to_owned(),
        kind,
        shards: 1,
        journal_blocks: None,
        force: false,
        physical: None,
    };
    let (io, given) = (world.io(), members.clone());
    world.block_on(async move { pool::create(&io, &given, &spec).await.unwrap() }).unwrap();
    members
}

/// A mapped pool that survives one loss.
fn mapped() -> PoolKind {
    PoolKind::Mapped { protection: Protection::Parity1, data_columns: 0, checksums: true }
}

/// A mirror on two members, as an array.
pub(crate) fn mirror(chunk_bytes: u32) -> PoolKind {
    PoolKind::Array(ArraySpec {
        level: Level::Raid1,
        chunk_bytes,
        journal: false,
        spares: 0,
        zeroed: true,
        elastic: None,
    })
}

/// An opening is stored on one member only, which fails meanwhile. The other member is opened alone. When both are back, in
/// any order, the winner must not depend on which configuration is newer: both openings have the same epoch.
#[test]
fn an_opening_that_did_not_come_about_counts_for_nothing() {
    for reversed in [false, true] {
        let world = World::new(3);
        let mut members = made(&world, 2, mirror(65536));
        assert_eq!(serve(&world, &members, Some(1)), Ok(1));

        world.device(members[0].device).script(OpKind::Flush, None, Fault::Error(EIO));
        assert!(serve(&world, &members, None).unwrap_err().contains("m0"));
        assert_eq!(serve(&world, &members[1..], Some(2)), Ok(2));
        if reversed {
            members.reverse();
        }
        assert_eq!(serve(&world, &members, None), Ok(2));
        // The member that failed has been brought up to date.
        let failed = members.iter().find(|m| m.path == "m0").unwrap().clone();
        assert_eq!(serve(&world, &[failed], None), Ok(2));
    }
}

fn host(number: u8) -> Opener {
    let record = HostRecord { id: [number; 16], name: format!("host{number}"), since_s: 7 };
    Opener { host: Some(record), take_over: false }
}

/// Opens the pool, and closes it unless the server is to crash. Gives the error, or the host that the members recorded.
fn opened(
    world: &World,
    members: &[Candidate],
    opener: &Opener,
    closes: bool,
) -> Result<Option<HostRecord>, String> {
    let (io, members, opener) = (world.io(), members.to_vec(), opener.clone());
    let done = world.block_on(async move {
        let opened = OpenPool::open_by(io, members, &opener, || false).await;
        let pool = opened.map_err(|error| error.to_string())?;
        let recorded = pool.control.config().open_on;
        if closes {
            pool.control.close().await.unwrap();
        }
        Ok(recorded)
    });
    world.kill_process();
    done.unwrap()
}

/// The host that the members of a pool record.
fn recorded(world: &World, members: &[Candidate]) -> Option<HostRecord> {
    let (io, device) = (world.io(), members[0].device);
    world.block_on(async move { pool::read_superblock(&io, device).await.unwrap().config.open_on }).unwrap()
}

/// The members record the host of the opener until it closes the pool. Another host is refused meanwhile, also one that cannot
/// be told from others, unless it takes the pool over.
#[test]
fn a_pool_is_open_on_one_host() {
    for (kind, count) in [(mirror(65536), 2), (mapped(), 4)] {
        let world = World::new(5);
        let members = made(&world, count, kind);
        let (one, two, nameless) = (host(1), host(2), Opener::default());
        assert_eq!(opened(&world, &members, &nameless, true), Ok(None));
        assert_eq!(opened(&world, &members, &one, true), Ok(one.host.clone()));
        assert_eq!(recorded(&world, &members), None);
        // A crash leaves the record.
        assert_eq!(opened(&world, &members, &one, false), Ok(one.host.clone()));
        assert_eq!(recorded(&world, &members), one.host);
        for other in [&two, &nameless] {
            let refused = opened(&world, &members, other, true);
            assert_eq!(refused, Err("pool v is open on host host1".to_owned()));
        }
        assert_eq!(recorded(&world, &members), one.host, "a refusal changes nothing");
        // A reader is not refused, and leaves the record.
        let (io, given) = (world.io(), members.clone());
        let read = world.block_on(async move {
            let pool = OpenPool::open_read_only(io, given, None, || false).await.unwrap();
            pool.control.close().await.unwrap();
        });
        read.unwrap();
        world.kill_process();
        assert_eq!(recorded(&world, &members), one.host);
        // The same host goes on; a later crash is another host's chance only if it takes the pool over.
        assert_eq!(opened(&world, &members, &host(1), false), Ok(one.host.clone()));
        let taking = Opener { take_over: true, ..two.clone() };
        assert_eq!(opened(&world, &members, &taking, false), Ok(two.host.clone()));
        let refused = opened(&world, &members, &one, true);
        assert_eq!(refused, Err("pool v is open on host host2".to_owned()));
        assert_eq!(opened(&world, &members, &two, true), Ok(two.host.clone()));
        assert_eq!(opened(&world, &members, &one, true), Ok(one.host));
    }
}

/// Whichever slot a later version of Sinew has written, on whichever member: the others know less than it.
#[test]
fn a_pool_that_a_later_version_wrote_to_is_refused() {
    let world = World::new(5);
    let members = made(&world, 2, mirror(64 << 10));
    serve(&world, &members, Some(7)).unwrap();
    for (member, slot) in (0..members.len()).flat_map(|member| SLOT_OFFSETS.map(|slot| (member, slot))) {
        let device = world.device(members[member].device);
        let io = world.io();
        let of = members[member].device;
        let head = world.block_on(async move { io.read(of, slot, Buf::stale(BLOCK_BYTES)).await }).unwrap();
        let mut later = head.0.bytes()[..32].to_vec();
        later[8..10].copy_from_slice(&9u16.to_le_bytes());
        let checksum = crc32c(&later[..28]);
        later[28..].copy_from_slice(&checksum.to_le_bytes());
        device.poke(slot, &later);
        let before: Vec<_> = members.iter().map(|m| world.device(m.device).snapshot()).collect();
        let refused = serve(&world, &members, None).unwrap_err();
        assert!(refused.contains(&format!("m{member}: format version 9")), "{refused}");
        let after: Vec<_> = members.iter().map(|m| world.device(m.device).snapshot()).collect();
        assert!(before == after, "something was written");
        device.poke(slot, &head.0.bytes()[..32]);
    }
    assert_eq!(serve(&world, &members, None), Ok(7));
}

/// An opening copies all metadata again. While nothing is known to be missing the pool is whole, and operators are not alerted.
#[test]
fn a_pool_is_whole_as_soon_as_it_is_open() {
    let world = World::new(5);
    let members = made(&world, 4, mapped());
    let (io, given) = (world.io(), members.clone());
    world.block_on(async move { OpenPool::open(io, given, || false).await.map(drop).unwrap() }).unwrap();
    world.kill_process();
    for member in members.iter().flat_map(|member| [member; 4]) {
        world.device(member.device).script(OpKind::Flush, None, Fault::Stall(5_000_000));
    }
    let io = world.io();
    let seen = world.block_on(async move {
        let pool = OpenPool::open(io.clone(), members, || false).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            let status = pool.control.status().await.unwrap();
            seen.push((status.metadata_degraded, status.metadata_unsettled));
            io.sleep(1_000_000).await;
        }
        seen.dedup();
        seen
    });
    assert_eq!(seen.unwrap(), [(0, 1), (0, 0)]);
}
