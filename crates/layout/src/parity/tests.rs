//! Parity against its definition, and every loss of small stripes.

use proptest::prelude::*;

use crate::parity::*;

/// Multiplication by the definition: of polynomials over GF(2), then modulo 0x11d.
fn multiply_by_definition(a: u8, b: u8) -> u8 {
    let product = (0..8).filter(|bit| b >> bit & 1 == 1).fold(0u32, |sum, bit| sum ^ u32::from(a) << bit);
    let rest = (8..16)
        .rev()
        .fold(product, |rest, bit| if rest >> bit & 1 == 1 { rest ^ 0x11d << (bit - 8) } else { rest });
    rest as u8
}

/// P and Q by the definition.
fn by_definition(data: &[Option<&[u8]>], len: usize) -> [Vec<u8>; 2] {
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    let mut coefficient = 1;
    for column in data {
        for (at, &byte) in column.unwrap_or(&[]).iter().enumerate() {
            p[at] ^= byte;
            q[at] ^= multiply_by_definition(coefficient, byte);
        }
        coefficient = multiply_by_definition(coefficient, 2);
    }
    [p, q]
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    let mut state = seed as u32 * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(0x9e37_79b1).rotate_left(11) ^ 0x5bd1_e995;
        (state >> 16) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn field_is_the_one_of_linux() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(multiply(a, b), multiply_by_definition(a, b));
        }
        if a != 0 {
            assert_eq!(multiply(a, inverse(a)), 1);
        }
    }
    // From lib/raid6 of Linux: raid6_gfexp and raid6_gfinv.
    assert_eq!([0, 1, 8, 9, 254].map(power), [0x01, 0x02, 0x1d, 0x3a, 0x8e]);
    assert_eq!([2, 3, 4].map(inverse), [0x8e, 0xf4, 0x47]);
}

/// Every length around the tile size, so that whole tiles, tails and both are met.
#[test]
fn every_length() {
    for len in (0..=70).chain(250..=262).chain(505..=520).chain([1023, 1024, 4096]) {
        let columns: Vec<_> = (0..4).map(|seed| bytes(seed + len, len)).collect();
        let data: Vec<_> = columns.iter().map(|column| Some(column.as_slice())).collect();
        let expected = by_definition(&data, len);
        let (mut p, mut q) = (bytes(90, len), bytes(91, len));
        compute(&data, &mut [&mut p]);
        assert_eq!(p, expected[0]);
        p.fill(7);
        compute(&data, &mut [&mut p, &mut q]);
        assert_eq!([p, q], expected);

        let mut sum = columns[0].clone();
        xor_into(&mut sum, &columns[1]);
        assert!((0..len).all(|at| sum[at] == columns[0][at] ^ columns[1][at]));
    }
}

/// Every width to 6, every set of absent columns, every loss, every choice of wanted columns in either order.
#[test]
fn every_loss_is_recovered_or_refused() {
    const LEN: usize = 300;
    for k in 1..=6usize {
        for (m, absent) in [1, 2].into_iter().flat_map(|m| (0..1u32 << k).map(move |absent| (m, absent))) {
            let stored: Vec<_> = (0..k).map(|column| bytes(column, LEN)).collect();
            let data: Vec<_> =
                (0..k).map(|i| (absent >> i & 1 == 0).then_some(stored[i].as_slice())).collect();
            let parity = by_definition(&data, LEN);
            let truth: Vec<Vec<u8>> = (data.iter().map(|column| column.map_or(vec![0; LEN], <[u8]>::to_vec)))
                .chain(parity.iter().take(m).cloned())
                .collect();
            for lost in 0..1u32 << (k + m) {
                if lost & absent != 0 {
                    continue;
                }
                let columns: Vec<_> = (0..k + m)
                    .map(|i| match (lost >> i & 1, i < k && absent >> i & 1 == 1) {
                        (1, _) => Column::Lost,
                        (_, true) => Column::Absent,
                        _ => Column::Present(&truth[i]),
                    })
                    .collect();
                check_loss(&columns, k, m, lost, &truth);
            }
        }
    }
}

