//! Physical space of NVMe drives that have less of it than addresses: thin namespaces, and drives of ScaleFlux, which
//! compress.
//!
//! A thin namespace tells its use in blocks (NUSE of the Identify Namespace structure, NVM Command Set Specification
//! 1.0, figure 97). A drive that compresses counts a block as used however short it became, so ScaleFlux has a command
//! of its own; its number and structure are facts from plugins/scaleflux of nvme-cli. Identify was tried with a thick
//! namespace; the answers of thin and of compressing drives are decoded as these sources describe them, and were not
//! tried on a device.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use bytemuck::{Pod, Zeroable, bytes_of_mut};
use libc::dev_t;
use sinew_core::physical::{Domain, Physical, PhysicalSource};

use crate::sysfs::directory_of;

/// `NVME_IOCTL_ID` and `NVME_IOCTL_ADMIN_CMD` (linux/nvme_ioctl.h).
const NAMESPACE_ID: u64 = 0x4e40;
const ADMIN_COMMAND: u64 = 0xc048_4e41;

const IDENTIFY: u8 = 0x06;
const IDENTIFY_BYTES: usize = 4096;
/// What Identify is asked for: the field CNS.
const OF_NAMESPACE: u32 = 0;
const OF_CONTROLLER: u32 = 1;

/// The PCI vendor of ScaleFlux. Other vendors may use its command for anything.
const SCALEFLUX: u16 = 0xcc53;
const SCALEFLUX_CAPACITY: u8 = 0xd3;
/// The unit of its counts.
const SECTOR_BYTES: u64 = 512;

/// `struct nvme_passthru_cmd`.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

// The size is in the number of the call.
const _: () = assert!(size_of::<Command>() == 72);

/// `struct sfx_freespace_ctx`, in sectors where not stated otherwise.
#[derive(Clone, Copy, Default, Debug, Pod, Zeroable)]
#[repr(C)]
struct ScaleFluxCapacity {
    free: u64,
    flash: u64,
    /// Flash without the part that cleaning needs.
    physical: u64,
    addresses: u64,
    /// Units of 4 KiB, as the next.
    flash_used: u64,
    written: u64,
    is_full: u64,
    map_unit: u64,
    addresses_max: u64,
    addresses_more: u64,
    may_change: u64,
}

/// The command that tells the space of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Identify,
    ScaleFlux,
}

/// A namespace of an NVMe drive, or a partition of one.
pub(crate) struct Nvme {
    /// The number of the namespace's block device: its partitions share space.
    domain: dev_t,
    /// The number of the namespace and the command that tells its space, asked for once; `None` if it has as much as
    /// addresses, or does not tell.
    thin: OnceLock<Option<(u32, Asked)>>,
}

impl Nvme {
    /// The block device of a namespace, or of a partition; `None` if sysfs does not have it.
    pub(crate) fn of(number: dev_t) -> Option<Nvme> {
        let path = fs::canonicalize(directory_of(number)).ok()?;
        let whole = if path.join("partition").exists() { path.parent()? } else { &path };
        let domain = number_in(&fs::read_to_string(whole.join("dev")).ok()?)?;
        Some(Nvme { domain, thin: OnceLock::new() })
    }

    /// The physical space of the namespace; `None` if it has as much as addresses, or does not tell. May block as long as
    /// the drive takes for a command.
    pub(crate) fn space(&self, file: &File) -> Option<Physical> {
        let (namespace, asked) = (*self.thin.get_or_init(|| thin_namespace(file)))?;
        let (used, free) = match asked {
            Asked::Identify => thin_space(&identify(file, namespace, OF_NAMESPACE)?)?,
            Asked::ScaleFlux => {
                let mut capacity = ScaleFluxCapacity::zeroed();
                admin(file, SCALEFLUX_CAPACITY, namespace, 0, bytes_of_mut(&mut capacity))?;
                scaleflux_space(&capacity)?
            }
        };
        Some(Physical { used, free: Some(free), domain: Domain(self.domain), source: PhysicalSource::Device })
    }
}

/// A device number as sysfs prints it.
fn number_in(text: &str) -> Option<dev_t> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn thin_namespace(file: &File) -> Option<(u32, Asked)> {
    let namespace = namespace_id(file)?;
    if vendor_in(&identify(file, 0, OF_CONTROLLER)?) == SCALEFLUX {
        return Some((namespace, Asked::ScaleFlux));
    }
    let is_thin = thin_space(&identify(file, namespace, OF_NAMESPACE)?).is_some();
    is_thin.then_some((namespace, Asked::Identify))
}

fn vendor_in(controller: &[u8; IDENTIFY_BYTES]) -> u16 {
    u16::from_le_bytes([controller[0], controller[1]])
}

