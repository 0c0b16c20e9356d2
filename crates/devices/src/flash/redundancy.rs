//! Redundancy inside a drive: which scheme, and its parameters.

use crate::Ns;

/// How a drive protects its data beyond the error-correcting code of each page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// The error-correcting code alone.
    #[default]
    EccOnly,
    /// RAID-5 over logical pages: the address of a block determines its stripe, its die and the place of its parity.
    Raid5(Striping),
    /// Elastic striping with anywhere parity (eSAP): units form stripes in the order in which they are written.
    Elastic(Striping),
}

/// The stripes of a [`Redundancy`].
///
/// A stripe of at most as many elements as the drive has dies survives the loss of a die. A longer one has several
/// elements on a die, so it survives the loss of a page only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Elements of a stripe, the parity included; at least 2.
    pub units: u32,
    /// P_wait: the parity of an incomplete stripe is written once no data has entered the stripe for longer than this.
    pub wait_ns: Ns,
    /// What is read to compute the parity of a RAID-5 stripe. Elastic stripes need no reads.
    pub reads: ParityReads,
    /// The running parity, and data that is not on flash yet, survive a power failure, so the parity of an incomplete stripe
    /// is never written for [`Striping::wait_ns`].
    pub protected_buffer: bool,
}

impl Striping {
    /// Stripes of `units` elements with this P_wait, the parity buffer unprotected.
    pub fn new(units: u32, wait_ns: Ns) -> Striping {
        Striping { units, wait_ns, reads: ParityReads::Fewer, protected_buffer: false }
    }
}

/// What is read to compute the parity of an incomplete RAID-5 stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParityReads {
    /// The old data and the old parity, or the data that has not changed, whichever is less.
    #[default]
    Fewer,
    /// The data that has not changed.
    Reconstruct,
}

impl ParityReads {
    /// Reads for a stripe of `data` data elements of which `changed` have changed, and whether they are of the old data
    /// and the old parity.
    pub(super) fn choose(self, changed: u32, data: u32) -> (u32, bool) {
        let (modify, reconstruct) = (changed + 1, data - changed);
        match self {
            ParityReads::Fewer if modify < reconstruct => (modify, true),
            _ => (reconstruct, false),
        }
    }
}

impl Redundancy {
    /// The stripes, if there are any.
    pub fn striping(self) -> Option<Striping> {
        match self {
            Redundancy::EccOnly => None,
            Redundancy::Raid5(striping) | Redundancy::Elastic(striping) => Some(striping),
        }
    }

    /// Flash that full stripes take per block of data: N / (N - 1), or 1 without parity.
    pub fn flash_per_data(self) -> f64 {
        self.striping().map_or(1.0, |striping| f64::from(striping.units) / f64::from(striping.units - 1))
    }

    /// Whether a drive of `dies` dies survives the loss of one of them.
    pub fn survives_a_die(self, dies: u32) -> bool {
        self.striping().is_some_and(|striping| striping.units <= dies)
    }
}
