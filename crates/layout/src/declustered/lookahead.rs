//! Lookahead: the choice of the next stripe number, such that the stripe has the least to wait for.

use crate::declustered::placement::Placement;

/// Stripe numbers among which the next one is chosen. The balance that the placement promises may lack this many stripes.
const AHEAD: u64 = 12;

/// The numbers of the next stripes, in order.
pub struct Lookahead {
    numbers: Vec<u64>,
    next: u64,
}

impl Default for Lookahead {
    fn default() -> Lookahead {
        Lookahead { numbers: (0..AHEAD).collect(), next: AHEAD }
    }
}

impl Lookahead {
    /// The number of the stripe whose most burdened member, of the first `count` with room, is the least burdened; of equal
    /// ones, the first. Leaves the stripe's order in `order`.
    pub fn choose(
        &self,
        placement: &Placement,
        count: usize,
        has_room: impl Fn(u8) -> bool,
        burden: impl Fn(u8) -> u32,
        order: &mut Vec<u8>,
    ) -> u64 {
        let (mut least, mut chosen) = (u32::MAX, self.numbers[0]);
        for &stripe_no in &self.numbers {
            placement.order(stripe_no, order);
            let members = order.iter().copied().filter(|&member| has_room(member));
            let most = members.take(count).map(&burden).max().unwrap_or(0);
            if most < least {
                (least, chosen) = (most, stripe_no);
            }
            if most == 0 {
                return chosen;
            }
        }
        placement.order(chosen, order);
        chosen
    }

    /// Removes a number that a stripe has taken.
    pub fn take(&mut self, stripe_no: u64) {
        self.numbers.retain(|&number| number != stripe_no);
        self.numbers.push(self.next);
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places `stripes` stripes of four members out of nine. Returns in how many of them each member is.
    fn place(stripes: usize, burden: impl Fn(usize, u8) -> u32) -> [u64; 9] {
        let (placement, mut lookahead, mut order) = (Placement::new(9, 3), Lookahead::default(), Vec::new());
        let mut uses = [0; 9];
        for stripe in 0..stripes {
            let chosen = lookahead.choose(&placement, 4, |_| true, |m| burden(stripe, m), &mut order);
            lookahead.take(chosen);
            order[..4].iter().for_each(|&member| uses[usize::from(member)] += 1);
        }
        uses
    }

    #[test]
    fn busy_members_are_left_out_for_a_while_and_none_for_long() {
        assert_eq!(place(72, |_, _| 1), [32; 9], "in order when all are equally burdened");
        let uses = place(5, |_, member| u32::from(member == 4));
        assert_eq!((uses[4], uses.iter().sum()), (0, 20u64));
        // One member is always busy: it lacks the stripes of the lookahead, and no more.
        let uses = place(900, |_, member| u32::from(member == 4));
        assert!((400 - AHEAD..400).contains(&uses[4]), "{uses:?}");
        let uses = place(900, |stripe, member| (stripe as u32 * 31 + u32::from(member) * 17) % 7);
        assert!(uses.iter().all(|&count| count.abs_diff(400) <= AHEAD), "{uses:?}");
    }
}
