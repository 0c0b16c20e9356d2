//! The results of experiments: their JSON, the comparison with published figures, and their summary over seeds.

pub(crate) mod comparison;
pub(crate) mod reliability;
pub(crate) mod schema;
pub(crate) mod simulated;
pub(crate) mod spread;
pub(crate) mod summary;

pub use reliability::{AgeingFigures, ErrorFigures, FlashLifeFigures, PoolLossFigures, ReliabilityFigures};
pub use schema::{AddressingTimes, Comparison, Figures, GrowthFigures, Results, RunResult, SCHEMA};
pub use simulated::{
    ArrayResult, ControllerResult, FlashResult, Interval, KindResult, MemberResult, OnlineGrowthResult,
    PoolResult, PoolState, RebuiltResult, Simulated, Spikes, StripeUpdates, VolumeResult, WearModelResult,
    WriteResult,
};
pub use spread::Spread;
