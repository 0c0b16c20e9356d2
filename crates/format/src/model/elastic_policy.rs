//! The policy of an elastic array: when its stripes change their form (Elastic RAID, 2022, section 3.2). It is part of the
//! configuration, so that limits of physical space hold after a restart.

use std::fmt;

/// How stripes of an elastic array change their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElasticPolicy {
    /// Keep this percentage of the stripes that store something mirrored, whatever the physical space; `None` leaves the share
    /// to the governor.
    pub mirrored_share: Option<u8>,
    /// Whether the governor changes forms. Without it, and without a share, stripes keep their form.
    pub governed: bool,
    /// Stripes become mirrored while all members use less than this percentage of their physical space (C_l of the paper),
    pub low: u8,
    /// and get parity while a member uses more than this (C_u).
    pub high: u8,
    /// Stripes are exchanged while the share of requests to mirrored stripes is less than this percentage of the share of
    /// mirrored stripes (h of the paper, in percent).
    pub hit_factor: u16,
    /// The physical use counts as steady while the last ten samples lie within this many thousandths of the space.
    pub steady_permille: u16,
    /// Time between two samples of the physical use.
    pub interval_ms: u32,
    /// Bytes of data per second that are converted, also beside clients that never pause (Elastic RAID, section 5.4); with 0 as
    /// many as clients leave room for.
    pub convert_rate: u64,
    /// Whether stripes that compress better are mirrored first, and get parity last.
    pub weighed: bool,
    /// Whether stripes that take less space mirrored than with parity become mirrored whatever the space.
    pub autonomous: bool,
    /// Seconds in which all stripes with parity are looked at for that.
    pub autonomous_period_s: u32,
}

impl Default for ElasticPolicy {
    fn default() -> ElasticPolicy {
        ElasticPolicy::DEFAULT
    }
}

impl fmt::Display for ElasticPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mirrored_share {
            Some(share) => write!(f, "mirrored share {share} %")?,
            None => f.write_str("mirrored share as the governor finds")?,
        }
        write!(
            f,
            ", govern {}, low {} %, high {} %, hit factor {} %, steady {} per mille, interval {} ms, convert rate {} bytes/s, \
             weigh {}, autonomous {} in {} s",
            self.governed,
            self.low,
            self.high,
            self.hit_factor,
            self.steady_permille,
            self.interval_ms,
            self.convert_rate,
            self.weighed,
            self.autonomous,
            self.autonomous_period_s
        )
    }
}

impl ElasticPolicy {
    /// The default.
    pub const DEFAULT: ElasticPolicy = ElasticPolicy {
        mirrored_share: None,
        governed: true,
        low: 80,
        high: 90,
        hit_factor: 150,
        steady_permille: 10,
        interval_ms: 1000,
        convert_rate: 0,
        weighed: true,
        autonomous: true,
        autonomous_period_s: 600,
    };

    /// Stripes keep the form that they have.
    pub const FIXED: ElasticPolicy = ElasticPolicy { governed: false, ..ElasticPolicy::DEFAULT };

    /// Keeps a share of the stripes mirrored.
    pub const fn pinned(share: u8) -> ElasticPolicy {
        ElasticPolicy { mirrored_share: Some(share), ..ElasticPolicy::DEFAULT }
    }

    /// What is wrong with it; `None` when it can be carried out.
    pub fn fault(&self) -> Option<&'static str> {
        if self.mirrored_share.is_some_and(|share| share > 100) {
            return Some("a share is at most 100 percent");
        }
        if self.low >= self.high || self.high > 100 {
            return Some(
                "the lower limit of physical use must be below the upper one, which is at most 100 percent",
            );
        }
        if self.hit_factor <= 100 {
            return Some("the hit factor must be above 1");
        }
        if self.interval_ms == 0 || self.autonomous_period_s == 0 {
            return Some("a period must be longer than 0");
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_policies_are_told() {
        let wrong: [fn(&mut ElasticPolicy); 6] = [
            |policy| policy.mirrored_share = Some(101),
            |policy| policy.low = 90,
            |policy| policy.high = 101,
            |policy| policy.hit_factor = 100,
            |policy| policy.interval_ms = 0,
            |policy| policy.autonomous_period_s = 0,
        ];
        assert_eq!(ElasticPolicy::DEFAULT.fault(), None);
        for wrong in wrong {
            let mut policy = ElasticPolicy::pinned(60);
            assert_eq!(policy.fault(), None);
            wrong(&mut policy);
            assert!(policy.fault().is_some(), "{policy:?}");
        }
    }
}
