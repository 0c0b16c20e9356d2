//! Data of clients that looks like an array's log, and goes through it.

use std::cell::RefCell;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_core::volume::Volume;
use sinew_engine::pool::{self, Candidate, PoolKind, PoolSpec};
use sinew_format::log_group::{GroupHeader, decode_header, encode_head};
use sinew_format::model::array_geometry::ArraySpec;
use sinew_format::model::mapped_geometry::SUPERBLOCK_AREA_BYTES;
use sinew_layout::{Level, Rotation};
use sinew_sim::{DeviceConfig, OpenPool, World};

const MEMBER_BYTES: u64 = 8 << 20;
/// The log is copied into the array in pieces of this number of blocks, which does not divide its length.
const COPY_BLOCKS: usize = 31;
const LOG_BLOCKS: usize = 512;

/// The head of a group of another log that claims this number of blocks.
fn head(seq: u64, blocks: u32) -> Buf {
    let (log, shard, epoch, before, tail, flushed) = ([9; 16], 0, 1, 1, 1, seq - 1);
    let header = GroupHeader { log, shard, epoch, seq, before, tail, flushed, head_blocks: 1, blocks };
    let mut head = Buf::zeroed(BLOCK_BYTES);
    encode_head(&header, &[], &[], head.bytes_mut());
    head
}

/// The number after that of the newest group of the log on these members.
fn next(rings: &[Buf; 3]) -> u64 {
    let blocks = rings.iter().flat_map(|ring| ring.bytes().chunks_exact(BLOCK_BYTES));
    let headers = blocks.filter_map(|block| decode_header(block).ok());
    headers
        .filter(|header| header.log != [9; 16])
        .map(|header| header.seq + u64::from(header.blocks))
        .max()
        .unwrap()
}

/// Makes an array, stores copies of its own log in it, and then what would be newer groups of it, and looks for all of it
/// after the end of the process.
#[test]
fn clients_may_store_what_looks_like_a_log() {
    let world = World::new(1);
    let candidate = |i| Candidate {
        device: world.add_device(DeviceConfig::of_bytes(MEMBER_BYTES)),
        path: format!("m{i}"),
    };
    let candidates: Vec<Candidate> = (0..3).map(candidate).collect();
    let stored: Rc<RefCell<Vec<Buf>>> = Rc::default();
    let (io, members, storing) = (world.io(), candidates.clone(), Rc::clone(&stored));
    let living = async move {
        let level = Level::Raid5(Rotation::LeftSymmetric);
        let array =
            ArraySpec { level, chunk_bytes: 65536, journal: true, spares: 0, zeroed: true, elastic: None };
        let kind = PoolKind::Array(array);
        let journal_blocks = Some(LOG_BLOCKS as u32);
        let spec =
            PoolSpec { name: "v".to_owned(), kind, shards: 1, journal_blocks, force: false, physical: None };
        pool::create(&io, &members, &spec).await.unwrap();
        let open = OpenPool::open(io.clone(), members.clone(), || false).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        let store = async |content: Buf| {
            let at = storing.borrow().iter().map(|buf| buf.len() as u64).sum();
            volume.write(at, content.clone(), true).await.unwrap();
            storing.borrow_mut().push(content);
        };
        let log = async |member: usize, first: usize, blocks: usize| {
            let from = SUPERBLOCK_AREA_BYTES + (first * BLOCK_BYTES) as u64;
            let (content, read) =
                io.read(members[member].device, from, Buf::zeroed(blocks * BLOCK_BYTES)).await;
            read.unwrap();
            content
        };
        for first in (0..2 * LOG_BLOCKS).step_by(COPY_BLOCKS) {
            store(log(0, first % (LOG_BLOCKS - COPY_BLOCKS), COPY_BLOCKS).await).await;
        }
        // These are where their numbers say that they are: behind the head of the group that takes them.
        for blocks in [1, 1, 2, 1000, u32::MAX, 1, 1] {
            let mut seq = (LOG_BLOCKS as u64) << 30;
            seq += 1 + next(&[
                log(0, 0, LOG_BLOCKS).await,
                log(1, 0, LOG_BLOCKS).await,
                log(2, 0, LOG_BLOCKS).await,
            ]);
            store(head(seq, blocks)).await;
        }
    };
    world.block_on(living).unwrap();
    world.kill_process();
    let io = world.io();
    let reading = async move {
        let open = OpenPool::open(io, candidates, || false).await.ok().unwrap();
        let volume = open.volume("v").unwrap();
        let mut at = 0;
        for content in stored.take() {
            let found = volume.read(at, content.len() as u32).await.unwrap();
            let found: Vec<u8> = found.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
            assert_eq!(found, content.bytes());
            at += content.len() as u64;
        }
    };
    world.block_on(reading).unwrap();
}
