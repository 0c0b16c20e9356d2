//! Arrays that grew: every history addresses one to one, moves the least, and copies in few accesses.

use proptest::prelude::*;
use sinew_layout::fastscale::FastScale;
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::History;
use sinew_layout::round_robin::{RoundRobin, SemiRoundRobin};
use sinew_layout::stats::coefficient_of_variation;
use sinew_layout::{Home, Level};

fn history(base: u32, added: &[u32]) -> History {
    added.iter().fold(History::new(base).unwrap(), |history, &n| history.with(n).unwrap())
}

fn array(base: u32, added: &[u32], rows: u32) -> FastScale {
    FastScale::new(history(base, added), rows).unwrap()
}

/// Tables 1 to 3 of the paper, line by line.
mod printed {
    pub(super) fn addressing(h: &[u64], s: u64, x: u64) -> (u64, u64) {
        let t = h.len() - 1;
        if t == 0 {
            return (x % h[0], x / h[0]);
        }
        let (m, n, theta) = (h[t - 1], h[t] - h[t - 1], h[t - 1] - h[0]);
        if x < m * s {
            let (d0, b0) = addressing(&h[..t], s, x);
            let b1 = (b0 as i64 - theta as i64).rem_euclid((m + n) as i64) as u64;
            let d = if d0 <= b1 && b1 < d0 + n { moving(d0, b1, m, n) } else { d0 };
            return (d, b0);
        }
        let y = x - m * s;
        let (b, row) = (y / n, y % n);
        let e = (b as i64 - theta as i64).rem_euclid((m + n) as i64) as u64;
        let d = match e < n {
            true if row < e + 1 => row,
            true => row + m,
            false => row + e - n + 1,
        };
        (d, b)
    }

    fn moving(d0: u64, b1: u64, m: u64, n: u64) -> u64 {
        if m > n {
            match b1 {
                _ if b1 < n => d0 + m,
                _ if b1 + 1 >= m => d0 + n,
                _ => m + n - 1 - (b1 - d0),
            }
        } else {
            match b1 {
                _ if b1 < m => d0 + m,
                _ if b1 + 1 >= n => d0 + n,
                _ => d0 + b1 + 1,
            }
        }
    }
}

fn any_growth() -> impl Strategy<Value = (u32, Vec<u32>, u32)> {
    (1u32..7, proptest::collection::vec(1u32..6, 0..6), 1u32..90)
}

