//! Prints how fast parity is computed on this processor, on chunks that are hot in its caches: a stripe of 64 KiB
//! chunks lives in a second-level cache, one of 4 KiB chunks in the first. Beside it, where `libisal.so.2` (Debian:
//! libisal2) is installed, ISA-L on the same buffers, in turns.
//!
//! GB/s count the bytes read and written (k + m chunks a stripe), as ISA-L's own benchmarks do. Each figure is the median
//! and the spread of 15 runs; a ratio is that of each run to ISA-L's next to it.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

use libloading::Library;
use sinew_core::buf::Buf;
use sinew_layout::parity;

/// Bytes handled in a run.
const RUN_BYTES: usize = 2 << 30;
const RUNS: usize = 15;
/// Data columns of the stripes with one and with two parity columns.
const XOR: usize = 5;
const PQ: usize = 4;

/// `xor_gen` and `pq_gen`: the number of vectors, their length, and where they are, parity last. 0 is success.
type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;

/// ISA-L, if it is there.
struct Isal(Option<Library>);

impl Isal {
    fn load() -> Isal {
        #[expect(unsafe_code, reason = "a library of C")]
        // SAFETY: ISA-L does nothing when it is loaded but find out what the processor can do.
        let library = unsafe { Library::new("libisal.so.2") };
        if let Err(error) = &library {
            println!("without ISA-L: {error}");
        }
        Isal(library.ok())
    }

    /// One of its functions on these columns, parity last.
    fn generate(&self, name: &str, columns: &mut [Buf]) -> Option<impl FnMut()> {
        let library = self.0.as_ref()?;
        #[expect(unsafe_code, reason = "a library of C")]
        // SAFETY: both functions of ISA-L that are asked for have this type.
        let generate = unsafe { library.get::<Generate>(name) }.expect("ISA-L has it");
        let len = columns[0].len() as c_int;
        let mut places: Vec<*mut c_void> =
            columns.iter_mut().map(|column| column.bytes_mut().as_mut_ptr().cast()).collect();
        Some(move || {
            #[expect(unsafe_code, reason = "a library of C")]
            // SAFETY: `places` are page-aligned buffers of `len` bytes each that outlive the measurement.
            let done = unsafe { generate(places.len() as c_int, len, black_box(places.as_mut_ptr())) };
            assert_eq!(done, 0, "ISA-L takes any such buffers");
        })
    }
}

/// Times `stripe`, which reads and writes `bytes` bytes.
fn time(bytes: usize, stripe: &mut dyn FnMut()) -> f64 {
    let stripes = RUN_BYTES / bytes;
    let start = Instant::now();
    for _ in 0..stripes {
        stripe();
    }
    (stripes * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Median and spread.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn measure(name: &str, bytes: usize, mut ours: impl FnMut(), theirs: Option<impl FnMut()>) {
    let mut theirs = theirs;
    let (mut speeds, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let speed = time(bytes, &mut ours);
        speeds.push(speed);
        ratios.extend(theirs.as_mut().map(|theirs| speed / time(bytes, theirs)));
    }
    let (median, low, high) = spread(speeds);
    print!("  {name:24} {median:6.1} GB/s ({low:.1} to {high:.1})");
    if !ratios.is_empty() {
        let (median, low, high) = spread(ratios);
        print!(", {median:.2} times ISA-L ({low:.2} to {high:.2})");
    }
    println!();
}

fn main() {
    let isal = Isal::load();
    for chunk_bytes in [64 << 10, 4 << 10] {
        println!("chunks of {} KiB", chunk_bytes >> 10);
        all(&isal, chunk_bytes);
    }
}

fn all(isal: &Isal, chunk_bytes: usize) {
    let stripe_bytes = 6 * chunk_bytes;
    // Buffers aligned as the engine's are.
    let column = |column: usize| {
        let bytes: Vec<u8> = (0..chunk_bytes).map(|i| (i as u8).wrapping_mul(31) ^ column as u8).collect();
        Buf::copy_of(&bytes)
    };
    let chunks: Vec<Buf> = (0..XOR).map(column).collect();
    let data: Vec<Option<&[u8]>> = chunks.iter().map(|chunk| Some(chunk.bytes())).collect();
    let mut places: [Buf; 4] = std::array::from_fn(|_| Buf::zeroed(chunk_bytes));
    let [p, q, x, y] = places.each_mut().map(Buf::bytes_mut);
    let mut of_xor: Vec<Buf> = (0..XOR).map(column).chain([Buf::zeroed(chunk_bytes)]).collect();
    let mut of_pq: Vec<Buf> =
        (0..PQ).map(column).chain([Buf::zeroed(chunk_bytes), Buf::zeroed(chunk_bytes)]).collect();

    let ours = || parity::compute(black_box(&data), &mut [black_box(&mut *p)]);
    let theirs = isal.generate("xor_gen", &mut of_xor);
    let is_beside = theirs.is_some();
    measure("XOR, 5 to 1", stripe_bytes, ours, theirs);
    assert!(!is_beside || of_xor[XOR].bytes() == &*p);

    let ours = || parity::compute(black_box(&data[..PQ]), &mut [black_box(&mut *p), black_box(&mut *q)]);
    measure("P+Q, 4 to 2", stripe_bytes, ours, isal.generate("pq_gen", &mut of_pq));
    assert!(!is_beside || (of_pq[PQ].bytes() == &*p && of_pq[PQ + 1].bytes() == &*q));

    let mut columns: Vec<_> =
        data[..PQ].iter().flatten().map(|bytes| parity::Column::Present(bytes)).collect();
    columns.extend([parity::Column::Present(p), parity::Column::Present(q)]);
    (columns[0], columns[2]) = (parity::Column::Lost, parity::Column::Lost);
    let ours = || {
        parity::reconstruct(black_box(&columns), PQ, 2, &[0, 2], &mut [&mut *x, &mut *y])
            .expect("two of two");
    };
    measure("recover 2 data of 4+2", stripe_bytes, ours, None::<fn()>);
    assert!(x == chunks[0].bytes() && y == chunks[2].bytes());
}
