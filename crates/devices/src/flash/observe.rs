//! What happens to the content of flash, told step by step. An observer can keep the content by itself and so check what
//! the drive says about it, without the drive's own tables.

use std::ops::Range;

use super::stripes::Side;

/// One change of what flash or the buffer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlashEvent {
    /// The host's block `lba` is in `count` granules from `at` now. Its unit is not on flash yet.
    Placed {
        /// The block.
        lba: u32,
        /// The first granule.
        at: u32,
        /// The number of granules.
        count: u32,
    },
    /// Cleaning has copied granules; the unit that they are in now is not on flash yet.
    Moved {
        /// The first granule of the source.
        from: u32,
        /// The first granule of the copy.
        to: u32,
        /// The number of granules.
        count: u32,
    },
    /// A unit has entered the open elastic stripe of a side; the running parity includes it.
    Joined {
        /// Whose stripe.
        side: Side,
        /// The unit.
        unit: u32,
    },
    /// A unit has got the combination of the contents of others, as its content.
    ParityFormed {
        /// The unit.
        unit: u32,
        /// The units that are combined.
        terms: Vec<u32>,
    },
    /// The open elastic stripe of a side is closed.
    StripeClosed {
        /// Whose stripe.
        side: Side,
    },
    /// The parity of a RAID-5 stripe has been computed; it has no place yet.
    ParityComputed {
        /// The address of the parity.
        address: u32,
        /// The granules that were combined.
        terms: Vec<u32>,
    },
    /// A parity that has been computed is in a granule now. Its unit is not on flash yet.
    ParityPlaced {
        /// The address of the parity.
        address: u32,
        /// The granule.
        at: u32,
    },
    /// A unit is on flash.
    Programmed {
        /// The unit.
        unit: u32,
    },
    /// Units have been erased.
    Erased {
        /// The units.
        units: Range<u32>,
    },
}

/// The events since they were last taken, if they are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Observer(Option<Vec<FlashEvent>>);

impl Observer {
    pub(super) fn start(&mut self) {
        self.0.get_or_insert_default();
    }

    #[inline]
    pub(super) fn tell(&mut self, event: impl FnOnce() -> FlashEvent) {
        if let Some(events) = &mut self.0 {
            events.push(event());
        }
    }

    pub(super) fn take(&mut self) -> Vec<FlashEvent> {
        self.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
