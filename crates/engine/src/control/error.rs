//! Why the control did not do what it was asked.

use crate::pool::PoolError;
use sinew_core::volume::VolumeError;
use sinew_format::codec::DecodeError;
use sinew_format::model::array_growth::GrowError;
use sinew_format::model::mapped_geometry::{MEMBERS, Protection};
use sinew_format::model::name::{RULE, VOLUME_NAME_MAX};

/// Why the control did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// There is no such volume.
    #[error("there is no volume {0}")]
    NoVolume(String),
    /// The name is taken.
    #[error("there is a volume {0} already")]
    VolumeExists(String),
    /// The name cannot be used.
    #[error("a volume's name has 1 to {} {}", VOLUME_NAME_MAX, RULE)]
    VolumeName,
    /// The size is no number of blocks.
    #[error("a volume's size is a multiple of 4096 bytes, and not 0")]
    VolumeBlocks,
    /// The size cannot be had.
    #[error(
        "all volumes together have at most {} MiB in this pool, of which {} MiB are left; choose a smaller size, or add members",
        .max >> 20,
        .left >> 20
    )]
    VolumeSize {
        /// Bytes that all volumes may have together.
        max: u64,
        /// Bytes of these that the others leave.
        left: u64,
    },
    /// The limits cannot be set.
    #[error("{0}")]
    VolumeLimits(&'static str),
    /// Only mapped pools have a policy.
    #[error("an array stores every block at its place: it has no policy for small writes")]
    ArrayPolicy,
    /// Only elastic arrays change the form of stripes.
    #[error("the stripes of this pool do not change their form; those of an array made with --elastic do")]
    NotElastic,
    /// The policy of an elastic array cannot be carried out.
    #[error("{0}")]
    ElasticPolicy(&'static str),
    /// There is no such member.
    #[error("there is no member {0}")]
    NoMember(usize),
    /// The member is not in a state in which this can be done.
    #[error("member {member} is {state}; {hint}")]
    MemberState {
        /// The member.
        member: usize,
        /// Its state.
        state: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// The pool cannot do without this member now.
    #[error(
        "the pool cannot do without member {0}: with it out, data would be lost or unavailable; wait for the rebuild, or bring other members back first"
    )]
    Needed(usize),
    /// Tables, or blocks of the journal, are on this member and not on enough others.
    #[error(
        "the other members do not hold all tables of the pool yet: with member {0} out, it could not be opened after a crash; try again in a while, and bring back members that are out or full"
    )]
    CopiesMissing(usize),
    /// The device is not the member it should be.
    #[error("{path} is not member {member} of this pool: {why}")]
    WrongDevice {
        /// The device.
        path: String,
        /// The member it should be.
        member: usize,
        /// What it is.
        why: String,
    },
    /// The device is a member already.
    #[error("{path} is member {member} of this pool")]
    InUse {
        /// The device.
        path: String,
        /// Which member it is.
        member: usize,
    },
    /// The device cannot be used.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The device is too small for the place that it is to have.
    #[error("the new device has {have} bytes and needs {need} to be this member; give a larger one")]
    TooSmall {
        /// Bytes of the device.
        have: u64,
        /// Bytes needed.
        need: u64,
    },
    /// What the member held cannot be rebuilt on the others.
    #[error(
        "the {have} members left are too few: a stripe lies on {need} distinct ones; give a new device, or add one first"
    )]
    TooFewLeft {
        /// Members left.
        have: usize,
        /// Members of a stripe.
        need: usize,
    },
    /// An array has one volume, which spans it.
    #[error(
        "an array has the one volume that spans it; make a pool (`sinew pool create`) for volumes that come and go"
    )]
    OneVolume,
    /// The pool does not offer this protection to volumes.
    #[error(
        "a volume of this pool has one of the protections {}, not {wanted}; choose one of these, or make another pool",
        .offered.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    )]
    VolumeProtection {
        /// The protection asked for.
        wanted: Protection,
        /// Those that the pool offers, its own first.
        offered: Vec<Protection>,
    },
    /// The protection of a volume was changed a short time ago.
    #[error(
        "what {0} stores is still being moved to its present protection; change it again once that is done"
    )]
    VolumeMoving(String),
    /// The pool is too full for stripes that stay mirrored.
    #[error(
        "the pool is too full for volumes of mirrors beside those with parity; free space in it, or add members"
    )]
    NoRoomForMirrors,
    /// What a member of an array held cannot go elsewhere.
    #[error("every member of an array has its place, so what it held can only go to a new device: give one")]
    NoEvacuation,
    /// Nothing is changed.
    #[error(
        "the pool is served read-only, so nothing of it is changed; stop this server and serve it without --read-only for that"
    )]
    ReadOnly,
    /// What only mdadm does.
    #[error(
        "the members of an md array come and go by mdadm: stop this server, then use mdadm --add or --re-add"
    )]
    MdMembers,
    /// The member cannot join or leave.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// Only arrays grow as a whole.
    #[error("this is a mapped pool, not an array; `sinew member add` gives it more members")]
    NotAnArray,
    /// The array cannot grow so.
    #[error(transparent)]
    Grow(#[from] GrowError),
    /// The array has members out.
    #[error(
        "member {member} is {state}; an array begins to grow when all of its members are there and up to date"
    )]
    GrowDegraded {
        /// The member.
        member: usize,
        /// Its state.
        state: &'static str,
    },
    /// The configuration cannot be stored.
    #[error("the configuration cannot be stored: {0}")]
    Config(DecodeError),
    /// More members have failed than the pool survives.
    #[error("the pool has failed: too many of its members have; open it again once they are back")]
    Failed,
    /// A shard could not do its part.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// Why a member cannot join or leave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// All numbers are taken.
    #[error("a pool has at most {most} members, removed ones included that were larger than the new device", most = MEMBERS.end())]
    TooMany,
    /// The chunks would exceed the numbers that a shard can assign.
    #[error(
        "the {shards} shards of this pool cannot number more chunks; add smaller devices, or make a pool with more shards"
    )]
    TooLarge {
        /// Shards of the pool.
        shards: usize,
    },
    /// The others have too little room.
    #[error(
        "the other members have too little room for what is stored or for the pool's tables; delete or discard data, or add members first"
    )]
    NoRoomWithout,
    /// The volumes would be larger than the pool allows.
    #[error(
        "without this member all volumes together may have at most {} MiB; delete or shrink some, or add members first",
        .max >> 20
    )]
    VolumesTooLarge {
        /// Bytes that all volumes may have together.
        max: u64,
    },
    /// The weight of a member is not possible.
    #[error("the weight of a member is the percentage of its space that is used first, from 1 to 100")]
    Weight,
    /// Members of an array have their places.
    #[error(
        "every member of an array has its place: an array grows with `sinew array grow`, and its members are replaced, not removed"
    )]
    Array,
}
