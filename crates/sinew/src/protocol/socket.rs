//! Where control sockets are. Access to the directory is access to the pools: only its user can enter it.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Where the pools of root, and of services, have their control sockets.
const SYSTEM_DIRECTORY: &str = "/run/sinew";

/// The directory of the control sockets of this user.
pub(crate) fn directory() -> PathBuf {
    if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(dir).join("sinew");
    }
    let user = user();
    let is_own = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    let system = Path::new(SYSTEM_DIRECTORY);
    let of_login = PathBuf::from(format!("/run/user/{user}"));
    if user == 0 || is_own(system) {
        system.to_owned()
    } else if is_own(&of_login) {
        of_login.join("sinew")
    } else {
        // Without a login session, such as under cron or in a container.
        std::env::temp_dir().join(format!("sinew-{user}"))
    }
}

/// All directories in which control sockets may be, that of this user first.
pub(crate) fn directories() -> Vec<PathBuf> {
    let mut all = vec![directory(), PathBuf::from(SYSTEM_DIRECTORY)];
    all.dedup();
    all
}

/// The effective user of this process.
fn user() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid())
}

/// Makes the directory of control sockets.
///
/// # Errors
/// When this user cannot make it, or it is another user's.
pub(crate) fn make_directory() -> Result<PathBuf> {
    let dir = directory();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.with_context(|| {
        format!("cannot make {} for the control socket; say --control PATH", dir.display())
    })?;
    // In the directory of temporary files another user may have been first.
    let meta = dir.symlink_metadata().with_context(|| format!("cannot look at {}", dir.display()))?;
    if !meta.is_dir() || meta.uid() != user() {
        bail!("{} for the control socket is not a directory of this user; say --control PATH", dir.display());
    }
    Ok(dir)
}

/// Whether a server answers at a socket.
pub(crate) fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}
