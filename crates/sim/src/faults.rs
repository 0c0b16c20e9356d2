//! Faults of devices: settings, scripts, counts, and the log of destroyed data.
//!
//! Faults that destroy data for good (bit rot, latent sector errors, lost and misdirected writes) are drawn at random
//! only inside the ranges the caller allowed, so that a run never destroys more copies than the engine promises to
//! survive. Scripted faults go anywhere. Either way each destroyed block is logged.

use std::ops::AddAssign;

use sinew_core::io::DeviceId;

/// The errno of an ordinary device error.
pub const EIO: i32 = 5;
/// The errno of a compressing device that has free addresses but no room.
pub const ENOSPC: i32 = 28;

/// Probabilities of faults, each per request that it could affect; 0 switches it off. All are off by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFaults {
    /// A read fails; the next may succeed.
    pub read_error: f64,
    /// A read fails because one of its blocks became unreadable, which it stays until it is rewritten.
    pub latent_error: f64,
    /// A write fails; any subset of its blocks may have been written.
    pub write_error: f64,
    /// A flush fails; what it covered stays volatile.
    pub flush_error: f64,
    /// One bit of a random stored block flips.
    pub bit_rot: f64,
    /// A write goes to another place and is acknowledged; the intended place keeps its old content.
    pub misdirected_write: f64,
    /// A read returns the content of another place.
    pub misdirected_read: f64,
    /// A write is acknowledged and never stored.
    pub lost_write: f64,
    /// The device goes away until it is attached again.
    pub gone: f64,
    /// A request takes `stall_ns` longer.
    pub stall: f64,
    /// Bounds of a stall.
    pub stall_ns: (u64, u64),
    /// A slow period begins.
    pub slow: f64,
    /// Bounds of how many times slower.
    pub slow_factor: (u64, u64),
    /// Bounds of how long a slow period lasts.
    pub slow_ns: (u64, u64),
}

/// Kinds of request, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// `Io::read`
    Read,
    /// `Io::write`
    Write,
    /// `Io::flush`
    Flush,
    /// `Io::discard`
    Discard,
}

/// A fault that a script places on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request fails with this errno. A failing write may have written any subset of its blocks.
    Error(i32),
    /// A write is acknowledged and never stored.
    Lost,
    /// A write lands at this byte offset, or a read returns what is there.
    Misdirected(u64),
    /// The request takes this many nanoseconds longer.
    Stall(u64),
    /// The device goes away when the request arrives.
    Gone,
}

/// A scripted fault and the request it waits for.
pub(crate) struct Scripted {
    pub(crate) kind: OpKind,
    /// First block and end of the range that the request must touch; `None` is anywhere.
    pub(crate) blocks: Option<(u64, u64)>,
    pub(crate) fault: Fault,
}

impl Scripted {
    /// Whether the fault strikes when the request arrives, rather than when it completes.
    pub(crate) fn strikes_early(&self) -> bool {
        matches!(self.fault, Fault::Stall(_) | Fault::Gone)
    }

    /// Whether a request is the awaited one.
    pub(crate) fn matches(&self, kind: OpKind, first: u64, count: u64) -> bool {
        self.kind == kind && self.blocks.is_none_or(|(from, end)| first < end && from < first + count)
    }
}

/// How a block's data was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorruptionKind {
    /// A bit flipped.
    BitRot,
    /// The block cannot be read.
    LatentError,
    /// The block kept its old content though a write was acknowledged: lost, or landed elsewhere.
    Stale,
    /// A write meant for elsewhere landed on the block.
    Misdirected,
}

/// A block whose data was destroyed by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Where.
    pub device: DeviceId,
    /// Which 4 KiB block of the device.
    pub block: u64,
    /// How.
    pub kind: CorruptionKind,
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// Whether a later good write or discard replaced the content. A power loss that drops that write takes it back.
    pub overwritten: bool,
}

macro_rules! fault_counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// How often each fault struck.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct FaultCounts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl FaultCounts {
            /// Each count with its name, in a fixed order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        impl AddAssign for FaultCounts {
            fn add_assign(&mut self, other: FaultCounts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

fault_counts! {
    /// Reads that failed once.
    read_errors,
    /// Blocks that became unreadable.
    latent_errors,
    /// Reads that failed because of an unreadable block, after the one that found it.
    latent_hits,
    /// Writes and discards that failed.
    write_errors,
    /// Writes for which a compressing or thin device had no room.
    no_space,
    /// Dies of modelled SSDs that failed.
    dies_lost,
    /// Writes, discards and flushes that an SSD refused since it had lost a die.
    refused_writes,
    /// Reads that failed because an SSD had lost blocks of them with a die.
    unreadable,
    /// Times another tenant took physical space of a thin device.
    squeezes,
    /// Flushes that failed.
    flush_errors,
    /// Bits flipped.
    bit_rot,
    /// Writes that landed elsewhere.
    misdirected_writes,
    /// Reads that returned another place's content.
    misdirected_reads,
    /// Writes acknowledged and never stored.
    lost_writes,
    /// Times the device went away.
    detached,
    /// Times the device came back.
    attached,
    /// Requests that took very long.
    stalls,
    /// Slow periods begun.
    slow_periods,
    /// Times the device hung.
    silences,
    /// Power losses the device went through, going away included.
    power_losses,
    /// Ends of the process without power loss.
    process_kills,
    /// Unflushed writes that a power loss or the end of the process kept whole.
    kept_writes,
    /// Unflushed writes that a power loss or the end of the process dropped whole.
    dropped_writes,
    /// Unflushed writes that a power loss or the end of the process kept in part.
    torn_writes,
}
