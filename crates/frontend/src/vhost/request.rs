//! A chain of descriptors -> checked command, or the status that refuses it.

use virtio_bindings::virtio_blk as blk;
use vm_memory::GuestMemoryMmap;

use super::chain::Chain;
use super::config::{RANGE_SECTORS_MAX, RANGES_MAX, SECTOR_BYTES};
use super::terms::Terms;

/// Bytes before the data of a request: kind, priority, sector.
pub(super) const HEADER_BYTES: usize = size_of::<blk::virtio_blk_outhdr>();
/// Bytes of a range of a discard: sector, sectors, flags.
const RANGE_BYTES: usize = size_of::<blk::virtio_blk_discard_write_zeroes>();
/// Data of one request, at most. A larger one fails.
pub(super) const REQUEST_BYTES_MAX: u64 = 32 << 20;

/// The status byte of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Status {
    Ok = blk::VIRTIO_BLK_S_OK as u8,
    /// It failed. The protocol has no status for a lack of space.
    Failed = blk::VIRTIO_BLK_S_IOERR as u8,
    /// There is no such request.
    Unsupported = blk::VIRTIO_BLK_S_UNSUPP as u8,
}

/// Bytes of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) offset: u64,
    pub(super) len: u64,
    /// Of zeros: their space may be freed.
    pub(super) may_free: bool,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Read { offset: u64, len: u32 },
    Write { offset: u64, len: u32 },
    Flush,
    Discard(Vec<Range>),
    WriteZeroes(Vec<Range>),
    Serial,
}

impl Command {
    /// The memory that its data takes, at most.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Command::Read { len, .. } | Command::Write { len, .. } => u64::from(*len),
            Command::WriteZeroes(_) => crate::zeroes::ZEROES_BYTES,
            _ => 0,
        }
    }
}

/// What a chain asks for.
///
/// # Errors
/// The status for a request that is refused. That a range is inside the volume is left to the volume.
pub(super) fn decode(chain: &Chain, memory: &GuestMemoryMmap, terms: &Terms) -> Result<Command, Status> {
    let mut header = [0; HEADER_BYTES];
    if !chain.read(memory, 0, &mut header) {
        return Err(Status::Failed);
    }
    let (kind, sector) = (u32_at(&header, 0), u64_at(&header, 8));
    let data = chain.filled_bytes - HEADER_BYTES as u64;
    let changes = !matches!(kind, blk::VIRTIO_BLK_T_IN | blk::VIRTIO_BLK_T_FLUSH | blk::VIRTIO_BLK_T_GET_ID);
    match kind {
        blk::VIRTIO_BLK_T_IN => {
            let (offset, len) = transfer(sector, chain.room_bytes)?;
            Ok(Command::Read { offset, len })
        }
        blk::VIRTIO_BLK_T_FLUSH => Ok(Command::Flush),
        blk::VIRTIO_BLK_T_GET_ID => Ok(Command::Serial),
        _ if changes && terms.read_only => Err(Status::Failed),
        blk::VIRTIO_BLK_T_OUT => {
            let (offset, len) = transfer(sector, data)?;
            Ok(Command::Write { offset, len })
        }
        blk::VIRTIO_BLK_T_DISCARD => ranges(chain, memory, data, 0).map(Command::Discard),
        blk::VIRTIO_BLK_T_WRITE_ZEROES => {
            let flags = blk::VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP;
            ranges(chain, memory, data, flags).map(Command::WriteZeroes)
        }
        _ => Err(Status::Unsupported),
    }
}

fn transfer(sector: u64, bytes: u64) -> Result<(u64, u32), Status> {
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Status::Failed)?;
    if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) || bytes > REQUEST_BYTES_MAX {
        return Err(Status::Failed);
    }
    Ok((offset, bytes as u32))
}

/// The ranges that are the data of a request; `flags` are those allowed.
fn ranges(chain: &Chain, memory: &GuestMemoryMmap, bytes: u64, flags: u32) -> Result<Vec<Range>, Status> {
    let count = bytes / RANGE_BYTES as u64;
    if count == 0 || !bytes.is_multiple_of(RANGE_BYTES as u64) || count > u64::from(RANGES_MAX) {
        return Err(Status::Failed);
    }
    let mut all = vec![0; bytes as usize];
    if !chain.read(memory, HEADER_BYTES, &mut all) {
        return Err(Status::Failed);
    }
    all.chunks_exact(RANGE_BYTES).map(|range| self::range(range, flags)).collect()
}

