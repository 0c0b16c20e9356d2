//! The members of a small pool with parts of them overwritten, checksums put right: it cannot be opened, or it works.
//!
//! To work means that every request is answered, that what was written can be read, and that the pool opens again after
//! it was closed, with that still there.

#![no_main]

use std::cell::Cell;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use sinew_core::buf::Buf;
use sinew_core::volume::{Volume, VolumeError};
use sinew_engine::client::VolumeHandle;
use sinew_engine::pool::Candidate;
use sinew_format::superblock::SLOT_OFFSETS;
use sinew_fuzz::input::Input;
use sinew_fuzz::pool::{self, Image, MEMBER_BYTES, OpenPool};
use sinew_fuzz::seal::{self, BLOCK, PAGE};
use sinew_sim::{SimIo, World};

/// Volumes and bytes of each that are looked at.
const VOLUMES: usize = 3;
const BYTES: u64 = 1 << 20;
/// Virtual time for what the pool does by itself.
const SETTLE_NS: u64 = 2_000_000_000;

thread_local!(static IMAGES: Vec<Image> = pool::images());

fuzz_target!(|data: &[u8]| {
    let (world, candidates) = pool::world();
    IMAGES.with(|images| pool::put(&world, &candidates, images));
    let mut input = Input(data);
    while !input.is_empty() {
        edit(&world, &candidates, &mut input);
    }
    let stamp = Buf::copy_of(&vec![0xa5; BLOCK]);
    let (io, members) = (world.io(), candidates.clone());
    let kept = Rc::new(Cell::new(false));
    let (first, data) = (Rc::clone(&kept), stamp.clone());
    world
        .block_on(async move { first.set(use_pool(io, members, data).await) })
        .expect("the first opening ends");
    if !kept.get() {
        return;
    }
    world.kill_process();
    let io = world.io();
    let again = async move {
        let open = OpenPool::open(io, candidates).await.expect("what was closed opens again");
        for volume in open.volumes().iter().take(VOLUMES) {
            assert_eq!(
                read(volume, 0, BLOCK as u64).await.as_deref(),
                Ok(stamp.bytes()),
                "what was written is there"
            );
        }
    };
    world.block_on(again).expect("the second opening ends");
});

/// Overwrites a part of a structure on some members and seals it.
fn edit(world: &World, candidates: &[Candidate], input: &mut Input) {
    let (kind, members, place, offset) = (input.u8() % 4, input.u8(), input.u16(), input.u16());
    let bytes = input.bytes();
    for (index, candidate) in candidates.iter().enumerate().filter(|(i, _)| members >> i & 1 == 1) {
        let device = world.device(candidate.device);
        let (at, whole) = match kind {
            0 => {
                let at = SLOT_OFFSETS[usize::from(place % 2)];
                let mut config = seal::config(&device.peek(at, 4 * BLOCK)).to_vec();
                overwrite(&mut config, offset, bytes);
                let member = if place & 2 == 0 { index as u16 } else { place >> 2 };
                (at, seal::superblock(member, &config))
            }
            1 | 2 => {
                let (magic, len): (&[u8], _) = if kind == 1 { (b"SNJB", BLOCK) } else { (b"SNPG", PAGE) };
                let Some(at) = nth_with(index, magic, place) else { continue };
                let mut whole = device.peek(at, len);
                overwrite(&mut whole, offset, bytes);
                if kind == 1 {
                    seal::journal(&mut whole)
                } else {
                    seal::page(&mut whole)
                }
                (at, whole)
            }
            _ => {
                let at = u64::from(place) * BLOCK as u64 % MEMBER_BYTES;
                let mut whole = device.peek(at, BLOCK);
                overwrite(&mut whole, offset, bytes);
                (at, whole)
            }
        };
        device.poke(at, &whole);
    }
}

/// Where a member has one of the structures that begin with `magic`.
fn nth_with(member: usize, magic: &[u8], n: u16) -> Option<u64> {
    IMAGES.with(|images| {
        let found = images[member].iter().filter(|(_, block)| block.starts_with(magic));
        let found: Vec<u64> = found.map(|&(at, _)| at).collect();
        (!found.is_empty()).then(|| found[usize::from(n) % found.len()])
    })
}

/// Overwrites bytes at an offset in the part that is in use, or a little behind it.
fn overwrite(whole: &mut [u8], offset: u16, bytes: &[u8]) {
    let used = whole.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    let reach = (used + 16).min(whole.len());
    if reach > 0 {
        let at = usize::from(offset) % reach;
        let len = bytes.len().min(whole.len() - at);
        whole[at..at + len].copy_from_slice(&bytes[..len]);
    }
}

/// Opens the pool, uses it and closes it; whether all of that went well and the stamp is at the start of every volume.
async fn use_pool(io: SimIo, members: Vec<Candidate>, stamp: Buf) -> bool {
    use sinew_core::io::Io;
    let Ok(open) = OpenPool::open(io.clone(), members).await else { return false };
    let volumes = open.volumes();
    for volume in volumes.iter().take(VOLUMES) {
        let _ = volume.read(0, BYTES.min(volume.size_bytes()) as u32).await;
        let _ = volume.discard(0, BYTES / 2).await;
        let _ = volume.write(BYTES / 4, Buf::zeroed(BYTES as usize / 8), false).await;
    }
    let _ = open.control.scrub(true).await;
    io.sleep(SETTLE_NS).await;
    let mut kept = true;
    for volume in volumes.iter().take(VOLUMES) {
        let written = volume.write(0, stamp.clone(), true).await;
        if written.is_ok() {
            assert_eq!(
                read(volume, 0, BLOCK as u64).await.as_deref(),
                Ok(stamp.bytes()),
                "written and not found"
            );
        }
        kept &= written.is_ok();
    }
    let _ = open.control.status().await;
    open.control.close().await.is_ok() && kept
}

async fn read(volume: &VolumeHandle<SimIo>, offset: u64, len: u64) -> Result<Vec<u8>, VolumeError> {
    let len = len.min(volume.size_bytes().saturating_sub(offset));
    let parts = volume.read(offset, len as u32).await?;
    Ok(parts.iter().map(Buf::bytes).collect::<Vec<_>>().concat())
}
