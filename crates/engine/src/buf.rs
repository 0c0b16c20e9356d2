//! Owned, aligned, shared memory: the only form in which data crosses an `.await`.

use std::sync::Arc;

/// The unit of a volume's addresses and of every transfer to a member.
pub const BLOCK_BYTES: usize = 4096;

/// One block of memory, aligned as O_DIRECT wants it.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES]);

/// A range of reference-counted, block-aligned memory.
///
/// Cloning and slicing share the memory. While only one handle exists, [`Buf::bytes_mut`] gives write access; that is
/// how a buffer is filled before it is sent on its way.
#[derive(Clone)]
pub struct Buf {
    pages: Arc<Vec<Page>>,
    start: u32,
    len: u32,
}

impl Buf {
    /// A zeroed buffer of `len` bytes. Its memory is block-aligned and padded to whole blocks.
    pub fn zeroed(len: usize) -> Buf {
        let pages = bytemuck::zeroed_vec(len.div_ceil(BLOCK_BYTES));
        Buf { pages: Arc::new(pages), start: 0, len: len as u32 }
    }

    /// A copy of `bytes` in aligned memory.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::zeroed(bytes.len());
        buf.bytes_mut().copy_from_slice(bytes);
        buf
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let all: &[u8] = bytemuck::cast_slice(self.pages.as_slice());
        &all[self.start as usize..(self.start + self.len) as usize]
    }

    /// The bytes for writing.
    ///
    /// # Panics
    /// When another handle shares the memory: filling a buffer that somebody reads is a broken invariant.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let pages = Arc::get_mut(&mut self.pages).expect("a shared buffer is read-only");
        let all: &mut [u8] = bytemuck::cast_slice_mut(pages.as_mut_slice());
        &mut all[self.start as usize..(self.start + self.len) as usize]
    }

    /// The part from `start`, `len` bytes long, sharing the memory.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn slice(&self, start: usize, len: usize) -> Buf {
        assert!(start + len <= self.len(), "slice {start}+{len} of a buffer of {}", self.len());
        Buf { pages: Arc::clone(&self.pages), start: self.start + start as u32, len: len as u32 }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}
