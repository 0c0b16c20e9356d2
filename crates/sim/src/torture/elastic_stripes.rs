//! Checks the stripes of a closed elastic array on its devices, with arithmetic of its own: each stripe is what its form says, and
//! what its form does not use takes no space.

use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_layout::Home;
use sinew_layout::spread::Spread;

use crate::handle::Device;
use crate::torture::stripes::{check_parity, grown_rows};

const FORMS_PER_PAGE: u64 = 16_000;
const PAGE_BYTES: u64 = 4096;
const HEADER_BYTES: usize = 96;

/// The places of a stripe in slot 0.
struct Places {
    /// In the order of the columns.
    columns: Vec<Home>,
    parity: Vec<Home>,
}

/// Checks every stripe; `devices` are the members of the layout. `frees` says that a discarded block counts as never written.
/// Returns the chunks that no stripe uses, as index of a device and offset.
pub(crate) fn check(
    array: &ArrayGeometry,
    devices: &[Device],
    frees: bool,
) -> Result<Vec<(usize, u64)>, String> {
    let mut all_unused = Vec::new();
    let layout = &array.layout;
    let (members, parities, bytes) = (layout.members(), layout.parities(), u64::from(layout.chunk_bytes()));
    let area = layout.member_chunks();
    let offset = |home: Home| array.data_offset() + home.chunk * bytes;
    let chunk = |home: Home| devices[home.member as usize].peek(offset(home), bytes as usize);
    let grown = (0..array.shards as u64).map(|shard| grown_rows(array, shard));
    let grown: Vec<Option<Spread>> = grown.collect::<Result<_, _>>()?;
    // Extents of whole rows are dealt over the shards in turn.
    let extent = array.extent_stripes();
    for row in 0..layout.stripes() {
        let shard = (row / extent) % array.shards as u64;
        let stripe = row / extent / array.shards as u64 * extent + row % extent;
        let form = form_of(array, devices, shard as usize, stripe)?;
        let Places { columns, parity } = match &grown[shard as usize] {
            None => Places {
                columns: (0..members - parities).map(|column| layout.column_home(row, column)).collect(),
                parity: layout.parity(row).collect(),
            },
            Some(spread) => {
                let on = |member: u32| Home { member, chunk: row };
                let columns = (0..spread.columns(stripe)).map(|column| on(spread.member(stripe, column)));
                let parity = spread.parity(stripe).map(|home| on(home.member));
                Places { columns: columns.collect(), parity: parity.collect() }
            }
        };
        let width = (columns.len() + parity.len()) as u32;
        let copy = |column: Home, slot: u32| Home {
            member: (column.member + slot) % width,
            chunk: column.chunk + u64::from(slot) * area,
        };
        let copies: Vec<(Home, Home)> = (1..=parities)
            .flat_map(|slot| columns.iter().map(move |&column| (column, copy(column, slot))))
            .collect();
        let failed = |what: &str| format!("{what} of stripe {stripe} of shard {shard}, form {form}");
        let used: Vec<Home> = match form {
            0 => Vec::new(),
            1 => {
                let data = columns.iter().rev().map(|&home| chunk(home));
                check_parity(layout.chunk_bytes(), data, parity.iter().map(|&home| chunk(home)))
                    .map_err(&failed)?;
                columns.iter().chain(&parity).copied().collect()
            }
            2 => {
                if copies.iter().any(|&(column, copy)| chunk(column) != chunk(copy)) {
                    return Err(failed("the copies differ"));
                }
                columns.iter().copied().chain(copies.iter().map(|pair| pair.1)).collect()
            }
            _ => return Err(failed("there is no such form")),
        };
        let places = (0..members).flat_map(|member| {
            (0..=u64::from(parities)).map(move |slot| Home { member, chunk: slot * area + row })
        });
        // Zeros take no space: erasing foreign metadata leaves some.
        let is_written = |home: &Home| devices[home.member as usize].is_written(offset(*home), bytes);
        let leaks = |home: &Home| is_written(home) && chunk(*home).iter().any(|&byte| byte != 0);
        let unused: Vec<Home> = places.filter(|home| !used.contains(home)).collect();
        if let Some(leak) = unused.iter().find(|home| frees && leaks(home)) {
            return Err(failed(&format!(
                "chunk {} of member {} is written and not used",
                leak.chunk, leak.member
            )));
        }
        all_unused.extend(unused.iter().map(|&home| (home.member as usize, offset(home))));
    }
    Ok(all_unused)
}

/// The form of a stripe, from the newest page on each member. All members have the same.
fn form_of(array: &ArrayGeometry, devices: &[Device], shard: usize, stripe: u64) -> Result<u8, String> {
    let (page, at) = ((stripe / FORMS_PER_PAGE) as u32, (stripe % FORMS_PER_PAGE) as usize);
    let forms = devices.iter().map(|device| {
        let versions = (0..2)
            .map(|version| device.peek(array.form_page_offset(shard, page, version), PAGE_BYTES as usize));
        let intact = versions.filter(|page| page[..4] == *b"SNFM" && page[8..24] == array.log);
        let number = |page: &[u8]| u64::from_le_bytes(page[28..36].try_into().expect("eight bytes"));
        intact
            .max_by_key(|page| number(page))
            .map_or(0, |page| page[HEADER_BYTES + at / 4] >> (at % 4 * 2) & 3)
    });
    let forms: Vec<u8> = forms.collect();
    match forms.iter().all(|form| *form == forms[0]) {
        true => Ok(forms[0]),
        false => Err(format!("members have different forms of stripe {stripe} of shard {shard}: {forms:?}")),
    }
}
