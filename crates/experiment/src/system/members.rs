//! Simulated members: each is a device of the simulated world with a device model.
//!
//! Devices store no zeros, and writes are durable at once. The load writes only zeros, so members take memory for the engine's
//! own structures and for the model, not for data.

use std::sync::Mutex;

use sinew_core::io::DeviceId;
use sinew_devices::flash::{
    self, Compression, MappingCache, ParityReads, Redundancy, SlcCache, Ssd, Striping, WearLevelling,
};
use sinew_devices::{BLOCK_BYTES, Device, disk, theory};
use sinew_engine::pool::Candidate;
use sinew_sim::{ControllerLimits, DeviceConfig, DiscardReads, Model, World};
use sinew_workload::ByteSize;

use crate::file::drive::DriveSpec;
use crate::file::names::{ModelName, ParityReadsName, RedundancyName, SpareOf};
use crate::file::spec::{ControllerSpec, MemberSpec, RedundancySpec};
use crate::system::lengths;
use crate::{Error, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A member.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) device: DeviceId,
    pub(crate) model: ModelName,
    /// The size.
    pub(crate) bytes: u64,
    /// The member completes no request while there is load.
    pub(crate) stalled: bool,
    /// Facts about the flash, of an SSD.
    pub(crate) flash: Option<FlashFacts>,
}

/// Facts about the flash of an SSD.
#[derive(Clone, Copy)]
pub(crate) struct FlashFacts {
    /// Spare flash as a fraction of the size, or of the physical space of a drive that compresses.
    pub(crate) spare: f64,
    /// The number of dies.
    pub(crate) dies: u32,
    /// Blocks of an erase block.
    pub(crate) erase_block_blocks: u32,
    /// The redundancy.
    pub(crate) redundancy: Redundancy,
    /// Blocks of data for which the drive has flash, and blocks of flash.
    pub(crate) blocks: u32,
    pub(crate) physical_blocks: u64,
    /// The write amplification of random overwrites according to the closed form.
    pub(crate) closed_form_amplification: f64,
}

impl Member {
    /// The member as the engine gets it, with a path of its number.
    pub(crate) fn candidate(&self, number: usize) -> Candidate {
        Candidate { device: self.device, path: format!("member{number}") }
    }
}

/// The aged drives of the last run, kept for the next run with the same drives: ageing takes longer than most runs.
#[derive(Default)]
pub(crate) struct AgedDrives(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    descriptions: Vec<DriveDescription>,
    drives: Vec<Drive>,
}

/// Everything that determines a drive.
#[derive(Clone, PartialEq)]
struct DriveDescription {
    /// The index of its group in the file, for errors.
    group: usize,
    spec: MemberSpec,
    seed: u64,
}

impl AgedDrives {
    /// Copies of the kept drives if they fit the descriptions; otherwise new drives, which are kept. Concurrent runs wait for
    /// each other.
    fn get(&self, descriptions: &[DriveDescription]) -> Result<Vec<Drive>> {
        if descriptions.iter().all(|description| description.spec.aging.is_none()) {
            return make_drives(descriptions);
        }
        let mut kept = self.0.lock().expect("no panic while held");
        if kept.descriptions != descriptions {
            // The old drives are dropped before the new ones are made: those of a large pool take gigabytes.
            *kept = Kept::default();
            *kept = Kept { descriptions: descriptions.to_vec(), drives: make_drives(descriptions)? };
        }
        Ok(kept.drives.clone())
    }
}

/// Makes the members of all groups, or the first member alone. `discard` is what discarded blocks read as.
///
/// # Errors
/// [`Error::Setting`] if a model cannot have the size of its group.
pub(crate) fn make(
    world: &World,
    groups: &[MemberSpec],
    alone: bool,
    discard: DiscardReads,
    aged: Option<&AgedDrives>,
) -> Result<Vec<Member>> {
    let every = groups.iter().enumerate().flat_map(|(i, g)| std::iter::repeat_n((i, g.clone()), g.count));
    let wanted = if alone { 1 } else { usize::MAX };
    // Each member has its own seed: equal members would clean their flash at the same time.
    let seed = |number| world.rng(&format!("member {number}")).bits();
    let description = |(number, (group, spec))| DriveDescription { group, spec, seed: seed(number) };
    let descriptions: Vec<_> = every.take(wanted).enumerate().map(description).collect();
    let drives = aged.map_or_else(|| make_drives(&descriptions), |aged| aged.get(&descriptions))?;
    let stalled = groups.iter().flat_map(|group| (0..group.count).map(|i| i < group.stalled));
    // The members of a group measure with the same compressor, so content that several of them store is compressed once.
    let measured =
        groups.iter().map(|group| (group, lengths::measured_by(group.lengths.unwrap_or_default())));
    let measured = measured.flat_map(|(group, lengths)| std::iter::repeat_n((group, lengths), group.count));
    let all = drives.into_iter().zip(stalled).zip(measured);
    let members = all.map(|((drive, stalled), (group, lengths))| {
        let member = add(world, drive, stalled, discard);
        let device = world.device(member.device);
        if let Some(ByteSize(bytes)) = group.physical {
            device.set_compressing(bytes, lengths);
        }
        if group.drive.granule.is_some() {
            device.announce_lengths();
        }
        member
    });
    Ok(members.collect())
}

