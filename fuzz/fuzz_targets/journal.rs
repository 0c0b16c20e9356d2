//! A journal block of any content, and the first block of a page area: they decode or not, and what decodes encodes to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_format::journal_block::{decode_header, decode_records, encode_block};
use sinew_format::page_reach::PageReach;
use sinew_fuzz::seal::{self, BLOCK};

fuzz_target!(|data: &[u8]| {
    let mut block = vec![0; BLOCK];
    let len = data.len().min(BLOCK);
    block[..len].copy_from_slice(&data[..len]);
    let _ = decode_header(&block);
    let mut reach = block.clone();
    seal::reach(&mut reach);
    if let Ok(found) = PageReach::decode(&reach) {
        assert_eq!(PageReach::decode(found.encode().bytes()), Ok(found));
    }
    seal::journal(&mut block);
    let header = decode_header(&block);
    let records = decode_records(&block);
    let (Ok(header), Ok(records)) = (header, records) else { return };
    let mut again = vec![0xaa; BLOCK];
    assert_eq!(encode_block(&header, &records, &mut again), records.len());
    assert_eq!(decode_header(&again), Ok(header));
    assert_eq!(decode_records(&again), Ok(records));
});
