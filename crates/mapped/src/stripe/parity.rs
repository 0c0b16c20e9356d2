//! Computing the parity chunks of a stripe.

use crate::stripe::Stripes;
use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::Io;
use sinew_format::model::mapped_geometry::CHUNK_BLOCKS;
use sinew_layout::parity;

impl<I: Io> Stripes<I> {
    /// Parity chunks of columns given as runs of blocks.
    pub(crate) fn compute_parity(&self, columns: &[Vec<Buf>]) -> Vec<Buf> {
        let chunk_bytes = CHUNK_BLOCKS as usize * BLOCK_BYTES;
        if self.store.geometry().parity_columns() == 0 {
            return Vec::new();
        }
        let mut parity: Vec<Buf> =
            (0..self.store.geometry().parity_columns()).map(|_| Buf::stale(chunk_bytes)).collect();
        let blocks: Vec<Vec<&[u8]>> = columns
            .iter()
            .map(|chunk| chunk.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES)).collect())
            .collect();
        let mut data: Vec<Option<&[u8]>> = vec![None; columns.len()];
        for offset in 0..CHUNK_BLOCKS as usize {
            for (column, blocks) in blocks.iter().enumerate() {
                data[column] = Some(blocks[offset]);
            }
            let range = offset * BLOCK_BYTES..(offset + 1) * BLOCK_BYTES;
            let mut out: Vec<&mut [u8]> =
                parity.iter_mut().map(|p| &mut p.bytes_mut()[range.clone()]).collect();
            parity::compute(&data, &mut out);
        }
        parity
    }
}
