//! Block devices of the kernel whose requests this process answers: the driver `ublk_drv` of Linux.
//!
//! A device has a number N, a block device `/dev/ublkbN` for all, and a character device `/dev/ublkcN` for its server. [`Control`]
//! makes, finds and removes devices; its calls block, so they have a thread of their own. The requests of a device come in
//! queues; each is served by one runtime, as a [`Queue`].
//!
//! A device outlives its server if it is not removed: its requests wait, those in flight included, until a server takes it over.
//!
//! The interface is that of `linux/ublk_cmd.h` and of <https://docs.kernel.org/block/ublk.html>. Data is copied with the
//! device's own reads and writes (`UBLK_F_USER_COPY`, Linux 6.5).

mod abi;
mod control;
mod queue;
mod users;

pub use abi::{Descriptor, Op};
pub use control::{Control, ControlError, Device, DeviceState, Geometry, Opened};
pub use queue::{Queue, QueueStart};