/// Bytes used and free of a namespace with thin provisioning (bit 0 of NSFEAT), from NCAP, NUSE and the size of its blocks.
fn thin_space(namespace: &[u8; IDENTIFY_BYTES]) -> Option<(u64, u64)> {
    if namespace[24] & 1 == 0 {
        return None;
    }
    // FLBAS: bits 3 to 0 and, above them, bits 6 and 5. Each format has four bytes, the third of which is log2 of its size.
    let (format, formats) = (namespace[26] & 0xf | namespace[26] >> 1 & 0x30, 128);
    let block_shift = u32::from(namespace[formats + usize::from(format) * 4 + 2]);
    let blocks = |at: usize| namespace[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let (capacity, used) = (blocks(8)?, blocks(16)?);
    let bytes = |blocks: u64| blocks.checked_mul(1u64.checked_shl(block_shift)?);
    Some((bytes(used)?, bytes(capacity.saturating_sub(used))?))
}

/// Bytes used and free of a ScaleFlux drive.
fn scaleflux_space(capacity: &ScaleFluxCapacity) -> Option<(u64, u64)> {
    let used = capacity.physical.checked_sub(capacity.free)?.checked_mul(SECTOR_BYTES)?;
    let free = if capacity.is_full == 0 { capacity.free.checked_mul(SECTOR_BYTES)? } else { 0 };
    (capacity.physical > 0).then_some((used, free))
}

fn namespace_id(file: &File) -> Option<u32> {
    // SAFETY: a system call without arguments.
    let id = unsafe { libc::ioctl(file.as_raw_fd(), NAMESPACE_ID as _) };
    u32::try_from(id).ok().filter(|id| *id > 0)
}

fn identify(file: &File, namespace: u32, of: u32) -> Option<[u8; IDENTIFY_BYTES]> {
    let mut data = [0; IDENTIFY_BYTES];
    admin(file, IDENTIFY, namespace, of, &mut data)?;
    Some(data)
}

/// Sends an admin command that reads; `None` if the drive or the kernel refuses it.
fn admin(file: &File, opcode: u8, namespace: u32, word_10: u32, data: &mut [u8]) -> Option<()> {
    let mut command = Command {
        opcode,
        namespace,
        address: data.as_mut_ptr() as u64,
        data_bytes: u32::try_from(data.len()).ok()?,
        words_10_15: [word_10, 0, 0, 0, 0, 0],
        ..Command::zeroed()
    };
    // SAFETY: the kernel reads and writes the command, and writes the data that it names, during the call only.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND as _, &raw mut command) };
    (status == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Identify Namespace structure: blocks of addresses, of capacity and in use, in a format of blocks of 4 KiB.
    fn namespace(features: u8, format: u8, size: u64, capacity: u64, used: u64) -> [u8; IDENTIFY_BYTES] {
        let mut data = [0; IDENTIFY_BYTES];
        for (at, value) in [(0, size), (8, capacity), (16, used)] {
            data[at..][..8].copy_from_slice(&value.to_le_bytes());
        }
        data[24] = features;
        data[25] = 63;
        data[26] = format & 0xf | (format & 0x30) << 1;
        data[128 + 2] = 9;
        data[128 + 4 * usize::from(format) + 2] = 12;
        data
    }

    #[test]
    fn a_thin_namespace_has_its_capacity_and_a_thick_one_does_not_tell() {
        let space = |features, format| thin_space(&namespace(features, format, 1 << 20, 1000, 300));
        assert_eq!(space(1, 1), Some((300 * 4096, 700 * 4096)));
        assert_eq!(space(0b1_0101, 17), Some((300 * 4096, 700 * 4096)), "a format of more than four bits");
        assert_eq!(space(0b1_0100, 1), None);
        let overfull = thin_space(&namespace(1, 1, 1 << 20, 1000, 1001));
        assert_eq!(overfull, Some((1001 * 4096, 0)));
        let absurd = thin_space(&namespace(1, 1, 1 << 20, u64::MAX, 1));
        assert_eq!(absurd, None, "more bytes than a number holds");
    }

    #[test]
    fn a_scaleflux_drive_tells_sectors() {
        let capacity = ScaleFluxCapacity { free: 600, physical: 1000, addresses: 4000, ..Zeroable::zeroed() };
        assert_eq!(scaleflux_space(&capacity), Some((400 * 512, 600 * 512)));
        assert_eq!(scaleflux_space(&ScaleFluxCapacity { is_full: 1, ..capacity }), Some((400 * 512, 0)));
        assert_eq!(
            scaleflux_space(&ScaleFluxCapacity { physical: 500, ..capacity }),
            None,
            "contradicts itself"
        );
        assert_eq!(scaleflux_space(&Zeroable::zeroed()), None, "an answer without content");
        let mut controller = [0; IDENTIFY_BYTES];
        controller[..2].copy_from_slice(&[0x53, 0xcc]);
        assert_eq!(vendor_in(&controller), SCALEFLUX);
    }

    #[test]
    fn a_file_is_no_drive() {
        let file = tempfile::tempfile().expect("a file");
        let nvme = Nvme { domain: 0, thin: OnceLock::new() };
        assert_eq!(nvme.space(&file), None);
        assert_eq!(number_in("259:3\n"), Some(libc::makedev(259, 3)));
        assert_eq!(number_in("259"), None);
    }

    /// With the path of a thick NVMe namespace in SINEW_TEST_NVME; skipped without.
    #[test]
    fn a_thick_drive_answers_identify() {
        let Some(path) = std::env::var_os("SINEW_TEST_NVME") else { return };
        let file = File::open(path).expect("the drive");
        let id = namespace_id(&file).expect("the number of the namespace");
        let data = identify(&file, id, OF_NAMESPACE).expect("Identify Namespace");
        let blocks = u64::from_le_bytes(*data.first_chunk().expect("eight bytes"));
        let shift = data[128 + usize::from(data[26] & 0xf) * 4 + 2];
        let metadata = file.metadata().expect("its metadata");
        let number = std::os::unix::fs::MetadataExt::rdev(&metadata);
        let sectors: u64 = fs::read_to_string(format!("{}/size", directory_of(number)))
            .expect("its size")
            .trim()
            .parse()
            .expect("a number");
        assert_eq!(blocks << shift, sectors * 512);
        assert_eq!(thin_namespace(&file), None);
        assert_eq!(Nvme::of(number).expect("of a drive").space(&file), None);
        println!(
            "identified {blocks} blocks of vendor {:#x}",
            vendor_in(&identify(&file, 0, OF_CONTROLLER).expect("Identify Controller"))
        );
    }
}
