//! The commands' side of the control socket.

mod progress;
mod target;

pub(crate) use progress::wait_for;
pub(crate) use target::{Target, running};
