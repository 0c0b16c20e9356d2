//! Parity of a stripe: computed from the data columns, and used to reconstruct lost columns.
//!
//! One parity column is the XOR of the data columns (P). Two are P and Q, where Q is the sum of `g^i * D_i` over
//! GF(2^8) with polynomial 0x11d and g = 2, column i of the stripe being the exponent; this is the code of Linux RAID-6
//! (H. P. Anvin, "The mathematics of RAID-6"). An absent data column counts as zeros and costs no memory traffic, so a
//! narrow stripe has the same parity as the wide stripe it would be with zeros behind it.
//!
//! Everything here is a pure function of byte slices of equal, arbitrary length. Any `m` lost columns are recovered
//! exactly; the caller verifies the bytes of the other columns, by checksums.

mod gf256;
mod kernel;

use gf256::{inverse, multiply, power};

/// The largest number of data columns: g has order 255, so more exponents would not be distinct.
pub const DATA_COLUMNS_MAX: usize = 255;

/// One column of a stripe, as far as its bytes are known.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// Its bytes.
    Present(&'a [u8]),
    /// A data column that was never stored: zeros.
    Absent,
    /// Unknown: its member failed, its checksum is wrong, or it was not read.
    Lost,
}

/// More data columns are lost than the present parity columns cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{lost_data} data columns are lost, {parity} parity columns are at hand")]
pub struct TooManyLost {
    /// Data columns that are lost.
    pub lost_data: usize,
    /// Parity columns that are present.
    pub parity: usize,
}

/// XORs `src` into `dst`.
///
/// # Panics
/// When the lengths differ.
pub fn xor_into(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "columns of a stripe have one length");
    kernel::xor_into(dst, src);
}

/// Fills `parity`, P or P and Q, from the data columns; `None` is a column of zeros.
///
/// # Panics
/// When `parity` does not have one or two columns or the lengths differ.
pub fn compute(data: &[Option<&[u8]>], parity: &mut [&mut [u8]]) {
    match parity {
        [p] => compute_p(data, p),
        [p, q] => compute_pq(data, p, q),
        _ => panic!("{} parity columns, there are one or two", parity.len()),
    }
}

/// Recovers the `want`ed columns, each of which must be lost, into `out`, in the order of `want`.
///
/// Columns `0..k` are data, `k..k + m` parity. As many data columns may be lost as parity columns are present; of the
/// parity columns any may be lost. A reader that needs one data column of a two-parity stripe reads P or Q, not both, and
/// passes the other as [`Column::Lost`].
///
/// # Errors
/// [`TooManyLost`]; the content of `out` is then unspecified.
///
/// # Panics
/// When `columns` is not `k + m` long, m is not 1 or 2, a wanted column is not lost or is wanted twice, a parity column
/// is absent, or the lengths differ.
pub fn reconstruct(
    columns: &[Column<'_>],
    k: usize,
    m: usize,
    want: &[usize],
    out: &mut [&mut [u8]],
) -> Result<(), TooManyLost> {
    assert!(columns.len() == k + m && (m == 1 || m == 2), "{} columns for {k}+{m}", columns.len());
    assert_eq!(want.len(), out.len(), "one place for each wanted column");
    let Some(len) = out.first().map(|place| place.len()) else { return Ok(()) };

    let (data, parity) = columns.split_at(k);
    let lost: Vec<usize> = (0..k).filter(|&i| matches!(data[i], Column::Lost)).collect();
    let mut data: Vec<Option<&[u8]>> = data.iter().map(|column| present(*column)).collect();
    let p = present(parity[0]);
    let q = parity.get(1).and_then(|column| present(*column));
    for &column in want {
        assert!(matches!(columns[column], Column::Lost), "column {column} is not lost");
    }
    assert!(!parity.iter().any(|column| matches!(column, Column::Absent)), "parity is never absent");

    // Places for all lost data columns: a wanted parity column is computed from the unwanted ones too.
    let mut scratch = vec![vec![0; len]; lost.iter().filter(|column| !want.contains(column)).count()];
    let (mut data_places, mut parity_places): (Vec<_>, Vec<_>) = want
        .iter()
        .copied()
        .zip(out.iter_mut().map(|place| &mut **place))
        .partition(|&(column, _)| column < k);
    let unwanted = lost.iter().copied().filter(|column| !want.contains(column));
    data_places.extend(unwanted.zip(scratch.iter_mut().map(Vec::as_mut_slice)));
    data_places.sort_by_key(|&(column, _)| column);
    parity_places.sort_by_key(|&(column, _)| column);

    match (data_places.as_mut_slice(), p, q) {
        ([], _, _) => {}
        ([(_, x)], Some(p), _) => {
            data.push(Some(p));
            compute_p(&data, x);
            data.pop();
        }
        ([(column, x)], None, Some(q)) => {
            compute_pq(&data, &mut vec![0; len], x);
            xor_into(x, q);
            kernel::scale(x, power(255 - *column % 255));
        }
        ([(x, place_x), (y, place_y)], Some(p), Some(q)) => {
            compute_pq(&data, place_x, place_y);
            xor_into(place_x, p);
            xor_into(place_y, q);
            // With P' = Dx + Dy and Q' = g^x Dx + g^y Dy: Dx = (g^y P' + Q') / (g^x + g^y), Dy = P' + Dx.
            let by_q = inverse(power(*x) ^ power(*y));
            kernel::solve(place_x, place_y, multiply(power(*y), by_q), by_q);
        }
        _ => {
            let parity = usize::from(p.is_some()) + usize::from(q.is_some());
            return Err(TooManyLost { lost_data: lost.len(), parity });
        }
    }

    for (column, place) in data_places {
        data[column] = Some(place);
    }
    match parity_places.as_mut_slice() {
        [] => {}
        [(column, p)] if *column == k => compute_p(&data, p),
        [(_, q)] => compute_pq(&data, &mut vec![0; len], q),
        [(_, p), (_, q)] => compute_pq(&data, p, q),
        _ => panic!("a column was wanted twice"),
    }
    Ok(())
}

fn present<'a>(column: Column<'a>) -> Option<&'a [u8]> {
    match column {
        Column::Present(bytes) => Some(bytes),
        Column::Absent | Column::Lost => None,
    }
}

fn compute_p(data: &[Option<&[u8]>], p: &mut [u8]) {
    assert!(data.iter().flatten().all(|d| d.len() == p.len()), "columns of a stripe have one length");
    kernel::xor(data, p);
}

fn compute_pq(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    assert!(data.iter().flatten().all(|d| d.len() == p.len()), "columns of a stripe have one length");
    assert_eq!(p.len(), q.len(), "columns of a stripe have one length");
    assert!(data.len() <= DATA_COLUMNS_MAX, "{} data columns", data.len());
    // Zeros at the top contribute nothing and Horner's scheme starts with the highest column.
    let used = data.iter().rposition(Option::is_some).map_or(0, |top| top + 1);
    kernel::pq(&data[..used], p, q);
}

#[cfg(test)]
mod tests;
