//! The host that has a pool open for writing, as the pool's superblocks record it: from the opening to a clean stop.
//!
//! It keeps two hosts that reach the same members from opening the pool one after the other. It does not notice two hosts that
//! open it at the same moment.

use std::fmt;

use sinew_core::ids::Uuid;

/// A host, and when it opened the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRecord {
    /// Tells hosts apart.
    pub id: Uuid,
    /// Its name, for messages; may be empty.
    pub name: String,
    /// When it opened the pool, in seconds since 1970.
    pub since_s: u64,
}

impl fmt::Display for HostRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() { f.write_str("another host") } else { write!(f, "host {}", self.name) }
    }
}
