//! A thread, its core and its runtime.

use std::future::Future;
use std::io;
use std::mem;
use std::thread::{Builder, JoinHandle};

use crate::config::Config;
use crate::io::UringIo;
use crate::runtime::Runtime;

/// Starts a thread named `name`, bound to `core` if given, that runs the future `main` makes to its end on a runtime of
/// its own. Joining it gives the future's output, or the reason why there is no runtime.
///
/// # Errors
/// When the operating system starts no thread.
pub fn spawn_pinned<M, F, T>(
    core: Option<usize>,
    name: &str,
    config: Config,
    main: M,
) -> io::Result<JoinHandle<io::Result<T>>>
where
    M: FnOnce(UringIo) -> F + Send + 'static,
    F: Future<Output = T>,
    T: Send + 'static,
{
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(core) = core {
            pin_to(core)?;
        }
        let runtime = Runtime::new(config)?;
        Ok(runtime.block_on(main(runtime.io())))
    })
}

/// Binds the calling thread to a core.
///
/// # Errors
/// When the number is too large or the process may not use the core.
pub fn pin_to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of processors is plain bits, for which zeros are a value; `core` is inside it (checked); the kernel
    // reads the local, which outlives the call.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    if failed != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
