//! Any bytes at any of the places that are searched for foreign metadata: the search ends, and what it finds can be told.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinew_format::foreign::{self, Extent};

/// Larger devices are searched at no more places.
const DEVICE_BYTES_MAX: u64 = 16 << 20;

fuzz_target!(|data: &[u8]| {
    let Some((size, mut pieces)) = data.split_first_chunk::<8>() else { return };
    let size = u64::from_le_bytes(*size) % DEVICE_BYTES_MAX;
    let zeros = |range: std::ops::Range<u64>| Extent {
        offset: range.start,
        bytes: vec![0; (range.end - range.start) as usize],
    };
    let mut extents: Vec<Extent> = foreign::extents(size).into_iter().map(zeros).collect();
    // Pieces of up to 255 bytes: extent, offset in it, length.
    while let Some((&[extent, a, b, c, len], rest)) = pieces.split_first_chunk::<5>() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(len)));
        let count = extents.len();
        let into = &mut extents[usize::from(extent) % count].bytes;
        let at = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        if let Some(place) = into.get_mut(at..at + piece.len()) {
            place.copy_from_slice(piece);
        }
        pieces = rest;
    }
    let content = foreign::content(size, &extents);
    assert_eq!(content.is_empty(), content.to_string().is_empty());
});
