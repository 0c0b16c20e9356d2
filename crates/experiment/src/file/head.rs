//! The head that every experiment file has, whatever it describes: its description, cases, sweep, quick run, published figures
//! and ratios. Declared once, for all kinds of files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::file::overrides::{self, Overrides};
use crate::file::published::PublishedFigure;
use crate::file::ratio::RatioSpec;

/// The head of a file, apart from the rest of it.
pub(crate) struct Head {
    pub(crate) description: String,
    pub(crate) cases: Vec<CaseSpec>,
    pub(crate) sweep: BTreeMap<String, Vec<Value>>,
    pub(crate) quick: Overrides,
    pub(crate) references: Vec<PublishedFigure>,
    pub(crate) ratios: Vec<RatioSpec>,
}

/// A system to compare with others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseSpec {
    /// The name of the case, in results and reports.
    pub name: String,
    /// The settings of the case, by path.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// Lists of values of this case, in place of those of the file; with none, the case is run once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<BTreeMap<String, Vec<Value>>>,
}

impl Head {
    /// Each case with the combinations of its swept values; a file without cases is one without a name.
    pub(crate) fn sweeps(&self) -> Vec<(CaseSpec, Vec<Overrides>)> {
        let unnamed = [CaseSpec { name: String::new(), set: Overrides::new(), sweep: None }];
        let cases = if self.cases.is_empty() { &unnamed[..] } else { &self.cases };
        let swept = |case: &CaseSpec| overrides::combinations(case.sweep.as_ref().unwrap_or(&self.sweep));
        cases.iter().map(|case| (case.clone(), swept(case))).collect()
    }
}

impl CaseSpec {
    /// The name, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        (!self.name.is_empty()).then_some(&self.name)
    }
}

/// Declares the type of a file: the head's fields around the tables of its own.
///
/// A macro and not `#[serde(flatten)]`, which cannot reject unknown keys and loses the line numbers of errors.
macro_rules! experiment_file {
    ($(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// What the experiment shows, in one or two sentences.
            pub description: String,
            $($own)*
            /// The systems to compare. Each case is run with every combination of swept values, its own or those of the file.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub cases: Vec<$crate::file::head::CaseSpec>,
            /// Lists of values, by path. All combinations are run.
            #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            pub sweep: std::collections::BTreeMap<String, Vec<toml::Value>>,
            /// The settings of a quick run, by path.
            #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
            pub quick: std::collections::BTreeMap<String, toml::Value>,
            /// Published figures to compare the results with.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub references: Vec<$crate::file::published::PublishedFigure>,
            /// Ratios of figures of paired runs.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub ratios: Vec<$crate::file::ratio::RatioSpec>,
        }

        impl From<$name> for $crate::file::head::Head {
            fn from(file: $name) -> Self {
                let $name { description, cases, sweep, quick, references, ratios, .. } = file;
                Self { description, cases, sweep, quick, references, ratios }
            }
        }
    };
}

pub(crate) use experiment_file;
