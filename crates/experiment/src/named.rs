//! The experiments that ship with the program: the files under `experiments/`.

use std::path::Path;

use serde::Deserialize;

use crate::plan::Plan;
use crate::{Error, Result};

/// An experiment that ships with the program.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

macro_rules! named {
    ($($name:literal),* $(,)?) => {
        /// All of them.
        pub const ALL: &[Named] = &[$(Named {
            name: $name,
            text: include_str!(concat!("../../../experiments/", $name, ".toml")),
        }),*];
    };
}

named![
    "first",
    "consistency",
    "consumer",
    "datacenter",
    "spare",
    "amplification",
    "trace",
    "scale",
    "fastscale",
    "scaling",
    "scaled",
    "growing",
    "spread",
    "spikes",
    "stalled",
    "fusionraid",
    "exchange",
    "techniques",
    "ageing",
    "nvram",
    "conversion",
    "locality",
    "thresholds",
    "metadata",
];

/// Names the directory in which the traces are that experiments which ship with the program replay.
pub const TRACES: &str = "SINEW_TRACES";

impl Named {
    /// Its description.
    pub fn description(&self) -> Result<String> {
        let described: Described = toml::from_str(self.text)
            .map_err(|source| Error::Description { name: self.name.to_owned(), source })?;
        Ok(described.description)
    }

    /// Its plan. Its traces are in the directory that [`TRACES`] names.
    pub fn plan(&self, quick: bool) -> Result<Plan> {
        let traces = std::env::var_os(TRACES).filter(|directory| !directory.is_empty());
        let planned =
            Plan::new(self.name, self.text, Path::new(traces.as_deref().unwrap_or_default()), quick);
        match planned {
            Err(Error::Workload(source)) if traces.is_none() => {
                Err(Error::NoTraces { name: self.name.to_owned(), source })
            }
            planned => planned,
        }
    }
}

#[derive(Deserialize)]
struct Described {
    description: String,
}

/// One by its name.
pub fn find(name: &str) -> Option<Named> {
    ALL.iter().copied().find(|named| named.name == name)
}
