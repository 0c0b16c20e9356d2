//! Where control sockets are. Access to the directory is access to the pools: only its user can enter it.

use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The directory of control sockets.
pub(crate) fn directory() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir).join("sinew"),
        _ => PathBuf::from("/run/sinew"),
    }
}

/// Makes the directory of control sockets.
///
/// # Errors
/// When this user cannot make it.
pub(crate) fn make_directory() -> Result<PathBuf> {
    let dir = directory();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| {
        format!("cannot make {} for the control socket; say --control PATH", dir.display())
    })?;
    Ok(dir)
}

/// Whether a server answers at a socket.
pub(crate) fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
