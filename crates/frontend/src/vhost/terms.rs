//! What is offered to a guest, and what was agreed.

use std::fmt;
use std::sync::Arc;

use virtio_bindings::{virtio_blk as blk, virtio_config, virtio_ring};

/// Queues that a guest may use, at most.
pub const QUEUES_MAX: u16 = 64;
/// Entries of a queue, at most: the limit of QEMU.
pub(super) const QUEUE_SIZE_MAX: u16 = 1024;
/// The bit by which both sides say that they know protocol features.
pub(super) const PROTOCOL_FEATURES: u64 = 1 << 30;

/// A volume as a disk.
#[derive(Clone)]
pub struct Disk {
    /// The serial number that the guest sees; 20 bytes of it.
    pub serial: String,
    /// Whether requests that change it are refused.
    pub read_only: bool,
    /// Its size now.
    pub bytes: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Hears why a ring was given up.
    pub fault: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("serial", &self.serial).field("read_only", &self.read_only).finish()
    }
}

impl Disk {
    /// The features of the device.
    pub(super) fn features(&self) -> u64 {
        let offered = [
            virtio_config::VIRTIO_F_VERSION_1,
            virtio_ring::VIRTIO_RING_F_EVENT_IDX,
            virtio_ring::VIRTIO_RING_F_INDIRECT_DESC,
            blk::VIRTIO_BLK_F_SEG_MAX,
            blk::VIRTIO_BLK_F_BLK_SIZE,
            blk::VIRTIO_BLK_F_FLUSH,
            blk::VIRTIO_BLK_F_TOPOLOGY,
            blk::VIRTIO_BLK_F_MQ,
            blk::VIRTIO_BLK_F_DISCARD,
            blk::VIRTIO_BLK_F_WRITE_ZEROES,
        ];
        let read_only = self.read_only.then_some(blk::VIRTIO_BLK_F_RO);
        offered.into_iter().chain(read_only).fold(PROTOCOL_FEATURES, |all, bit| all | 1 << bit)
    }

    /// The terms of requests of a guest that has accepted these features.
    pub(super) fn terms(&self, accepted: u64) -> Terms {
        let mut serial = [0; blk::VIRTIO_BLK_ID_BYTES as usize];
        let len = self.serial.len().min(serial.len());
        serial[..len].copy_from_slice(&self.serial.as_bytes()[..len]);
        let accepts = |bit: u32| accepted & 1 << bit != 0;
        Terms {
            serial,
            read_only: self.read_only,
            write_through: !accepts(blk::VIRTIO_BLK_F_FLUSH),
            event_index: accepts(virtio_ring::VIRTIO_RING_F_EVENT_IDX),
        }
    }
}

/// The terms of the requests of one guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) serial: [u8; blk::VIRTIO_BLK_ID_BYTES as usize],
    pub(super) read_only: bool,
    /// The guest knows no flush: what was answered must survive a loss of power.
    pub(super) write_through: bool,
    /// Both sides say at which index they want to hear of the other.
    pub(super) event_index: bool,
}
