//! `sinew step-around`: how members in a latency spike are found, and when members that do not answer are given up.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sinew_members::latency::SpikeAvoidance;

use crate::api::{Request, Target};
use crate::out::say;
use crate::size;

/// Sets how members in a latency spike are found and stepped around, and when those that do not answer are given up, until the
/// server ends.
#[derive(Args)]
pub(crate) struct StepAroundArgs {
    /// How latency spikes are found.
    #[arg(value_enum, required_unless_present = "give_up_after")]
    mode: Option<StepAroundName>,
    /// Take a member out that has not answered a request for so long, such as 10s (the default), or `never`. One that the pool
    /// cannot do without is waited for.
    #[arg(long, value_name = "TIME", value_parser = give_up_after)]
    give_up_after: Option<GiveUpAfter>,
    #[command(flatten)]
    target: Target,
}

/// When a member that does not answer is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GiveUpAfter {
    /// It is waited for until its kernel driver says something.
    Never,
    /// After so many milliseconds.
    Ms(u64),
}

impl GiveUpAfter {
    /// In nanoseconds.
    pub(crate) fn ns(self) -> Option<u64> {
        match self {
            GiveUpAfter::Never => None,
            GiveUpAfter::Ms(ms) => Some(ms.saturating_mul(1_000_000)),
        }
    }
}

/// A healthy SSD may well need a second for a flush.
const GIVE_UP_AFTER_LEAST: Duration = Duration::from_secs(2);

fn give_up_after(text: &str) -> Result<GiveUpAfter> {
    if text == "never" {
        return Ok(GiveUpAfter::Never);
    }
    let time = size::time(text)?;
    ensure!(
        time >= GIVE_UP_AFTER_LEAST,
        "not before {GIVE_UP_AFTER_LEAST:?}: a healthy drive may take that long now and then"
    );
    Ok(GiveUpAfter::Ms(u64::try_from(time.as_millis())?))
}

/// How latency spikes are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StepAroundName {
    /// Nothing is measured, and nobody avoided.
    Off,
    /// From how long each member's requests took lately.
    #[default]
    Auto,
    /// Fixed: three requests pending for 2 ms.
    Consumer,
    /// Fixed: six requests pending for 5 ms.
    Datacenter,
    /// The same, and a request under way is waited for, however late.
    Fusionraid,
}

impl From<StepAroundName> for SpikeAvoidance {
    fn from(name: StepAroundName) -> SpikeAvoidance {
        match name {
            StepAroundName::Off => SpikeAvoidance::Off,
            StepAroundName::Auto => SpikeAvoidance::Auto,
            StepAroundName::Consumer => SpikeAvoidance::Consumer,
            StepAroundName::Datacenter => SpikeAvoidance::Datacenter,
            StepAroundName::Fusionraid => SpikeAvoidance::FusionRaid,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: StepAroundArgs) -> Result<()> {
    args.target.ask(&Request::SpikeAvoidance { mode: args.mode, give_up_after: args.give_up_after })?;
    match args.mode {
        None => {}
        Some(StepAroundName::Off) => say!("members in a latency spike are not looked for"),
        Some(mode) => {
            say!("members in a latency spike are stepped around ({})", SpikeAvoidance::from(mode).name())
        }
    }
    match args.give_up_after {
        None => {}
        Some(GiveUpAfter::Never) => say!("members that do not answer are waited for"),
        Some(GiveUpAfter::Ms(ms)) => {
            say!("members that do not answer are given up after {:?}", Duration::from_millis(ms));
        }
    }
    Ok(())
}
