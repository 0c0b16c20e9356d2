//! Growth of parity arrays: every history addresses one to one, and parity is right after every move.

use proptest::prelude::*;
use sinew_layout::history::History;
use sinew_layout::restripe::Restripe;
use sinew_layout::rows::{Cell, Rows};
use sinew_layout::spread::{Share, Spread};
use sinew_layout::{Geometry, Home, Level, Role, Rotation};

fn spread(base: u32, added: &[u32], rows: u32, parities: u32) -> Spread {
    let history = added.iter().fold(History::new(base).unwrap(), |history, &n| history.with(n).unwrap());
    Spread::new(&history, rows, Rotation::LeftSymmetric, parities).unwrap()
}

fn any_growth() -> impl Strategy<Value = (u32, Vec<u32>, u32, u32)> {
    (1u32..3, 0u32..5, proptest::collection::vec(1u32..5, 0..5), 1u32..150)
        .prop_map(|(parities, more, added, rows)| (2 * parities + more, added, rows, parities))
}

proptest! {
    #[test]
    fn homes_and_roles_are_inverse((base, added, rows, parities) in any_growth()) {
        let array = spread(base, &added, rows, parities);
        for logical in 0..array.data_chunks() {
            let home = array.home(logical);
            prop_assert_eq!(home.chunk, array.stripe_column(logical).0);
            prop_assert_eq!(array.role(home), Role::Data { logical, copy: 0 });
        }
        let (mut data, mut parity) = (0, 0);
        for member in 0..array.members() {
            for chunk in 0..u64::from(rows) {
                match array.role(Home { member, chunk }) {
                    Role::Data { logical, .. } => {
                        prop_assert_eq!(array.home(logical), Home { member, chunk });
                        data += 1;
                    }
                    Role::P { stripe } => {
                        prop_assert_eq!(array.parity(stripe).next(), Some(Home { member, chunk }));
                        parity += 1;
                    }
                    Role::Q { stripe } => {
                        prop_assert_eq!(array.parity(stripe).nth(1), Some(Home { member, chunk }));
                        parity += 1;
                    }
                    Role::Unused => {}
                }
            }
        }
        prop_assert_eq!(data, array.data_chunks());
        prop_assert_eq!(parity, rows * parities);
    }

    /// Copies the content of an array as the regions say, updates parity with what each row gained, and compares.
    #[test]
    fn the_regions_do_what_the_next_history_says((base, added, rows, parities) in any_growth()) {
        prop_assume!(!added.is_empty());
        let before = spread(base, &added[..added.len() - 1], rows, parities);
        let after = spread(base, &added, rows, parities);
        let mut content = vec![vec![0u64; rows as usize]; after.members() as usize];
        for x in 0..before.data_chunks() {
            put(&mut content, before.home(x), value(x));
        }
        put_parity(&before, &mut content, before.data_chunks());
        for region in after.regions() {
            let moved: Vec<u64> = region.moves.iter().map(|way| get(&content, way.from)).collect();
            for (i, way) in region.parity.iter().enumerate() {
                let gained = region.moves.iter().zip(&moved).filter(|(m, _)| m.to.chunk == way.to.chunk);
                let is_q = parities == 2 && i % 2 == 1;
                let sum = gained.fold(get(&content, way.from), |sum, (m, &value)| {
                    let column = column_of(&after, m.to);
                    sum ^ if is_q { value.rotate_left(column) } else { value }
                });
                put(&mut content, way.to, sum);
            }
            for (way, value) in region.moves.iter().zip(moved) {
                put(&mut content, way.to, value);
                put(&mut content, way.from, 0);
            }
            // What was taken apart is zeroed, parity and all.
            for way in &region.moves {
                before.parity(way.from.chunk).for_each(|home| put(&mut content, home, 0));
            }
        }
        let mut expected = vec![vec![0u64; rows as usize]; after.members() as usize];
        for x in 0..before.data_chunks() {
            put(&mut expected, after.home(x), value(x));
        }
        put_parity(&after, &mut expected, before.data_chunks());
        prop_assert_eq!(content, expected);
    }

    #[test]
    fn restripe_reads_the_old_and_writes_the_new(base in 3u32..8, added in 1u32..5, rows in 1u64..80, six: bool) {
        let level = |r| if six { Level::Raid6(r) } else { Level::Raid5(r) };
        let make = |n| Geometry::new(level(Rotation::LeftSymmetric), n, 512, rows * 512).unwrap();
        let base = if six { base + 1 } else { base };
        let (old, new) = (make(base), make(base + added));
        let restripe = Restripe::new(old, new).unwrap();
        let mut logical = 0;
        // A write of new stripe s destroys old stripe s: by then, what it held must be below the recorded stripe.
        let mut done = restripe.critical_stripes();
        for stripe in 0..restripe.stripes() {
            for way in restripe.stripe(stripe).moves {
                prop_assert_eq!((way.from, way.to), (old.home(logical), new.home(logical)));
                logical += 1;
            }
            if stripe >= done {
                let end = restripe.window_end(done);
                prop_assert!(end > done);
                let needed = old.stripe_of(done * u64::from(new.members() - new.parities()));
                prop_assert!(needed >= end);
                done = end;
            }
        }
        prop_assert_eq!(logical, old.data_chunks());
        for done in 0..restripe.critical_stripes().min(restripe.stripes()) {
            let stuck = restripe.window_end(done) == done;
            prop_assert!(stuck || done + 1 == restripe.stripes());
        }
    }
}