fn check_loss(columns: &[Column<'_>], k: usize, m: usize, lost: u32, truth: &[Vec<u8>]) {
    let lost: Vec<usize> = (0..k + m).filter(|i| lost >> i & 1 == 1).collect();
    let lost_data = lost.iter().filter(|&&column| column < k).count();
    let lost_parity = lost.len() - lost_data;
    if lost.len() > m {
        let mut place = [0; 300];
        let refused = reconstruct(columns, k, m, &lost[..1], &mut [&mut place]);
        if lost_data > m - lost_parity {
            assert_eq!(refused, Err(TooManyLost { lost_data, parity: m - lost_parity }));
        }
        return;
    }
    let pairs =
        lost.iter().flat_map(|&a| lost.iter().map(move |&b| vec![a, b])).filter(|pair| pair[0] != pair[1]);
    for want in lost.iter().map(|&a| vec![a]).chain(pairs).chain([vec![]]) {
        let mut places = vec![bytes(99, truth[0].len()); want.len()];
        let mut out: Vec<&mut [u8]> = places.iter_mut().map(Vec::as_mut_slice).collect();
        assert_eq!(reconstruct(columns, k, m, &want, &mut out), Ok(()));
        for (column, place) in want.iter().zip(&places) {
            assert_eq!(*place, truth[*column], "column {column} of {k}+{m}, lost {lost:?}, wanted {want:?}");
        }
    }
}

/// The widest stripe: all exponents are distinct, so every pair can be told apart.
#[test]
fn widest_stripe() {
    let k = DATA_COLUMNS_MAX;
    let stored: Vec<_> = (0..k).map(|column| bytes(column, 3)).collect();
    let data: Vec<_> = stored.iter().map(|column| Some(column.as_slice())).collect();
    let [p, q] = by_definition(&data, 3);
    let (mut p2, mut q2) = (vec![0; 3], vec![0; 3]);
    compute(&data, &mut [&mut p2, &mut q2]);
    assert_eq!((&p, &q), (&p2, &q2));
    for x in 0..k {
        for y in [(x + 1) % k, (x + 127) % k] {
            let mut columns: Vec<_> =
                stored.iter().chain([&p, &q]).map(|bytes| Column::Present(bytes)).collect();
            columns[x] = Column::Lost;
            columns[y] = Column::Lost;
            let (mut a, mut b) = ([0; 3], [0; 3]);
            reconstruct(&columns, k, 2, &[x, y], &mut [&mut a, &mut b]).expect("two of two");
            assert_eq!((&a[..], &b[..]), (&stored[x][..], &stored[y][..]));
        }
    }
}

#[test]
#[should_panic(expected = "is not lost")]
fn wanting_what_is_there_is_a_broken_invariant() {
    let (column, mut place) = ([1, 2], [0; 2]);
    let columns = [Column::Present(&column), Column::Lost];
    let _refused = reconstruct(&columns, 1, 1, &[0], &mut [&mut place]);
}

proptest! {
    /// A narrow stripe has the parity of the wide one with zeros behind it.
    #[test]
    fn absent_is_zeros(columns in prop::collection::vec(prop::option::of(any::<u64>()), 0..20)) {
        let stored: Vec<[u8; 8]> = columns.iter().map(|column| column.unwrap_or(0).to_le_bytes()).collect();
        let absent: Vec<Option<&[u8]>> =
            columns.iter().zip(&stored).map(|(column, bytes)| column.map(|_| &bytes[..])).collect();
        let zeros: Vec<Option<&[u8]>> = stored.iter().map(|bytes| Some(&bytes[..])).collect();
        let mut parity = [[1; 8]; 4];
        let [p, q, p2, q2] = &mut parity;
        compute(&absent, &mut [p, q]);
        compute(&zeros, &mut [p2, q2]);
        prop_assert_eq!((p, q), (p2, q2));
    }
}
