//! The memory of one request: a chain of descriptors, checked, as a list of segments.
//!
//! Each descriptor is read once. Whatever the guest has written, the walk ends after [`SEGMENTS_MAX`] descriptors, and every
//! segment of a chain lies in the guest's memory.

use sinew_core::buf::Buf;
use virtio_bindings::virtio_ring::{VRING_DESC_F_INDIRECT, VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::desc::split::Descriptor;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Descriptors of a chain, at most: the largest queue.
const SEGMENTS_MAX: usize = super::terms::QUEUE_SIZE_MAX as usize;
const DESCRIPTOR_BYTES: u64 = size_of::<Descriptor>() as u64;

/// How a guest broke the rules of its ring. The ring is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// More entries are available than the ring has.
    #[error("its index of available entries has jumped")]
    Index,
    /// The ring is not in the guest's memory, or its memory was taken away.
    #[error("it is not in the memory of the guest")]
    Place,
    /// An entry names a descriptor that the table does not have.
    #[error("a descriptor is outside its table")]
    OutsideTable,
    /// An entry names a descriptor whose request is still in flight.
    #[error("a descriptor was used again while its request was in flight")]
    InFlight,
    /// The chain has more descriptors than a ring may have, or a loop.
    #[error("a chain of descriptors has a loop")]
    Endless,
    /// A table of descriptors that is not allowed there, or has a wrong length.
    #[error("a table of indirect descriptors is wrong")]
    Indirect,
    /// A segment is not in the guest's memory.
    #[error("a segment is not in the memory of the guest")]
    OutsideMemory,
    /// A segment to read follows one to write.
    #[error("segments are in the wrong order")]
    Order,
    /// There is no place for the status of the request.
    #[error("a request has no place for its status")]
    NoStatus,
}

/// A part of the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    at: GuestAddress,
    len: usize,
}

/// The segments of one request: those that the guest has filled, then those to be filled. The last byte of these is the
/// status.
#[derive(Debug)]
pub(super) struct Chain {
    segments: Vec<Segment>,
    /// How many of them the guest has filled.
    filled: usize,
    /// The bytes that the guest has filled.
    pub(super) filled_bytes: u64,
    /// The bytes to be filled, without the status.
    pub(super) room_bytes: u64,
    status: GuestAddress,
}

