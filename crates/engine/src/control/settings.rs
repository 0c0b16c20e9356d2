//! Settings that hold until the pool is closed: scrub, throttle, spike avoidance, I/O timeout, policy.

use crate::control::error::ControlError;
use crate::control::store::Control;
use sinew_core::io::Io;
use sinew_format::model::form::ElasticPolicy;
use sinew_format::model::policy::Policy;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::message::ControlRequest;
use sinew_members::throttle::Limits;

impl<I: Io> Control<I> {
    /// Starts or stops a scrub.
    ///
    /// # Errors
    /// When a shard cannot record it.
    pub async fn scrub(&self, run: bool) -> Result<(), ControlError> {
        Ok(self.ask_all(|done| ControlRequest::Scrub { run, done }).await?)
    }

    /// Limits background work of the whole pool.
    pub async fn throttle(&self, bounds: Limits) {
        let shards = self.shards.len() as u64;
        let share = Limits {
            bytes_per_second: bounds.bytes_per_second.div_ceil(shards),
            pause_above_iops: bounds.pause_above_iops.div_ceil(shards),
        };
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::Throttle(share)).await;
        }
    }

    /// Sets the mode of spike avoidance.
    pub async fn set_spike_avoidance(&self, mode: SpikeAvoidance) {
        self.spike_avoidance.set(mode);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::SpikeAvoidance(mode)).await;
        }
    }

    /// Returns the mode of spike avoidance.
    pub fn spike_avoidance(&self) -> SpikeAvoidance {
        self.spike_avoidance.get()
    }

    /// Sets the policy of a mapped pool. Arrays have none.
    ///
    /// # Errors
    /// When the pool is an array.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), ControlError> {
        if self.config().geometry.mapped().is_none() {
            return Err(ControlError::ArrayPolicy);
        }
        self.policy.set(policy);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::Policy(policy)).await;
        }
        Ok(())
    }

    /// Sets how stripes of an elastic array change their form.
    ///
    /// # Errors
    /// When the pool is no elastic array.
    pub async fn set_elastic_policy(&self, policy: ElasticPolicy) -> Result<(), ControlError> {
        if self.config().geometry.array().is_none_or(|array| array.elastic.is_none()) {
            return Err(ControlError::NotElastic);
        }
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::ElasticPolicy(policy)).await;
        }
        Ok(())
    }

    /// Returns the policy.
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Sets the I/O timeout; `None` disables it. A member that exceeds it is taken out, unless the pool cannot work without it.
    pub async fn set_io_timeout(&self, ns: Option<u64>) {
        self.io_timeouts.set(ns);
        for shard in &self.shards {
            let _ = shard.send(ControlRequest::IoTimeout(ns)).await;
        }
    }

    /// Returns the I/O timeout; `None` if it is disabled.
    pub fn io_timeout(&self) -> Option<u64> {
        self.io_timeouts.timeout_ns()
    }
}
