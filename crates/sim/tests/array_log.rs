//! What clients store in an array goes through its log, and may look like one.

use std::rc::Rc;

use sinew_engine::array::geometry::ArraySpec;
use sinew_engine::buf::{BLOCK_BYTES, Buf};
use sinew_engine::disk::group::{GroupHeader, encode_head};
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_engine::volume::Volume;
use sinew_layout::{Level, Rotation};
use sinew_sim::{DeviceConfig, OpenPool, World};

const MEMBER_BYTES: u64 = 8 << 20;

/// The head of a group of another array, which says that it has so many blocks.
fn head(blocks: u32) -> Buf {
    let (pool, seq) = ([9; 16], 1 << 40);
    let header =
        GroupHeader { pool, shard: 0, epoch: 1, seq, before: 1, tail: 1, flushed: 1, head_blocks: 1, blocks };
    let mut head = Buf::zeroed(BLOCK_BYTES);
    encode_head(&header, &[], &[], head.bytes_mut());
    head
}

#[test]
fn clients_may_store_what_looks_like_a_log() {
    let world = World::new(1);
    let candidate = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("m{i}"),
    };
    let candidates: Vec<Candidate> = (0..3).map(candidate).collect();
    let heads: Rc<[Buf]> = [1, 2, 1000, u32::MAX].map(head).into();
    let (io, members, written) = (world.io(), candidates.clone(), Rc::clone(&heads));
    let living = async move {
        let level = Level::Raid5(Rotation::LeftSymmetric);
        let array = ArraySpec { level, chunk_bytes: 65536, journal: true, spares: 0, zeroed: true };
        let kind = PoolKind::Array(array);
        let spec = PoolSpec { name: "v".to_owned(), kind, shards: 1, journal_blocks: None, force: false };
        pool::create(&io, &members, &spec).await.unwrap();
        let open = OpenPool::open(io, members, || false).await.ok().unwrap();
        for (at, head) in (0u64..).zip(&*written) {
            let volume = open.volume("v").unwrap();
            volume.write(at * BLOCK_BYTES as u64, head.clone(), true).await.unwrap();
        }
    };
    world.block_on(living).unwrap();
    world.kill_process();
    let io = world.io();
    let reading = async move {
        let open = OpenPool::open(io, candidates, || false).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        for (at, head) in (0u64..).zip(&*heads) {
            let found = volume.read(at * BLOCK_BYTES as u64, BLOCK_BYTES as u32).await.unwrap();
            assert_eq!(found[0].bytes(), head.bytes());
        }
    };
    world.block_on(reading).unwrap();
}
