//! The configuration space of the disk: size and limits, as the driver of the guest reads them.

use virtio_bindings::virtio_blk as blk;

use super::terms::QUEUES_MAX;

/// The unit of all addresses of virtio disks.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Segments of one request, at most: what fits a ring of 128 descriptors, together with header and status.
const SEGMENTS_MAX: u32 = 126;
/// Ranges of one discard, at most.
pub(super) const RANGES_MAX: u32 = 64;
/// Sectors of a discard or a write of zeros, at most: 1 GiB.
pub(super) const RANGE_SECTORS_MAX: u32 = 1 << 21;
/// A block of the engine is eight sectors.
const BLOCK_EXPONENT: u8 = 3;

/// The part of the configuration space from `offset`, `size` bytes; zeros behind its end.
pub(super) fn read(bytes: u64, offset: u32, size: u32) -> Vec<u8> {
    let (offset, size) = (offset as usize, size as usize);
    let mut all = space(bytes).to_vec();
    all.resize(all.len().max(offset + size), 0);
    all[offset..offset + size].to_vec()
}

/// The configuration space of a disk of this size; the offsets are those of `struct virtio_blk_config`.
fn space(bytes: u64) -> [u8; size_of::<blk::virtio_blk_config>()] {
    let mut space = [0; _];
    let mut set = |at: usize, value: &[u8]| space[at..at + value.len()].copy_from_slice(value);
    macro_rules! field {
        ($name:ident, $value:expr) => {
            set(std::mem::offset_of!(blk::virtio_blk_config, $name), &$value.to_le_bytes())
        };
    }
    field!(capacity, (bytes / SECTOR_BYTES));
    field!(seg_max, SEGMENTS_MAX);
    field!(blk_size, (SECTOR_BYTES as u32));
    field!(physical_block_exp, BLOCK_EXPONENT);
    field!(min_io_size, (1u16 << BLOCK_EXPONENT));
    field!(num_queues, QUEUES_MAX);
    field!(max_discard_sectors, RANGE_SECTORS_MAX);
    field!(max_discard_seg, RANGES_MAX);
    field!(discard_sector_alignment, (1u32 << BLOCK_EXPONENT));
    field!(max_write_zeroes_sectors, RANGE_SECTORS_MAX);
    field!(max_write_zeroes_seg, RANGES_MAX);
    field!(write_zeroes_may_unmap, 1u8);
    space
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let all = read(7 << 20, 0, 60);
        assert_eq!(all[..8], (7u64 << 11).to_le_bytes());
        assert_eq!(all[12..16], 126u32.to_le_bytes());
        assert_eq!(all[20..24], 512u32.to_le_bytes());
        assert_eq!((all[24], all[26]), (3, 8));
        assert_eq!(all[34..36], 64u16.to_le_bytes());
        assert_eq!(all[36..40], (1u32 << 21).to_le_bytes());
        assert_eq!(all[56], 1);
    }

    #[test]
    fn any_part_can_be_read() {
        assert_eq!(read(1 << 20, 1, 3), [8, 0, 0]);
        assert_eq!(read(1 << 20, 250, 6), [0; 6]);
        assert!(read(1 << 20, 256, 0).is_empty());
    }
}
