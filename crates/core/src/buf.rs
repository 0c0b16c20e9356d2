//! Owned, aligned, shared memory: the only form in which data crosses an `.await`.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use smallvec::SmallVec;

/// The unit of a volume's addresses and of every transfer to a member.
pub const BLOCK_BYTES: usize = 4096;

/// One block of memory, aligned as O_DIRECT requires.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES]);

/// Buffers of up to this many blocks are kept for reuse when they are dropped; there is a list for each power of two.
const KEPT_BLOCKS_MAX: usize = 256;
const CLASSES: usize = KEPT_BLOCKS_MAX.ilog2() as usize + 1;
/// Memory a thread keeps in one list, unless told otherwise.
const KEPT_BYTES_MAX: usize = 4 << 20;

thread_local! {
    static KEPT: RefCell<[Vec<Arc<Pages>>; CLASSES]> = const { RefCell::new([const { Vec::new() }; CLASSES]) };
    static KEPT_MAX: Cell<usize> = const { Cell::new(KEPT_BYTES_MAX) };
}

/// Sets the bytes of each size that this thread keeps for reuse: for a thread that again and again allocates much memory and
/// drops all of it.
pub fn keep(bytes: usize) {
    KEPT_MAX.set(bytes);
}

/// The memory of a buffer. The last handle to it puts it into a list of its thread: to allocate pages from the system and to free
/// them costs more than all other work of a small request.
struct Pages(Box<[Page]>);

impl Pages {
    /// The list for this many blocks.
    fn class(blocks: usize) -> Option<usize> {
        (1..=KEPT_BLOCKS_MAX).contains(&blocks).then(|| blocks.next_power_of_two().ilog2() as usize)
    }

    /// At least `len` bytes with unspecified content, and whether they are known to be zeros.
    fn of(len: usize) -> (Arc<Pages>, bool) {
        let fresh = |blocks| Arc::new(Pages(bytemuck::zeroed_slice_box(blocks)));
        let blocks = len.div_ceil(BLOCK_BYTES);
        let Some(class) = Pages::class(blocks) else { return (fresh(blocks), true) };
        match KEPT.try_with(|kept| kept.borrow_mut()[class].pop()).ok().flatten() {
            Some(pages) => (pages, false),
            None => (fresh(1 << class), true),
        }
    }

    /// Keeps memory, which has no other handle, for reuse.
    fn keep(self: Arc<Self>) {
        let Some(class) = Pages::class(self.0.len()) else { return };
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|kept| {
            let list = &mut kept.borrow_mut()[class];
            if (list.len() << class) * BLOCK_BYTES < KEPT_MAX.get() {
                list.push(self);
            }
        });
    }
}

/// A range of reference-counted, block-aligned memory.
///
/// Cloning and slicing share the memory. While only one handle exists, [`Buf::bytes_mut`] gives write access; that is
/// how a buffer is filled before it is sent on its way.
#[derive(Clone)]
pub struct Buf {
    /// `None` only while it is dropped.
    pages: Option<Arc<Pages>>,
    start: u32,
    len: u32,
}

/// Buffers that follow one another. One alone needs no memory for the list.
pub type Bufs = SmallVec<[Buf; 1]>;

impl From<Buf> for Bufs {
    fn from(buf: Buf) -> Bufs {
        Bufs::from_buf([buf])
    }
}

impl Buf {
    /// A zeroed buffer of `len` bytes. Its memory is block-aligned and padded to whole blocks.
    pub fn zeroed(len: usize) -> Buf {
        let (pages, fresh) = Pages::of(len);
        let mut buf = Buf { pages: Some(pages), start: 0, len: len as u32 };
        if !fresh {
            buf.bytes_mut().fill(0);
        }
        buf
    }

    /// A buffer of `len` bytes to be filled: its content is unspecified, left over from an earlier use of the memory.
    pub fn stale(len: usize) -> Buf {
        let (pages, _) = Pages::of(len);
        let buf = Buf { pages: Some(pages), start: 0, len: len as u32 };
        #[cfg(debug_assertions)]
        let buf = {
            let mut buf = buf;
            buf.bytes_mut().fill(0xdb);
            buf
        };
        buf
    }

    /// A copy of `bytes` in aligned memory.
    pub fn copy_of(bytes: &[u8]) -> Buf {
        let mut buf = Buf::stale(bytes.len());
        buf.bytes_mut().copy_from_slice(bytes);
        buf
    }

    fn pages(&self) -> &Arc<Pages> {
        self.pages.as_ref().expect("held until the drop")
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let all: &[u8] = bytemuck::cast_slice(&self.pages().0);
        &all[self.start as usize..(self.start + self.len) as usize]
    }

    /// The bytes for writing.
    ///
    /// # Panics
    /// When another handle shares the memory: to fill a buffer that is being read is a broken invariant.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let pages = self.pages.as_mut().and_then(Arc::get_mut).expect("a shared buffer is read-only");
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut pages.0);
        &mut all[self.start as usize..(self.start + self.len) as usize]
    }

    /// Whether this is the same part of the same memory.
    pub fn is_same(&self, other: &Buf) -> bool {
        Arc::ptr_eq(self.pages(), other.pages()) && (self.start, self.len) == (other.start, other.len)
    }

    /// The part from `start`, `len` bytes long, sharing the memory.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn slice(&self, start: usize, len: usize) -> Buf {
        assert!(start + len <= self.len(), "slice {start}+{len} of a buffer of {}", self.len());
        Buf { pages: self.pages.clone(), start: self.start + start as u32, len: len as u32 }
    }

    /// The blocks of a buffer of whole blocks, sharing the memory.
    pub fn blocks(&self) -> impl Iterator<Item = Buf> {
        (0..self.len()).step_by(BLOCK_BYTES).map(|start| self.slice(start, BLOCK_BYTES))
    }
}

impl Buf {
    /// Appends `next` if it follows this range in the same memory. Returns whether it does.
    pub fn join(&mut self, next: &Buf) -> bool {
        let follows = Arc::ptr_eq(self.pages(), next.pages()) && self.start + self.len == next.start;
        if follows {
            self.len += next.len;
        }
        follows
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        // Handles that two threads drop at the same moment may both see the other one; then the memory is freed.
        if let Some(mut pages) = self.pages.take()
            && Arc::get_mut(&mut pages).is_some()
        {
            pages.keep();
        }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_and_zeroed_when_asked() {
        let mut first = Buf::zeroed(3 * BLOCK_BYTES);
        first.bytes_mut().fill(7);
        let at = first.bytes().as_ptr();
        drop(first);
        let again = Buf::zeroed(4 * BLOCK_BYTES);
        assert_eq!(again.bytes().as_ptr(), at);
        assert!(again.bytes().iter().all(|&b| b == 0));
    }

    #[test]
    fn memory_is_kept_when_its_last_handle_is_dropped() {
        let whole = Buf::zeroed(5 * BLOCK_BYTES);
        let at = whole.bytes().as_ptr();
        let part = whole.slice(0, BLOCK_BYTES);
        drop(whole);
        assert_ne!(Buf::stale(5 * BLOCK_BYTES).bytes().as_ptr(), at, "a part of it is in use");
        drop(part);
        assert_eq!(Buf::stale(8 * BLOCK_BYTES).bytes().as_ptr(), at);
    }

    #[test]
    fn large_and_empty_buffers_work() {
        assert!(Buf::zeroed(0).is_empty());
        let large = Buf::zeroed((KEPT_BLOCKS_MAX + 1) * BLOCK_BYTES);
        assert_eq!(large.slice(BLOCK_BYTES, 5).len(), 5);
    }
}