proptest! {
    #[test]
    fn fastscale_is_as_printed((base, added, rows) in any_growth()) {
        let fast = array(base, &added, rows);
        let mut h = vec![u64::from(base)];
        h.extend(added.iter().scan(u64::from(base), |m, &n| { *m += u64::from(n); Some(*m) }));
        for x in 0..fast.blocks() {
            let home = fast.home(x);
            prop_assert_eq!((u64::from(home.member), home.chunk), printed::addressing(&h, u64::from(rows), x));
            prop_assert_eq!(fast.block_at(home), x);
        }
    }

    #[test]
    fn the_cursor_agrees((base, added, rows) in any_growth(), begin in 0.0f64..1.0) {
        let fast = array(base, &added, rows);
        let first = (begin * fast.blocks() as f64) as u64;
        let homes: Vec<Home> = fast.cursor(first).collect();
        let one_by_one: Vec<Home> = (first..fast.blocks()).map(|x| fast.home(x)).collect();
        prop_assert_eq!(homes, one_by_one);
    }

    #[test]
    fn what_moves_is_what_the_regions_say((base, added, rows) in any_growth()) {
        prop_assume!(!added.is_empty());
        let (before, after) = (array(base, &added[..added.len() - 1], rows), array(base, &added, rows));
        let mut moved = 0;
        for region in after.regions() {
            let (mut read, mut written) = (Vec::new(), Vec::new());
            for run in region.reads() {
                read.extend((0..run.len).map(|i| (run.first.member, run.first.chunk + u64::from(i))));
            }
            for run in region.writes() {
                written.extend((0..run.len).map(|i| (run.first.member, run.first.chunk + u64::from(i))));
            }
            let mut to = Vec::new();
            for (i, way) in region.moves().enumerate() {
                prop_assert_eq!((way.from.member, way.from.chunk), read[i]);
                prop_assert_eq!(before.block_at(way.from), after.block_at(way.to));
                prop_assert!(way.to.member >= before.history().width() && region.rows().contains(&way.to.chunk));
                to.push((way.to.member, way.to.chunk));
                moved += 1;
            }
            to.sort_unstable();
            prop_assert_eq!(to, written);
        }
        let differ = (0..before.blocks()).filter(|&x| before.home(x) != after.home(x)).count();
        prop_assert_eq!(moved, differ);
    }

    #[test]
    fn whole_regions_move_the_least_and_leave_all_even(base in 1u32..8, added in 1u32..8, regions in 1u32..9) {
        let rows = regions * (base + added);
        let (before, after) = (array(base, &[], rows), array(base, &[added], rows));
        let grown = |added: &[u32]| Grown::new(Level::Raid0, history(base, added), Method::FastScale, rows).unwrap();
        let moved = grown(&[added]).moved_from(&grown(&[]));
        prop_assert!((moved - f64::from(added) / f64::from(base + added)).abs() < 1e-12);
        let old_data = grown(&[added]).data_counts(before.blocks()).data;
        prop_assert_eq!(coefficient_of_variation(&old_data), 0.0);
        for region in after.regions() {
            prop_assert_eq!(region.reads().count() as u32, base);
            prop_assert_eq!(region.writes().count() as u32, added);
        }
    }
}

#[test]
fn the_papers_first_example() {
    // Figure 2, 3 disks to 5: blocks 0, 3 and 7 go to disk 3, and 4, 8 and 11 to disk 4.
    let fast = array(3, &[2], 5);
    let on = |disk: u32| -> Vec<u64> {
        (0..5).map(|chunk| fast.block_at(Home { member: disk, chunk })).filter(|&x| x < 15).collect()
    };
    assert_eq!((on(3), on(4)), (vec![0, 3, 7], vec![4, 8, 11]));
    // "The first two new blocks in each region are placed on Blocks 0 of Disk 0 and 4."
    assert_eq!(fast.home(15), Home { member: 0, chunk: 0 });
    assert_eq!(fast.home(16), Home { member: 4, chunk: 0 });
}

#[test]
fn the_papers_second_example() {
    // Figure 3, 2 disks to 5: each new disk gets two blocks.
    let fast = array(2, &[3], 5);
    for disk in 2..5 {
        let old = (0..5).filter(|&chunk| fast.block_at(Home { member: disk, chunk }) < 10);
        assert_eq!(old.count(), 2);
    }
}

#[test]
fn mirrors_grow_by_whole_sets() {
    let mirrored = array(2, &[1, 2], 40).mirrored(2);
    for x in 0..mirrored.sets().blocks() {
        let homes: Vec<Home> = mirrored.homes(x).collect();
        assert_ne!(homes[0].member, homes[1].member);
        for (copy, &home) in homes.iter().enumerate() {
            assert_eq!(mirrored.block_at(home), (x, copy as u32));
        }
    }
}

#[test]
fn round_robin_is_its_own_inverse_and_semi_round_robin_moves_only_to_new_disks() {
    let (before, after) = (SemiRoundRobin::new(history(4, &[])), SemiRoundRobin::new(history(4, &[1])));
    for x in 0..2000 {
        assert_eq!(RoundRobin::new(5).block_at(RoundRobin::new(5).home(x)), x);
        assert!(before.disk(x) == after.disk(x) || after.disk(x) == 4);
    }
    assert_eq!((0..2000).filter(|&x| before.disk(x) != after.disk(x)).count(), 400);
}
