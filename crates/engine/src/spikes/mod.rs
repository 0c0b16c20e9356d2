//! Latency spikes: which members answer late now, and which have become slow for good.
//!
//! Everything here is arithmetic over moments that the caller gives, so that it can be tested against a naive model. A
//! [`Detector`] says whether a member has too many stragglers, as FusionRAID does (FAST '21, section 4.3). A [`History`]
//! keeps how long its requests took, from which the thresholds follow where nobody set them. A [`Budget`] bounds what
//! stepping around may cost. What is done about a spike is decided where the request is: in `around`, `append`,
//! `journal`, `space`.

mod budget;
mod detector;
mod history;
mod report;
mod responses;
mod watch;

pub(crate) use budget::Budget;
pub(crate) use detector::{Detector, Token};
pub use history::History;
pub(crate) use history::{BUCKETS, bucket};
pub use report::MemberLatency;
pub(crate) use responses::Responses;
pub(crate) use watch::{Kind, Watch};

/// Whether latency spikes are looked for, and what counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepAround {
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

impl StepAround {
    /// All that have a name of their own.
    pub const ALL: [StepAround; 6] = [
        StepAround::Off,
        StepAround::Auto,
        StepAround::Consumer,
        StepAround::Datacenter,
        StepAround::FusionRaid,
        StepAround::Watch,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            StepAround::Off => "off",
            StepAround::Auto => "auto",
            StepAround::Consumer => "consumer",
            StepAround::Datacenter => "datacenter",
            StepAround::FusionRaid => "fusionraid",
            StepAround::Watch => "watch",
            StepAround::Given(_) => "given",
        }
    }

    /// Whether requests are watched.
    pub(crate) fn measures(self) -> bool {
        self != StepAround::Off
    }

    /// Whether members in a spike are avoided.
    pub(crate) fn avoids(self) -> bool {
        !matches!(self, StepAround::Off | StepAround::Watch)
    }

    /// Whether requests that are late are asked for elsewhere.
    pub(crate) fn hedges(self) -> bool {
        matches!(self, StepAround::Auto | StepAround::Consumer | StepAround::Datacenter)
    }

    /// The thresholds until something is known of the member.
    pub(crate) fn thresholds(self) -> Thresholds {
        match self {
            // Requests return in a batch when a spike ends (section 4.3), so there is no gap between up and down.
            StepAround::Consumer => Thresholds { late_ns: 2_000_000, up: 3, down: 2 },
            StepAround::Datacenter | StepAround::FusionRaid | StepAround::Watch => {
                Thresholds { late_ns: 5_000_000, up: 6, down: 0 }
            }
            StepAround::Given(thresholds) => thresholds,
            StepAround::Off | StepAround::Auto => Thresholds { late_ns: 2_000_000, up: 1, down: 0 },
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
