//! Settings that a running pool takes: policy, throttle, spike avoidance, I/O timeout, policy of an elastic array. But for the
//! last they are not stored on the members. The control socket changes them, and a configuration file gives them at each start.

use anyhow::Result;
use sinew_engine::control::Control;
use sinew_format::model::policy::Policy;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::throttle::Limits;
use sinew_uring::UringIo;

use crate::protocol::{ElasticChange, IoTimeout, PolicyChange};

/// A change of the settings; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) policy: Option<PolicyChange>,
    pub(crate) throttle: Option<Limits>,
    pub(crate) spike_avoidance: Option<SpikeAvoidance>,
    pub(crate) io_timeout: Option<IoTimeout>,
    /// How stripes of an elastic array change their form. This is stored on the members.
    pub(crate) elastic: Option<ElasticChange>,
}

impl Settings {
    /// Those that a pool takes which is served read-only.
    pub(crate) fn of_reading(self) -> Settings {
        Settings { policy: None, throttle: None, elastic: None, ..self }
    }

    /// Changes the settings of a pool. Gives its policy, if it has one that was to be changed.
    ///
    /// # Errors
    /// When a setting is wrong, or one that this kind of pool does not have.
    pub(crate) async fn apply(self, control: &Control<UringIo>) -> Result<Option<Policy>> {
        let policy = self.policy.map(|change| change.apply(control.policy()));
        if let Some(policy) = policy {
            control.set_policy(policy).await?;
        }
        if let Some(limits) = self.throttle {
            control.throttle(limits).await;
        }
        if let Some(mode) = self.spike_avoidance {
            control.set_spike_avoidance(mode).await;
        }
        if let Some(after) = self.io_timeout {
            control.set_io_timeout(after.ns()).await;
        }
        if let Some(change) = self.elastic {
            control.set_elastic_policy(change.apply(control.elastic_policy())).await?;
        }
        Ok(policy)
    }
}