fn range(bytes: &[u8], allowed: u32) -> Result<Range, Status> {
    let (sector, sectors, flags) = (u64_at(bytes, 0), u32_at(bytes, 8), u32_at(bytes, 12));
    if flags & !allowed != 0 {
        return Err(Status::Unsupported);
    }
    if sectors > RANGE_SECTORS_MAX {
        return Err(Status::Failed);
    }
    let len = u64::from(sectors) * SECTOR_BYTES;
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Status::Failed)?;
    offset.checked_add(len).ok_or(Status::Failed)?;
    Ok(Range { offset, len, may_free: flags != 0 })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtio_bindings::virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
    use virtio_queue::desc::split::Descriptor;
    use vm_memory::{Bytes, GuestAddress};

    const TERMS: Terms =
        Terms { serial: [7; 20], read_only: false, write_through: false, event_index: false };

    /// What a request of this header, data and room asks for.
    fn decoded(kind: u32, sector: u64, data: &[u8], room: u32, terms: Terms) -> Result<Command, Status> {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 64 << 20)]).expect("memory");
        let mut filled = kind.to_le_bytes().to_vec();
        filled.extend([0; 4]);
        filled.extend(sector.to_le_bytes());
        filled.extend(data);
        memory.write_slice(&filled, GuestAddress(0x1000)).expect("written");
        let descriptors = [
            Descriptor::new(0x1000, filled.len() as u32, VRING_DESC_F_NEXT as u16, 1),
            Descriptor::new(0x10_0000, room + 1, VRING_DESC_F_WRITE as u16, 0),
        ];
        for (descriptor, at) in descriptors.into_iter().zip([0, 16]) {
            memory.write_obj(descriptor, GuestAddress(at)).expect("written");
        }
        let chain = Chain::walk(&memory, GuestAddress(0), 2, 0).expect("a chain");
        decode(&chain, &memory, &terms)
    }

    fn range_bytes(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        [&sector.to_le_bytes()[..], &sectors.to_le_bytes(), &flags.to_le_bytes()].concat()
    }

    #[test]
    fn transfers_are_whole_sectors() {
        let (read, write) = (blk::VIRTIO_BLK_T_IN, blk::VIRTIO_BLK_T_OUT);
        assert_eq!(decoded(read, 3, &[], 1024, TERMS), Ok(Command::Read { offset: 1536, len: 1024 }));
        assert_eq!(decoded(write, 1, &[0; 512], 0, TERMS), Ok(Command::Write { offset: 512, len: 512 }));
        for room in [0, 1, 511, 513, (32 << 20) + 512] {
            assert_eq!(decoded(read, 0, &[], room, TERMS), Err(Status::Failed), "{room}");
        }
        assert_eq!(decoded(read, u64::MAX / 512 + 1, &[], 512, TERMS), Err(Status::Failed));
        assert_eq!(decoded(write, 0, &[0; 100], 0, TERMS), Err(Status::Failed));
    }

    #[test]
    fn a_disk_for_reading_is_not_changed() {
        let terms = Terms { read_only: true, ..TERMS };
        let range = range_bytes(0, 8, 0);
        assert_eq!(decoded(blk::VIRTIO_BLK_T_OUT, 0, &[0; 512], 0, terms), Err(Status::Failed));
        assert_eq!(decoded(blk::VIRTIO_BLK_T_DISCARD, 0, &range, 0, terms), Err(Status::Failed));
        assert_eq!(decoded(blk::VIRTIO_BLK_T_WRITE_ZEROES, 0, &range, 0, terms), Err(Status::Failed));
        assert_eq!(decoded(blk::VIRTIO_BLK_T_FLUSH, 0, &[], 0, terms), Ok(Command::Flush));
    }

    #[test]
    fn ranges_are_checked_one_by_one() {
        let (discard, zeroes) = (blk::VIRTIO_BLK_T_DISCARD, blk::VIRTIO_BLK_T_WRITE_ZEROES);
        let two = [range_bytes(8, 16, 0), range_bytes(0, 1, 0)].concat();
        let of = |offset, len, may_free| Range { offset, len, may_free };
        let both = vec![of(4096, 8192, false), of(0, 512, false)];
        assert_eq!(decoded(discard, 0, &two, 0, TERMS), Ok(Command::Discard(both)));
        let freed = decoded(zeroes, 0, &range_bytes(8, 8, 1), 0, TERMS);
        assert_eq!(freed, Ok(Command::WriteZeroes(vec![of(4096, 4096, true)])));
        assert_eq!(decoded(discard, 0, &range_bytes(0, 8, 1), 0, TERMS), Err(Status::Unsupported));
        assert_eq!(decoded(zeroes, 0, &range_bytes(0, 8, 2), 0, TERMS), Err(Status::Unsupported));
        assert_eq!(decoded(zeroes, 0, &range_bytes(0, u32::MAX, 0), 0, TERMS), Err(Status::Failed));
        assert_eq!(decoded(zeroes, 0, &range_bytes(u64::MAX, 1, 0), 0, TERMS), Err(Status::Failed));
        let last = range_bytes(u64::MAX / 512, 2, 0);
        assert_eq!(decoded(zeroes, 0, &last, 0, TERMS), Err(Status::Failed));
        assert_eq!(decoded(discard, 0, &two[..31], 0, TERMS), Err(Status::Failed));
        assert_eq!(decoded(discard, 0, &[], 0, TERMS), Err(Status::Failed));
        assert_eq!(decoded(discard, 0, &range_bytes(0, 1, 0).repeat(65), 0, TERMS), Err(Status::Failed));
    }

    #[test]
    fn other_kinds_are_not_supported() {
        for kind in [2, 3, 5, 9, 14, 15, u32::MAX] {
            assert_eq!(decoded(kind, 0, &[], 0, TERMS), Err(Status::Unsupported));
        }
    }
}
