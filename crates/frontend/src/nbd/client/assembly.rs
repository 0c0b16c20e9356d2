//! The data of one read, from chunks in any order: each byte exactly once.

use std::collections::BTreeMap;

use sinew_core::buf::Buf;

/// Pieces of a reply with gaps between them. Servers send chunks in order, which makes one.
const PIECES_MAX: usize = 8192;

/// A read's data so far.
pub(super) struct Assembly {
    offset: u64,
    len: u32,
    /// Zeros where nothing came yet. `None` before the first chunk.
    data: Option<Buf>,
    /// Ranges that came, from the offset of the read: start and end, no two of them touch.
    pieces: BTreeMap<u32, u32>,
}

impl Assembly {
    pub(super) fn new(offset: u64, len: u32) -> Assembly {
        Assembly { offset, len, data: None, pieces: BTreeMap::new() }
    }

    /// Bytes asked for.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Data at an offset of the export.
    pub(super) fn put(&mut self, offset: u64, data: Buf) -> Result<(), &'static str> {
        let at = self.claim(offset, data.len() as u64)?;
        if data.len() == self.len() {
            self.data = Some(data);
        } else {
            let all = self.data.get_or_insert_with(|| Buf::zeroed(self.len as usize));
            all.bytes_mut()[at..at + data.len()].copy_from_slice(data.bytes());
        }
        Ok(())
    }

    /// Zeros at an offset of the export.
    pub(super) fn zero(&mut self, offset: u64, len: u32) -> Result<(), &'static str> {
        self.claim(offset, u64::from(len))?;
        self.data.get_or_insert_with(|| Buf::zeroed(self.len as usize));
        Ok(())
    }

    /// All of it.
    pub(super) fn finish(self) -> Result<Buf, &'static str> {
        if self.len > 0 && self.pieces.get(&0) != Some(&self.len) {
            return Err("a reply to a read with a gap");
        }
        Ok(self.data.unwrap_or_else(|| Buf::zeroed(0)))
    }

    /// Notes a range as come; gives its start within the read.
    fn claim(&mut self, offset: u64, len: u64) -> Result<usize, &'static str> {
        let outside = "data outside of what was read";
        let mut start =
            offset.checked_sub(self.offset).filter(|at| *at <= u64::from(self.len)).ok_or(outside)?;
        let mut end = start.checked_add(len).filter(|end| *end <= u64::from(self.len)).ok_or(outside)?;
        let at = start as usize;
        let before =
            self.pieces.range(..=start as u32).next_back().map(|(s, e)| (u64::from(*s), u64::from(*e)));
        let after = self.pieces.range(start as u32..).next().map(|(s, e)| (u64::from(*s), u64::from(*e)));
        if len == 0 || before.is_some_and(|(_, e)| e > start) || after.is_some_and(|(s, _)| s < end) {
            return Err("data that is empty or came twice");
        }
        if let Some((s, _)) = before.filter(|(_, e)| *e == start) {
            start = s;
        }
        if let Some((s, e)) = after.filter(|(s, _)| *s == end) {
            self.pieces.remove(&(s as u32));
            end = e;
        }
        self.pieces.insert(start as u32, end as u32);
        if self.pieces.len() > PIECES_MAX { Err("a reply in too many pieces") } else { Ok(at) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OFFSET: u64 = 1 << 40;

    proptest! {
        /// Against a bitmap: the same pieces are taken, and only all of them make the data.
        #[test]
        fn every_byte_comes_once(pieces in proptest::collection::vec((0u32..40, 0u32..24, any::<bool>()), 0..40)) {
            let (mut assembly, mut model) = (Assembly::new(OFFSET, 32), [None; 32]);
            for (start, len, hole) in pieces {
                let range = start as usize..(start + len) as usize;
                let legal = len > 0 && range.end <= 32 && model[range.clone()].iter().all(Option::is_none);
                let byte = if hole { 0 } else { start as u8 + 1 };
                let put = if hole {
                    assembly.zero(OFFSET + u64::from(start), len)
                } else {
                    assembly.put(OFFSET + u64::from(start), Buf::copy_of(&vec![byte; len as usize]))
                };
                prop_assert_eq!(put.is_ok(), legal);
                if legal {
                    model[range].fill(Some(byte));
                }
            }
            let whole: Option<Vec<u8>> = model.into_iter().collect();
            prop_assert_eq!(assembly.finish().ok().map(|data| data.bytes().to_vec()), whole);
        }
    }

    #[test]
    fn ranges_that_overflow_are_refused() {
        let mut assembly = Assembly::new(OFFSET, 32);
        for (offset, len) in [(0, 8), (u64::MAX, u32::MAX), (OFFSET + 33, 1), (OFFSET - 1, 8)] {
            assert!(assembly.zero(offset, len).is_err());
        }
    }
}
