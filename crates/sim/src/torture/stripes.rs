//! Checks the stripes of a closed array on its devices, with arithmetic of its own: copies are equal, parity matches.

use sinew_format::model::array_geometry::ArrayGeometry;
use sinew_layout::Home;
use sinew_layout::history::History;
use sinew_layout::spread::{Share, Spread};

use crate::handle::Device;

/// `2 * a` in GF(2^8) with polynomial 0x11d.
fn double(a: u8) -> u8 {
    a << 1 ^ if a & 0x80 != 0 { 0x1d } else { 0 }
}

/// Checks every stripe; `devices` are the members of the layout.
pub(crate) fn check(array: &ArrayGeometry, devices: &[Device]) -> Result<(), String> {
    let layout = &array.layout;
    let chunk = |home: Home| {
        let offset = array.data_offset() + home.chunk * u64::from(layout.chunk_bytes());
        devices[home.member as usize].peek(offset, layout.chunk_bytes() as usize)
    };
    let mut data: Vec<Vec<u64>> = vec![Vec::new(); layout.stripes() as usize];
    if array.parity_columns() == 0 {
        return (0..array.stripes()).try_for_each(|logical| {
            let mut copies = array.homes(logical).map(chunk);
            let first = copies.next();
            match copies.all(|copy| Some(copy) == first) {
                true => Ok(()),
                false => Err(format!("the copies of chunk {logical} differ")),
            }
        });
    }
    if array.grown.is_some() {
        return check_grown(array, chunk);
    }
    for logical in 0..layout.data_chunks() {
        data[layout.stripe_of(logical) as usize].push(logical);
    }
    for (stripe, mut logical) in data.into_iter().enumerate() {
        // In falling powers of the generator, for Horner's scheme.
        logical.sort_by_key(|&logical| std::cmp::Reverse(layout.column_of(logical)));
        let data = logical.into_iter().map(|logical| chunk(layout.home(logical)));
        let found = layout.parity(stripe as u64).map(chunk);
        check_parity(layout.chunk_bytes(), data, found)
            .map_err(|what| format!("{what} of stripe {stripe}"))?;
    }
    Ok(())
}

/// Compares the parity of a stripe with its data, which is in falling order of its columns.
pub(super) fn check_parity(
    bytes: u32,
    data: impl Iterator<Item = Vec<u8>>,
    mut found: impl Iterator<Item = Vec<u8>>,
) -> Result<(), &'static str> {
    let (mut p, mut q) = (vec![0u8; bytes as usize], vec![0u8; bytes as usize]);
    for chunk in data {
        for ((p, q), byte) in p.iter_mut().zip(&mut q).zip(chunk) {
            *p ^= byte;
            *q = double(*q) ^ byte;
        }
    }
    if found.next().is_some_and(|found| found != p) {
        return Err("P does not match the data");
    }
    if found.next().is_some_and(|found| found != q) {
        return Err("Q does not match the data");
    }
    Ok(())
}

/// The rows of one shard of an array with parity that has grown by spread; `None` if it has not.
pub(super) fn grown_rows(array: &ArrayGeometry, index: u64) -> Result<Option<Spread>, String> {
    let Some(grown) = array.grown else { return Ok(None) };
    let disks: Vec<u32> = grown.disks().iter().copied().map(u32::from).collect();
    let (layout, parities) = (&array.layout, array.layout.parities());
    let first_row_blocks = u64::from((disks[0] - parities) * array.chunk_blocks());
    let first = History::new(disks[0]).map_err(|e| e.to_string())?;
    let history = disks.windows(2).try_fold(first, |history, pair| history.with(pair[1] - pair[0]));
    let history = history.map_err(|e| e.to_string())?;
    let rotation = layout.level().rotation().ok_or("parity without a rotation")?;
    let share = Share { run: array.extent_blocks() / first_row_blocks, index, shards: array.shards as u64 };
    let rows = (0..).take_while(|&row| share.whole(row) < layout.member_chunks()).count();
    let spread = Spread::new(&history, rows as u32, rotation, parities).map_err(|e| e.to_string())?;
    Ok(Some(spread.of_share(share)))
}

/// Checks an array with parity that has grown by spread.
fn check_grown(array: &ArrayGeometry, chunk: impl Fn(Home) -> Vec<u8>) -> Result<(), String> {
    let layout = &array.layout;
    for index in 0..array.shards as u64 {
        let Some(spread) = grown_rows(array, index)? else { return Ok(()) };
        let run = array.extent_stripes();
        let share = Share { run, index, shards: array.shards as u64 };
        for row in 0..u64::from(spread.rows()) {
            let place = |member: u32| chunk(Home { member, chunk: share.whole(row) });
            let data = (0..spread.columns(row)).rev().map(|column| place(spread.member(row, column)));
            let found = spread.parity(row).map(|home| place(home.member));
            check_parity(layout.chunk_bytes(), data, found)
                .map_err(|what| format!("{what} of row {row} of shard {index}"))?;
        }
    }
    Ok(())
}
