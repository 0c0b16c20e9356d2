//! Magic numbers, versions and checksums put right, whatever the rest says.

use sinew_core::checksum::{self, crc32c};
use sinew_format::FORMAT_VERSION;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Bytes of a page.
pub const PAGE: usize = 16384;
/// Where the records of a journal block begin.
pub const RECORDS_AT: usize = 80;
/// Where the content of a page begins.
pub const CONTENT_AT: usize = 256;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// A superblock slot with this configuration. The generation in the header is the one in the configuration, where that
/// reaches so far.
pub fn superblock(member: u16, config: &[u8]) -> Vec<u8> {
    let name = config.get(16..18).map_or(0, |len| usize::from(u16::from_le_bytes([len[0], len[1]])));
    let generation = config.get(18 + name..26 + name).unwrap_or(&[0; 8]);
    let mut slot = vec![0; (BLOCK + config.len()).next_multiple_of(BLOCK)];
    put(&mut slot, 0, b"SINEWSB\n");
    put(&mut slot, 8, &FORMAT_VERSION.to_le_bytes());
    put(&mut slot, 10, &member.to_le_bytes());
    put(&mut slot, 12, &(config.len() as u32).to_le_bytes());
    put(&mut slot, 16, generation);
    put(&mut slot, 24, &crc32c(config).to_le_bytes());
    let crc = crc32c(&slot[..28]);
    put(&mut slot, 28, &crc.to_le_bytes());
    put(&mut slot, BLOCK, config);
    slot
}

/// The configuration in a superblock slot; nothing where its length makes no sense.
pub fn config(slot: &[u8]) -> &[u8] {
    let len = u32::from_le_bytes(slot[12..16].try_into().expect("four bytes"));
    slot.get(BLOCK..BLOCK.saturating_add(len as usize)).unwrap_or(&[])
}

/// Makes a journal block of these bytes.
pub fn journal(block: &mut [u8]) {
    assert_eq!(block.len(), BLOCK);
    complete(block, b"SNJB", 76);
}

/// Makes the first block of a page area of these bytes.
pub fn reach(block: &mut [u8]) {
    assert_eq!(block.len(), BLOCK);
    complete(block, b"SNPR", 28);
}

/// Makes a page of these bytes.
pub fn page(page: &mut [u8]) {
    assert_eq!(page.len(), PAGE);
    complete(page, b"SNPG", 60);
}

fn complete(bytes: &mut [u8], magic: &[u8; 4], crc_at: usize) {
    put(bytes, 0, magic);
    put(bytes, 4, &FORMAT_VERSION.to_le_bytes());
    checksum::seal(bytes, crc_at);
}
