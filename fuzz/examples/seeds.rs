//! Writes the first inputs of fuzz targets: what a real pool has on its members, for those of the on-disk structures; requests of
//! a guest, for that of vhost-user.
//!
//!     cargo run --manifest-path fuzz/Cargo.toml --example seeds -- fuzz/corpus

use std::error::Error;
use std::path::{Path, PathBuf};

use sinew_core::checksum::crc32c;
use sinew_format::superblock::SLOT_OFFSETS;
use sinew_fuzz::input::Output;
use sinew_fuzz::pool::{self, Image};
use sinew_fuzz::seal::{self, BLOCK, CONTENT_AT, PAGE, RECORDS_AT};

/// Bytes of a page's content that a seed has; libFuzzer does better with short inputs.
const CONTENT_BYTES: usize = 1500;

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?);
    let images = pool::images();
    superblocks(&corpus, &images)?;
    let (blocks, pages) = structures(&images);
    for block in &blocks {
        save(&corpus, "journal", block)?;
    }
    for choice in 0..8 {
        let mut seed = Output::default();
        seed.u8(choice);
        pages.iter().for_each(|page| add_page(&mut seed, page));
        blocks.iter().for_each(|block| add_block(&mut seed, block));
        save(&corpus, "tables", &seed.0)?;
    }
    edits(&corpus, &blocks, &pages)?;
    guests(&corpus)
}

/// By content, so that the generator can run again over its own files.
fn save(corpus: &Path, target: &str, seed: &[u8]) -> Result<(), Box<dyn Error>> {
    let directory = corpus.join(target);
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join(format!("seed-{:08x}", crc32c(seed))), seed)?;
    Ok(())
}

fn superblocks(corpus: &Path, images: &[Image]) -> Result<(), Box<dyn Error>> {
    for (member, image) in images.iter().enumerate() {
        for at in SLOT_OFFSETS {
            let slot = bytes(image, at, 2 * BLOCK);
            save(corpus, "superblock", &slot)?;
            save(corpus, "superblock", &[&[member as u8], seal::config(&slot)].concat())?;
        }
    }
    Ok(())
}

fn bytes(image: &Image, at: u64, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    for (offset, block) in image.iter().filter(|(offset, _)| (at..at + len as u64).contains(offset)) {
        all[(offset - at) as usize..][..BLOCK].copy_from_slice(block);
    }
    all
}

/// All journal blocks, and all pages.
fn structures(images: &[Image]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let starts = |magic: &'static [u8]| {
        images.iter().flat_map(move |image| {
            image.iter().filter(move |(_, block)| block.starts_with(magic)).map(move |&(at, _)| (image, at))
        })
    };
    let mut blocks: Vec<Vec<u8>> = starts(b"SNJB").map(|(image, at)| bytes(image, at, BLOCK)).collect();
    let mut pages: Vec<Vec<u8>> = starts(b"SNPG").map(|(image, at)| bytes(image, at, PAGE)).collect();
    for list in [&mut blocks, &mut pages] {
        list.sort();
        list.dedup();
    }
    blocks.sort_by_key(|block| u64::from_le_bytes(block[40..48].try_into().expect("eight bytes")));
    (blocks, pages)
}

fn add_page(seed: &mut Output, page: &[u8]) {
    seed.u8(0).u8(page[24]).u32(u32::from_le_bytes(page[28..32].try_into().expect("four bytes")));
    seed.u8(page[32]);
    seed.0.extend(&page[64..76]);
    seed.bytes(&page[CONTENT_AT..CONTENT_AT + CONTENT_BYTES]);
}

fn add_block(seed: &mut Output, block: &[u8]) {
    let len = u16::from_le_bytes([block[72], block[73]]);
    seed.u8(1).u16(u16::from_le_bytes([block[74], block[75]]));
    seed.bytes(&block[RECORDS_AT..RECORDS_AT + usize::from(len)]);
}

/// One edit of each kind on all members, and a few structures moved elsewhere.
fn edits(corpus: &Path, blocks: &[Vec<u8>], pages: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    save(corpus, "pool", &[])?;
    for kind in 0..4 {
        for place in 0..8 {
            let mut seed = Output::default();
            seed.u8(kind).u8(15).u16(place).u16(90).bytes(&[1, 0, 0, 0]);
            save(corpus, "pool", &seed.0)?;
        }
    }
    for (place, block) in blocks.iter().rev().take(8).enumerate() {
        let mut seed = Output::default();
        seed.u8(1).u8(3).u16(place as u16).u16(0).bytes(block);
        save(corpus, "pool", &seed.0)?;
    }
    for (place, page) in pages.iter().enumerate() {
        let mut seed = Output::default();
        seed.u8(2).u8(6).u16(place as u16).u16(0).bytes(&page[..CONTENT_AT + CONTENT_BYTES]);
        save(corpus, "pool", &seed.0)?;
    }
    Ok(())
}

/// One request of each kind, laid down and made available on each queue.
fn guests(corpus: &Path) -> Result<(), Box<dyn Error>> {
    const LAY: u8 = 6 << 1;
    const OFFER: u8 = 2 << 1;
    for (queue, kind) in (0..2).flat_map(|queue| (0..16).map(move |kind| (queue, kind))) {
        let mut seed = Output::default();
        seed.u8(0).u8(LAY | queue).u8(kind).u64(u64::from(kind));
        match kind % 2 {
            0 => seed.u8(5),
            _ => seed.u8(4).bytes(&[kind; 512]),
        };
        seed.u8(OFFER | queue).u16(0);
        save(corpus, "vhost", &seed.0)?;
    }
    Ok(())
}
