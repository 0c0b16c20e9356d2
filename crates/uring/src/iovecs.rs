//! Vectors that point the kernel to the parts of a gathered transfer.

/// The most buffers the kernel takes in one request (UIO_MAXIOV).
const IOVECS_MAX: usize = 1024;

/// Fills `iovecs` with the bytes of `parts` after the first `skip`, as many as one request takes.
pub(crate) fn point_to<'a>(
    parts: impl Iterator<Item = &'a [u8]>,
    mut skip: usize,
    iovecs: &mut Vec<libc::iovec>,
) {
    iovecs.clear();
    for part in parts {
        let rest = &part[skip.min(part.len())..];
        skip -= part.len() - rest.len();
        if !rest.is_empty() {
            iovecs.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
        }
        if iovecs.len() == IOVECS_MAX {
            return;
        }
    }
}
