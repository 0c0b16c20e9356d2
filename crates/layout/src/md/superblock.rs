//! One member's superblock: 256 bytes and two for each device of the array, little-endian, padded to 4096.

use super::{MdError, Unsupported};

/// Bytes that a superblock takes on a member.
pub const SUPERBLOCK_BYTES: usize = 4096;

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;
/// `resync_offset` of an array that is in sync.
const IN_SYNC: u64 = u64::MAX;

/// Offsets of the fields, as in `struct mdp_superblock_1`.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const MAJOR: usize = 4;
    pub(super) const FEATURES: usize = 8;
    pub(super) const SET_UUID: usize = 16;
    pub(super) const SET_NAME: usize = 32;
    pub(super) const LEVEL: usize = 72;
    pub(super) const LAYOUT: usize = 76;
    pub(super) const SIZE: usize = 80;
    pub(super) const CHUNK: usize = 88;
    pub(super) const RAID_DISKS: usize = 92;
    pub(super) const BITMAP_OFFSET: usize = 96;
    pub(super) const DATA_OFFSET: usize = 128;
    pub(super) const DATA_SIZE: usize = 136;
    pub(super) const SUPER_OFFSET: usize = 144;
    pub(super) const RECOVERY_OFFSET: usize = 152;
    pub(super) const DEV_NUMBER: usize = 160;
    pub(super) const DEVICE_UUID: usize = 168;
    pub(super) const UTIME: usize = 192;
    pub(super) const EVENTS: usize = 200;
    pub(super) const RESYNC_OFFSET: usize = 208;
    pub(super) const CHECKSUM: usize = 216;
    pub(super) const MAX_DEV: usize = 220;
    pub(super) const ROLES: usize = 256;
}

/// Bits of the feature map, `MD_FEATURE_…`.
mod feature {
    pub(super) const BITMAP_OFFSET: u32 = 1;
    pub(super) const RECOVERY_OFFSET: u32 = 2;
    pub(super) const RESHAPE_ACTIVE: u32 = 4;
    pub(super) const BAD_BLOCKS: u32 = 8;
    pub(super) const REPLACEMENT: u32 = 16;
    pub(super) const RESHAPE_BACKWARDS: u32 = 32;
    pub(super) const NEW_OFFSET: u32 = 64;
    pub(super) const RECOVERY_BITMAP: u32 = 128;
    pub(super) const CLUSTERED: u32 = 256;
    pub(super) const JOURNAL: u32 = 512;
    pub(super) const PPL: u32 = 1024;
    pub(super) const MULTIPLE_PPLS: u32 = 2048;
    pub(super) const RAID0_LAYOUT: u32 = 4096;
    /// Features that do not affect the use of the array.
    pub(super) const USABLE: u32 = BITMAP_OFFSET | RECOVERY_OFFSET | RAID0_LAYOUT;
}

/// The position of the superblock on its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Version 1.0: at the end, 8 to 12 KiB before it.
    V1_0,
    /// Version 1.2: 4 KiB from the beginning.
    V1_2,
}

/// The role of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// This member of the array, from 0.
    Active(u32),
    /// A spare, or no device.
    Spare,
    /// A failed member.
    Faulty,
    /// The journal device.
    Journal,
}

/// A superblock. Setters change the fields that a writer must change; [`Superblock::encode`] computes the checksum.
#[derive(Clone, PartialEq, Eq)]
pub struct Superblock {
    bytes: Box<[u8; SUPERBLOCK_BYTES]>,
}

impl Version {
    /// The offset in bytes of the superblock on a device of `device_bytes` bytes; `None` if the device is too small.
    pub fn offset(self, device_bytes: u64) -> Option<u64> {
        let sector = match self {
            Version::V1_0 => (device_bytes / SECTOR).checked_sub(16)? & !7,
            Version::V1_2 => 8,
        };
        let offset = sector * SECTOR;
        (offset + SUPERBLOCK_BYTES as u64 <= device_bytes).then_some(offset)
    }
}

