//! Budget of the extra requests that hedging and reconstruction may cost.

/// Requests that earn one extra request.
const ONE_IN: u32 = 2;
/// Extra requests that may be saved up. Half of them are reserved for late requests: early hedging may not spend them.
const SAVED_MAX: u32 = 256;

/// Grows with every request, and is spent on extra requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HedgeBudget {
    /// Extra requests saved, in units of 1 / `ONE_IN`.
    saved: u32,
}

impl Default for HedgeBudget {
    fn default() -> HedgeBudget {
        HedgeBudget { saved: SAVED_MAX * ONE_IN / 2 }
    }
}

impl HedgeBudget {
    /// Credits a request that was sent to a member.
    pub(crate) fn earn(&mut self) {
        self.saved = (self.saved + 1).min(SAVED_MAX * ONE_IN);
    }

    /// Pays for extra requests; false, and nothing is paid, when the budget does not allow them.
    pub(crate) fn spend(&mut self, requests: u32) -> bool {
        self.spend_above(0, requests)
    }

    /// As `spend`, for requests that are hedged early and can wait; leaves the reserve.
    pub(crate) fn spend_early(&mut self, requests: u32) -> bool {
        self.spend_above(SAVED_MAX / 2, requests)
    }

    fn spend_above(&mut self, kept: u32, requests: u32) -> bool {
        let enough = self.saved >= (kept + requests) * ONE_IN;
        if enough {
            self.saved -= requests * ONE_IN;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_was_earned() {
        let mut budget = HedgeBudget::default();
        let first = (0..).take_while(|_| budget.spend(1)).count() as u32;
        assert_eq!(first, SAVED_MAX / 2);
        let later = (0..10_000).filter(|_| {
            budget.earn();
            budget.spend(3)
        });
        assert_eq!(later.count() as u32, 10_000 / (3 * ONE_IN));
        assert!(!budget.spend_early(1));
        while !budget.spend_early(1) {
            budget.earn();
        }
        let left = (0..).take_while(|_| budget.spend(1)).count() as u32;
        assert_eq!(left, SAVED_MAX / 2);
    }
}
