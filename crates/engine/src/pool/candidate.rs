//! A device that is offered as a member of a pool.

use sinew_core::io::DeviceId;

/// A device offered as a member, and its name for messages.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The device.
    pub device: DeviceId,
    /// What the user calls it.
    pub path: String,
}
