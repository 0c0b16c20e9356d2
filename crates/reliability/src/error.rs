//! Errors: an argument that the arithmetic has no meaning for.

/// An invalid argument.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{argument}: {why}")]
pub struct Error {
    /// The argument, by its name in the type.
    pub argument: &'static str,
    /// What is wrong with it, and which values are valid.
    pub why: String,
}

/// The result of a checked computation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(argument: &'static str, why: impl Into<String>) -> Error {
        Error { argument, why: why.into() }
    }
}

/// Checks that a value is finite and above zero.
pub(crate) fn positive(argument: &'static str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(Error::new(argument, format!("{value} is not a positive number")))
}

/// Checks that a value is a probability.
pub(crate) fn probability(argument: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::new(argument, format!("{value} is not a probability from 0 to 1")))
}
