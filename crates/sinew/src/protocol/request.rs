//! Requests: one JSON value per line. Names of earlier versions stay understood, as aliases.

use std::ops::Not;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sinew_format::model::array_growth::GrowMethod;
use sinew_format::model::elastic_policy::ElasticPolicy;
use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::{Packing, Policy, Shares};
use sinew_format::model::volume_limits::VolumeLimits;
use sinew_members::latency::SpikeAvoidance;

use super::names;
use crate::units;

/// The longest request accepted.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 << 10;

/// A request to a running pool.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The state.
    Status,
    /// The metrics as OpenMetrics text.
    Metrics,
    /// Which blocks of volumes are damaged.
    Damage,
    /// The last minutes.
    History,
    /// What has happened.
    Events {
        /// Those with higher numbers than this.
        after: u64,
        /// Answer only once there is one, or after a while.
        wait: bool,
    },
    VolumeCreate {
        name: String,
        bytes: u64,
        /// Limits that differ from none.
        #[serde(default, skip_serializing_if = "LimitsChange::is_empty")]
        limits: LimitsChange,
        /// Its protection, if it is not to be that of the pool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "names::protection_or_null")]
        protection: Option<Protection>,
    },
    /// Sets limits of a volume, or changes its protection; without a change it answers the limits.
    VolumeSet {
        name: String,
        #[serde(default)]
        limits: LimitsChange,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(schema_with = "names::protection_or_null")]
        protection: Option<Protection>,
    },
    VolumeDelete {
        name: String,
        /// Also while clients are connected to it.
        #[serde(default, skip_serializing_if = "Not::not")]
        force: bool,
    },
    VolumeResize {
        name: String,
        bytes: u64,
        shrink: bool,
        /// Make it smaller also while clients are connected to it.
        #[serde(default, skip_serializing_if = "Not::not")]
        force: bool,
    },
    MemberOffline {
        member: usize,
    },
    MemberOnline {
        member: usize,
        path: Option<PathBuf>,
    },
    MemberReplace {
        member: usize,
        path: Option<PathBuf>,
        force: bool,
    },
    MemberAdd {
        path: PathBuf,
        force: bool,
    },
    /// `bytes` 0: no other limit than that of the device.
    MemberPhysical {
        member: usize,
        bytes: u64,
    },
    MemberWeight {
        member: usize,
        #[schemars(range(min = 1, max = 100))]
        percent: u8,
    },
    MemberRemove {
        member: usize,
        cancel: bool,
    },
    ArrayGrow {
        paths: Vec<PathBuf>,
        #[serde(default)]
        #[schemars(schema_with = "names::grow_method_or_null")]
        method: Option<GrowMethod>,
        force: bool,
    },
    ArrayShare {
        percent: Option<u8>,
    },
    ArrayPolicy {
        change: ElasticChange,
    },
    Scrub {
        run: bool,
    },
    Throttle {
        bytes_per_second: u64,
        #[serde(alias = "rest_above")]
        pause_above_iops: u64,
    },
    #[serde(alias = "step-around")]
    Latency {
        #[serde(default, alias = "mode")]
        #[schemars(schema_with = "names::spike_avoidance_or_null")]
        spike_avoidance: Option<SpikeAvoidance>,
        #[serde(alias = "give_up_after")]
        io_timeout: Option<IoTimeout>,
    },
    Policy {
        change: PolicyChange,
    },
}

/// When a member that does not answer is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum IoTimeout {
    /// Never: it is waited for until its kernel driver ends the request.
    Never,
    /// After a request has been pending for this many milliseconds.
    Ms(u64),
}

/// A healthy SSD can need a second for a flush.
const IO_TIMEOUT_MIN: Duration = Duration::from_secs(2);

impl IoTimeout {
    /// Reads a time such as 10s, or `never`.
    ///
    /// # Errors
    /// When the text is neither, or the time is one that a healthy member can need.
    pub(crate) fn parse(text: &str) -> Result<IoTimeout> {
        if text == "never" {
            return Ok(IoTimeout::Never);
        }
        let time = units::parse_time(text)?;
        ensure!(
            time >= IO_TIMEOUT_MIN,
            "not before {IO_TIMEOUT_MIN:?}: a request to a healthy drive can take that long"
        );
        Ok(IoTimeout::Ms(u64::try_from(time.as_millis())?))
    }