/// Puts controllers before the members: the first ones behind the first controller, and so on.
pub(crate) fn add_controllers(world: &World, controllers: &[ControllerSpec], members: &[Member]) {
    let mut devices = members.iter().map(|member| member.device);
    for controller in controllers {
        let behind: Vec<DeviceId> = devices.by_ref().take(controller.members).collect();
        let limits = ControllerLimits {
            command_ns: controller.iops.map_or(0, |iops| (1e9 / iops).round() as u64),
            bytes_per_s: controller.bandwidth.map_or(0, |rate| rate.0),
        };
        world.add_controller(limits, &behind);
    }
}

/// Makes drives on all cores, because ageing takes long.
fn make_drives(descriptions: &[DriveDescription]) -> Result<Vec<Drive>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = descriptions.chunks(descriptions.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let make = |share: &[DriveDescription]| -> Vec<_> { share.iter().map(Drive::new).collect() };
        let threads: Vec<_> = shares.map(|share| scope.spawn(move || make(share))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("ageing does not panic")).collect()
    })
}

/// A drive that is not yet part of a world.
#[derive(Clone)]
struct Drive {
    name: ModelName,
    model: Model,
    bytes: u64,
    flash: Option<FlashFacts>,
}

impl Drive {
    fn new(description: &DriveDescription) -> Result<Drive> {
        let DriveDescription { group, spec, seed } = description;
        let setting = |name: &str| format!("members.{group}.{name}");
        let (model, bytes, flash) = match flash_config(spec.model) {
            Some(config) => {
                let sized = sized(config, spec).map_err(|why| Error::setting(setting("size"), why))?;
                let (config, addresses) = sized;
                let granules = config.pages * config.unit_blocks();
                let flash = FlashFacts {
                    spare: config.alpha() - 1.0,
                    dies: config.all_dies(),
                    erase_block_blocks: granules,
                    redundancy: config.redundancy,
                    blocks: config.blocks,
                    physical_blocks: config.physical_blocks(),
                    closed_form_amplification: config.redundancy.flash_per_data()
                        * theory::greedy_write_amplification(config.usable_alpha(), granules),
                };
                let mut ssd = Ssd::new(flash::Config { blocks: addresses, ..config }, *seed);
                if let Some(times) = spec.aging {
                    ssd.age(times);
                }
                if spec.trimmed {
                    ssd.trim_at_once();
                }
                let bytes = u64::from(ssd.blocks()) * BLOCK;
                (Model::Flash(Box::new(ssd)), bytes, Some(flash))
            }
            None => {
                let disk = disk::Disk::new(disk_config(spec.model));
                let whole = u64::from(disk.blocks()) * BLOCK;
                let bytes = spec.size.map_or(whole, |size| size.0);
                if bytes > whole {
                    let why = format!("{bytes} bytes exceed the {whole} bytes of the disk");
                    return Err(Error::setting(setting("size"), why));
                }
                (Model::Disk(Box::new(disk)), bytes, None)
            }
        };
        Ok(Drive { name: spec.model, model, bytes, flash })
    }
}

/// Adds a drive to the world.
fn add(world: &World, drive: Drive, stalled: bool, discard: DiscardReads) -> Member {
    let Drive { name, model, bytes, flash } = drive;
    let config = DeviceConfig { cache_writes: 0, drop_zeros: true, discard, ..DeviceConfig::of_bytes(bytes) };
    let device = world.add_device(config);
    world.device(device).set_model(model);
    Member { device, model: name, bytes, stalled, flash }
}

