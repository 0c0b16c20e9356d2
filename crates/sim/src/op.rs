//! The operations that requests carry, and what they touch.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{DeviceId, Gather};

use crate::blocks::{Content, gather_bytes, is_aligned};
use crate::device::DeviceState;
use crate::faults::OpKind;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The operation of a request.
pub(crate) enum Op {
    /// Nothing: the slot is free.
    Empty,
    /// `Io::sleep`
    Sleep { until: u64 },
    /// `Io::read`
    Read { device: DeviceId, offset: u64, buf: Buf },
    /// `Io::write`
    Write { device: DeviceId, offset: u64, data: Gather },
    /// `Io::flush`, issued when `upto` was the device's last completed write.
    Flush { device: DeviceId, upto: u64 },
    /// `Io::discard`
    Discard { device: DeviceId, offset: u64, bytes: u64 },
}

/// The effect of an `Op` on a device, in plain numbers.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) device: DeviceId,
    pub(crate) kind: OpKind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Op {
    pub(crate) fn place(&self) -> Option<Place> {
        let place = |device: &DeviceId, kind, offset: u64, bytes: u64| {
            Some(Place { device: *device, kind, offset, bytes })
        };
        match self {
            Op::Empty | Op::Sleep { .. } => None,
            Op::Read { device, offset, buf } => place(device, OpKind::Read, *offset, buf.len() as u64),
            Op::Write { device, offset, data } => place(device, OpKind::Write, *offset, gather_bytes(data)),
            Op::Flush { device, .. } => place(device, OpKind::Flush, 0, 0),
            Op::Discard { device, offset, bytes } => place(device, OpKind::Discard, *offset, *bytes),
        }
    }

    pub(crate) fn is_aligned(&self) -> bool {
        match self {
            Op::Read { buf, .. } => is_aligned(std::slice::from_ref(buf)),
            Op::Write { data, .. } => is_aligned(data),
            _ => true,
        }
    }
}

/// The content that a request in flight may leave on the device when the power fails or the process ends.
pub(crate) fn half_done(op: &Op, device: &mut DeviceState) -> Option<Content> {
    match op {
        Op::Write { offset, data, .. } => {
            Some(Content::Gather { first: offset / BLOCK, data: Gather::clone(data) })
        }
        Op::Discard { offset, bytes, .. } => Some(device.discarded(offset / BLOCK, bytes / BLOCK)),
        _ => None,
    }
}
