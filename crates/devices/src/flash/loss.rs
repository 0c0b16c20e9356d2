//! What is left of a block's content after a die or a page has failed: the drive's own answer, from its tables.

use super::config::Config;
use super::mapping::Mapping;
use super::raid5::Raid5;
use super::redundancy::Redundancy;
use super::stripes::{Available, Side};

/// What has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// All units of a die.
    Die(u32),
    /// One unit.
    Unit(u32),
}

/// Where the content of a block can be found after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The block holds nothing.
    Unwritten,
    /// In the granules that hold it, which have not failed.
    Stored {
        /// The first granule.
        at: u32,
        /// The number of granules.
        count: u32,
    },
    /// In the memory of the drive, which keeps it until the parity that covers it is on flash.
    Memory,
    /// It has to be computed: for each of its granules, the granules to combine.
    Combined {
        /// The terms of each granule of the block.
        terms: Vec<Vec<u32>>,
        /// The running parity of this side is a term too, at the offset of each granule in its unit.
        running: Option<Side>,
        /// The first granule that held the block.
        at: u32,
    },
    /// In volatile memory, lost with the power.
    Volatile,
    /// Nowhere: the drive reports the block as lost.
    Lost,
}

/// What a failure leaves of all blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Blocks that have to be computed.
    pub rebuilt: u32,
    /// Blocks that are lost.
    pub lost: Vec<u32>,
}

/// The content of a block after a failure, with power or after a power failure.
pub(super) fn content(
    config: &Config,
    mapping: &Mapping,
    raid5: Option<&Raid5>,
    lba: u32,
    failure: Option<Failure>,
    powered: bool,
) -> Content {
    let Some(extent) = mapping.locate(lba) else {
        return Content::Unwritten;
    };
    let protected = config.redundancy.striping().is_some_and(|striping| striping.protected_buffer);
    let powered = powered || config.power_loss_protected || protected;
    let (unit_granules, unit) = (mapping.unit_granules(), extent.at / mapping.unit_granules());
    let is_failed = |unit: u32| {
        let on_flash = !mapping.is_buffered(unit);
        on_flash
            && match failure {
                None => false,
                Some(Failure::Die(die)) => mapping.die_of(unit) == die,
                Some(Failure::Unit(failed)) => unit == failed,
            }
    };
    if mapping.is_buffered(unit) && !powered {
        return Content::Volatile;
    }
    if !is_failed(unit) {
        return Content::Stored { at: extent.at, count: extent.count };
    }
    match config.redundancy {
        Redundancy::EccOnly => Content::Lost,
        Redundancy::Raid5(_) => {
            let raid5 = raid5.expect("the drive has RAID-5 stripes");
            if raid5.is_uncovered(lba) {
                return if powered { Content::Memory } else { Content::Lost };
            }
            let others = raid5.covered(lba).into_iter().filter(|&address| address != lba);
            let terms: Vec<u32> =
                others.filter_map(|address| mapping.locate(address)).map(|term| term.at).collect();
            let is_gone = |&at: &u32| {
                let unit = at / unit_granules;
                is_failed(unit) || (!powered && mapping.is_buffered(unit))
            };
            if terms.iter().any(is_gone) {
                return Content::Lost;
            }
            Content::Combined { terms: vec![terms], running: None, at: extent.at }
        }
        Redundancy::Elastic(_) => {
            let programmed = |unit| !mapping.is_buffered(unit);
            let available = Available { programmed: &programmed, powered };
            let stripes = mapping.rows().and_then(|rows| rows.stripes.as_ref()).expect("there are stripes");
            let Some(found) = stripes.terms(unit, &available) else {
                return Content::Lost;
            };
            if found.units.iter().any(|&unit| is_failed(unit)) {
                return Content::Lost;
            }
            let offset = extent.at - unit * unit_granules;
            let terms = |offset| found.units.iter().map(|unit| unit * unit_granules + offset).collect();
            let terms = (offset..offset + extent.count).map(terms).collect();
            Content::Combined { terms, running: found.running, at: extent.at }
        }
    }
}
