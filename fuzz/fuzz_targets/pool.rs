//! The members of a small pool with parts of them overwritten, checksums put right: it cannot be opened, or it works.
//!
//! To work means that every request is answered, that what was written can be read, and that the pool opens again after
//! it was closed, with that still there.

#![no_main]

use std::cell::Cell;
use std::rc::Rc;

use libfuzzer_sys::fuzz_target;
use sinew_engine::buf::Buf;
use sinew_engine::client::VolumeHandle;
use sinew_engine::disk::superblock::SLOT_OFFSETS;
use sinew_engine::pool::Candidate;
use sinew_engine::volume::{Volume, VolumeError};
use sinew_fuzz::input::Input;
use sinew_fuzz::pool::{self, Image, JOURNAL_BLOCKS, MEMBER_BYTES, OpenPool};
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
    let (kind, members, place, offset) = (input.u8(), input.u8(), input.u16(), input.u16());
    let bytes = input.bytes();
    let named = candidates.iter().enumerate().filter(|(i, _)| members >> i & 1 == 1);
    for (index, candidate) in named {
        let device = world.device(candidate.device);
        let (at, mut whole) = match kind % 4 {
            0 => {
                let at = SLOT_OFFSETS[usize::from(place % 2)];
                let mut config = seal::config(&device.peek(at, 4 * BLOCK)).to_vec();
                overwrite(&mut config, offset.into(), bytes);
                let member = if place & 2 == 0 { index as u16 } else { place >> 2 };
                (at, seal::superblock(member, &config))
            }
            1 => (journal_at(place.into()), device.peek(journal_at(place.into()), BLOCK)),
            2 => (page_at(place.into()), device.peek(page_at(place.into()), PAGE)),
            _ => (u64::from(place) * BLOCK as u64 % MEMBER_BYTES, vec![0; BLOCK]),
        };
        if kind % 4 != 0 {
            overwrite(&mut whole, offset.into(), bytes);
        }
        match kind % 4 {
            1 => seal::journal(&mut whole),
            2 => seal::page(&mut whole),
            _ => {}
        }
        device.poke(at, &whole[..whole.len().min(SLOT_OFFSETS[0] as usize)]);
    }
}

fn journal_at(place: u64) -> u64 {
    (1 << 20) + place % u64::from(JOURNAL_BLOCKS) * BLOCK as u64
}

fn page_at(place: u64) -> u64 {
    let slots = u64::from(pool::shape(0).members[0].layout.page_slots);
    journal_at(0) + u64::from(JOURNAL_BLOCKS) * BLOCK as u64 + place % slots * PAGE as u64
}

fn overwrite(whole: &mut [u8], offset: usize, bytes: &[u8]) {
    if !whole.is_empty() {
        let at = offset % whole.len();
        let len = bytes.len().min(whole.len() - at);
        whole[at..at + len].copy_from_slice(&bytes[..len]);
    }
}

/// Opens the pool, uses it and closes it; whether all of that went well and the stamp is at the start of every volume.
async fn use_pool(io: SimIo, members: Vec<Candidate>, stamp: Buf) -> bool {
    use sinew_engine::io::Io;
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
