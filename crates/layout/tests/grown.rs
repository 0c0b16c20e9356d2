//! Every level and way of growing behind one face: places and roles are inverse, and what is counted is what is there.

use proptest::prelude::*;
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::History;
use sinew_layout::{Home, Level, Role, Rotation};

const LS: Rotation = Rotation::LeftSymmetric;

fn history(base: u32, added: &[u32]) -> History {
    added.iter().fold(History::new(base).unwrap(), |history, &n| history.with(n).unwrap())
}

/// A level, a way that it grows in, and what members come in multiples of.
fn any_way() -> impl Strategy<Value = (Level, Method, u32)> {
    let rotation = proptest::sample::select(Rotation::ALL.to_vec());
    let parity = (rotation, any::<bool>(), any::<bool>()).prop_map(|(rotation, six, spread)| {
        let level = if six { Level::Raid6(rotation) } else { Level::Raid5(rotation) };
        (level, if spread { Method::Spread } else { Method::Restripe }, 1)
    });
    let ways = [Method::FastScale, Method::RoundRobin, Method::SemiRoundRobin];
    let striped = (1u32..4, proptest::sample::select(ways.to_vec())).prop_map(|(copies, method)| {
        let level = if copies == 1 { Level::Raid0 } else { Level::Raid10 { copies } };
        (level, method, copies)
    });
    prop_oneof![parity, striped]
}

proptest! {
    #[test]
    fn all_ways_agree_with_themselves(
        (level, method, unit) in any_way(),
        base in 4u32..7,
        added in proptest::collection::vec(1u32..4, 0..4),
        rows in 1u32..40,
    ) {
        let added: Vec<u32> = added.iter().map(|n| n * unit).collect();
        let array = Grown::new(level, history(base * unit, &added), method, rows).unwrap();
        let places: Vec<_> = array.places(u64::MAX).collect();
        prop_assert_eq!(places.len() as u64, array.blocks() * u64::from(array.copies()));
        let mut at = places.iter();
        for block in 0..array.blocks() {
            for copy in 0..array.copies() {
                let place = array.place(block, copy);
                prop_assert_eq!(Some(&place), at.next());
                if let Some(chunk) = place.chunk {
                    let role = array.role(Home { member: place.member, chunk });
                    prop_assert_eq!(role, Some(Role::Data { logical: block, copy }));
                }
            }
        }
        let counts = array.counts();
        prop_assert_eq!(&counts.data, &array.data_counts(u64::MAX).data);
        prop_assert_eq!(counts.parity.iter().sum::<u64>(), u64::from(rows * array.parities()));
        if let Some((_, before)) = added.split_last() {
            let before = Grown::new(level, history(base * unit, before), method, rows).unwrap();
            let copies = (0..before.blocks()).flat_map(|x| (0..before.copies()).map(move |copy| (x, copy)));
            let moved = copies.filter(|&(x, copy)| before.place(x, copy) != array.place(x, copy)).count();
            let all = before.blocks() * u64::from(before.copies());
            prop_assert!((array.moved_from(&before) - moved as f64 / all as f64).abs() < 1e-12);
        }
    }
}

#[test]
fn a_grown_array_that_did_not_grow_is_a_new_one() {
    let ways = [
        (Level::Raid0, Method::FastScale),
        (Level::Raid10 { copies: 2 }, Method::FastScale),
        (Level::Raid10 { copies: 2 }, Method::RoundRobin),
        (Level::Raid6(LS), Method::Spread),
        (Level::Raid5(Rotation::RightAsymmetric), Method::Restripe),
    ];
    for (level, method) in ways {
        let grown = Grown::new(level, history(6, &[]), method, 20).unwrap();
        let fresh = Grown::fresh(level, 6, 20).unwrap();
        assert!(grown.places(u64::MAX).eq(fresh.places(u64::MAX)), "{level} by {method}");
        assert_eq!((grown.counts(), grown.moved_from(&fresh)), (fresh.counts(), 0.0));
        assert_eq!((grown.least_moved(), grown.parity_written()), (None, None));
    }
}

#[test]
fn parity_is_written_as_the_formulas_say() {
    // 4 members to 5, one parity: regions of 4 rows, of which 3 are kept; restripe fills 3 of 4 rows anew.
    for (method, moved) in [(Method::Spread, 0.25), (Method::Restripe, 1.0)] {
        let array = |added: &[u32]| Grown::new(Level::Raid5(LS), history(4, added), method, 4000).unwrap();
        let (before, after) = (array(&[]), array(&[1]));
        assert_eq!((after.parity_written(), after.least_moved()), (Some(0.75), Some(0.2)));
        assert!((after.moved_from(&before) - moved).abs() < 0.001, "{}", after.moved_from(&before));
    }
}

#[test]
fn what_does_not_grow_so_is_refused() {
    let refused = |level, base, added: &[u32], method| {
        Grown::new(level, history(base, added), method, 8).unwrap_err().to_string()
    };
    let parity = refused(Level::Raid5(LS), 4, &[1], Method::FastScale);
    assert!(parity.starts_with("RAID 5, left-symmetric does not grow by fastscale"), "{parity}");
    assert!(parity.contains("restripe or spread"), "{parity}");
    for level in [Level::Raid1, Level::Raid50 { groups: 2, rotation: LS }] {
        assert!(refused(level, 8, &[1], Method::Restripe).contains("only made new"));
    }
    let sets = refused(Level::Raid10 { copies: 2 }, 4, &[1], Method::FastScale);
    assert!(sets.contains("1 members are not whole sets of 2 copies"), "{sets}");
    assert!(Grown::new(Level::Raid10 { copies: 2 }, history(4, &[1]), Method::RoundRobin, 8).is_ok());
    assert!(refused(Level::Raid6(LS), 3, &[1], Method::Spread).contains("needs 4 to 255 members"));
    assert!(Grown::fresh(Level::Raid0, 4, 0).unwrap_err().to_string().contains("0 rows"));
}
