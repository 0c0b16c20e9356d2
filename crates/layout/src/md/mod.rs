//! md's own metadata: superblocks of version 1.0 and 1.2, as mdadm and Linux write them.
//!
//! [`Superblock`] is that of one member. Its checksum is verified when it is read, and bytes that this module does not
//! know are kept when it is written. [`Array::assemble`] makes an array of the superblocks of its members. It refuses, by name,
//! every feature that a plain [`crate::Geometry`] does not describe: a reshape under way, a journal, a
//! partial parity log, and so on.
//!
//! The format is from Linux' include/uapi/linux/raid/md_p.h, the checksum and the rules of assembly from
//! drivers/md/md.c. The tests read superblocks that mdadm 4.2 and Linux 6.1 wrote.

mod array;
mod bitmap;
mod superblock;

pub use array::{Array, LeftOut, Seat};
pub use bitmap::bitmap_events;
pub use superblock::{MemberRole, SUPERBLOCK_BYTES, Superblock, Version};

use crate::geometry::GeometryError;

/// Why a superblock, or an array of them, cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MdError {
    /// Fewer bytes than a superblock has.
    #[error("{0} bytes; an md superblock has {SUPERBLOCK_BYTES}")]
    Short(usize),
    /// Not a superblock at all.
    #[error("no md superblock here: it begins with {0:#010x}")]
    Magic(u32),
    /// Another major version, such as 0.90.
    #[error("an md superblock of major version {0}; versions 1.0 and 1.2 can be read")]
    Major(u32),
    /// More devices than fit.
    #[error("the md superblock counts {0} devices, more than fit in it")]
    Devices(u32),
    /// Damaged.
    #[error(
        "the md superblock is damaged: its checksum is {stored:#010x}, its content gives {computed:#010x}"
    )]
    Checksum {
        /// The stored checksum.
        stored: u32,
        /// The computed checksum.
        computed: u32,
    },
    /// Not at the position that it records: a copy, or a device whose size changed.
    #[error("the md superblock says that it lies at sector {says}, but was read at sector {found}")]
    Misplaced {
        /// The recorded position.
        says: u64,
        /// The actual position.
        found: u64,
    },
    /// Valid, but of an array that cannot be served.
    #[error("this md array cannot be used: {0}")]
    Unsupported(#[from] Unsupported),
    /// The geometry makes no sense.
    #[error("the md superblock describes an impossible array: {0}")]
    Geometry(#[from] GeometryError),
    /// No superblocks were given.
    #[error("no members")]
    Empty,
    /// A member of another array, or one whose description of the array differs.
    #[error("member {index} differs from the others in its {field}")]
    Differs {
        /// Its number among the superblocks given.
        index: usize,
        /// The field that differs.
        field: &'static str,
    },
    /// Two members have the same role.
    #[error("members {first} and {second} both claim role {role} of the array")]
    Twice {
        /// The number of one superblock.
        first: usize,
        /// The number of the other.
        second: usize,
        /// The role.
        role: u32,
    },
}

/// Features of md arrays that this crate does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// A level without a layout here.
    #[error("its level is {0} ({name}); levels 0, 1, 5, 6 and 10 can be used", name = level_name(*.0))]
    Level(i32),
    /// A layout of RAID 5 or RAID 6 that does not rotate parity in one of the four ways, such as DDF's.
    #[error(
        "layout {layout} of level {level}; left and right, symmetric and asymmetric (0 to 3) can be used"
    )]
    Layout {
        /// The level.
        level: i32,
        /// md's number of the layout.
        layout: u32,
    },
    /// RAID 10 in the far or offset layout.
    #[error("RAID 10 in a far or offset layout ({0:#x}); near layouts can be used")]
    FarCopies(u32),
    /// RAID 0 whose members differ in size, so that its end is striped over fewer of them.
    #[error("RAID 0 of members of unequal size, which md stripes in zones")]
    Zones,
    /// A reshape is under way.
    #[error("a reshape is in progress; let md finish it")]
    Reshape,
    /// A member is being copied to its replacement.
    #[error("a member is being replaced while still active; let md finish it")]
    Replacement,
    /// A separate journal device.
    #[error("it has a journal device (write-back or write-through cache), which may hold newer data")]
    Journal,
    /// Partial parity log.
    #[error("it has a partial parity log (PPL), which must be replayed")]
    PartialParityLog,
    /// A clustered array.
    #[error("it is clustered: other machines may be using it")]
    Clustered,
    /// Recovery by the bitmap.
    #[error("a recovery guided by the write-intent bitmap is in progress; let md finish it")]
    BitmapRecovery,
    /// A list of bad blocks.
    #[error("a member has a list of bad blocks that is not empty")]
    BadBlocks,
    /// Features later than this code.
    #[error("it uses features unknown here: {0:#x}")]
    Unknown(u32),
}

fn level_name(level: i32) -> &'static str {
    match level {
        -4 => "multipath",
        -1 => "linear",
        4 => "RAID 4",
        _ => "unknown",
    }
}
