//! The arithmetic of an array that grows: how evenly it stores data and parity, and how much an addition moves.
//!
//! No requests, no simulated time, no random numbers. Only times of addressing, which a file may ask for, depend on the machine.

use sinew_layout::stats::coefficient_of_variation;

use crate::Result;
use crate::file::growth::GrowthSpec;
use crate::progress::Progress;
use crate::results::schema::GrowthFigures;
use crate::run::addressing_times;

/// The figures of the array after all additions.
///
/// # Errors
/// [`crate::Error::Setting`] if the array cannot be computed.
pub(crate) fn run(spec: &GrowthSpec, progress: &Progress) -> Result<GrowthFigures> {
    progress("counting", 0.0);
    let array = spec.array_after(spec.additions)?;
    let counts = array.counts();
    let first = array.data_counts(spec.fresh_array(spec.members)?.blocks());
    let moved = match spec.additions.checked_sub(1) {
        Some(before) => Some(array.moved_from(&spec.array_after(before)?)),
        None => None,
    };
    progress("timing", 0.5);
    let times = if spec.timed { addressing_times::take(spec)? } else { None };
    Ok(GrowthFigures {
        members: array.members(),
        blocks: array.blocks(),
        space: array.blocks() as f64 / spec.fresh_array(array.members())?.blocks() as f64,
        data_cv: coefficient_of_variation(&counts.data),
        parity_cv: (array.parities() > 0).then(|| coefficient_of_variation(&counts.parity)),
        first_data_cv: coefficient_of_variation(&first.data),
        data: counts.data,
        parity: counts.parity,
        moved,
        least_moved: array.least_moved(),
        parity_written: array.parity_written(),
        times,
    })
}
