//! Static layouts: the inverse, distinct members, even parity; and that md puts every chunk where we do.

use proptest::prelude::*;
use sinew_layout::stats::{Counts, coefficient_of_variation};
use sinew_layout::{Geometry, GeometryError, Home, Level, ParityWeights, Role, Rotation};

const CHUNK: u32 = 65536;

fn geometry(level: Level, members: u32, rows: u64) -> Geometry {
    Geometry::new(level, members, CHUNK, rows * u64::from(CHUNK)).unwrap()
}

/// Levels 5 and 6 with weights for 3 to 8 members, of which at least two are as large as any.
fn weighted_geometry() -> impl Strategy<Value = Geometry> {
    (prop::collection::vec(0u8..4, 2..7), 3u8..8, any::<bool>(), 1u64..60).prop_map(
        |(mut weights, most, two, rows)| {
            weights.splice(1..1, [most; 2]);
            let rotation = Rotation::Weighted(ParityWeights::new(&weights).unwrap());
            let level = if two { Level::Raid6(rotation) } else { Level::Raid5(rotation) };
            geometry(level, weights.len() as u32, rows)
        },
    )
}

fn any_geometry() -> impl Strategy<Value = Geometry> {
    prop_oneof![rotated_geometry(), weighted_geometry()]
}

fn rotated_geometry() -> impl Strategy<Value = Geometry> {
    let rotation = (0usize..4).prop_map(|i| Rotation::ALL[i]);
    (0u32..7, 1u32..9, 2u32..5, rotation, 1u64..60).prop_map(|(kind, n, groups, rotation, rows)| {
        let (level, members) = match kind {
            0 => (Level::Raid0, n),
            1 => (Level::Raid1, n),
            2 => (Level::Raid10 { copies: groups }, n + groups),
            3 => (Level::Raid5(rotation), n + 2),
            4 => (Level::Raid6(rotation), n + 3),
            5 => (Level::Raid50 { groups, rotation }, groups * (n + 2)),
            _ => (Level::Raid60 { groups, rotation }, groups * (n + 3)),
        };
        geometry(level, members, rows)
    })
}

fn all_homes(g: Geometry) -> impl Iterator<Item = Home> {
    (0..g.members()).flat_map(move |member| (0..g.member_chunks()).map(move |chunk| Home { member, chunk }))
}

proptest! {
    #[test]
    fn homes_and_roles_are_inverse(g in any_geometry()) {
        let mut used = 0;
        for logical in 0..g.data_chunks() {
            for (copy, home) in g.homes(logical).enumerate() {
                prop_assert_eq!(g.role(home), Role::Data { logical, copy: copy as u32 });
                used += 1;
            }
        }
        for stripe in 0..g.stripes() {
            for (i, home) in g.parity(stripe).enumerate() {
                prop_assert_eq!(g.role(home), if i == 0 { Role::P { stripe } } else { Role::Q { stripe } });
                used += 1;
            }
        }
        let unused = all_homes(g).filter(|&home| g.role(home) == Role::Unused).count();
        prop_assert_eq!(used + unused as u64, u64::from(g.members()) * g.member_chunks());
        prop_assert!(unused < g.copies() as usize);
    }

    #[test]
    fn no_two_chunks_of_a_stripe_share_a_member(g in any_geometry()) {
        let mut members = vec![Vec::new(); g.stripes() as usize];
        for logical in 0..g.data_chunks() {
            members[g.stripe_of(logical) as usize].extend(g.homes(logical).map(|home| home.member));
        }
        for (stripe, members) in members.iter_mut().enumerate() {
            members.extend(g.parity(stripe as u64).map(|home| home.member));
            let len = members.len();
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), len, "stripe {}", stripe);
        }
    }

    #[test]
    fn parity_is_even_without_weights(g in rotated_geometry()) {
        let count = |g: &Geometry| Counts::of(g.members(), g.member_chunks(), |home| g.role(home)).parity;
        let parity = count(&g);
        let (min, max) = (parity.iter().min().unwrap(), parity.iter().max().unwrap());
        prop_assert!(max - min <= u64::from(g.parities()));
        let period = geometry(g.level(), g.members(), u64::from(g.members()));
        prop_assert_eq!(coefficient_of_variation(&count(&period)), 0.0);
    }
}

#[test]
fn columns_of_a_stripe_are_counted_from_behind_q() {
    let g = geometry(Level::Raid6(Rotation::LeftAsymmetric), 5, 20);
    // P and Q are on members 4 and 0, 3 and 4, 2 and 3; then data lies on members 0, 1 and 4.
    let columns: Vec<u32> = (0..9).map(|logical| g.column_of(logical)).collect();
    assert_eq!(columns, [0, 1, 2, 0, 1, 2, 1, 2, 0]);
    for rotation in Rotation::ALL {
        for level in [Level::Raid5(rotation), Level::Raid6(rotation), Level::Raid60 { groups: 2, rotation }] {
            let g = geometry(level, 10, 20);
            for logical in 0..g.data_chunks() {
                let (stripe, column) = (g.stripe_of(logical), g.column_of(logical));
                assert_eq!(g.column_home(stripe, column), g.home(logical), "{level:?}");
                if let Some(q) = g.parity(stripe).nth(1) {
                    let width = if matches!(level, Level::Raid6(_)) { 10 } else { 5 };
                    let behind = (g.home(logical).member + width - q.member) % width;
                    assert_eq!(column + 1, behind, "{level:?}");
                }
            }
        }
    }
}

