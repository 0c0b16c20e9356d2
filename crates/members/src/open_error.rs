//! Errors of opening a shard.

use sinew_core::ids::{Lsn, MemberId};

/// Why a shard cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// The journal refers to something that is not on any member.
    #[error(
        "shard {shard}: the journal needs block {lsn}, which no available member holds; more members are needed"
    )]
    JournalGap {
        /// The shard.
        shard: usize,
        /// The missing block.
        lsn: Lsn,
    },
    /// Table pages that the journal knows of are not on any member.
    #[error(
        "shard {shard}: table pages, or their newest versions, are on no available member: more members are missing or damaged than \
         the pool survives; bring members back, or read what is left with `sinew serve --read-only`"
    )]
    PagesLost {
        /// The shard.
        shard: usize,
    },
    /// Metadata with a right checksum is impossible.
    #[error("shard {shard}: {what}")]
    Damaged {
        /// The shard.
        shard: usize,
        /// The impossible content.
        what: String,
    },
    /// A member has no physical space for what recovery has to write.
    #[error(
        "shard {shard}: member {} has no physical space left for the journal; free space where it is stored and open the pool again",
        member.0
    )]
    NoSpace {
        /// The shard.
        shard: usize,
        /// The member.
        member: MemberId,
    },
    /// A member failed while the pool was being opened; opening again works without it.
    #[error("shard {shard}: member {} failed while the pool was being opened", member.0)]
    MemberFailed {
        /// The shard.
        shard: usize,
        /// The member.
        member: MemberId,
    },
}
