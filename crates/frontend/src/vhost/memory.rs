//! The memory that a guest shares: a table of mapped regions, of which rings hold snapshots.
//!
//! A ring never looks at a table that changes: it holds an immutable snapshot, and gets another one when the table has
//! changed. A region stays mapped as long as a request in flight holds a snapshot with it.

use std::fs::File;
use std::sync::Arc;

use vhost::vhost_user::Error;
use vhost::vhost_user::message::VhostUserMemoryRegion;
use vm_memory::mmap::MmapRegion;
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap};

/// Regions of a guest, at most.
pub(super) const REGIONS_MAX: usize = 64;

/// A snapshot of a guest's memory.
pub(super) type Guest = Arc<GuestMemoryMmap>;

/// A region as the other side names it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Where the guest sees it.
    guest: u64,
    /// Where the process sees it that runs the guest. Addresses of rings are told so.
    user: u64,
    bytes: u64,
}

impl Place {
    fn of(region: &VhostUserMemoryRegion) -> Place {
        Place { guest: region.guest_phys_addr, user: region.user_addr, bytes: region.memory_size }
    }
}

/// The regions of a guest.
#[derive(Default)]
pub(super) struct Memory {
    places: Vec<Place>,
    all: Guest,
}

impl Memory {
    /// The memory as it is now.
    pub(super) fn snapshot(&self) -> Guest {
        Arc::clone(&self.all)
    }

    /// Replaces all regions.
    ///
    /// # Errors
    /// When a region cannot be mapped, is longer than its file, or overlaps another. The table is then as it was.
    pub(super) fn replace(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
    ) -> Result<(), Error> {
        let mut new = Memory::default();
        for (region, file) in regions.iter().zip(files) {
            new.add(region, file)?;
        }
        *self = new;
        Ok(())
    }

    /// Adds a region.
    ///
    /// # Errors
    /// As for [`Memory::replace`], and when there are too many.
    pub(super) fn add(&mut self, region: &VhostUserMemoryRegion, file: File) -> Result<(), Error> {
        if self.places.len() >= REGIONS_MAX {
            return Err(Error::InvalidParam);
        }
        let mapped = Arc::new(map(region, file)?);
        self.all = Arc::new(self.all.insert_region(mapped).map_err(|_| Error::InvalidParam)?);
        self.places.push(Place::of(region));
        Ok(())
    }

    /// Removes a region.
    ///
    /// # Errors
    /// When there is none like this.
    pub(super) fn remove(&mut self, region: &VhostUserMemoryRegion) -> Result<(), Error> {
        let place = Place::of(region);
        let index = self.places.iter().position(|known| *known == place).ok_or(Error::InvalidParam)?;
        let removed = self.all.remove_region(GuestAddress(place.guest), place.bytes);
        let (rest, _mapped) = removed.map_err(|_| Error::InvalidParam)?;
        self.all = Arc::new(rest);
        self.places.swap_remove(index);
        Ok(())
    }

    /// The guest's address of a place in the process that runs the guest.
    pub(super) fn guest_address(&self, user: u64) -> Option<GuestAddress> {
        let mut offsets = self.places.iter().filter_map(|place| Some((place, user.checked_sub(place.user)?)));
        let (place, offset) = offsets.find(|(place, offset)| *offset < place.bytes)?;
        Some(GuestAddress(place.guest + offset))
    }
}

/// # Errors
/// When it cannot be mapped, or is longer than its file: an access behind the end of a file ends the process.
fn map(region: &VhostUserMemoryRegion, file: File) -> Result<GuestRegionMmap, Error> {
    let meta = file.metadata().map_err(Error::ReqHandlerError)?;
    let end = region.mmap_offset.checked_add(region.memory_size).ok_or(Error::InvalidParam)?;
    if !meta.is_file() || meta.len() < end {
        return Err(Error::InvalidParam);
    }
    let bytes = usize::try_from(region.memory_size).map_err(|_| Error::InvalidParam)?;
    let mapped = MmapRegion::from_file(FileOffset::new(file, region.mmap_offset), bytes);
    let mapped = mapped.map_err(|_| Error::InvalidParam)?;
    GuestRegionMmap::new(mapped, GuestAddress(region.guest_phys_addr)).ok_or(Error::InvalidParam)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::{Bytes, GuestMemoryBackend};

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(bytes).expect("set_len");
        file
    }

    fn region(guest: u64, user: u64, bytes: u64) -> VhostUserMemoryRegion {
        VhostUserMemoryRegion::new(guest, bytes, user, 0)
    }

    #[test]
    fn addresses_are_those_of_the_region() {
        let mut memory = Memory::default();
        memory.add(&region(0x10000, 0x7000_0000, 0x4000), file(0x4000)).expect("added");
        memory.add(&region(0x0, 0x9000_0000, 0x8000), file(0x8000)).expect("added");
        assert_eq!(memory.guest_address(0x7000_3fff), Some(GuestAddress(0x13fff)));
        assert_eq!(memory.guest_address(0x9000_0001), Some(GuestAddress(1)));
        assert_eq!(memory.guest_address(0x7000_4000), None);
        assert_eq!(memory.guest_address(0), None);
    }

    #[test]
    fn regions_that_lie_are_refused() {
        let mut memory = Memory::default();
        assert!(memory.add(&region(0, 0, 0x4000), file(0x3fff)).is_err());
        assert!(memory.add(&region(u64::MAX - 0x1000, 0, 0x4000), file(0x4000)).is_err());
        memory.add(&region(0x1000, 0x1000, 0x4000), file(0x4000)).expect("added");
        assert!(memory.add(&region(0x4000, 0x9000, 0x4000), file(0x4000)).is_err());
        let all = [region(0, 0, 0x1000), region(0, 0, 0x1000)];
        assert!(memory.replace(&all, vec![file(0x1000), file(0x1000)]).is_err());
        assert_eq!(memory.guest_address(0x1000), Some(GuestAddress(0x1000)));
        let pipe = File::open("/dev/zero").expect("open");
        assert!(memory.add(&region(0x10_0000, 0, 0x1000), pipe).is_err());
    }

    #[test]
    fn a_snapshot_outlives_its_regions() {
        let mut memory = Memory::default();
        memory.add(&region(0x1000, 0x1000, 0x1000), file(0x1000)).expect("added");
        memory.add(&region(0x2000, 0x2000, 0x1000), file(0x1000)).expect("added");
        let before = memory.snapshot();
        memory.remove(&region(0x1000, 0x1000, 0x1000)).expect("removed");
        assert!(memory.remove(&region(0x1000, 0x1000, 0x1000)).is_err());
        before.write_slice(&[7; 8], GuestAddress(0x1ffc)).expect("both regions");
        assert!(memory.snapshot().find_region(GuestAddress(0x1ffc)).is_none());
        let mut last = [0; 4];
        memory.snapshot().read_slice(&mut last, GuestAddress(0x2000)).expect("the other");
        assert_eq!(last, [7; 4]);
    }
}
