//! The bell of a thread: which other threads have sent it messages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use atomic_waker::AtomicWaker;

/// The bell of one thread.
///
/// A thread rings it after it has sent a message. The owner hears it the next time it looks, and leaves a waker before it
/// waits. Of all rings of a thread between two looks the first alone wakes.
pub(super) struct Bell {
    /// A bit for each thread that has rung since the last look.
    rung: Box<[AtomicU64]>,
    waker: AtomicWaker,
    /// The thread takes no more messages.
    gone: AtomicBool,
}

impl Bell {
    /// A bell that `threads` threads can ring.
    pub(super) fn new(threads: usize) -> Bell {
        Bell {
            rung: (0..threads.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            waker: AtomicWaker::new(),
            gone: AtomicBool::new(false),
        }
    }

    /// Tells the thread that `by` has sent it something.
    pub(super) fn ring(&self, by: usize) {
        let bit = 1 << (by % 64);
        // What was sent before is seen by the look that takes the bit.
        if self.rung[by / 64].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.waker.wake();
        }
    }

    /// Calls `heard` with each thread that has rung since the last look.
    pub(super) fn listen(&self, mut heard: impl FnMut(usize)) {
        for (word, rung) in self.rung.iter().enumerate() {
            // Most looks find nothing, and then leave the line to those that ring.
            if rung.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut bits = rung.swap(0, Ordering::AcqRel);
            while bits != 0 {
                heard(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Leaves a waker for the next ring. Returns whether there has been one already.
    pub(super) fn wait(&self, waker: &Waker) -> bool {
        self.waker.register(waker);
        self.rung.iter().any(|rung| rung.load(Ordering::Acquire) != 0)
    }

    /// The thread ends; to be rung at the others afterwards.
    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Whether the thread has ended. If so, all that it sent has come.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}
