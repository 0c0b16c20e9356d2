//! A group of the log as recovery found it.

use sinew_core::buf::Buf;
use sinew_core::ids::MemberId;
use sinew_format::log_group::Group;

/// A group that was read from the rings, and the members that have it.
pub(super) struct RingGroup {
    pub(super) group: Group,
    /// The head and the data.
    pub(super) bytes: Buf,
    /// The members that have the head, and the data if it is not striped.
    pub(super) holders: Vec<MemberId>,
    /// The units that members should have besides, and have not.
    pub(super) missing: Vec<MissingUnit>,
}

/// A unit of a striped group that its member should have and has not.
pub(super) struct MissingUnit {
    pub(super) member: MemberId,
    pub(super) data: Buf,
}