/// The configuration of an SSD model; `None` for a disk.
fn flash_config(model: ModelName) -> Option<flash::Config> {
    Some(match model {
        ModelName::Slc => flash::slc(),
        ModelName::Mqsim => flash::mqsim(),
        ModelName::Femu => flash::femu(),
        ModelName::Datacenter => flash::datacenter(),
        ModelName::Consumer => flash::consumer(),
        ModelName::Pitfalls => flash::pitfalls(),
        ModelName::Ultrastar36z15 | ModelName::Constellation2 => return None,
    })
}

fn disk_config(model: ModelName) -> disk::Config {
    match model {
        ModelName::Ultrastar36z15 => disk::ultrastar_36z15(),
        _ => disk::constellation2(),
    }
}

/// The configuration with the spare space and pages of the group, and with flash for the data of its size; and the number of
/// blocks that the drive offers. A drive that compresses has flash for the data of its physical space instead.
fn sized(mut config: flash::Config, spec: &MemberSpec) -> Result<(flash::Config, u32), String> {
    let spare = spec.spare.unwrap_or(config.alpha() - 1.0);
    let count = |blocks| u32::try_from(blocks).map_err(|_| "more than 16T".to_owned());
    let addresses = spec.size.map_or(Ok(config.blocks), |size| count(size.0 / BLOCK))?;
    config.pages = spec.pages.unwrap_or(config.pages);
    if spec.suspend {
        config.suspend = flash::SUSPEND;
    }
    if config.pages == 0 {
        return Err("erase blocks must have at least one page".to_owned());
    }
    (config.redundancy, config.rows) = (redundancy(&spec.redundancy)?, spec.redundancy.rows);
    let stripes = config.redundancy.flash_per_data();
    let spare = match spec.redundancy.spare_of {
        SpareOf::DataAndParity => spare,
        SpareOf::Data => (1.0 + spare) / stripes - 1.0,
    };
    if spare < 0.0 {
        return Err(format!(
            "parity alone takes {:.1} % of the size: raise `spare`, or take longer stripes",
            (stripes - 1.0) * 100.0
        ));
    }
    add_parts(&mut config, &spec.drive);
    if spec.drive.granule.is_some() && config.unit_blocks() == 1 {
        return Err(
            "the drive programs one block at a time, so compressed blocks cannot share a program".to_owned()
        );
    }
    let physical = spec.physical.filter(|_| spec.drive.granule.is_some());
    let blocks = physical.map_or(Ok(addresses), |bytes| count(config.blocks_for_compressed(bytes.0)))?;
    let sized = config.sized(blocks, spare);
    sized.check_redundancy().and_then(|()| sized.check_features()).map(|()| (sized, addresses))
}

/// Adds the parts that the model does not have by itself.
fn add_parts(config: &mut flash::Config, spec: &DriveSpec) {
    config.power_loss_protected |= spec.protected;
    if let Some(granule) = spec.granule {
        let granule_bytes = granule.0 as u32;
        let compression = Compression { granule_bytes, space_query: false, length_query: false };
        *config = config.clone().compressing(compression);
    }
    config.wear_levelling = spec.wear_spread.map(|spread| WearLevelling { spread });
    config.mapping_cache = spec
        .mapping_memory
        .map(|bytes| MappingCache::of_pages(u32::try_from(bytes.0 / BLOCK).unwrap_or(u32::MAX)));
    config.slc_cache = spec.slc_cache.map(|slc| SlcCache {
        erase_blocks: slc.erase_blocks,
        bits: slc.bits,
        sense_ns: (slc.sense_us * 1e3).round() as u64,
        program_ns: (slc.program_us * 1e3).round() as u64,
        fold_after_ns: (slc.fold_after_ms * 1e6).round() as u64,
    });
}

/// The redundancy of a group.
fn redundancy(spec: &RedundancySpec) -> Result<Redundancy, String> {
    if spec.units < 2 {
        return Err("a stripe has data and a parity: `redundancy.units` is at least 2".to_owned());
    }
    let striping = Striping {
        units: spec.units,
        wait_ns: (spec.wait_ms * 1e6).round() as u64,
        reads: match spec.parity_reads {
            ParityReadsName::Less => ParityReads::Fewer,
            ParityReadsName::Reconstruct => ParityReads::Reconstruct,
        },
        protected_buffer: spec.protected_buffer,
    };
    Ok(match spec.scheme {
        RedundancyName::Ecc => Redundancy::EccOnly,
        RedundancyName::Raid5 => Redundancy::Raid5(striping),
        RedundancyName::Esap => Redundancy::Elastic(striping),
    })
}
