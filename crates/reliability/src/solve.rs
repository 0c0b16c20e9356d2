//! Bisection.

/// The place between `low` and `high` at which `is_below` changes from true to false, to the precision of the numbers.
pub(crate) fn bisect(mut low: f64, mut high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = low + (high - low) / 2.0;
        if is_below(middle) { low = middle } else { high = middle }
    }
    low + (high - low) / 2.0
}
