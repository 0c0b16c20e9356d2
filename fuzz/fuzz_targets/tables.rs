//! Pages and journal records of any content, as recovery takes them in: the tables are refused, or they fit together and
//! the pages written from them say the same again. They take no more memory than the pool has room for.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use sinew_format::journal_block::decode_records;
use sinew_format::model::config::Config;
use sinew_format::table_page::{PageHeader, PageId};
use sinew_fuzz::input::Input;
use sinew_fuzz::pool;
use sinew_fuzz::seal::{self, BLOCK, CONTENT_AT, PAGE, RECORDS_AT};
use sinew_mapped::fuzzing::LoadedTables;

/// Bytes of tables of so small a pool: more than ten times what it needs when full.
const MEMORY_MAX: u64 = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let config = pool::shape(input.u8());
    let mut pages: BTreeMap<PageId, (u64, Vec<u8>)> = BTreeMap::new();
    let mut blocks = Vec::new();
    while !input.is_empty() {
        match input.u8() % 2 {
            0 => {
                if let Some((header, page)) = read_page(&mut input) {
                    pages.insert(header.page, (header.lsn, page));
                }
            }
            _ => blocks.extend(decode_records(&read_block(&mut input))),
        }
    }
    let mut tables = LoadedTables::new(&config);
    let loaded = pages.iter().try_for_each(|(&id, (lsn, page))| tables.load(id, *lsn, page));
    let replayed = blocks.iter().zip(1..).try_for_each(|(records, lsn)| tables.replay(lsn, records));
    assert!(tables.memory_bytes() < MEMORY_MAX, "{} bytes", tables.memory_bytes());
    if loaded.and(replayed).and_then(|()| tables.complete()).is_ok() {
        survives_writing(&config, &tables);
    }
});

/// The header's variable fields, the owner of a map page, and the beginning of the content.
fn read_page(input: &mut Input) -> Option<(PageHeader, Vec<u8>)> {
    let mut page = vec![0; PAGE];
    page[24] = input.u8();
    page[28..32].copy_from_slice(&input.u32().to_le_bytes());
    page[32] = input.u8();
    let owner = input.take(12);
    page[64..64 + owner.len()].copy_from_slice(owner);
    let content = input.bytes();
    let len = content.len().min(PAGE - CONTENT_AT);
    page[CONTENT_AT..CONTENT_AT + len].copy_from_slice(&content[..len]);
    seal::page(&mut page);
    let header = PageHeader::open(&page).ok()?;
    Some((header, page))
}

fn read_block(input: &mut Input) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    let count = input.u16();
    let records = input.bytes();
    let len = records.len().min(BLOCK - RECORDS_AT);
    block[72..74].copy_from_slice(&(len as u16).to_le_bytes());
    block[74..76].copy_from_slice(&count.to_le_bytes());
    block[RECORDS_AT..RECORDS_AT + len].copy_from_slice(&records[..len]);
    block
}

fn survives_writing(config: &Config, tables: &LoadedTables) {
    let mut again = LoadedTables::new(config);
    for id in tables.pages() {
        again.load(id, 1, &tables.page(id)).expect("the engine wrote this page");
    }
    again.complete().expect("the engine wrote these pages");
    for id in tables.pages() {
        assert!(again.page(id) == tables.page(id), "{id:?} is not what it was");
    }
}
