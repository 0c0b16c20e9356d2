//! Simulated members: a device of the world with a model.
//!
//! They hold no zeros, and writes are durable at once, so members that are only ever given zeros take memory for the
//! engine's own structures and for the model, not for data.

use std::sync::Mutex;

use sinew_core::io::DeviceId;
use sinew_devices::flash::{self, Ssd};
use sinew_devices::{BLOCK_BYTES, Device, disk, theory};
use sinew_sim::{DeviceConfig, DiscardReads, Model, World};

use crate::spec::{MemberSpec, ModelName};
use crate::{Error, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A member that exists.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) device: DeviceId,
    pub(crate) model: ModelName,
    pub(crate) bytes: u64,
    /// It is to answer nothing while there is load.
    pub(crate) stalled: bool,
    /// What an SSD is.
    pub(crate) flash: Option<FlashFacts>,
}

/// What an SSD is.
#[derive(Clone, Copy)]
pub(crate) struct FlashFacts {
    /// Flash beyond its size, as a part of it.
    pub(crate) spare: f64,
    pub(crate) dies: u32,
    /// Write amplification of random overwrites by the closed form.
    pub(crate) closed_form: f64,
}

/// The aged drives of the last run, for the next that asks for the same: ageing takes longer than most runs.
#[derive(Default)]
pub(crate) struct AgedDrives(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    plans: Vec<Planned>,
    drives: Vec<Drive>,
}

/// The number of its group, what is said of that, and its seed.
type Planned = (usize, MemberSpec, u64);

impl AgedDrives {
    /// Runs that ask at the same time wait for each other.
    fn get(&self, plans: &[Planned]) -> Result<Vec<Drive>> {
        if plans.iter().all(|(_, spec, _)| spec.aging.is_none()) {
            return make_drives(plans);
        }
        let mut kept = self.0.lock().expect("no panic while held");
        if kept.plans != plans {
            // Not both at once: the drives of a large pool take gigabytes.
            *kept = Kept::default();
            *kept = Kept { plans: plans.to_vec(), drives: make_drives(plans)? };
        }
        Ok(kept.drives.clone())
    }
}

/// Makes all members of the groups, or the first one alone. Only pools whose members take discards make any.
pub(crate) fn make(
    world: &World,
    groups: &[MemberSpec],
    alone: bool,
    discard: DiscardReads,
    aged: Option<&AgedDrives>,
) -> Result<Vec<Member>> {
    let every = groups.iter().enumerate().flat_map(|(i, g)| std::iter::repeat_n((i, g.clone()), g.count));
    let wanted = if alone { 1 } else { usize::MAX };
    // Members of a pool are not copies of each other: each has a seed of its own.
    let seed = |number| world.rng(&format!("member {number}")).bits();
    let plans = every.take(wanted).enumerate().map(|(number, (index, spec))| (index, spec, seed(number)));
    let plans: Vec<Planned> = plans.collect();
    let drives = aged.map_or_else(|| make_drives(&plans), |aged| aged.get(&plans))?;
    let stalled = groups.iter().flat_map(|group| (0..group.count).map(|i| i < group.stalled));
    Ok(drives.into_iter().zip(stalled).map(|(drive, stalled)| add(world, drive, stalled, discard)).collect())
}

/// On all cores, for ageing takes its time.
fn make_drives(plans: &[Planned]) -> Result<Vec<Drive>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shares = plans.chunks(plans.len().div_ceil(threads).max(1));
    std::thread::scope(|scope| {
        let make = |share: &[Planned]| -> Vec<_> {
            share.iter().map(|(index, spec, seed)| Drive::new(spec, *index, *seed)).collect()
        };
        let threads: Vec<_> = shares.map(|share| scope.spawn(move || make(share))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("ageing does not panic")).collect()
    })
}

/// A member to be.
#[derive(Clone)]
struct Drive {
    name: ModelName,
    model: Model,
    bytes: u64,
    flash: Option<FlashFacts>,
}

impl Drive {
    fn new(spec: &MemberSpec, index: usize, seed: u64) -> Result<Drive> {
        let setting = |name: &str| format!("members.{index}.{name}");
        let (model, bytes, flash) = match flash_config(spec.model) {
            Some(config) => {
                let config = sized(config, spec).map_err(|why| Error::setting(setting("size"), why))?;
                let granules = config.pages * config.unit_blocks();
                let flash = FlashFacts {
                    spare: config.alpha() - 1.0,
                    dies: config.all_dies(),
                    closed_form: theory::greedy_write_amplification(config.usable_alpha(), granules),
                };
                let mut ssd = Ssd::new(config, seed);
                if let Some(times) = spec.aging {
                    ssd.age(times);
                }
                let bytes = u64::from(ssd.blocks()) * BLOCK;
                (Model::Flash(Box::new(ssd)), bytes, Some(flash))
            }
            None => {
                let disk = disk::Disk::new(disk_config(spec.model));
                let whole = u64::from(disk.blocks()) * BLOCK;
                let bytes = spec.size.map_or(whole, |size| size.0);
                if bytes > whole {
                    let why = format!("{bytes} bytes are more than the disk's {whole}");
                    return Err(Error::setting(setting("size"), why));
                }
                (Model::Disk(Box::new(disk)), bytes, None)
            }
        };
        Ok(Drive { name: spec.model, model, bytes, flash })
    }
}

fn add(world: &World, drive: Drive, stalled: bool, discard: DiscardReads) -> Member {
    let Drive { name, model, bytes, flash } = drive;
    let config = DeviceConfig { cache_writes: 0, drop_zeros: true, discard, ..DeviceConfig::of_bytes(bytes) };
    let device = world.add_device(config);
    world.device(device).set_model(model);
    Member { device, model: name, bytes, stalled, flash }
}

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

fn sized(mut config: flash::Config, spec: &MemberSpec) -> Result<flash::Config, String> {
    let spare = spec.spare.unwrap_or(config.alpha() - 1.0);
    let blocks = match spec.size {
        Some(size) => u32::try_from(size.0 / BLOCK).map_err(|_| "more than 16T".to_owned())?,
        None => config.blocks,
    };
    config.pages = spec.pages.unwrap_or(config.pages);
    if spec.suspend {
        config.suspend = flash::SUSPEND;
    }
    if config.pages == 0 {
        return Err("erase blocks have pages".to_owned());
    }
    Ok(config.sized(blocks, spare))
}
