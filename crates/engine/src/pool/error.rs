//! Reasons why a pool cannot be made or found.

use sinew_core::io::IoError;
use sinew_format::codec::DecodeError;
use sinew_format::foreign::Content;
use sinew_format::model::array_geometry::ArrayError;
use sinew_format::model::host_record::HostRecord;
use sinew_format::model::mapped_geometry::GeometryError;

/// Why a pool cannot be made or opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The shape is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The array is impossible.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// A member is too small for the pool's own reserves.
    #[error(
        "the members are too small: nothing would be left to store data in; give larger members or fewer shards"
    )]
    NoCapacity,
    /// A device belongs to a pool.
    #[error("{path} is already a member of pool {pool}; destroy that pool first, or use --force")]
    InUse {
        /// The device.
        path: String,
        /// The pool's name.
        pool: String,
    },
    /// A device holds something else.
    #[error("{path} is not empty: it holds {content}; use --force to erase that and use the device")]
    NotEmpty {
        /// The device.
        path: String,
        /// What was found on it.
        content: Content,
    },
    /// A device cannot be read or written.
    #[error("{path}: {error}")]
    Device {
        /// The device.
        path: String,
        /// What happened.
        error: IoError,
    },
    /// Its use of physical space cannot be known.
    #[error(
        "{path} neither tells how much physical space it uses nor takes discards, so no limit (--physical) can be kept on it"
    )]
    UnknownUse {
        /// The device.
        path: String,
    },
    /// The size of an elastic array is to follow from an expected ratio, and a device does not tell how much physical space it
    /// has.
    #[error(
        "{path} does not tell how much physical space it has, so no size follows from the expected ratio (--expect): give the space of each member (--physical)"
    )]
    UnknownSpace {
        /// The device.
        path: String,
    },
    /// No device holds a usable superblock.
    #[error("no pool found{}", list(.0))]
    NotFound(Vec<String>),
    /// Another version of Sinew has written to a member.
    #[error("{path}: {error}; open the pool with the version that wrote to it last; nothing was changed")]
    OtherVersion {
        /// The device.
        path: String,
        /// Which version, and which ones are known.
        error: DecodeError,
    },
    /// Devices of several pools were given.
    #[error("the given devices belong to several pools; name the members of one: {}", .0.join("; "))]
    SeveralPools(Vec<String>),
    /// Another host has it open.
    #[error("pool {pool} is open on {host}")]
    OpenElsewhere {
        /// The pool's name.
        pool: String,
        /// The host that its members record.
        host: HostRecord,
    },
    /// Two devices say that they are the same member.
    #[error("{first} and {second} are copies of the same member; remove one of them")]
    Duplicate {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// Too few members are there.
    #[error("pool {pool} cannot be opened: {missing} of its members are not available and it is sure to survive the loss of {failures}; bring members back{}{}", if *.last_resort { ", or read what is left with --read-only" } else { "" }, list(.members))]
    TooFewMembers {
        /// The pool's name.
        pool: String,
        /// How many are missing.
        missing: usize,
        /// How many it survives.
        failures: usize,
        /// Whether what is left may be read as a last resort.
        last_resort: bool,
        /// What is known of each.
        members: Vec<String>,
    },
    /// The configuration does not fit a superblock.
    #[error("{0}")]
    Config(DecodeError),
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}
