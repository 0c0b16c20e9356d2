//! What has to be read so that new blocks of a stripe get their parity: pure decisions.
//!
//! Parity is a sum over blocks at the same offset of their chunks, so every offset is decided for itself:
//! *modify* adds the difference of old and new data to the old parity, *compute* sums up all data anew, *recover* first
//! gets back data that is lost. The one that reads least wins; a full stripe reads nothing.

/// What there is of a stripe's units, data columns and then parity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    pub(crate) k: usize,
    /// The unit's content is there and right.
    pub(crate) readable: Vec<bool>,
    /// The unit is to be kept up to date.
    pub(crate) writable: Vec<bool>,
    /// Parity matches data everywhere; not so before the first resync, when only what was written matches.
    pub(crate) even: bool,
}

/// How the new parity at one offset comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Old parity plus the differences.
    Modify,
    /// The sum of all data, new or read.
    Compute,
    /// The same, after what is lost has been recovered from old data and old parity.
    Recover,
}

/// Blocks of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitRun {
    pub(crate) unit: usize,
    pub(crate) offset: u32,
    pub(crate) blocks: u32,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The offsets that get new parity, in order; none where no parity can be written.
    pub(crate) offsets: Vec<(u32, Method)>,
    /// What must be read, each block once, in order of units and offsets.
    pub(crate) reads: Vec<UnitRun>,
}

/// More units are lost than parity covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

impl Health {
    pub(crate) fn lost_data(&self) -> usize {
        self.readable[..self.k].iter().filter(|&&r| !r).count()
    }

    /// Parity units to read for recovering so many data columns: P before Q.
    pub(crate) fn parity_for(&self, lost: usize) -> Result<Vec<usize>, Lost> {
        let found: Vec<usize> =
            (self.k..self.readable.len()).filter(|&u| self.readable[u]).take(lost).collect();
        if found.len() == lost { Ok(found) } else { Err(Lost) }
    }
}

/// Plans the parity for new content of these slots, which are in order and distinct; a slot is column * chunk + offset.
pub(crate) fn plan(slots: &[u32], chunk_blocks: u32, health: &Health) -> Result<Plan, Lost> {
    let (k, width) = (health.k, health.readable.len());
    if !health.writable[k..].iter().any(|&w| w) {
        // Nothing but the data can be written, and what cannot be written would be lost for good.
        let kept = |&slot: &u32| health.writable[(slot / chunk_blocks) as usize];
        return if slots.iter().all(kept) { Ok(Plan::default()) } else { Err(Lost) };
    }
    let mut by_offset: Vec<(u32, usize)> =
        slots.iter().map(|&slot| (slot % chunk_blocks, (slot / chunk_blocks) as usize)).collect();
    by_offset.sort_unstable();
    let mut plan = Plan::default();
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
fn choose(changed: &[bool], width: usize, health: &Health) -> Result<(Method, Vec<usize>), Lost> {
    let k = health.k;
    let parity: Vec<usize> = (k..width).filter(|&u| health.writable[u]).collect();
    let touched = || (0..k).filter(|&c| changed[c]);
    let untouched = || (0..k).filter(|&c| !changed[c]);
    let can_modify =
        health.even && touched().all(|c| health.readable[c]) && parity.iter().all(|&p| health.readable[p]);
    let can_compute = untouched().all(|c| health.readable[c]);
    let modify_reads = touched().count() + parity.len();
    let compute_reads = untouched().count();
    if can_compute && (!can_modify || compute_reads <= modify_reads) {
        return Ok((Method::Compute, untouched().collect()));
    }
    if can_modify {
        return Ok((Method::Modify, touched().chain(parity).collect()));
    }
    let lost = health.lost_data();
    let parity = health.parity_for(lost)?;
    Ok((Method::Recover, (0..k).filter(|&c| health.readable[c]).chain(parity).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(k: usize, m: usize, lost: &[usize]) -> Health {
        let there: Vec<bool> = (0..k + m).map(|u| !lost.contains(&u)).collect();
        Health { k, readable: there.clone(), writable: there, even: true }
    }

    fn run(unit: usize, offset: u32, blocks: u32) -> UnitRun {
        UnitRun { unit, offset, blocks }
    }

    #[test]
    fn full_stripes_read_nothing_and_small_writes_the_least() {
        let all: Vec<u32> = (0..64).collect();
        assert!(plan(&all, 16, &health(4, 2, &[])).unwrap().reads.is_empty());
        let one = plan(&[17], 16, &health(4, 1, &[])).unwrap();
        assert_eq!(one.offsets, [(1, Method::Modify)]);
        assert_eq!(one.reads, [run(1, 1, 1), run(4, 1, 1)]);
        // Three of four: one column is less than three and parity.
        let most = plan(&[1, 17, 33], 16, &health(4, 1, &[])).unwrap();
        assert_eq!((most.offsets, most.reads), (vec![(1, Method::Compute)], vec![run(3, 1, 1)]));
    }

    #[test]
    fn neighbours_are_read_together() {
        let two = plan(&[4, 5, 6], 16, &health(5, 1, &[])).unwrap();
        assert_eq!(two.reads, [run(0, 4, 3), run(5, 4, 3)]);
    }

    #[test]
    fn degraded_stripes_find_a_way() {
        // The column written is lost: the others make the parity that stands for it.
        let lost = plan(&[17], 16, &health(4, 1, &[1])).unwrap();
        assert_eq!(lost.offsets, [(1, Method::Compute)]);
        assert_eq!(lost.reads, [run(0, 1, 1), run(2, 1, 1), run(3, 1, 1)]);
        // Another one is lost: old parity knows it.
        let other = plan(&[17], 16, &health(4, 1, &[0])).unwrap();
        assert_eq!(other.offsets, [(1, Method::Modify)]);
        // Both kinds at once need the lost one's content.
        let both = plan(&[17], 16, &health(4, 2, &[0, 1])).unwrap();
        assert_eq!(both.offsets, [(1, Method::Recover)]);
        assert_eq!(both.reads, [run(2, 1, 1), run(3, 1, 1), run(4, 1, 1), run(5, 1, 1)]);
        assert_eq!(plan(&[17], 16, &health(4, 1, &[0, 1])), Err(Lost));
        // Without parity there is nothing to compute.
        assert_eq!(plan(&[17], 16, &health(4, 1, &[4])), Ok(Plan::default()));
        assert_eq!(plan(&[17], 16, &health(4, 1, &[1, 4])), Err(Lost));
    }

    #[test]
    fn uneven_parity_is_never_built_on() {
        let mut before_resync = health(6, 1, &[]);
        before_resync.even = false;
        assert_eq!(plan(&[17], 16, &before_resync).unwrap().offsets, [(1, Method::Compute)]);
    }

    #[test]
    fn a_stale_unit_is_written_and_not_read() {
        let mut stale = health(3, 1, &[]);
        stale.readable[3] = false;
        let found = plan(&[0], 16, &stale).unwrap();
        assert_eq!(
            (found.offsets, found.reads),
            (vec![(0, Method::Compute)], vec![run(1, 0, 1), run(2, 0, 1)])
        );
    }
}
