//! The clock and the random numbers of the kernel.

/// Nanoseconds on the clock that all threads share and that never goes back.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills a structure that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A random number of the kernel's.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the kernel fills eight bytes of a local.
    let filled = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(filled, 8, "the kernel gives up to 256 random bytes without fail");
    u64::from_ne_bytes(bytes)
}
