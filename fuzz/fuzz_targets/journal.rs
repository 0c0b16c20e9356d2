//! A journal block of any content: header and records decode or not, and what decodes encodes to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_format::journal_block::{decode_header, decode_records, encode_block};
use sinew_fuzz::seal::{self, BLOCK};

fuzz_target!(|data: &[u8]| {
    let mut block = vec![0; BLOCK];
    let len = data.len().min(BLOCK);
    block[..len].copy_from_slice(&data[..len]);
    let _ = decode_header(&mut block.clone());
    seal::journal(&mut block);
    let header = decode_header(&mut block.clone());
    let records = decode_records(&block);
    let (Ok(header), Ok(records)) = (header, records) else { return };
    let mut again = vec![0xaa; BLOCK];
    assert_eq!(encode_block(&header, &records, &mut again), records.len());
    assert_eq!(decode_header(&mut again.clone()), Ok(header));
    assert_eq!(decode_records(&again), Ok(records));
});
