//! What the arithmetic of reliability predicts for the flash of a run.

use sinew_devices::flash::Redundancy;
use sinew_reliability::wear::Scheme;

use crate::results::simulated::{ParityResult, WearModelResult};
use crate::system::members::FlashFacts;

/// The predictions for a drive to which the host wrote these blocks; nothing if it wrote none, or if nothing was cleaned.
pub(crate) fn predict(
    facts: &FlashFacts,
    written_blocks: u64,
    parity: Option<&ParityResult>,
    victim_live: Option<f64>,
) -> Option<WearModelResult> {
    let written = written_blocks as f64;
    let per_block = |granules: u64| if written_blocks == 0 { 0.0 } else { granules as f64 / written };
    let scheme = match facts.redundancy {
        Redundancy::EccOnly => Scheme::EccOnly,
        Redundancy::Elastic(striping) => Scheme::Elastic {
            pages: striping.units,
            partial_parity: per_block(parity.map_or(0, |parity| parity.partial)),
        },
        Redundancy::Raid5(striping) => Scheme::Raid5 {
            pages: striping.units,
            parity_writes: per_block(parity.map_or(0, |parity| parity.full)),
        },
    };
    let balance = scheme.balance(victim_live.filter(|_| written_blocks > 0)?).ok()?.total();
    let random = scheme.under_random_writes(facts.physical_blocks as f64 / f64::from(facts.blocks)).ok();
    Some(WearModelResult {
        page_writes: written * balance,
        pe_cycles: written * balance / facts.physical_blocks as f64,
        victim_live: random.map(|programs| programs.victim_live),
        random_page_writes: random.map(|programs| written * programs.total()),
    })
}
