//! The parity plan: which blocks of a stripe must be read to compute the parity of new ones. Pure decisions.
//!
//! Parity is a sum over blocks at the same offset of their chunks, so each offset has a method of its own: *modify*
//! (read-modify-write) adds the difference of old and new data to the old parity, *compute* (reconstruct-write) sums up all
//! data, *recover* reconstructs lost data first. The method that reads least wins; a full-stripe write reads nothing.

use crate::stripe::part::UnitRun;

/// Which units of a stripe can be read and written: data columns, then parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) k: usize,
    /// The unit's member is active and its content up to date.
    pub(crate) readable: Vec<bool>,
    /// The unit's member is active.
    pub(crate) writable: Vec<bool>,
    /// Parity matches data. Before the first resync it need not, except where something was written.
    pub(crate) in_sync: bool,
}

/// How the new parity at one offset is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParityMethod {
    /// Old parity plus the differences.
    Modify,
    /// The sum of all data, new or read.
    Compute,
    /// The same, after lost data has been recovered from old data and old parity.
    Recover,
}

/// What to read and compute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ParityPlan {
    /// The offsets that get new parity, in order; none where no parity can be written.
    pub(crate) offsets: Vec<(u32, ParityMethod)>,
    /// The blocks that must be read, each once, in order of units and offsets.
    pub(crate) reads: Vec<UnitRun>,
}

/// More units are lost than parity covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyLost;

impl Health {
    /// Data columns that cannot be read.
    pub(crate) fn lost_data(&self) -> usize {
        self.readable[..self.k].iter().filter(|&&r| !r).count()
    }

    /// The parity units to read to recover `lost` data columns: P before Q.
    ///
    /// # Errors
    /// When too few can be read.
    pub(crate) fn parity_for(&self, lost: usize) -> Result<Vec<usize>, TooManyLost> {
        let found: Vec<usize> =
            (self.k..self.readable.len()).filter(|&u| self.readable[u]).take(lost).collect();
        if found.len() == lost { Ok(found) } else { Err(TooManyLost) }
    }
}

/// Plans the parity of new content of these slots, which are in order and distinct; a slot is column * chunk + offset.
///
/// # Errors
/// When more units are lost than parity covers.
pub(crate) fn plan_parity(
    slots: &[u32],
    chunk_blocks: u32,
    health: &Health,
) -> Result<ParityPlan, TooManyLost> {
    let (k, width) = (health.k, health.readable.len());
    if !health.writable[k..].iter().any(|&w| w) {
        // Only data can be written; data whose unit cannot be written would be lost for good.
        let kept = |&slot: &u32| health.writable[(slot / chunk_blocks) as usize];
        return if slots.iter().all(kept) { Ok(ParityPlan::default()) } else { Err(TooManyLost) };
    }
    let mut by_offset: Vec<(u32, usize)> =
        slots.iter().map(|&slot| (slot % chunk_blocks, (slot / chunk_blocks) as usize)).collect();
    by_offset.sort_unstable();
    let mut plan = ParityPlan::default();
    let mut wanted: Vec<(usize, u32)> = Vec::new();
    let mut changed = vec![false; k];
    for at in by_offset.chunk_by(|a, b| a.0 == b.0) {
        let offset = at[0].0;
        changed.fill(false);
        at.iter().for_each(|&(_, column)| changed[column] = true);
        let (method, units) = choose(&changed, width, health)?;
        plan.offsets.push((offset, method));
        wanted.extend(units.into_iter().map(|unit| (unit, offset)));
    }
    wanted.sort_unstable();
    for (unit, offset) in wanted {
        match plan.reads.last_mut() {
            Some(run) if run.unit == unit && run.offset + run.blocks == offset => run.blocks += 1,
            _ => plan.reads.push(UnitRun { unit, offset, blocks: 1 }),
        }
    }
    Ok(plan)
}

