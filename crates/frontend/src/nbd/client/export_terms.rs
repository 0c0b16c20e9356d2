//! The terms on which a server serves an export.

use super::super::proto::Headers;

/// The terms on which a server serves an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportTerms {
    /// Its size.
    pub bytes: u64,
    /// The operations it supports; see [`crate::nbd::proto::transmission_flag`].
    pub flags: u16,
    /// Offsets and lengths of requests are multiples of this.
    pub block_bytes: u32,
    /// The largest payload of a request.
    pub payload_bytes_max: u32,
    /// The headers of requests and replies.
    pub headers: Headers,
}

impl ExportTerms {
    /// Whether it can do that.
    pub fn can(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}
