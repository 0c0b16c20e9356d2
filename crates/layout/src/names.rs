//! The names of settings with few values. A table gives each value one spelling, which options of commands, files,
//! messages, reports and errors share. Users' files contain the spellings, so a spelling never changes.

use std::fmt;

#[doc(hidden)]
pub use serde;
use serde::Deserialize;

/// A setting whose values have names.
pub trait Named: Copy + PartialEq + 'static {
    /// The noun for the setting in error texts.
    const NOUN: &'static str;
    /// The values, in the order in which they are listed.
    const NAMES: &'static [Name<Self>];
}

/// The name of one value.
#[derive(Clone, Copy, Debug)]
pub struct Name<T> {
    /// The value.
    pub value: T,
    /// The spelling that is written.
    pub name: &'static str,
    /// A second spelling that is read, the shorter one.
    pub short: Option<&'static str>,
    /// A sentence for the help of commands.
    pub help: &'static str,
}

/// No value of a setting has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {noun} {name:?}; the valid names are {}", .valid.join(", "))]
pub struct UnknownName {
    noun: &'static str,
    name: String,
    valid: Vec<&'static str>,
}

/// Returns the names of all values, in their order.
pub fn valid<T: Named>() -> Vec<&'static str> {
    T::NAMES.iter().map(|entry| entry.name).collect()
}

/// Returns the value with this name.
///
/// # Errors
/// [`UnknownName`] if there is none; its text lists the valid names.
pub fn parse<T: Named>(name: &str) -> Result<T, UnknownName> {
    let found = T::NAMES.iter().find(|entry| entry.name == name || entry.short == Some(name));
    let unknown = || UnknownName { noun: T::NOUN, name: name.to_owned(), valid: valid::<T>() };
    found.map(|entry| entry.value).ok_or_else(unknown)
}

/// Returns the name of a value; `None` for a value with parameters that the table does not contain.
pub fn name_of<T: Named>(value: T) -> Option<&'static str> {
    T::NAMES.iter().find(|entry| entry.value == value).map(|entry| entry.name)
}

#[doc(hidden)]
pub fn deserialize<'de, T: Named, D: serde::Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
}

#[doc(hidden)]
pub fn pad(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.pad(name)
}

/// Gives a type its table of names, and with it `Named`, `name()`, `FromStr`, `Display` and serde. Values with parameters
/// that are not in the table have the name behind `other`.
#[macro_export]
macro_rules! named {
    (
        $type:ty, $noun:literal $(, other $other:literal)?:
        $($value:expr => $name:literal $(or $short:literal)?, $help:literal;)+
    ) => {
        impl $crate::names::Named for $type {
            const NOUN: &'static str = $noun;
            const NAMES: &'static [$crate::names::Name<$type>] = &[
                $($crate::names::Name {
                    value: $value,
                    name: $name,
                    short: { let short: Option<&'static str> = None; $(let _ = short; let short = Some($short);)? short },
                    help: $help,
                },)+
            ];
        }

        impl $type {
            /// Returns the name.
            pub fn name(self) -> &'static str {
                let name = $crate::names::name_of(self);
                $(let name = name.or(Some($other));)?
                name.expect("the table has a name for each value")
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::names::UnknownName;

            fn from_str(name: &str) -> Result<$type, $crate::names::UnknownName> {
                $crate::names::parse(name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::names::pad(self.name(), f)
            }
        }

        impl $crate::names::serde::Serialize for $type {
            fn serialize<S: $crate::names::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> $crate::names::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::names::serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                $crate::names::deserialize(from)
            }
        }
    };
}