/// The method for one offset, and the units to be read there.
fn choose(
    changed: &[bool],
    width: usize,
    health: &Health,
) -> Result<(ParityMethod, Vec<usize>), TooManyLost> {
    let k = health.k;
    let parity: Vec<usize> = (k..width).filter(|&u| health.writable[u]).collect();
    let touched = || (0..k).filter(|&c| changed[c]);
    let untouched = || (0..k).filter(|&c| !changed[c]);
    let can_modify =
        health.in_sync && touched().all(|c| health.readable[c]) && parity.iter().all(|&p| health.readable[p]);
    let can_compute = untouched().all(|c| health.readable[c]);
    let modify_reads = touched().count() + parity.len();
    let compute_reads = untouched().count();
    if can_compute && (!can_modify || compute_reads <= modify_reads) {
        return Ok((ParityMethod::Compute, untouched().collect()));
    }
    if can_modify {
        return Ok((ParityMethod::Modify, touched().chain(parity).collect()));
    }
    let lost = health.lost_data();
    let parity = health.parity_for(lost)?;
    Ok((ParityMethod::Recover, (0..k).filter(|&c| health.readable[c]).chain(parity).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(k: usize, m: usize, lost: &[usize]) -> Health {
        let there: Vec<bool> = (0..k + m).map(|u| !lost.contains(&u)).collect();
        Health { k, readable: there.clone(), writable: there, in_sync: true }
    }

    fn run(unit: usize, offset: u32, blocks: u32) -> UnitRun {
        UnitRun { unit, offset, blocks }
    }

    #[test]
    fn full_stripes_read_nothing_and_small_writes_the_least() {
        let all: Vec<u32> = (0..64).collect();
        assert!(plan_parity(&all, 16, &health(4, 2, &[])).unwrap().reads.is_empty());
        let one = plan_parity(&[17], 16, &health(4, 1, &[])).unwrap();
        assert_eq!(one.offsets, [(1, ParityMethod::Modify)]);
        assert_eq!(one.reads, [run(1, 1, 1), run(4, 1, 1)]);
        // Three of four: one column is less than three and parity.
        let most = plan_parity(&[1, 17, 33], 16, &health(4, 1, &[])).unwrap();
        assert_eq!((most.offsets, most.reads), (vec![(1, ParityMethod::Compute)], vec![run(3, 1, 1)]));
    }

    #[test]
    fn neighbours_are_read_together() {
        let two = plan_parity(&[4, 5, 6], 16, &health(5, 1, &[])).unwrap();
        assert_eq!(two.reads, [run(0, 4, 3), run(5, 4, 3)]);
    }

    #[test]
    fn degraded_stripes_find_a_way() {
        // The column written is lost: the others make the parity that stands for it.
        let lost = plan_parity(&[17], 16, &health(4, 1, &[1])).unwrap();
        assert_eq!(lost.offsets, [(1, ParityMethod::Compute)]);
        assert_eq!(lost.reads, [run(0, 1, 1), run(2, 1, 1), run(3, 1, 1)]);
        // Another one is lost: old parity knows it.
        let other = plan_parity(&[17], 16, &health(4, 1, &[0])).unwrap();
        assert_eq!(other.offsets, [(1, ParityMethod::Modify)]);
        // Both kinds at once need the lost one's content.
        let both = plan_parity(&[17], 16, &health(4, 2, &[0, 1])).unwrap();
        assert_eq!(both.offsets, [(1, ParityMethod::Recover)]);
        assert_eq!(both.reads, [run(2, 1, 1), run(3, 1, 1), run(4, 1, 1), run(5, 1, 1)]);
        assert_eq!(plan_parity(&[17], 16, &health(4, 1, &[0, 1])), Err(TooManyLost));
        // Without parity there is nothing to compute.
        assert_eq!(plan_parity(&[17], 16, &health(4, 1, &[4])), Ok(ParityPlan::default()));
        assert_eq!(plan_parity(&[17], 16, &health(4, 1, &[1, 4])), Err(TooManyLost));
    }

    #[test]
    fn parity_that_does_not_match_is_never_modified() {
        let mut before_resync = health(6, 1, &[]);
        before_resync.in_sync = false;
        assert_eq!(plan_parity(&[17], 16, &before_resync).unwrap().offsets, [(1, ParityMethod::Compute)]);
    }

    #[test]
    fn a_stale_unit_is_written_and_not_read() {
        let mut stale = health(3, 1, &[]);
        stale.readable[3] = false;
        let found = plan_parity(&[0], 16, &stale).unwrap();
        assert_eq!(
            (found.offsets, found.reads),
            (vec![(0, ParityMethod::Compute)], vec![run(1, 0, 1), run(2, 0, 1)])
        );
    }
}