impl Chain {
    /// The chain that begins with a descriptor of a table.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub(super) fn walk(
        memory: &GuestMemoryMmap,
        table: GuestAddress,
        size: u16,
        head: u16,
    ) -> Result<Chain, RingError> {
        let mut walk = Walk { memory, table, size: u64::from(size), indirect: false };
        let mut chain = Chain {
            segments: Vec::new(),
            filled: 0,
            filled_bytes: 0,
            room_bytes: 0,
            status: GuestAddress(0),
        };
        let mut next = head;
        for _ in 0..SEGMENTS_MAX + 1 {
            let descriptor = walk.descriptor(next)?;
            let flags = u32::from(descriptor.flags());
            if flags & VRING_DESC_F_INDIRECT != 0 {
                walk.enter(&descriptor)?;
                next = 0;
                continue;
            }
            chain.push(memory, &descriptor, flags & VRING_DESC_F_WRITE != 0)?;
            if flags & VRING_DESC_F_NEXT == 0 {
                return chain.with_status();
            }
            next = descriptor.next();
        }
        Err(RingError::Endless)
    }

    fn push(
        &mut self,
        memory: &GuestMemoryMmap,
        descriptor: &Descriptor,
        is_room: bool,
    ) -> Result<(), RingError> {
        let (at, len) = (descriptor.addr(), descriptor.len() as usize);
        if len == 0 {
            return Ok(());
        }
        if at.0.checked_add(len as u64).is_none() || !memory.check_range(at, len) {
            return Err(RingError::OutsideMemory);
        }
        if is_room {
            self.room_bytes += len as u64;
        } else if self.filled < self.segments.len() {
            return Err(RingError::Order);
        } else {
            self.filled += 1;
            self.filled_bytes += len as u64;
        }
        self.segments.push(Segment { at, len });
        Ok(())
    }

    /// Takes the last byte off as the place of the status.
    fn with_status(mut self) -> Result<Chain, RingError> {
        let last = self.segments.last_mut().filter(|_| self.room_bytes > 0).ok_or(RingError::NoStatus)?;
        last.len -= 1;
        self.status = GuestAddress(last.at.0 + last.len as u64);
        self.room_bytes -= 1;
        Ok(self)
    }

    /// Copies what the guest has filled, from byte `skip`, into `to`. False if there is less, or the memory is gone.
    pub(super) fn read(&self, memory: &GuestMemoryMmap, skip: usize, to: &mut [u8]) -> bool {
        let (mut skip, mut rest) = (skip, to);
        for segment in &self.segments[..self.filled] {
            let skipped = skip.min(segment.len);
            skip -= skipped;
            let (now, later) = rest.split_at_mut((segment.len - skipped).min(rest.len()));
            if memory.read_slice(now, GuestAddress(segment.at.0 + skipped as u64)).is_err() {
                return false;
            }
            rest = later;
        }
        rest.is_empty()
    }

    /// Copies data into the room. False if there is more data than room, or the memory is gone.
    pub(super) fn write<'a>(
        &self,
        memory: &GuestMemoryMmap,
        data: impl IntoIterator<Item = &'a [u8]>,
    ) -> bool {
        let mut segments = self.segments[self.filled..].iter().copied();
        let mut room = Segment { at: GuestAddress(0), len: 0 };
        for mut bytes in data {
            while !bytes.is_empty() {
                if room.len == 0 {
                    let Some(next) = segments.next() else { return false };
                    room = next;
                    continue;
                }
                let (now, later) = bytes.split_at(bytes.len().min(room.len));
                if memory.write_slice(now, room.at).is_err() {
                    return false;
                }
                room = Segment { at: GuestAddress(room.at.0 + now.len() as u64), len: room.len - now.len() };
                bytes = later;
            }
        }
        true
    }

    /// As [`Chain::write`].
    pub(super) fn write_bufs(&self, memory: &GuestMemoryMmap, data: &[Buf]) -> bool {
        self.write(memory, data.iter().map(Buf::bytes))
    }

    /// Tells the guest how its request has ended.
    pub(super) fn write_status(&self, memory: &GuestMemoryMmap, status: u8) {
        // Memory that was taken away meanwhile is the guest's loss.
        let _ = memory.write_slice(&[status], self.status);
    }
}

/// The table that the walk is in.
struct Walk<'a> {
    memory: &'a GuestMemoryMmap,
    table: GuestAddress,
    size: u64,
    indirect: bool,
}

