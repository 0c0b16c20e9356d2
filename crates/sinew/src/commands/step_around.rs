//! `sinew step-around`: how members in a latency spike are found.

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sinew_engine::spikes::StepAround;

use crate::api::{Request, Target};
use crate::out::say;

/// Sets how members in a latency spike are found and stepped around, until the server ends.
#[derive(Args)]
pub(crate) struct StepAroundArgs {
    /// How.
    #[arg(value_enum)]
    mode: StepAroundName,
    #[command(flatten)]
    target: Target,
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

impl From<StepAroundName> for StepAround {
    fn from(name: StepAroundName) -> StepAround {
        match name {
            StepAroundName::Off => StepAround::Off,
            StepAroundName::Auto => StepAround::Auto,
            StepAroundName::Consumer => StepAround::Consumer,
            StepAroundName::Datacenter => StepAround::Datacenter,
            StepAroundName::Fusionraid => StepAround::FusionRaid,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: StepAroundArgs) -> Result<()> {
    args.target.ask(&Request::StepAround { mode: args.mode })?;
    match args.mode {
        StepAroundName::Off => say!("members in a latency spike are not looked for"),
        mode => say!("members in a latency spike are stepped around ({})", StepAround::from(mode).name()),
    }
    Ok(())
}
