//! The results of experiments: their JSON, the comparison with published figures, ratios of paired runs, and their summary over seeds.

pub(crate) mod capacity;
pub(crate) mod comparison;
pub(crate) mod pairs;
pub(crate) mod paths;
pub(crate) mod ratio;
pub(crate) mod reliability;
pub(crate) mod schema;
pub(crate) mod simulated;
pub(crate) mod spread;
pub(crate) mod summary;

pub use capacity::{CapacityResult, LoadShareResult, TriedLoad};
pub use ratio::Ratio;
pub use reliability::{AgeingFigures, ErrorFigures, FlashLifeFigures, PoolLossFigures, ReliabilityFigures};
pub use schema::{AddressingTimes, Comparison, Figures, GrowthFigures, Results, RunResult, SCHEMA};
pub use simulated::{
    ArrayResult, ControllerResult, FlashResult, Interval, KindResult, LoadResult, MemberResult,
    OnlineGrowthResult, Part, PoolResult, PoolState, RebuiltResult, Simulated, Spikes, Steadiness,
    StripeUpdates, VolumeResult, WearModelResult, WriteResult,
};
pub use spread::Spread;
