//! The structures and numbers of `linux/ublk_cmd.h`.

use bytemuck::{Pod, Zeroable};

/// `UBLK_F_*`: what devices of ours need.
pub(super) const USER_RECOVERY: u64 = 1 << 3;
pub(super) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
pub(super) const CMD_IOCTL_ENCODE: u64 = 1 << 6;
pub(super) const USER_COPY: u64 = 1 << 7;
/// What they use if the kernel has it.
pub(super) const UPDATE_SIZE: u64 = 1 << 10;
pub(super) const SAFE_STOP_DEV: u64 = 1 << 17;

/// `UBLK_S_DEV_*`.
pub(super) const STATE_LIVE: u16 = 1;
pub(super) const STATE_QUIESCED: u16 = 2;

/// `UBLK_PARAM_TYPE_*`.
pub(super) const PARAM_BASIC: u32 = 1 << 0;
pub(super) const PARAM_DISCARD: u32 = 1 << 1;
/// `UBLK_ATTR_*`.
pub(super) const ATTR_READ_ONLY: u32 = 1 << 0;
pub(super) const ATTR_VOLATILE_CACHE: u32 = 1 << 2;
pub(super) const ATTR_FUA: u32 = 1 << 3;

/// The unit of the sizes and places of the interface.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Where descriptors of queues begin in the character device: each queue has room for the deepest.
pub(super) const QUEUE_DEPTH_MAX: u64 = 4096;
/// `UBLKSRV_IO_BUF_OFFSET`, `UBLK_TAG_OFF`, `UBLK_QID_OFF`: where the data of a request is in the character device.
pub(super) const DATA_BEGIN: u64 = 0x8000_0000;
pub(super) const DATA_TAG_SHIFT: u32 = 25;
pub(super) const DATA_QUEUE_SHIFT: u32 = 41;

/// The number of a command as an ioctl: direction, size of the structure, the letter `u`, number.
const fn encode(direction: u32, size: usize, number: u32) -> u32 {
    direction << 30 | (size as u32) << 16 | (b'u' as u32) << 8 | number
}

const READ: u32 = 2;
const READ_WRITE: u32 = 3;

const fn control(direction: u32, number: u32) -> u32 {
    encode(direction, size_of::<ControlCommand>(), number)
}

pub(super) const GET_DEV_INFO: u32 = control(READ, 0x02);
pub(super) const ADD_DEV: u32 = control(READ_WRITE, 0x04);
pub(super) const DEL_DEV: u32 = control(READ_WRITE, 0x05);
pub(super) const START_DEV: u32 = control(READ_WRITE, 0x06);
pub(super) const STOP_DEV: u32 = control(READ_WRITE, 0x07);
pub(super) const SET_PARAMS: u32 = control(READ_WRITE, 0x08);
pub(super) const GET_PARAMS: u32 = control(READ, 0x09);
pub(super) const START_USER_RECOVERY: u32 = control(READ_WRITE, 0x10);
pub(super) const END_USER_RECOVERY: u32 = control(READ_WRITE, 0x11);
pub(super) const GET_FEATURES: u32 = control(READ, 0x13);
pub(super) const SET_SIZE: u32 = control(READ_WRITE, 0x15);
pub(super) const TRY_STOP_DEV: u32 = control(READ_WRITE, 0x17);

pub(super) const FETCH: u32 = encode(READ_WRITE, size_of::<QueueCommand>(), 0x20);
pub(super) const COMMIT_AND_FETCH: u32 = encode(READ_WRITE, size_of::<QueueCommand>(), 0x21);

/// `ublksrv_ctrl_cmd`
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct ControlCommand {
    pub(super) device: u32,
    pub(super) queue: u16,
    pub(super) len: u16,
    pub(super) address: u64,
    pub(super) data: u64,
    pub(super) path_len: u16,
    pub(super) pad: u16,
    pub(super) reserved: u32,
}

/// `ublksrv_ctrl_dev_info`
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct DeviceInfo {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) pad0: u16,
    pub(super) io_bytes_max: u32,
    pub(super) device: u32,
    pub(super) server: i32,
    pub(super) pad1: u32,
    pub(super) flags: u64,
    /// Kept by the driver for the server.
    pub(super) owner: u64,
    pub(super) owner_uid: u32,
    pub(super) owner_gid: u32,
    pub(super) reserved: [u64; 2],
}

/// `ublk_params`, as far as it is used.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Params {
    pub(super) len: u32,
    pub(super) types: u32,
    pub(super) attributes: u32,
    pub(super) logical_shift: u8,
    pub(super) physical_shift: u8,
    pub(super) optimal_shift: u8,
    pub(super) minimal_shift: u8,
    pub(super) sectors_max: u32,
    pub(super) chunk_sectors: u32,
    pub(super) device_sectors: u64,
    pub(super) boundary_mask: u64,
    pub(super) discard_alignment: u32,
    pub(super) discard_granularity: u32,
    pub(super) discard_sectors_max: u32,
    pub(super) zeroes_sectors_max: u32,
    pub(super) discard_segments_max: u16,
    pub(super) reserved: u16,
    pub(super) pad: u32,
}

/// `ublksrv_io_cmd`
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct QueueCommand {
    pub(super) queue: u16,
    pub(super) tag: u16,
    pub(super) result: i32,
    pub(super) address: u64,
}

/// `ublksrv_io_desc`
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct RawDescriptor {
    pub(super) op_flags: u32,
    pub(super) sectors: u32,
    pub(super) start_sector: u64,
    pub(super) address: u64,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `UBLK_IO_OP_READ`
    Read,
    /// `UBLK_IO_OP_WRITE`
    Write,
    /// `UBLK_IO_OP_FLUSH`
    Flush,
    /// `UBLK_IO_OP_DISCARD`
    Discard,
    /// `UBLK_IO_OP_WRITE_ZEROES`
    WriteZeroes,
    /// None of those.
    Unknown,
}

/// A request of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// What it asks for.
    pub op: Op,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// It is answered once it survives a loss of power.
    pub fua: bool,
    /// Zeros are to be stored, not freed.
    pub keeps: bool,
}

impl Descriptor {
    pub(super) fn of(raw: RawDescriptor) -> Descriptor {
        const FUA: u32 = 1 << 13;
        const NOUNMAP: u32 = 1 << 15;
        let op = match raw.op_flags & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Discard,
            5 => Op::WriteZeroes,
            _ => Op::Unknown,
        };
        Descriptor {
            op,
            offset: raw.start_sector.saturating_mul(SECTOR_BYTES),
            len: u64::from(raw.sectors) * SECTOR_BYTES,
            fua: raw.op_flags & FUA != 0,
            keeps: raw.op_flags & NOUNMAP != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_the_interface() {
        let sizes = [size_of::<ControlCommand>(), size_of::<DeviceInfo>(), size_of::<QueueCommand>()];
        assert_eq!(sizes, [32, 64, 16]);
        assert_eq!(size_of::<RawDescriptor>(), 24);
        assert_eq!([ADD_DEV, GET_FEATURES, FETCH], [0xc020_7504, 0x8020_7513, 0xc010_7520]);
    }

    #[test]
    fn descriptors_are_decoded() {
        let raw = RawDescriptor { op_flags: 5 | 1 << 13 | 1 << 15, sectors: 8, start_sector: 3, address: 0 };
        let expected = Descriptor { op: Op::WriteZeroes, offset: 1536, len: 4096, fua: true, keeps: true };
        assert_eq!(Descriptor::of(raw), expected);
        assert_eq!(Descriptor::of(RawDescriptor { op_flags: 4, ..raw }).op, Op::Unknown);
    }
}