fn level(name: &str, layout: u32, members: u32) -> Level {
    match name {
        "raid0" => Level::Raid0,
        "raid1" => Level::Raid1,
        "raid10" => Level::Raid10 { copies: layout & 0xff },
        "raid5" => Level::Raid5(Rotation::ALL[layout as usize]),
        "raid6" => Level::Raid6(Rotation::ALL[layout as usize]),
        _ => panic!("{name} with {members} members"),
    }
}

fn cell(g: &Geometry, home: Home) -> String {
    match g.role(home) {
        Role::Data { logical, .. } => logical.to_string(),
        Role::P { .. } => "P".to_owned(),
        Role::Q { .. } => "Q".to_owned(),
        Role::Unused => "-".to_owned(),
    }
}

#[test]
fn md_puts_every_chunk_where_we_do() {
    let (mut array, mut row, mut checked) = (None, 0, 0);
    for line in include_str!("fixtures/layouts.txt").lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        if words[0].starts_with("raid") {
            let (layout, members) = (words[1].parse().unwrap(), words[2].parse().unwrap());
            (array, row) = (Some(geometry(level(words[0], layout, members), members, 48)), 0);
            continue;
        }
        let g = array.unwrap();
        let ours: Vec<String> =
            (0..g.members()).map(|member| cell(&g, Home { member, chunk: row })).collect();
        assert_eq!(ours.join(" "), line, "{:?}, row {row}", g.level());
        (row, checked) = (row + 1, checked + 1);
    }
    assert_eq!(checked, 13 * 7);
}

#[test]
fn what_cannot_be_is_refused() {
    let bytes = 1 << 20;
    let make = |level, members| Geometry::new(level, members, CHUNK, bytes).unwrap_err();
    assert!(matches!(make(Level::Raid0, 0), GeometryError::Members { min: 1, .. }));
    assert!(matches!(make(Level::Raid0, 256), GeometryError::Members { .. }));
    assert!(matches!(make(Level::Raid5(Rotation::LeftSymmetric), 1), GeometryError::Members { min: 2, .. }));
    assert!(matches!(make(Level::Raid6(Rotation::LeftSymmetric), 3), GeometryError::Members { min: 4, .. }));
    assert!(matches!(make(Level::Raid10 { copies: 1 }, 4), GeometryError::Copies { .. }));
    assert!(matches!(make(Level::Raid10 { copies: 5 }, 4), GeometryError::Copies { .. }));
    let rotation = Rotation::LeftSymmetric;
    assert!(matches!(make(Level::Raid50 { groups: 1, rotation }, 4), GeometryError::Groups { .. }));
    assert!(matches!(make(Level::Raid50 { groups: 3, rotation }, 8), GeometryError::Groups { .. }));
    assert!(matches!(make(Level::Raid60 { groups: 2, rotation }, 6), GeometryError::Members { min: 8, .. }));
    assert_eq!(Geometry::new(Level::Raid0, 2, 1000, bytes), Err(GeometryError::Chunk(1000)));
    assert!(matches!(Geometry::new(Level::Raid0, 2, CHUNK, 100), Err(GeometryError::Empty { .. })));
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let weighted = |weights: &[u8]| Rotation::Weighted(ParityWeights::new(weights).unwrap());
    let make = |level, members| Geometry::new(level, members, CHUNK, 1 << 30).unwrap_err().to_string();
    assert!(make(Level::Raid5(weighted(&[2, 1, 1])), 4).contains("3 parity weights for 4 members"));
    assert!(
        make(Level::Raid6(weighted(&[4, 1, 1, 1])), 4).contains("half of the sum; the weights are 4,1,1,1")
    );
    let grouped = Level::Raid50 { groups: 2, rotation: weighted(&[1; 6]) };
    assert!(make(grouped, 6).contains("levels 5 and 6 have"));
}

#[test]
fn weights_share_the_parity_of_a_turn() {
    let level = Level::Raid5(Rotation::Weighted(ParityWeights::new(&[60, 10, 10, 10, 10]).unwrap()));
    let g = geometry(level, 5, 100);
    assert_eq!(g.turn(), 10);
    let mut held = [0; 5];
    (0..g.stripes()).flat_map(|stripe| g.parity(stripe)).for_each(|home| held[home.member as usize] += 1);
    assert_eq!(held, [60, 10, 10, 10, 10]);
}
