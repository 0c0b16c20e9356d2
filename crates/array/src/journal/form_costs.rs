//! The time that groups of the log take as copies and striped, as it was measured, by which the form of the next one is chosen.
//!
//! Striping writes fewer bytes, in more requests, and waits for all members of a stripe. Which is faster depends on what the
//! members are short of.

use std::cell::Cell;
use std::cmp::Ordering;

use sinew_members::ring::group_form::GroupForm;

/// Sizes are told apart by powers of two, up to 2^15 blocks.
const CLASSES: usize = 16;
/// A measurement moves the median by one part in this many.
const STEP: u64 = 16;
/// Of as many groups of a size one is written in the form that takes longer, since that may have changed.
const TRIED_IN: u32 = 64;

/// Of groups of one size: medians of the times in nanoseconds. Means would follow rare requests that meet a spike.
#[derive(Default)]
struct Costs {
    copies: Cell<Option<u64>>,
    striped: Cell<Option<u64>>,
    chosen: Cell<u32>,
}

/// The measured times of both forms.
#[derive(Default)]
pub(crate) struct FormCosts {
    costs: [Costs; CLASSES],
    form: Cell<GroupForm>,
}

impl FormCosts {
    fn of(&self, blocks: u32) -> &Costs {
        &self.costs[(blocks.max(1).ilog2() as usize).min(CLASSES - 1)]
    }

    /// Has groups written in one form, or again in the faster one.
    pub(crate) fn set_form(&self, form: GroupForm) {
        self.form.set(form);
    }

    /// Whether the form depends on the times, so that they are to be measured.
    pub(super) fn measures(&self) -> bool {
        self.form.get() == GroupForm::Auto
    }

    /// Whether a group with this number of data blocks is to be striped.
    pub(super) fn choose_striped(&self, blocks: u32) -> bool {
        match self.form.get() {
            GroupForm::Auto => self.is_striped_faster(blocks),
            form => form == GroupForm::Striped,
        }
    }

    fn is_striped_faster(&self, blocks: u32) -> bool {
        let costs = self.of(blocks);
        costs.chosen.set(costs.chosen.get().wrapping_add(1));
        let is_faster = match (costs.copies.get(), costs.striped.get()) {
            (_, None) => true,
            (None, _) => false,
            (Some(copies), Some(striped)) => striped < copies,
        };
        let tries_other = costs.chosen.get().is_multiple_of(TRIED_IN);
        is_faster != tries_other
    }

    /// A group with this number of data blocks took `ns`, striped or as copies.
    pub(super) fn note(&self, is_striped: bool, blocks: u32, ns: u64) {
        let costs = self.of(blocks);
        let median = if is_striped { &costs.striped } else { &costs.copies };
        let step = |old: u64| match ns.cmp(&old) {
            Ordering::Less => old - old.div_ceil(STEP),
            Ordering::Equal => old,
            Ordering::Greater => old + old.div_ceil(STEP).max(1),
        };
        median.set(Some(median.get().map_or(ns, step)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto() -> FormCosts {
        let costs = FormCosts::default();
        costs.set_form(GroupForm::Auto);
        costs
    }

    /// The share of striped groups of 20 blocks, in percent, when the forms take these times.
    fn striped(copies: u64, striped: u64, costs: &FormCosts) -> u32 {
        let mut count = 0;
        for _ in 0..6400 {
            let is_striped = costs.choose_striped(20);
            count += u32::from(is_striped);
            costs.note(is_striped, 20, if is_striped { striped } else { copies });
        }
        count / 64
    }

    #[test]
    fn the_faster_form_is_chosen_and_a_change_is_noticed() {
        let costs = auto();
        assert!(striped(100, 60, &costs) > 90);
        assert!(striped(100, 300, &costs) < 15);
        assert!(striped(100, 60, &costs) > 60);
        // Other sizes have been told nothing.
        assert!(costs.choose_striped(100));
        // Where no form takes any time, copies need fewer requests.
        assert!(striped(0, 0, &auto()) < 15);
    }
}
