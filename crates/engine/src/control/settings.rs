//! Settings: scrub, throttle, spike avoidance, I/O timeout, policy. They hold until the pool is closed, but for the policy of
//! an elastic array, which is in the configuration.

use crate::control::error::ControlError;
use crate::control::events::Event;
use crate::control::store::Control;
use sinew_core::io::Io;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::policy::Policy;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::message::ControlRequest;
use sinew_members::ring::group_form::GroupForm;
use sinew_members::throttle::Limits;

impl<I: Io> Control<I> {
    /// Starts or stops a scrub.
    ///
    /// # Errors
    /// When a shard cannot record it.
    pub async fn scrub(&self, run: bool) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        Ok(self.ask_all(|done| ControlRequest::Scrub { run, done }).await?)
    }

    /// Limits background work of the whole pool.
    pub async fn throttle(&self, bounds: Limits) {
        if self.throttle.replace(bounds) != bounds {
            let Limits { bytes_per_second, pause_above_iops } = bounds;
            let rate = if bytes_per_second == 0 {
                "no limit".to_owned()
            } else {
                format!("{bytes_per_second} bytes/s")
            };
            let pause = format!("pause above {pause_above_iops} requests/s");
            let pause = if pause_above_iops == 0 { "no pause".to_owned() } else { pause };
            self.note_setting("throttle", format!("{rate}, {pause}"));
        }
        let shards = self.shards.len() as u64;
        let share = Limits {
            bytes_per_second: bounds.bytes_per_second.div_ceil(shards),
            pause_above_iops: bounds.pause_above_iops.div_ceil(shards),
        };
        self.tell_all(|| ControlRequest::Throttle(share)).await;
    }

    /// The limits of background work of the whole pool.
    pub fn limits(&self) -> Limits {
        self.throttle.get()
    }

    /// Tells that an operator has changed a setting.
    pub(super) fn note_setting(&self, setting: &'static str, value: String) {
        self.note(Event::SettingChanged { setting, value });
    }

    /// Sets the mode of spike avoidance.
    pub async fn set_spike_avoidance(&self, mode: SpikeAvoidance) {
        if self.spike_avoidance.replace(mode) != mode {
            self.note_setting("spike-avoidance", mode.name().to_owned());
        }
        self.tell_all(|| ControlRequest::SpikeAvoidance(mode)).await;
    }

    /// Returns the mode of spike avoidance.
    pub fn spike_avoidance(&self) -> SpikeAvoidance {
        self.spike_avoidance.get()
    }

    /// Sets the form of large groups of an array's log until the pool is closed; to compare the forms.
    pub async fn set_group_form(&self, form: GroupForm) {
        self.tell_all(|| ControlRequest::GroupForm(form)).await;
    }

    /// Sets the policy of a mapped pool. Arrays have none.
    ///
    /// # Errors
    /// When the pool is an array.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        if self.config().geometry.mapped().is_none() {
            return Err(ControlError::ArrayPolicy);
        }
        if self.policy.replace(policy) != policy {
            self.note_setting("policy", policy.to_string());
        }
        self.tell_all(|| ControlRequest::Policy(policy)).await;
        Ok(())
    }

    /// The bound of the table cache of a mapped pool, in bytes; `None` is no bound. Arrays have no table cache.
    pub fn table_cache(&self) -> Option<u64> {
        self.table_cache
    }

    /// Sets how stripes of an elastic array change their form. It is kept in the configuration.
    ///
    /// # Errors
    /// When the pool is no elastic array, the policy cannot be carried out, or the configuration cannot be stored.
    pub async fn set_elastic_policy(&self, policy: ElasticPolicy) -> Result<(), ControlError> {
        self.refuse_read_only()?;
        if !self.is_elastic() {
            return Err(ControlError::NotElastic);
        }
        if let Some(fault) = policy.fault() {
            return Err(ControlError::ElasticPolicy(fault));
        }
        let before = self.elastic_policy();
        self.change(|config| {
            config.elastic_policy = policy;
            Ok(())
        })
        .await?;
        if policy != before {
            self.note_setting("elastic-policy", policy.to_string());
        }
        if policy.mirrored_share.is_some_and(|share| before.mirrored_share != Some(share)) {
            self.seen.borrow_mut().note_conversion_order();
        }
        self.tell_elastic_policy().await;
        Ok(())
    }

    /// Tells the shards of an elastic array the policy of the configuration.
    pub(super) async fn tell_elastic_policy(&self) {
        if !self.is_elastic() {
            return;
        }
        // Looked up for each shard: the last change counts, whichever order is carried out last.
        self.tell_all(|| ControlRequest::ElasticPolicy(self.elastic_policy())).await;
    }

    fn is_elastic(&self) -> bool {
        self.config.borrow().geometry.is_elastic()
    }

    /// How stripes of an elastic array change their form.
    pub fn elastic_policy(&self) -> ElasticPolicy {
        self.config.borrow().elastic_policy
    }

    /// Returns the policy.
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Sets the I/O timeout; `None` disables it. A member that exceeds it is taken out, unless the pool cannot work without it.
    pub async fn set_io_timeout(&self, ns: Option<u64>) {
        if self.io_timeout() != ns {
            let after = ns.map_or("never".to_owned(), |ns| format!("{} ms", ns / 1_000_000));
            self.note_setting("io-timeout", after);
        }
        self.io_timeouts.set(ns);
        self.tell_all(|| ControlRequest::IoTimeout(ns)).await;
    }

    /// Returns the I/O timeout; `None` if it is disabled.
    pub fn io_timeout(&self) -> Option<u64> {
        self.io_timeouts.timeout_ns()
    }
}
