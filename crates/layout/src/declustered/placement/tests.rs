//! Balance of the templates for every number of members, and pools filled to the end.

use proptest::prelude::*;

use super::*;

fn is_prime_power(n: usize) -> bool {
    let prime = (2..=n).find(|divisor| n.is_multiple_of(*divisor)).expect("n itself");
    prime.pow(n.ilog(prime)) == n
}

/// Calls `check` with the order of every stripe.
fn orders(placement: &Placement, stripes: std::ops::Range<u64>, mut check: impl FnMut(&[u8])) {
    let mut order = Vec::new();
    for stripe_no in stripes {
        placement.order(stripe_no, &mut order);
        check(&order);
    }
}

/// Every order is a permutation, and in every group of n stripes every member is once in every column.
#[test]
fn members_are_equally_often_in_every_column() {
    for n in 2..=255usize {
        let placement = Placement::new(n, n as u64);
        assert_eq!(placement.period(), if is_prime_power(n) { n * (n - 1) } else { n } as u64);
        for group in 0..(placement.period() / n as u64).max(3) {
            let from = group * n as u64;
            let mut columns = vec![[false; 256]; n];
            orders(&placement, from..from + n as u64, |order| {
                assert_eq!(order.len(), n);
                let mut seen = [false; 256];
                for (column, &member) in order.iter().enumerate() {
                    assert!(usize::from(member) < n);
                    assert!(!std::mem::replace(&mut seen[usize::from(member)], true));
                    assert!(!std::mem::replace(&mut columns[column][usize::from(member)], true));
                }
            });
        }
    }
}