/// A stand-in for the generator: any injective-by-column linear map shows whether columns are kept.
fn put_parity(array: &Spread, content: &mut [Vec<u64>], chunks: u64) {
    let mut sums = vec![[0u64; 2]; array.rows() as usize];
    for x in 0..chunks {
        let (stripe, column) = array.stripe_column(x);
        sums[stripe as usize][0] ^= value(x);
        sums[stripe as usize][1] ^= value(x).rotate_left(column);
    }
    for (stripe, sums) in sums.iter().enumerate() {
        for (home, sum) in array.parity(stripe as u64).zip(sums) {
            put(content, home, *sum);
        }
    }
}

fn column_of(array: &Spread, home: Home) -> u32 {
    match array.role(home) {
        Role::Data { logical, .. } => array.stripe_column(logical).1,
        role => panic!("{home:?} is for {role:?}"),
    }
}

fn value(x: u64) -> u64 {
    (x + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn get(content: &[Vec<u64>], home: Home) -> u64 {
    content[home.member as usize][home.chunk as usize]
}

fn put(content: &mut [Vec<u64>], home: Home, value: u64) {
    content[home.member as usize][home.chunk as usize] = value;
}

/// Where an array's content is, by row and member, while rows change in the order of their keys.
struct Played {
    content: Vec<Vec<u64>>,
}

impl Played {
    fn at(&mut self, row: u64, member: u32) -> &mut u64 {
        &mut self.content[row as usize][member as usize]
    }

    /// Data and P of every row are right, and every chunk is where it should be.
    fn check(&mut self, rows: &Rows, done: u64, chunks: u64) {
        for chunk in 0..chunks {
            let cell = rows.cell(chunk, done);
            let member = rows.member(cell, done);
            assert_eq!(*self.at(cell.row, member), value(chunk), "chunk {chunk} at {done}");
        }
        for row in 0..self.content.len() as u64 {
            let columns = rows.columns(row, done);
            let members: Vec<u32> =
                (0..columns).map(|column| rows.member(Cell { row, column }, done)).collect();
            let sum = members.iter().fold(0, |sum, &member| sum ^ *self.at(row, member));
            let p = rows.parity(row, 0, done);
            assert!(!members.contains(&p));
            assert_eq!(*self.at(row, p), sum, "row {row} at {done}");
        }
    }
}

fn play(rows: &Rows, height: u64, width: u32) {
    let mut played = Played { content: vec![vec![0; width as usize]; height as usize] };
    let chunks = rows.chunks();
    for chunk in 0..chunks {
        let cell = rows.cell(chunk, 0);
        *played.at(cell.row, rows.member(cell, 0)) = value(chunk);
    }
    for row in 0..height {
        let columns = rows.columns(row, 0);
        let sum =
            (0..columns).fold(0, |sum, column| sum ^ *played.at(row, rows.member(Cell { row, column }, 0)));
        *played.at(row, rows.parity(row, 0, 0)) = sum;
    }
    let (mut done, mut seen) = (0, std::collections::BTreeSet::new());
    while done < rows.end() {
        played.check(rows, done, chunks);
        let upto = rows.stop(done);
        assert!(upto > done && upto <= rows.end());
        let involved = rows.involved(done..upto);
        let is_involved = |row| involved.iter().any(|range| range.contains(&row));
        let old = played.content.clone();
        for key in done..upto {
            let change = rows.change(key);
            assert_eq!(rows.key(change.row), key);
            assert!(seen.insert(change.row) && is_involved(change.row));
            let mut new: Vec<u64> = vec![0; rows.columns(change.row, upto) as usize];
            if change.keeps {
                for column in 0..rows.columns(change.row, done) {
                    let cell = Cell { row: change.row, column };
                    assert_eq!(rows.member(cell, done), rows.member(cell, upto), "what is kept stays");
                    new[column as usize] = old[change.row as usize][rows.member(cell, done) as usize];
                }
            }
            for (column, from) in change.gains {
                assert!(is_involved(from.row));
                // What is overwritten unlogged must be of no use.
                let source = rows.key(from.row);
                assert!(source >= done && rows.is_needed(source, done) | (source >= upto));
                new[column as usize] = old[from.row as usize][rows.member(from, done) as usize];
            }
            for (column, value) in new.iter().enumerate() {
                let cell = Cell { row: change.row, column: column as u32 };
                *played.at(change.row, rows.member(cell, upto)) = *value;
            }
            let p = rows.parity(change.row, 0, upto);
            *played.at(change.row, p) = new.iter().fold(0, |sum, value| sum ^ value);
        }
        done = upto;
    }
    played.check(rows, done, chunks);
}

proptest! {
    #[test]
    fn rows_change_one_after_the_other((base, added, height, parities) in any_growth(), six in 0u64..4) {
        prop_assume!(!added.is_empty());
        let share = Share { run: 3, index: six % 2, shards: 2 };
        let history = added.iter().fold(History::new(base).unwrap(), |history, &n| history.with(n).unwrap());
        for rotation in Rotation::ALL {
            let after = Spread::new(&history, height, rotation, parities).unwrap().of_share(share);
            play(&Rows::spreading(after.clone()), height.into(), after.members());
        }
        let level = |r| if parities == 2 { Level::Raid6(r) } else { Level::Raid5(r) };
        for rotation in Rotation::ALL {
            let before = Geometry::new(level(rotation), base, 512, u64::from(height) * 512).unwrap();
            let after = before.with_members(base + added[0]).unwrap();
            play(&Rows::restriping(before, after), height.into(), base + added[0]);
        }
    }
}