impl Walk<'_> {
    fn descriptor(&self, index: u16) -> Result<Descriptor, RingError> {
        if u64::from(index) >= self.size {
            return Err(RingError::OutsideTable);
        }
        let at = self.table.0.checked_add(u64::from(index) * DESCRIPTOR_BYTES);
        let at = GuestAddress(at.ok_or(RingError::OutsideMemory)?);
        self.memory.read_obj(at).map_err(|_| RingError::OutsideMemory)
    }

    /// Goes on in the table that a descriptor leads to.
    fn enter(&mut self, descriptor: &Descriptor) -> Result<(), RingError> {
        let bytes = u64::from(descriptor.len());
        let is_next = u32::from(descriptor.flags()) & VRING_DESC_F_NEXT != 0;
        if self.indirect || is_next || bytes == 0 || !bytes.is_multiple_of(DESCRIPTOR_BYTES) {
            return Err(RingError::Indirect);
        }
        self.table = descriptor.addr();
        self.size = bytes / DESCRIPTOR_BYTES;
        self.indirect = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: u64 = 0x1000;
    const NEXT: u32 = VRING_DESC_F_NEXT;
    const WRITE: u32 = VRING_DESC_F_WRITE;
    const INDIRECT: u32 = VRING_DESC_F_INDIRECT;

    fn guest() -> GuestMemoryMmap {
        // Two regions that touch, and a gap behind.
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x8000), (GuestAddress(0x8000), 0x8000)])
            .expect("memory")
    }

    fn put(memory: &GuestMemoryMmap, table: u64, index: u64, (at, len, flags, next): (u64, u32, u32, u16)) {
        let descriptor = Descriptor::new(at, len, flags as u16, next);
        memory.write_obj(descriptor, GuestAddress(table + index * DESCRIPTOR_BYTES)).expect("in memory");
    }

    fn walked(descriptors: &[(u64, u32, u32, u16)]) -> Result<Chain, RingError> {
        let memory = guest();
        for (index, descriptor) in descriptors.iter().enumerate() {
            put(&memory, TABLE, index as u64, *descriptor);
        }
        Chain::walk(&memory, GuestAddress(TABLE), 8, 0)
    }

    #[test]
    fn a_good_chain_is_what_it_says() {
        let chain = walked(&[(0x4000, 16, NEXT, 2), (0, 0, 0, 0), (0x5000, 513, WRITE, 0)]).expect("good");
        assert_eq!((chain.filled_bytes, chain.room_bytes, chain.status.0), (16, 512, 0x5200));
    }

    #[test]
    fn each_broken_rule_is_told() {
        let bad = |descriptors: &[_]| walked(descriptors).expect_err("bad");
        assert_eq!(bad(&[(0x4000, 16, NEXT, 8)]), RingError::OutsideTable);
        assert_eq!(bad(&[(0x4000, 16, NEXT, 0)]), RingError::Endless);
        assert_eq!(bad(&[(0x4000, 0, NEXT, 0)]), RingError::Endless);
        assert_eq!(bad(&[(0xf000, 0x1001, WRITE, 0)]), RingError::OutsideMemory);
        assert_eq!(bad(&[(u64::MAX, 2, WRITE, 0)]), RingError::OutsideMemory);
        assert_eq!(bad(&[(0x4000, u32::MAX, WRITE, 0)]), RingError::OutsideMemory);
        assert_eq!(bad(&[(0x4000, 16, WRITE | NEXT, 1), (0x5000, 16, 0, 0)]), RingError::Order);
        assert_eq!(bad(&[(0x4000, 16, 0, 0)]), RingError::NoStatus);
        assert_eq!(bad(&[(0x4000, 16, NEXT, 1), (0x5000, 0, WRITE, 0)]), RingError::NoStatus);
        assert_eq!(bad(&[(0x4000, 24, INDIRECT, 0)]), RingError::Indirect);
        assert_eq!(bad(&[(0x4000, 0, INDIRECT, 0)]), RingError::Indirect);
        assert_eq!(bad(&[(0x4000, 32, INDIRECT | NEXT, 1)]), RingError::Indirect);
        assert_eq!(bad(&[(u64::MAX - 3, 32, INDIRECT, 0)]), RingError::OutsideMemory);
        // The table leads to itself.
        assert_eq!(bad(&[(TABLE, 32, INDIRECT, 0)]), RingError::Indirect);
    }

    #[test]
    fn an_indirect_table_may_be_larger_than_the_ring() {
        let memory = guest();
        put(&memory, TABLE, 3, (0x2000, 20 * 16, INDIRECT, 0));
        for index in 0..19 {
            put(&memory, 0x2000, index, (0x4000 + index * 16, 16, NEXT, index as u16 + 1));
        }
        put(&memory, 0x2000, 19, (0x7fff, 3, WRITE, 0));
        let chain = Chain::walk(&memory, GuestAddress(TABLE), 8, 3).expect("good");
        assert_eq!((chain.filled_bytes, chain.room_bytes), (19 * 16, 2));
        assert!(chain.write(&memory, [&[1u8][..], &[2][..]]));
        assert!(!chain.write(&memory, [&[1u8, 2, 3][..]]));
        chain.write_status(&memory, 9);
        let mut end = [0; 3];
        memory.read_slice(&mut end, GuestAddress(0x7fff)).expect("in memory");
        assert_eq!(end, [1, 2, 9]);
    }

    proptest! {
        #[test]
        fn data_is_copied_as_segments_divide_it(
            lens in proptest::collection::vec(0u32..700, 1..7), skip in 0usize..300, cut in 1usize..900,
        ) {
            let memory = guest();
            let total: usize = lens.iter().map(|len| *len as usize).sum();
            for flags in [0, WRITE] {
                let mut at = 0x4000;
                for (index, len) in lens.iter().enumerate() {
                    put(&memory, TABLE, index as u64, (at, *len, flags | NEXT, index as u16 + 1));
                    at += u64::from(*len) + 3;
                }
                put(&memory, TABLE, lens.len() as u64, (0x7000, 1, WRITE, 0));
                let chain = Chain::walk(&memory, GuestAddress(TABLE), 8, 0).expect("good");
                let data: Vec<u8> = (0..total).map(|i| i as u8).collect();
                if flags == WRITE {
                    prop_assert_eq!(chain.room_bytes as usize, total);
                    prop_assert!(chain.write(&memory, data.chunks(cut)));
                    prop_assert!(!chain.write(&memory, [&data[..], &[0][..]]));
                }
                // Segment by segment, by their places.
                let (mut at, mut from) = (0x4000, 0);
                for len in &lens {
                    let part = &data[from..from + *len as usize];
                    if flags == WRITE {
                        let mut back = vec![0; part.len()];
                        memory.read_slice(&mut back, GuestAddress(at)).expect("in memory");
                        prop_assert_eq!(&back, part);
                    } else {
                        memory.write_slice(part, GuestAddress(at)).expect("in memory");
                    }
                    at += u64::from(*len) + 3;
                    from += part.len();
                }
                if flags == 0 {
                    let skip = skip.min(total);
                    let mut back = vec![0; total - skip];
                    prop_assert!(chain.read(&memory, skip, &mut back));
                    prop_assert_eq!(&back[..], &data[skip..]);
                    prop_assert!(!chain.read(&memory, skip, &mut vec![0; total - skip + 1]));
                }
            }
        }

        #[test]
        fn no_table_harms(
            random in proptest::collection::vec((0u64..0x1_1000, 0u32..0x3000, 0u32..8, 0u16..20), 32),
            wild in proptest::collection::vec(any::<(u64, u32, u16, u16)>(), 4),
            head: u16,
        ) {
            let memory = guest();
            for (index, descriptor) in random.iter().enumerate() {
                put(&memory, TABLE, index as u64, *descriptor);
            }
            for (index, (at, len, flags, next)) in wild.iter().enumerate() {
                put(&memory, TABLE, 16 + index as u64, (*at, *len, u32::from(*flags), *next));
            }
            for head in [head, head % 20] {
                let Ok(chain) = Chain::walk(&memory, GuestAddress(TABLE), 16, head) else { continue };
                prop_assert!(chain.segments.len() <= SEGMENTS_MAX);
                let bytes: usize = chain.segments.iter().map(|segment| segment.len).sum();
                prop_assert_eq!(bytes as u64, chain.filled_bytes + chain.room_bytes);
                for segment in &chain.segments {
                    prop_assert!(segment.at.0 + segment.len as u64 <= 0x1_0000);
                }
                let mut all = vec![0; chain.filled_bytes as usize];
                prop_assert!(chain.read(&memory, 0, &mut all));
            }
        }
    }
}
