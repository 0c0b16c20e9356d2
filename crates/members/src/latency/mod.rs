//! Latency spikes: which members answer late now, and which have become slow for good.
//!
//! Everything here is arithmetic over moments that the caller gives, so that it can be tested against a naive model. A
//! [`StragglerDetector`] says whether a member has too many stragglers, as FusionRAID does (FAST '21, section 4.3). A [`LatencyHistogram`]
//! keeps how long its requests took, from which the thresholds follow where nobody set them. A [`HedgeBudget`] bounds what
//! stepping around may cost. What is done about a spike is decided where the request is: in `around`, `append`,
//! `journal`, `space`.

mod hedge_budget;
mod histogram;
mod member;
mod report;
mod straggler_detector;
mod table;

pub use hedge_budget::HedgeBudget;
pub use histogram::LatencyHistogram;
pub use histogram::{BUCKETS, bucket};
pub use member::{Kind, Watch};
pub use report::MemberLatency;
pub use straggler_detector::{StragglerDetector, Token};
pub use table::LatencyTable;

/// Whether latency spikes are looked for, and what counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpikeAvoidance {
    /// Nothing is measured, and nobody is avoided.
    Off,
    /// Thresholds follow from how long each member's requests took lately.
    #[default]
    Auto,
    /// Fixed thresholds for drives that stop altogether for milliseconds, and then answer all at once.
    Consumer,
    /// Fixed thresholds for drives whose spikes are longer and overlap.
    Datacenter,
    /// The same, but what is under way is waited for, however late, as FusionRAID does.
    FusionRaid,
    /// Its spikes are counted, and nobody is avoided.
    Watch,
    /// As FusionRAID, with other thresholds.
    Given(Thresholds),
}

impl SpikeAvoidance {
    /// All that have a name of their own.
    pub const ALL: [SpikeAvoidance; 6] = [
        SpikeAvoidance::Off,
        SpikeAvoidance::Auto,
        SpikeAvoidance::Consumer,
        SpikeAvoidance::Datacenter,
        SpikeAvoidance::FusionRaid,
        SpikeAvoidance::Watch,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SpikeAvoidance::Off => "off",
            SpikeAvoidance::Auto => "auto",
            SpikeAvoidance::Consumer => "consumer",
            SpikeAvoidance::Datacenter => "datacenter",
            SpikeAvoidance::FusionRaid => "fusionraid",
            SpikeAvoidance::Watch => "watch",
            SpikeAvoidance::Given(_) => "given",
        }
    }

    /// Whether requests are watched.
    pub fn measures(self) -> bool {
        self != SpikeAvoidance::Off
    }

    /// Whether members in a spike are avoided.
    pub fn avoids(self) -> bool {
        !matches!(self, SpikeAvoidance::Off | SpikeAvoidance::Watch)
    }

    /// Whether requests that are late are asked for elsewhere.
    pub fn hedges(self) -> bool {
        matches!(self, SpikeAvoidance::Auto | SpikeAvoidance::Consumer | SpikeAvoidance::Datacenter)
    }

    /// The thresholds until something is known of the member.
    pub fn thresholds(self) -> Thresholds {
        match self {
            // Requests return in a batch when a spike ends (section 4.3), so there is no gap between up and down.
            SpikeAvoidance::Consumer => Thresholds { late_ns: 2_000_000, up: 3, down: 2 },
            SpikeAvoidance::Datacenter | SpikeAvoidance::FusionRaid | SpikeAvoidance::Watch => {
                Thresholds { late_ns: 5_000_000, up: 6, down: 0 }
            }
            SpikeAvoidance::Given(thresholds) => thresholds,
            SpikeAvoidance::Off | SpikeAvoidance::Auto => Thresholds { late_ns: 2_000_000, up: 1, down: 0 },
        }
    }
}

/// When a request is a straggler, and how many of them make a spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A request pending longer is a straggler: the paper's t.
    pub late_ns: u64,
    /// So many stragglers begin a spike.
    pub up: u32,
    /// So many or fewer end it.
    pub down: u32,
}

/// How a member answers at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Response {
    /// As it should.
    #[default]
    Responsive,
    /// Late for long, compared with its peers: worth replacing.
    Suspect,
    /// Not at all at the moment: it is stepped around.
    Spiking,
}

impl Response {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Response::Responsive => "responsive",
            Response::Suspect => "suspect",
            Response::Spiking => "spiking",
        }
    }
}