impl Superblock {
    /// Reads a superblock that was found at `offset` of its device, and verifies it by itself.
    ///
    /// # Errors
    /// When the bytes are not a valid superblock of a supported version; see [`MdError`].
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Superblock, MdError> {
        let whole = bytes.get(..SUPERBLOCK_BYTES).ok_or(MdError::Short(bytes.len()))?;
        let mut block = Superblock { bytes: Box::new([0; SUPERBLOCK_BYTES]) };
        block.bytes.copy_from_slice(whole);
        if block.u32(at::MAGIC) != MAGIC {
            return Err(MdError::Magic(block.u32(at::MAGIC)));
        }
        if block.u32(at::MAJOR) != 1 {
            return Err(MdError::Major(block.u32(at::MAJOR)));
        }
        let devices = block.u32(at::MAX_DEV);
        if devices as usize > (SUPERBLOCK_BYTES - at::ROLES) / 2 {
            return Err(MdError::Devices(devices));
        }
        let (stored, computed) = (block.u32(at::CHECKSUM), block.checksum());
        if stored != computed {
            return Err(MdError::Checksum { stored, computed });
        }
        let (says, found) = (block.u64(at::SUPER_OFFSET), offset / SECTOR);
        if says != found {
            return Err(MdError::Misplaced { says, found });
        }
        Ok(block)
    }