/// Over a period that starts anywhere, every ordered pair of members is exactly once in any two columns: so all
/// templates are distinct, and rebuilding one member reads from all others equally.
#[test]
fn pairs_are_equally_often_in_any_two_columns() {
    for n in (2..=255usize).filter(|&n| is_prime_power(n)) {
        let placement = Placement::new(n, 7);
        let columns: Vec<(usize, usize)> = if n <= 16 {
            (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect()
        } else {
            vec![(0, 1), (1, 2), (0, n - 1), (n / 3, n / 2), (n - 2, n - 1)]
        };
        let mut seen = vec![vec![false; n * n]; columns.len()];
        orders(&placement, 5..5 + placement.period(), |order| {
            for (seen, &(a, b)) in seen.iter_mut().zip(&columns) {
                let pair = usize::from(order[a]) * n + usize::from(order[b]);
                assert!(!std::mem::replace(&mut seen[pair], true), "n {n}, columns {a} and {b}");
            }
        });
        // As many pairs as stripes and none twice: it was each of them.
        assert!(seen.iter().all(|seen| seen.iter().filter(|&&seen| seen).count() == n * (n - 1)));
    }
}

#[test]
fn orders_depend_on_seed_and_stripe_alone() {
    let (mut a, mut b) = (Vec::new(), vec![1, 2, 3]);
    for n in [6, 7, 10, 16, 255] {
        for stripe_no in [0, 1, 1000, u64::MAX - 1, u64::MAX] {
            Placement::new(n, 3).order(stripe_no, &mut a);
            Placement::new(n, 3).order(stripe_no, &mut b);
            assert_eq!(a, b);
        }
        let differs = (0..20).any(|stripe_no| {
            Placement::new(n, 3).order(stripe_no, &mut a);
            Placement::new(n, 4).order(stripe_no, &mut b);
            a != b
        });
        assert!(differs, "the seed has an effect for {n} members");
    }
}

/// Permutations of six members come out equally often.
#[test]
fn shuffles_are_fair() {
    let mut seen = [[0u32; 6]; 6];
    let mut order = Vec::new();
    for group in 0..6000 {
        Placement::new(6, 1).order(group * 6, &mut order);
        for (column, &member) in order.iter().enumerate() {
            seen[column][usize::from(member)] += 1;
        }
    }
    assert!(seen.as_flattened().iter().all(|count| (850..1150).contains(count)), "{seen:?}");
}

#[test]
fn placeable_stripes_by_hand() {
    assert_eq!(stripes_placeable(&[10, 10, 10, 10], 3), 13);
    assert_eq!(stripes_placeable(&[10, 10, 10, 10], 5), 0);
    assert_eq!(stripes_placeable(&[100, 10, 10], 2), 20);
    assert_eq!(stripes_placeable(&[100, 10, 10], 3), 10);
    assert_eq!(stripes_placeable(&[100, 100, 0, 0], 2), 100);
    assert_eq!(stripes_placeable(&[], 2), 0);
    assert_eq!(stripes_placeable(&[7], 1), 7);
}

#[test]
fn too_few_members_with_room() {
    let mut out = vec![9];
    assert!(!choose(&[2, 0, 1], |member| u64::from(member != 0), 1, 3, &mut out));
    assert!(out.is_empty());
    assert!(choose(&[2, 0, 1], |member| u64::from(member != 0), 1, 2, &mut out));
    assert_eq!(out, [2, 1]);
}

/// A pool being filled.
struct Pool {
    placement: Placement,
    free: Vec<u64>,
    placed: u64,
}

impl Pool {
    fn new(free: &[u64], seed: u64) -> Pool {
        Pool { placement: Placement::new(free.len(), seed), free: free.to_vec(), placed: 0 }
    }

    /// Places one stripe; false when there is no room.
    fn place(&mut self, count: usize) -> bool {
        let (mut order, mut chosen) = (Vec::new(), Vec::new());
        self.placement.order(self.placed, &mut order);
        if !choose(&order, |member| self.free[usize::from(member)], self.placed, count, &mut chosen) {
            return false;
        }
        let positions: Vec<_> =
            chosen.iter().map(|member| order.iter().position(|other| other == member)).collect();
        assert!(positions.is_sorted_by(|a, b| a < b), "distinct members, in template order");
        assert_eq!(chosen.len(), count);
        for member in chosen {
            self.free[usize::from(member)] -= 1;
        }
        self.placed += 1;
        true
    }

    fn spread(&self) -> u64 {
        self.free.iter().max().expect("members") - self.free.iter().min().expect("members")
    }
}

#[test]
fn equal_members_take_the_first_of_the_order() {
    let mut out = Vec::new();
    for n in 3..=40u8 {
        let order: Vec<u8> = (0..n).map(|i| (i + n / 3) % n).rev().collect();
        for count in 1..=usize::from(n) {
            for draw in 0..20 {
                assert!(choose(&order, |_| 1000, draw, count, &mut out));
                assert_eq!(out, order[..count]);
            }
        }
    }
}

/// Equal members never differ by more than the two chunks beyond what the templates themselves make of an unfinished
/// group, in which a member may have been in all columns or in none.
#[test]
fn equal_members_stay_equal() {
    for n in [3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 16, 20, 24, 25, 32, 60, 100] {
        for count in [2, 3, 6, 10, 20].into_iter().filter(|&count| count <= n) {
            let mut pool = Pool::new(&vec![300; n], 5);
            let stripes = stripes_placeable(&pool.free, count);
            while pool.place(count) {
                assert!(pool.spread() <= 2 + count as u64, "{n} members, {count}: {:?}", pool.free);
            }
            assert!(pool.placed >= stripes, "{n} members, {count}: {} of {stripes}", pool.placed);
        }
    }
}

/// Members of uneven size are full at the same time: half way, each has given half of what it
/// will give, up to three standard deviations of a fair choice.
#[test]
fn uneven_members_fill_evenly() {
    let sizes = [
        vec![1000, 2000, 2000, 3000, 4000, 4000, 4000],
        vec![500, 500, 8000, 8000, 8000, 8000, 8000, 8000],
        (1..=24).map(|member| member * 400).collect(),
        (1..=10).map(|member| member * 400).collect(),
    ];
    for sizes in sizes {
        for count in 2..=6 {
            let mut pool = Pool::new(&sizes, 3);
            let stripes = stripes_placeable(&sizes, count);
            while pool.placed < stripes / 2 {
                assert!(pool.place(count));
            }
            for (&size, &free) in sizes.iter().zip(&pool.free) {
                let (used, half) = ((size - free) as f64, size.min(stripes) as f64 / 2.0);
                assert!(
                    (used - half).abs() <= 3.0 * half.sqrt(),
                    "count {count}: {used} of {size}, {:?}",
                    pool.free
                );
            }
        }
    }
}

proptest! {
    /// The definition, by trying.
    #[test]
    fn placeable_stripes_are_the_most(free in prop::collection::vec(0..200u64, 0..12), count in 1..6usize) {
        let fits = |stripes: u64| free.iter().map(|&free| free.min(stripes)).sum::<u64>() >= stripes * count as u64;
        let stripes = stripes_placeable(&free, count);
        prop_assert!(fits(stripes));
        prop_assert!(!fits(stripes + 1));
    }

    /// No stripe ever costs more than one of those that could be placed, so all of them are.
    #[test]
    fn no_room_is_stranded(
        free in prop::collection::vec(prop_oneof![200..2000u64, 0..50u64], 3..20),
        count in 1..8usize,
        seed: u64,
    ) {
        let mut pool = Pool::new(&free, seed);
        let ideal = stripes_placeable(&free, count);
        let mut left = ideal;
        while pool.place(count) {
            let now = stripes_placeable(&pool.free, count);
            prop_assert!(now + 1 >= left);
            left = now;
        }
        prop_assert_eq!(left, 0);
        prop_assert!(pool.placed >= ideal);
    }

    /// Stripes of mixed widths: no chunk can be left that a stripe of the least width could still use, and the room
    /// taken is nearly all there is for the widest.
    #[test]
    fn mixed_widths_use_the_room(
        free in prop::collection::vec(200..2000u64, 6..20),
        counts in prop::collection::vec(2..6usize, 1..40),
        seed: u64,
    ) {
        let widest = *counts.iter().max().expect("some");
        let mut pool = Pool::new(&free, seed);
        let ideal = stripes_placeable(&free, widest) * widest as u64;
        for &count in counts.iter().cycle() {
            if !pool.place(count) {
                break;
            }
        }
        let used = free.iter().sum::<u64>() - pool.free.iter().sum::<u64>();
        prop_assert!(used * 100 >= ideal * 97, "{used} of {ideal}");
    }
}
