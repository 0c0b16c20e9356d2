//! Sinew: uring.
