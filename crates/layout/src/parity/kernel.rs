//! The inner loops of parity, chosen for the processor at run time.
//!
//! One loop body, two vocabularies: `portable` computes on eight 64-bit lanes and leaves it to the compiler to make
//! vectors of them, compiled once for AVX2 and once for the baseline; `wide` names AVX-512 and GFNI, which multiplies
//! by a constant in one instruction. A tile of every accumulator stays in registers while the columns stream by once,
//! so P and Q cost one read of the data and one write of the parity.
//!
//! Lengths are checked by the caller.

use multiversion::{multiversion, target::match_target};

use crate::parity::gf256::{double, multiply};

/// Bytes of one vector.
const LANE_BYTES: usize = 64;
/// Vectors of a column handled at a time: enough to hide the latency of a multiplication, few enough for registers.
const TILE_LANES: usize = 4;
const TILE_BYTES: usize = LANE_BYTES * TILE_LANES;

type Tile = [[u8; LANE_BYTES]; TILE_LANES];

/// The whole tiles of a column, and the bytes behind them.
#[inline(always)]
fn tiles(bytes: &[u8]) -> (&[Tile], &[u8]) {
    let (tiles, rest) = bytes.as_chunks::<TILE_BYTES>();
    (bytemuck::cast_slice(tiles), rest)
}

#[inline(always)]
fn tiles_mut(bytes: &mut [u8]) -> (&mut [Tile], &mut [u8]) {
    let (tiles, rest) = bytes.as_chunks_mut::<TILE_BYTES>();
    (bytemuck::cast_slice_mut(tiles), rest)
}

