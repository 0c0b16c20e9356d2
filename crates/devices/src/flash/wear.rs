//! Static wear levelling: which row is cleaned because it is erased rarely, and where its data goes.

use std::collections::VecDeque;

use super::features::WearLevelling;
use super::victim::NO_VICTIM;

/// The choice of rows to clean for their wear, of all plots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Levelling {
    parameters: WearLevelling,
    /// Victims chosen since the last one that was chosen for its wear.
    since: u32,
    /// Rows chosen for their wear.
    pub(super) chosen: u64,
}

impl Levelling {
    pub(super) fn new(parameters: WearLevelling) -> Levelling {
        Levelling { parameters, since: 0, chosen: 0 }
    }

    /// The least worn closed row of a plot, if it is its turn and the most worn one is far ahead of it. `live` has the live
    /// granules of each row or [`NO_VICTIM`].
    pub(super) fn victim(&mut self, live: &[u32], erases: &[u32]) -> Option<usize> {
        self.since += 1;
        if self.since < WearLevelling::TURN {
            return None;
        }
        let most = erases.iter().max()?;
        let closed = (0..live.len()).filter(|&row| live[row] != NO_VICTIM);
        let row = closed.min_by_key(|&row| erases[row])?;
        if most - erases[row] < self.parameters.spread {
            return None;
        }
        self.since = 0;
        self.chosen += 1;
        Some(row)
    }
}

/// Takes the free row that was erased most: cold data stays where it is.
pub(super) fn take_most_worn(free: &mut VecDeque<u32>, erases: &[u32]) -> Option<u32> {
    let most = (0..free.len()).max_by_key(|&place| erases[free[place] as usize])?;
    free.remove(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_worn_closed_row_has_every_eighth_turn() {
        let mut levelling = Levelling::new(WearLevelling { spread: 5 });
        let live = [NO_VICTIM, 7, 8, 3];
        let picks = |levelling: &mut Levelling, erases: &[u32]| -> Vec<Option<usize>> {
            (0..16).map(|_| levelling.victim(&live, erases)).collect()
        };
        let found = picks(&mut levelling, &[0, 2, 1, 6]);
        assert_eq!(found.iter().flatten().collect::<Vec<_>>(), [&2, &2]);
        assert_eq!((found[7], found[15], levelling.chosen), (Some(2), Some(2), 2));
        // The open row does not count as a victim, and a small difference is left as it is.
        assert!(picks(&mut levelling, &[0, 2, 2, 4]).iter().all(Option::is_none));
    }
}