    /// The bytes to write, with the checksum.
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = *self.bytes;
        bytes[at::CHECKSUM..][..4].copy_from_slice(&self.checksum().to_le_bytes());
        bytes
    }

    /// Refuses features that are not supported.
    ///
    /// # Errors
    /// Names the first feature that is not supported.
    pub fn check_features(&self) -> Result<(), Unsupported> {
        use feature::*;
        let has = |bits: u32| self.features() & bits != 0;
        let reasons = [
            (RESHAPE_ACTIVE | RESHAPE_BACKWARDS | NEW_OFFSET, Unsupported::Reshape),
            (REPLACEMENT, Unsupported::Replacement),
            (JOURNAL, Unsupported::Journal),
            (PPL | MULTIPLE_PPLS, Unsupported::PartialParityLog),
            (CLUSTERED, Unsupported::Clustered),
            (RECOVERY_BITMAP, Unsupported::BitmapRecovery),
            (BAD_BLOCKS, Unsupported::BadBlocks),
            (!USABLE, Unsupported::Unknown(self.features() & !USABLE)),
        ];
        reasons.into_iter().find(|&(bits, _)| has(bits)).map_or(Ok(()), |(_, reason)| Err(reason))
    }

    /// The feature map.
    pub fn features(&self) -> u32 {
        self.u32(at::FEATURES)
    }

    /// The identity of the array.
    pub fn set_uuid(&self) -> [u8; 16] {
        self.uuid(at::SET_UUID)
    }

    /// The name of the array, usually `host:name`.
    pub fn set_name(&self) -> String {
        let name = &self.bytes[at::SET_NAME..][..32];
        let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    }

    /// md's number of the level; negative for linear and multipath.
    pub fn level(&self) -> i32 {
        self.u32(at::LEVEL) as i32
    }

    /// md's number of the layout, whose meaning depends on the level.
    pub fn layout(&self) -> u32 {
        self.u32(at::LAYOUT)
    }

    /// Sectors used of each member; 0 for RAID 0, which uses all of each member.
    pub fn size_sectors(&self) -> u64 {
        self.u64(at::SIZE)
    }

    /// Sectors of a chunk; 0 for RAID 1.
    pub fn chunk_sectors(&self) -> u32 {
        self.u32(at::CHUNK)
    }

    /// Members of the array.
    pub fn raid_disks(&self) -> u32 {
        self.u32(at::RAID_DISKS)
    }

    /// The start of the write-intent bitmap, in sectors from the superblock, if there is one.
    ///
    /// A writer must either maintain the bitmap, or make md detect that it is out of date ([`super::bitmap_events`]);
    /// otherwise the bitmap is wrong after the next crash.
    pub fn bitmap_offset(&self) -> Option<i32> {
        (self.features() & feature::BITMAP_OFFSET != 0).then(|| self.u32(at::BITMAP_OFFSET) as i32)
    }

    /// The sector of this member at which data begins.
    pub fn data_offset(&self) -> u64 {
        self.u64(at::DATA_OFFSET)
    }

    /// Sectors of this member that can hold data.
    pub fn data_sectors(&self) -> u64 {
        self.u64(at::DATA_SIZE)
    }

    /// Sectors of this member, from its data offset, that are recovered, if it is not recovered whole.
    pub fn recovery_offset(&self) -> Option<u64> {
        (self.features() & feature::RECOVERY_OFFSET != 0).then(|| self.u64(at::RECOVERY_OFFSET))
    }

    /// The permanent number of this device, which is not its role.
    pub fn dev_number(&self) -> u32 {
        self.u32(at::DEV_NUMBER)
    }

    /// The identity of this device.
    pub fn device_uuid(&self) -> [u8; 16] {
        self.uuid(at::DEVICE_UUID)
    }

    /// When it was last written, in seconds since 1970: the low 40 bits of the field (the others are microseconds).
    pub fn updated_seconds(&self) -> u64 {
        self.u64(at::UTIME) & ((1 << 40) - 1)
    }

    /// The event count: the number of changes of the array's state. The members with the highest count are up to date.
    pub fn events(&self) -> u64 {
        self.u64(at::EVENTS)
    }

    /// Sectors of each member whose redundancy is right, if not all of them: the array was not stopped cleanly, or
    /// its first resync is not finished.
    pub fn resync_offset(&self) -> Option<u64> {
        Some(self.u64(at::RESYNC_OFFSET)).filter(|&sectors| sectors != IN_SYNC)
    }

    /// The number of devices in the table of roles.
    pub fn max_dev(&self) -> u32 {
        self.u32(at::MAX_DEV)
    }

    /// The role of a device, by its permanent number.
    pub fn role_of(&self, dev_number: u32) -> MemberRole {
        if dev_number >= self.max_dev() {
            return MemberRole::Spare;
        }
        match u16::from_le_bytes(self.array(at::ROLES + 2 * dev_number as usize)) {
            0xffff => MemberRole::Spare,
            0xfffe => MemberRole::Faulty,
            0xfffd => MemberRole::Journal,
            role => MemberRole::Active(u32::from(role)),
        }
    }

    /// The role of this device.
    pub fn role(&self) -> MemberRole {
        self.role_of(self.dev_number())
    }

    /// Sets the event count. All members get the same.
    pub fn set_events(&mut self, events: u64) {
        self.put(at::EVENTS, &events.to_le_bytes());
    }

    /// Sets the time of the write, in seconds since 1970.
    pub fn set_updated_seconds(&mut self, seconds: u64) {
        self.put(at::UTIME, &(seconds & ((1 << 40) - 1)).to_le_bytes());
    }

    /// Marks the array in sync (`None`), or to be resynced from this sector on; 0 before the first write.
    pub fn set_resync_offset(&mut self, sectors: Option<u64>) {
        self.put(at::RESYNC_OFFSET, &sectors.unwrap_or(IN_SYNC).to_le_bytes());
    }

    /// Sets the recovered sectors of this member; `None` if it is fully recovered.
    pub fn set_recovery_offset(&mut self, sectors: Option<u64>) {
        let others = self.features() & !feature::RECOVERY_OFFSET;
        let features = if sectors.is_some() { others | feature::RECOVERY_OFFSET } else { others };
        self.put(at::FEATURES, &features.to_le_bytes());
        self.put(at::RECOVERY_OFFSET, &sectors.unwrap_or(0).to_le_bytes());
    }

    /// Sets the role of a device, which must be in the table.
    pub fn set_role_of(&mut self, dev_number: u32, role: MemberRole) {
        assert!(dev_number < self.max_dev(), "device {dev_number} of {}", self.max_dev());
        let role = match role {
            MemberRole::Active(role) => role as u16,
            MemberRole::Spare => 0xffff,
            MemberRole::Faulty => 0xfffe,
            MemberRole::Journal => 0xfffd,
        };
        self.put(at::ROLES + 2 * dev_number as usize, &role.to_le_bytes());
    }

    /// The sum of all words up to the end of the roles, without the checksum, folded to 32 bits once.
    fn checksum(&self) -> u32 {
        let end = at::ROLES + 2 * self.max_dev() as usize;
        let words = self.bytes[..end].chunks(4).enumerate().map(|(i, word)| {
            let mut whole = [0; 4];
            whole[..word.len()].copy_from_slice(word);
            if i * 4 == at::CHECKSUM { 0 } else { u64::from(u32::from_le_bytes(whole)) }
        });
        let sum: u64 = words.sum();
        (sum as u32).wrapping_add((sum >> 32) as u32)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.bytes[at + i])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn uuid(&self, at: usize) -> [u8; 16] {
        self.array(at)
    }
}

impl std::fmt::Debug for Superblock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Superblock")
            .field("set_name", &self.set_name())
            .field("level", &self.level())
            .field("layout", &self.layout())
            .field("raid_disks", &self.raid_disks())
            .field("features", &self.features())
            .field("role", &self.role())
            .field("events", &self.events())
            .field("resync_offset", &self.resync_offset())
            .finish_non_exhaustive()
    }
}