    /// In nanoseconds; none for never.
    pub(crate) fn ns(self) -> Option<u64> {
        match self {
            IoTimeout::Never => None,
            IoTimeout::Ms(ms) => Some(ms.saturating_mul(1_000_000)),
        }
    }
}

/// A change of a mapped pool's policy; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct PolicyChange {
    #[schemars(schema_with = "names::packing_or_null")]
    pub(crate) packing: Option<Packing>,
    #[serde(alias = "gather")]
    pub(crate) defragment: Option<bool>,
    pub(crate) discard: Option<bool>,
    /// Percent.
    pub(crate) convert_below_free: Option<u8>,
    /// Percent.
    pub(crate) convert_above_mirrored: Option<u8>,
    /// Bytes per second; 0 for never.
    pub(crate) convert_pause_above: Option<u64>,
    #[schemars(schema_with = "names::shares_or_null")]
    pub(crate) shares: Option<Shares>,
}

impl PolicyChange {
    /// The policy after the change.
    pub(crate) fn apply(self, policy: Policy) -> Policy {
        Policy {
            packing: self.packing.unwrap_or(policy.packing),
            gather: self.defragment.unwrap_or(policy.gather),
            discard: self.discard.unwrap_or(policy.discard),
            convert_below_free: self.convert_below_free.unwrap_or(policy.convert_below_free),
            convert_above_mirrored: self.convert_above_mirrored.unwrap_or(policy.convert_above_mirrored),
            convert_pause_above: self.convert_pause_above.unwrap_or(policy.convert_pause_above),
            shares: self.shares.unwrap_or(policy.shares),
        }
    }
}

/// A change of the limits of a volume; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsChange {
    /// Requests per second; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) iops: Option<u64>,
    /// 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_per_second: Option<u64>,
    /// Milliseconds in which an idle volume saves up what it may use at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) burst_ms: Option<u32>,
}

impl LimitsChange {
    /// Whether it changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        *self == LimitsChange::default()
    }

    /// The limits after the change.
    pub(crate) fn apply(self, limits: VolumeLimits) -> VolumeLimits {
        VolumeLimits {
            iops: self.iops.unwrap_or(limits.iops),
            bytes_per_second: self.bytes_per_second.unwrap_or(limits.bytes_per_second),
            burst_ms: self.burst_ms.unwrap_or(limits.burst_ms),
        }
    }
}

/// The share of mirrored stripes of an elastic array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Share {
    /// As the governor finds it.
    None,
    /// Of the stripes that store data.
    Percent(u8),
}

impl Share {
    /// Reads a number from 0 to 100, or `none`.
    ///
    /// # Errors
    /// When the text is neither.
    pub(crate) fn parse(text: &str) -> Result<Share, String> {
        match text {
            "none" => Ok(Share::None),
            _ => match text.trim_end_matches('%').parse() {
                Ok(percent @ 0..=100) => Ok(Share::Percent(percent)),
                _ => Err("a share is a whole number from 0 to 100, or none".to_owned()),
            },
        }
    }

    /// In percent.
    pub(crate) fn percent(self) -> Option<u8> {
        match self {
            Share::None => None,
            Share::Percent(percent) => Some(percent),
        }
    }
}

impl From<Option<u8>> for Share {
    fn from(percent: Option<u8>) -> Share {
        percent.map_or(Share::None, Share::Percent)
    }
}

/// A change of the policy of an elastic array; what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ElasticChange {
    pub(crate) share: Option<Share>,
    pub(crate) govern: Option<bool>,
    /// Percent.
    pub(crate) low: Option<u8>,
    /// Percent.
    pub(crate) high: Option<u8>,
    /// Percent.
    pub(crate) hit_factor: Option<u16>,
    /// Thousandths.
    pub(crate) steady: Option<u16>,
    pub(crate) interval_ms: Option<u32>,
    /// Bytes per second; 0 for no limit.
    pub(crate) convert_rate: Option<u64>,
    pub(crate) weigh: Option<bool>,
    pub(crate) autonomous: Option<bool>,
    pub(crate) autonomous_period_s: Option<u32>,
}

