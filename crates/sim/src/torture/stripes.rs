//! Looks at the stripes of a closed array on its devices, with arithmetic of its own: copies are equal, parity is even.

use sinew_engine::array::geometry::ArrayGeometry;
use sinew_layout::Home;

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
    for logical in 0..layout.data_chunks() {
        data[layout.stripe_of(logical) as usize].push(logical);
    }
    for (stripe, mut logical) in data.into_iter().enumerate() {
        let (mut p, mut q) =
            (vec![0u8; layout.chunk_bytes() as usize], vec![0u8; layout.chunk_bytes() as usize]);
        // In falling powers of the generator, so that Q is Horner's scheme.
        logical.sort_by_key(|&logical| std::cmp::Reverse(layout.column_of(logical)));
        for logical in logical {
            for ((p, q), byte) in p.iter_mut().zip(&mut q).zip(chunk(layout.home(logical))) {
                *p ^= byte;
                *q = double(*q) ^ byte;
            }
        }
        let mut found = layout.parity(stripe as u64).map(chunk);
        if found.next().is_some_and(|found| found != p) {
            return Err(format!("P of stripe {stripe} does not match its data"));
        }
        if found.next().is_some_and(|found| found != q) {
            return Err(format!("Q of stripe {stripe} does not match its data"));
        }
    }
    Ok(())
}
