//! The modes in which members in latency spikes are found and avoided, and the thresholds of each.

use sinew_format::named;

/// Whether latency spikes are detected, and what counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpikeAvoidance {
    /// Latency is not measured, and no member is avoided.
    Off,
    /// Each member's thresholds follow from the recent latency of its requests.
    #[default]
    Auto,
    /// Fixed thresholds for drives that stop altogether for milliseconds, and then answer all requests at once.
    Consumer,
    /// Fixed thresholds for drives whose spikes are longer and overlap.
    Datacenter,
    /// The thresholds of `Datacenter` without hedging: requests in flight are waited for, however late, as in FusionRAID.
    FusionRaid,
    /// Spikes are counted, and no member is avoided.
    Watch,
    /// As `FusionRaid`, with other thresholds.
    Given(Thresholds),
}

named! {
    SpikeAvoidance, "spike avoidance", other "given":
    SpikeAvoidance::Off => "off", "No latency is measured, and no member is avoided";
    SpikeAvoidance::Auto => "auto", "Thresholds follow from each member's latest latencies";
    SpikeAvoidance::Consumer => "consumer", "Fixed thresholds: three requests pending for 2 ms";
    SpikeAvoidance::Datacenter => "datacenter", "Fixed thresholds: six requests pending for 5 ms";
    SpikeAvoidance::FusionRaid => "fusionraid", "As datacenter, but without hedging";
    SpikeAvoidance::Watch => "watch", "As datacenter, but spikes are only counted: no member is avoided";
}

impl SpikeAvoidance {
    /// All modes without parameters.
    pub const ALL: [SpikeAvoidance; 6] = [
        SpikeAvoidance::Off,
        SpikeAvoidance::Auto,
        SpikeAvoidance::Consumer,
        SpikeAvoidance::Datacenter,
        SpikeAvoidance::FusionRaid,
        SpikeAvoidance::Watch,
    ];

    /// Whether the latency of requests is measured.
    pub(crate) fn measures(self) -> bool {
        self != SpikeAvoidance::Off
    }

    /// Whether members in a spike are avoided.
    pub(crate) fn avoids(self) -> bool {
        !matches!(self, SpikeAvoidance::Off | SpikeAvoidance::Watch)
    }

    /// Whether late requests are hedged, that is, sent to an alternate as well.
    pub(crate) fn hedges(self) -> bool {
        matches!(self, SpikeAvoidance::Auto | SpikeAvoidance::Consumer | SpikeAvoidance::Datacenter)
    }

    /// The thresholds of a member without a history.
    pub fn thresholds(self) -> Thresholds {
        match self {
            // When a spike ends, the requests return in a batch (section 4.3), so there is no gap between up and down.
            SpikeAvoidance::Consumer => Thresholds { late_ns: 2_000_000, up: 3, down: 2 },
            SpikeAvoidance::Datacenter | SpikeAvoidance::FusionRaid | SpikeAvoidance::Watch => {
                Thresholds { late_ns: 5_000_000, up: 6, down: 0 }
            }
            SpikeAvoidance::Given(thresholds) => thresholds,
            SpikeAvoidance::Off | SpikeAvoidance::Auto => Thresholds { late_ns: 2_000_000, up: 1, down: 0 },
        }
    }
}

/// The latency from which on a request is a straggler, and the numbers of stragglers that begin and end a spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// A request pending for longer is a straggler: the paper's t.
    pub late_ns: u64,
    /// A spike begins with this number of stragglers.
    pub up: u32,
    /// A spike ends with this number of stragglers, or fewer.
    pub down: u32,
}