/// The loops over whole tiles, in terms of `Lane`, `Factor`, `ZERO`, `load`, `store`, `xor`, `twice`, `factor` and
/// `times` of the place where it is used. A macro and not a trait, because safe trait methods cannot carry the target
/// features that the intrinsics ask for.
macro_rules! tile_loops {
    ($(#[$how:meta])*) => {
        $(#[$how])*
        pub(crate) fn xor(data: &[Option<&[u8]>], out: &mut [Tile]) {
            for (at, out) in out.iter_mut().enumerate() {
                let mut sum = [zero(); TILE_LANES];
                for bytes in data.iter().flatten() {
                    let tile = &tiles(bytes).0[at];
                    for lane in 0..TILE_LANES {
                        sum[lane] = xor2(sum[lane], load(&tile[lane]));
                    }
                }
                for lane in 0..TILE_LANES {
                    store(&mut out[lane], sum[lane]);
                }
            }
        }

        $(#[$how])*
        pub(crate) fn pq(data: &[Option<&[u8]>], p: &mut [Tile], q: &mut [Tile]) {
            for (at, (p, q)) in p.iter_mut().zip(q).enumerate() {
                let mut p_sum = [zero(); TILE_LANES];
                let mut q_sum = [zero(); TILE_LANES];
                for column in data.iter().rev() {
                    for lane in 0..TILE_LANES {
                        q_sum[lane] = twice(q_sum[lane]);
                    }
                    if let Some(bytes) = column {
                        let tile = &tiles(bytes).0[at];
                        for lane in 0..TILE_LANES {
                            let data = load(&tile[lane]);
                            p_sum[lane] = xor2(p_sum[lane], data);
                            q_sum[lane] = xor2(q_sum[lane], data);
                        }
                    }
                }
                for lane in 0..TILE_LANES {
                    store(&mut p[lane], p_sum[lane]);
                    store(&mut q[lane], q_sum[lane]);
                }
            }
        }

        $(#[$how])*
        pub(crate) fn scale(bytes: &mut [Tile], by: u8) {
            let by = factor(by);
            for lane in bytes.as_flattened_mut() {
                let product = times(load(lane), by);
                store(lane, product);
            }
        }

        $(#[$how])*
        pub(crate) fn solve(p: &mut [Tile], q: &mut [Tile], by_p: u8, by_q: u8) {
            let (by_p, by_q) = (factor(by_p), factor(by_q));
            for (p, q) in p.as_flattened_mut().iter_mut().zip(q.as_flattened_mut()) {
                let sum = load(p);
                let x = xor2(times(sum, by_p), times(load(q), by_q));
                store(p, x);
                store(q, xor2(sum, x));
            }
        }
    };
}

mod portable {
    use super::{LANE_BYTES, TILE_LANES, Tile, tiles};

    type Lane = [u64; 8];

    #[inline(always)]
    fn zero() -> Lane {
        [0; 8]
    }

    #[inline(always)]
    fn load(bytes: &[u8; LANE_BYTES]) -> Lane {
        bytemuck::cast(*bytes)
    }

    #[inline(always)]
    fn store(bytes: &mut [u8; LANE_BYTES], lane: Lane) {
        *bytes = bytemuck::cast(lane);
    }

    #[inline(always)]
    fn xor2(a: Lane, b: Lane) -> Lane {
        std::array::from_fn(|i| a[i] ^ b[i])
    }

    /// Eight bytes of each word at once (Anvin, section 4): the top bits, moved to the bottom, say where to reduce.
    #[inline(always)]
    fn twice(a: Lane) -> Lane {
        a.map(|word| {
            let top = word & 0x8080_8080_8080_8080;
            let reduce = (top << 1).wrapping_sub(top >> 7) & 0x1d1d_1d1d_1d1d_1d1d;
            (word & 0x7f7f_7f7f_7f7f_7f7f) << 1 ^ reduce
        })
    }

    #[inline(always)]
    fn factor(by: u8) -> u8 {
        by
    }

    #[inline(always)]
    fn times(a: Lane, by: u8) -> Lane {
        let mut product = zero();
        for bit in (0..8).rev() {
            product = twice(product);
            if by >> bit & 1 == 1 {
                product = xor2(product, a);
            }
        }
        product
    }

    tile_loops!(#[inline(always)]);
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::*;

    use super::{LANE_BYTES, TILE_LANES, Tile, matrix, tiles};

    const TWICE: i64 = matrix(2);

    static MATRICES: [i64; 256] = {
        let mut matrices = [0; 256];
        let mut by = 0;
        while by < 256 {
            matrices[by] = matrix(by as u8);
            by += 1;
        }
        matrices
    };

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; LANE_BYTES]) -> __m512i {
        bytemuck::cast(*bytes)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(bytes: &mut [u8; LANE_BYTES], lane: __m512i) {
        *bytes = bytemuck::cast(lane);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn xor2(a: __m512i, b: __m512i) -> __m512i {
        _mm512_xor_si512(a, b)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn twice(a: __m512i) -> __m512i {
        times(a, _mm512_set1_epi64(TWICE))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn factor(by: u8) -> __m512i {
        _mm512_set1_epi64(MATRICES[by as usize])
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn times(a: __m512i, by: __m512i) -> __m512i {
        _mm512_gf2p8affine_epi64_epi8::<0>(a, by)
    }

    tile_loops!(#[inline] #[target_feature(enable = "avx512f,avx512bw,gfni")]);
}

/// Multiplication by `by` as the bit matrix that GFNI's affine transformation takes: byte 7 - i holds the row of output
/// bit i, bit j of the row says whether input bit j goes into it. (The instruction's own product has another
/// polynomial.)
#[cfg(target_arch = "x86_64")]
const fn matrix(by: u8) -> i64 {
    let mut rows = [0; 8];
    let mut input = 0;
    while input < 8 {
        let column = multiply(by, 1 << input);
        let mut output = 0;
        while output < 8 {
            rows[7 - output] |= (column >> output & 1) << input;
            output += 1;
        }
        input += 1;
    }
    i64::from_le_bytes(rows)
}

/// `out` becomes the XOR of the columns.
#[multiversion(targets("x86_64+avx512f+avx512bw+gfni", "x86_64+avx2"))]
pub(crate) fn xor(data: &[Option<&[u8]>], out: &mut [u8]) {
    let (whole, rest) = tiles_mut(out);
    match_target! {
        "x86_64+avx512f+avx512bw+gfni" => wide::xor(data, whole),
        _ => portable::xor(data, whole),
    }
    let done = whole.len() * TILE_BYTES;
    for (at, out) in rest.iter_mut().enumerate() {
        *out = data.iter().flatten().fold(0, |sum, bytes| sum ^ bytes[done + at]);
    }
}

/// `dst` ^= `src`.
#[multiversion(targets("x86_64+avx512f+avx512bw+gfni", "x86_64+avx2"))]
pub(crate) fn xor_into(dst: &mut [u8], src: &[u8]) {
    for (dst, src) in dst.iter_mut().zip(src) {
        *dst ^= *src;
    }
}

/// P and Q of the columns.
#[multiversion(targets("x86_64+avx512f+avx512bw+gfni", "x86_64+avx2"))]
pub(crate) fn pq(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    let (p_whole, p_rest) = tiles_mut(p);
    let (q_whole, q_rest) = tiles_mut(q);
    match_target! {
        "x86_64+avx512f+avx512bw+gfni" => wide::pq(data, p_whole, q_whole),
        _ => portable::pq(data, p_whole, q_whole),
    }
    let done = p_whole.len() * TILE_BYTES;
    for (at, (p, q)) in p_rest.iter_mut().zip(q_rest).enumerate() {
        (*p, *q) = data.iter().rev().fold((0, 0), |(p, q), column| {
            let byte = column.map_or(0, |bytes| bytes[done + at]);
            (p ^ byte, double(q) ^ byte)
        });
    }
}

/// Multiplies every byte.
#[multiversion(targets("x86_64+avx512f+avx512bw+gfni", "x86_64+avx2"))]
pub(crate) fn scale(bytes: &mut [u8], by: u8) {
    let (whole, rest) = tiles_mut(bytes);
    match_target! {
        "x86_64+avx512f+avx512bw+gfni" => wide::scale(whole, by),
        _ => portable::scale(whole, by),
    }
    for byte in rest {
        *byte = multiply(*byte, by);
    }
}

/// Given the syndromes P' and Q' of two lost columns x and y, puts x, which is `by_p * P' + by_q * Q'`, in the place of
/// the first and y, which is `P' + x`, in the place of the second.
#[multiversion(targets("x86_64+avx512f+avx512bw+gfni", "x86_64+avx2"))]
pub(crate) fn solve(p: &mut [u8], q: &mut [u8], by_p: u8, by_q: u8) {
    let (p_whole, p_rest) = tiles_mut(p);
    let (q_whole, q_rest) = tiles_mut(q);
    match_target! {
        "x86_64+avx512f+avx512bw+gfni" => wide::solve(p_whole, q_whole, by_p, by_q),
        _ => portable::solve(p_whole, q_whole, by_p, by_q),
    }
    for (p, q) in p_rest.iter_mut().zip(q_rest) {
        let x = multiply(*p, by_p) ^ multiply(*q, by_q);
        (*p, *q) = (x, *p ^ x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a processor without AVX-512 computes, next to what this one does.
    #[test]
    fn portable_loops_agree_with_the_chosen_ones() {
        let bytes = |seed: usize| -> Vec<u8> {
            (0..3 * TILE_BYTES).map(|i| (i * (2 * seed + 7) + (i >> 8) * 13 + seed) as u8).collect()
        };
        let columns: Vec<Vec<u8>> = (0..7).map(bytes).collect();
        let mut data: Vec<Option<&[u8]>> = columns.iter().map(|column| Some(column.as_slice())).collect();
        data[3] = None;

        let (mut p, mut q) = (bytes(8), bytes(9));
        pq(&data, &mut p, &mut q);
        let (mut p2, mut q2) = (bytes(10), bytes(11));
        portable::pq(&data, tiles_mut(&mut p2).0, tiles_mut(&mut q2).0);
        assert_eq!((&p, &q), (&p2, &q2));

        xor(&data, &mut q2);
        assert_eq!(p, q2);
        portable::xor(&data, tiles_mut(&mut p2).0);
        assert_eq!(p, p2);

        for by in 0..=255u8 {
            let (mut a, mut b) = (bytes(1), bytes(1));
            scale(&mut a, by);
            portable::scale(tiles_mut(&mut b).0, by);
            assert_eq!(a, b, "times {by}");
            assert!(a.iter().zip(bytes(1)).all(|(&product, byte)| product == multiply(byte, by)));

            let (mut a, mut b, mut c, mut d) = (bytes(1), bytes(2), bytes(1), bytes(2));
            solve(&mut a, &mut b, by, 254 - by / 2);
            portable::solve(tiles_mut(&mut c).0, tiles_mut(&mut d).0, by, 254 - by / 2);
            assert_eq!((a, b), (c, d));
        }
    }
}
