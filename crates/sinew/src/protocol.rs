//! The language of the control socket: requests, and the answers that have a form of their own.
//!
//! Both sides speak it, so it imports neither: not the commands and their client, not the daemon. docs/control-api.md
//! describes it for programs.

pub(crate) mod advice;
pub(crate) mod events;
pub(crate) mod request;
pub(crate) mod socket;
pub(crate) mod status;

pub(crate) use request::{IoTimeout, PolicyChange, Request};
