//! The experiments that ship with the program: the files under `experiments/`.

use serde::Deserialize;

use crate::{Error, Result};

/// An experiment that ships with the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// The name.
    pub name: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

/// The former name of [`Builtin`].
pub type Named = Builtin;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// All experiments that ship with the program.
        pub const ALL: &[Builtin] = &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../../../experiments/", $name, ".toml")),
        }),*];
    };
}

builtin![
    "first",
    "consistency",
    "consumer",
    "datacenter",
    "spare",
    "amplification",
    "trace",
    "scale",
    "greedy-tenant",
    "paced-tenant",
    "fastscale",
    "scaling",
    "scaled",
    "growing",
    "spread",
    "spikes",
    "stalled",
    "avoidance",
    "fusionraid",
    "equal-state",
    "equal-load",
    "equal-load-consumer",
    "equal-capacity",
    "bursts",
    "real-traces",
    "exchange",
    "techniques",
    "ageing",
    "nvram",
    "conversion",
    "locality",
    "thresholds",
    "metadata",
    "mttdl",
    "esap-reliability",
    "ageing-together",
    "uneven-parity",
    "member-weights",
    "wear-of-parity",
    "esap",
    "esap-parity",
    "esap-ablation",
    "esap-model",
    "esap-speed",
    "pitfalls-arrays",
    "pitfalls-prediction",
    "bottleneck",
    "asymmetry",
    "history",
    "rebuild",
    "rebuild-rates",
    "mapping-cache",
    "slc-cache",
    "wear-levelling",
    "elastic-amplification",
    "elastic-journal",
    "elastic-forms",
    "elastic-populations",
    "elastic-accuracy",
    "elastic-throttle",
    "elastic-conversion",
    "elastic-coverage",
    "elastic-phases",
    "elastic-skew",
];

/// The environment variable that names the directory of the traces that these experiments replay.
pub const TRACES: &str = "SINEW_TRACES";

impl Builtin {
    /// The description in the file.
    ///
    /// # Errors
    /// [`Error::Description`] if the file is not TOML with a description.
    pub fn description(&self) -> Result<String> {
        let described: Described = toml::from_str(self.text)
            .map_err(|source| Error::Description { name: self.name.to_owned(), source })?;
        Ok(described.description)
    }
}

#[derive(Deserialize)]
struct Described {
    description: String,
}

/// The experiment of a name.
pub fn find(name: &str) -> Option<Builtin> {
    ALL.iter().copied().find(|builtin| builtin.name == name)
}
