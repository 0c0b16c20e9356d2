//! Prints how fast parity is computed on this processor, on chunks that are hot in its caches: a stripe of 64 KiB
//! chunks lives in a second-level cache, one of 4 KiB chunks in the first.
//!
//! GB/s count the bytes read and written (k + m chunks a stripe), as ISA-L's own benchmarks do. Each figure is the median
//! and the spread of 15 runs.

use std::hint::black_box;

use sinew_engine::{buf::Buf, parity};

#[expect(clippy::disallowed_types, reason = "the engine has no clock; what measures it needs one")]
type Clock = std::time::Instant;

/// Bytes handled in a run.
const RUN_BYTES: usize = 8 << 30;
const RUNS: usize = 15;

/// Times `stripe`, which reads and writes `bytes`.
fn measure(name: &str, bytes: usize, mut stripe: impl FnMut()) {
    let stripes = RUN_BYTES / bytes;
    let mut speeds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Clock::now();
            for _ in 0..stripes {
                stripe();
            }
            (stripes * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    println!("  {name:24} {:6.1} GB/s ({:.1} to {:.1})", speeds[RUNS / 2], speeds[0], speeds[RUNS - 1]);
}

fn main() {
    for chunk_bytes in [64 << 10, 4 << 10] {
        println!("chunks of {} KiB", chunk_bytes >> 10);
        all(chunk_bytes);
    }
}

fn all(chunk_bytes: usize) {
    let stripe_bytes = 6 * chunk_bytes;
    // Buffers aligned as the engine's are.
    let chunks: Vec<Buf> = (0..5u8)
        .map(|column| {
            let bytes: Vec<u8> = (0..chunk_bytes).map(|i| (i as u8).wrapping_mul(31) ^ column).collect();
            Buf::copy_of(&bytes)
        })
        .collect();
    let data: Vec<Option<&[u8]>> = chunks.iter().map(|chunk| Some(chunk.bytes())).collect();
    let mut places: [Buf; 4] = std::array::from_fn(|_| Buf::zeroed(chunk_bytes));
    let [p, q, x, y] = places.each_mut().map(Buf::bytes_mut);

    measure("XOR, 5 to 1", stripe_bytes, || parity::compute(black_box(&data), &mut [black_box(&mut *p)]));
    measure("P+Q, 4 to 2", stripe_bytes, || {
        parity::compute(black_box(&data[..4]), &mut [black_box(&mut *p), black_box(&mut *q)]);
    });

    let mut columns: Vec<_> =
        data[..4].iter().flatten().map(|bytes| parity::Column::Present(bytes)).collect();
    columns.extend([parity::Column::Present(p), parity::Column::Present(q)]);
    (columns[0], columns[2]) = (parity::Column::Lost, parity::Column::Lost);
    measure("recover 2 data of 4+2", stripe_bytes, || {
        parity::reconstruct(black_box(&columns), 4, 2, &[0, 2], &mut [&mut *x, &mut *y]).expect("two of two");
    });
    assert!(x == chunks[0].bytes() && y == chunks[2].bytes());
}
