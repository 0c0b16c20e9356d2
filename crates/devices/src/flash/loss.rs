//! What is left of a block's content after a die or a page has failed: the drive's own answer, from its tables.

use super::config::Config;
use super::geometry::Extent;
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
    let left = Left { config, mapping, raid5, failure, powered };
    // A block that cleaning moves has its source too, until that is erased.
    let mut found = Content::Lost;
    for at in mapping.copies(extent.at) {
        found = left.content_of_copy(lba, Extent { at, count: extent.count });
        if !matches!(found, Content::Volatile | Content::Lost) {
            break;
        }
    }
    found
}

/// A drive after a failure.
struct Left<'a> {
    config: &'a Config,
    mapping: &'a Mapping,
    raid5: Option<&'a Raid5>,
    failure: Option<Failure>,
    powered: bool,
}

impl Left<'_> {
    fn is_volatile(&self, unit: u32) -> bool {
        !self.powered && self.mapping.is_buffered(unit)
    }

    fn is_failed(&self, unit: u32) -> bool {
        !self.mapping.is_buffered(unit)
            && match self.failure {
                None => false,
                Some(Failure::Die(die)) => self.mapping.die_of(unit) == die,
                Some(Failure::Unit(failed)) => unit == failed,
            }
    }

    /// The content of a block, of which only this copy is looked at.
    fn content_of_copy(&self, lba: u32, copy: Extent) -> Content {
        let unit = copy.at / self.mapping.unit_granules();
        if self.is_volatile(unit) {
            return Content::Volatile;
        }
        if !self.is_failed(unit) {
            return Content::Stored { at: copy.at, count: copy.count };
        }
        match self.config.redundancy {
            Redundancy::EccOnly => Content::Lost,
            Redundancy::Raid5(_) => self.raid5_content(lba, copy),
            Redundancy::Elastic(_) => self.elastic_content(unit, copy),
        }
    }

    fn raid5_content(&self, lba: u32, copy: Extent) -> Content {
        let raid5 = self.raid5.expect("the drive has RAID-5 stripes");
        if raid5.is_uncovered(lba) {
            return if self.powered { Content::Memory } else { Content::Lost };
        }
        let others = raid5.covered(lba).into_iter().filter(|&address| address != lba);
        let usable = |at| {
            let is_left = |&at: &u32| {
                let unit = at / self.mapping.unit_granules();
                !self.is_failed(unit) && !self.is_volatile(unit)
            };
            self.mapping.copies(at).find(is_left)
        };
        let terms: Option<Vec<u32>> =
            others.filter_map(|address| self.mapping.locate(address)).map(|term| usable(term.at)).collect();
        terms.map_or(Content::Lost, |terms| Content::Combined {
            terms: vec![terms],
            running: None,
            at: copy.at,
        })
    }

    fn elastic_content(&self, unit: u32, copy: Extent) -> Content {
        let (mapping, unit_granules) = (self.mapping, self.mapping.unit_granules());
        let programmed = |unit| !mapping.is_buffered(unit);
        let available = Available { programmed: &programmed, powered: self.powered };
        let stripes = mapping.rows().and_then(|rows| rows.stripes.as_ref()).expect("there are stripes");
        let Some(found) = stripes.terms(unit, &available) else {
            return Content::Lost;
        };
        if found.units.iter().any(|&unit| self.is_failed(unit)) {
            return Content::Lost;
        }
        let offset = copy.at - unit * unit_granules;
        let terms = |offset| found.units.iter().map(|unit| unit * unit_granules + offset).collect();
        let terms = (offset..offset + copy.count).map(terms).collect();
        Content::Combined { terms, running: found.running, at: copy.at }
    }
}
