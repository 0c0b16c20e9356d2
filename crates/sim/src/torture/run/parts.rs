//! What the SLC caches, mapping tables on flash and wear levelling of the members' SSDs have done in a run: a batch of runs that
//! leaves one of these out shows nothing about it.

use std::collections::BTreeMap;

use sinew_devices::flash::{Config, Redundancy, Ssd};

use crate::handle::Device;
use crate::model::Model;

/// What is counted, with its name.
type Count = (&'static str, fn(&Ssd) -> u64);

const COUNTS: [Count; 7] = [
    ("slc_cache_written", |ssd| ssd.stats().slc_granules),
    ("slc_cache_folded", |ssd| ssd.stats().folded_rows),
    ("slc_cache_folded_in_stripes", |ssd| if has_stripes(ssd) { ssd.stats().folded_rows } else { 0 }),
    ("mapping_table_read", |ssd| ssd.stats().mapping_reads),
    ("mapping_table_written", |ssd| ssd.stats().mapping_granules),
    ("mapping_table_in_stripes", |ssd| if has_stripes(ssd) { ssd.stats().mapping_granules } else { 0 }),
    ("wear_levelled", |ssd| ssd.stats().levelled_rows),
];

fn has_stripes(ssd: &Ssd) -> bool {
    ssd.config().redundancy != Redundancy::EccOnly
}

/// Whether a device is an SSD with stripes inside, and with a cache that stripes have to cover.
pub(super) fn has_covered_cache(device: &Device) -> bool {
    let has_cache = |config: &Config| config.slc_cache.is_some() || config.mapping_cache.is_some();
    let look = |model: &Model| match model {
        Model::Flash(ssd) => has_stripes(ssd) && has_cache(ssd.config()),
        Model::Disk(_) => false,
    };
    device.model(look) == Some(true)
}

/// The sum of each count over these devices.
pub(super) fn used(devices: impl Iterator<Item = Device>) -> BTreeMap<&'static str, u64> {
    let mut used: BTreeMap<&'static str, u64> = COUNTS.iter().map(|&(name, _)| (name, 0)).collect();
    for device in devices {
        device.model(|model| {
            if let Model::Flash(ssd) = model {
                COUNTS.iter().for_each(|&(name, count)| *used.entry(name).or_default() += count(ssd));
            }
        });
    }
    used
}