impl ElasticChange {
    /// The policy after the change.
    pub(crate) fn apply(self, policy: ElasticPolicy) -> ElasticPolicy {
        ElasticPolicy {
            mirrored_share: self.share.map_or(policy.mirrored_share, Share::percent),
            governed: self.govern.unwrap_or(policy.governed),
            low: self.low.unwrap_or(policy.low),
            high: self.high.unwrap_or(policy.high),
            hit_factor: self.hit_factor.unwrap_or(policy.hit_factor),
            steady_permille: self.steady.unwrap_or(policy.steady_permille),
            interval_ms: self.interval_ms.unwrap_or(policy.interval_ms),
            convert_rate: self.convert_rate.unwrap_or(policy.convert_rate),
            weighed: self.weigh.unwrap_or(policy.weighed),
            autonomous: self.autonomous.unwrap_or(policy.autonomous),
            autonomous_period_s: self.autonomous_period_s.unwrap_or(policy.autonomous_period_s),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Value {
        let request: Request = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        json!(request)
    }

    #[test]
    fn a_change_of_an_elastic_policy_changes_what_it_names() {
        let text = r#"{"array-policy":{"change":{"share":{"percent":60},"low":70,"govern":false}}}"#;
        let request: Request = serde_json::from_str(text).expect("a request");
        let Request::ArrayPolicy { change } = request else { panic!("{request:?}") };
        let expected = ElasticPolicy { low: 70, governed: false, ..ElasticPolicy::pinned(60) };
        assert_eq!(change.apply(ElasticPolicy::DEFAULT), expected);
        let lifted = ElasticChange { share: Some(Share::None), ..ElasticChange::default() };
        assert_eq!(lifted.apply(expected).mirrored_share, None);
    }

    #[test]
    fn requests_of_earlier_versions_are_understood() {
        let pairs = [
            (
                r#"{"step-around":{"mode":"auto","give_up_after":{"ms":5000}}}"#,
                r#"{"latency":{"spike_avoidance":"auto","io_timeout":{"ms":5000}}}"#,
            ),
            (r#"{"step-around":{"mode":"off"}}"#, r#"{"latency":{"spike_avoidance":"off"}}"#),
            (r#"{"step-around":{"give_up_after":"never"}}"#, r#"{"latency":{"io_timeout":"never"}}"#),
            (
                r#"{"throttle":{"bytes_per_second":1,"rest_above":2}}"#,
                r#"{"throttle":{"bytes_per_second":1,"pause_above_iops":2}}"#,
            ),
            (r#"{"policy":{"change":{"gather":false}}}"#, r#"{"policy":{"change":{"defragment":false}}}"#),
        ];
        for (earlier, now) in pairs {
            assert_eq!(read(earlier), read(now), "{earlier}");
        }
        for same in [
            r#""status""#,
            r#""metrics""#,
            r#""history""#,
            r#"{"events":{"after":0,"wait":false}}"#,
            r#"{"volume-create":{"name":"v","bytes":4096}}"#,
            r#"{"volume-create":{"name":"v","bytes":4096,"limits":{"iops":5}}}"#,
            r#"{"volume-set":{"name":"v","limits":{"bytes_per_second":0,"burst_ms":7}}}"#,
            r#"{"volume-delete":{"name":"v"}}"#,
            r#"{"volume-resize":{"name":"v","bytes":4096,"shrink":false}}"#,
            r#"{"member-offline":{"member":0}}"#,
            r#"{"member-online":{"member":0,"path":null}}"#,
            r#"{"member-replace":{"member":0,"path":"m","force":false}}"#,
            r#"{"member-add":{"path":"m","force":false}}"#,
            r#"{"member-physical":{"member":0,"bytes":1048576}}"#,
            r#"{"member-weight":{"member":0,"percent":50}}"#,
            r#"{"member-remove":{"member":0,"cancel":false}}"#,
            r#"{"array-grow":{"paths":["m"],"method":"fastscale","force":false}}"#,
            r#"{"array-share":{"percent":60}}"#,
            r#"{"scrub":{"run":true}}"#,
        ] {
            assert_eq!(read(same), serde_json::from_str::<Value>(same).expect("JSON"));
        }
    }
}
