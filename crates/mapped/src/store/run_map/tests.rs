//! The array against a `BTreeMap`, and its size against what it promises.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::store::run_map::*;

#[derive(Clone, Debug)]
enum Step {
    Set(u32, Option<u32>),
    SetRun(u32, u32, u32),
    ClearRun(u32, u32),
    GetRun(u32, u32),
    DropPage(u32),
}

/// Indices near the start, around the edge of a page, and at the very end of the range.
fn index() -> impl Strategy<Value = u32> {
    prop_oneof![
        0..80u32,
        PAGE_INDICES - 40..PAGE_INDICES + 40,
        3 * PAGE_INDICES..3 * PAGE_INDICES + 20,
        u32::MAX - 60..
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let count = || prop_oneof![0..40u32, Just(16), Just(32), Just(PAGE_INDICES), Just(2 * PAGE_INDICES + 5)];
    // Values aligned with the indices are likely, so that groups become whole piece by piece.
    let first = || prop_oneof![Just(None), (0..200u32).prop_map(Some), Just(Some(VALUE_LIMIT - 20_000))];
    let aligned = |index: u32, first: Option<u32>| first.unwrap_or(index % (3 * PAGE_INDICES) + 1000);
    prop_oneof![
        4 => (index(), first()).prop_map(move |(index, first)| Step::Set(index, Some(aligned(index, first)))),
        2 => index().prop_map(|index| Step::Set(index, None)),
        4 => (index(), count(), first()).prop_map(move |(index, count, first)| {
            Step::SetRun(index, clip(index, count), aligned(index, first))
        }),
        3 => (index(), count()).prop_map(|(index, count)| Step::ClearRun(index, clip(index, count))),
        3 => (index(), prop_oneof![count(), Just(u32::MAX)]).prop_map(|(index, max)| Step::GetRun(index, max)),
        1 => (0..5u32).prop_map(Step::DropPage),
    ]
}

fn clip(index: u32, count: u32) -> u32 {
    (u64::from(u32::MAX - index) + 1).min(u64::from(count)) as u32
}

fn indices(index: u32, count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(move |offset| index + offset)
}

type Model = BTreeMap<u32, u32>;

fn take(map: &mut RunMap, model: &mut Model, step: Step) -> Result<(), TestCaseError> {
    match step {
        Step::Set(index, value) => {
            let old = match value {
                Some(value) => model.insert(index, value),
                None => model.remove(&index),
            };
            prop_assert_eq!(map.set(index, value), old);
        }
        Step::SetRun(index, count, first) => {
            map.set_run(index, count, first);
            model.extend(indices(index, count).zip(first..));
        }
        Step::ClearRun(index, count) => {
            let expected: Vec<_> =
                indices(index, count).filter_map(|i| Some((i, model.remove(&i)?))).collect();
            let mut removed = Vec::new();
            map.clear_run(index, count, |index, count, first| {
                removed.extend(indices(index, count).zip(first..))
            });
            prop_assert_eq!(removed, expected);
        }
        Step::GetRun(index, max) => {
            let first = model.get(&index).copied();
            let expected = match first {
                Some(first) => indices(index, clip(index, max))
                    .zip(first..)
                    .take_while(|(index, value)| model.get(index) == Some(value))
                    .count() as u32,
                None => {
                    let next = model.range(index..).next().map_or(1 << 32, |(&next, _)| u64::from(next));
                    (next - u64::from(index)).min(u64::from(max)) as u32
                }
            };
            prop_assert_eq!(map.get_run(index, max), (first, expected));
        }
        Step::DropPage(page) => {
            map.drop_page(page);
            model.retain(|index, _| index / PAGE_INDICES != page);
        }
    }
    Ok(())
}

/// All entries agree, and every group is in its smallest form.
fn check(map: &RunMap, model: &Model) -> Result<(), TestCaseError> {
    let entries: Vec<_> = (0..map.pages_end()).flat_map(|page| map.page_entries(page)).collect();
    prop_assert!(entries.iter().copied().eq(model.iter().map(|(&index, &value)| (index, value))));
    for page in 0..6 {
        let range = page * PAGE_INDICES..(page + 1) * PAGE_INDICES;
        prop_assert_eq!(map.page_is_empty(page), model.range(range).next().is_none());
    }
    let mut mixed = 0;
    let mut groups: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (index, value) in entries {
        prop_assert_eq!(map.get(index), Some(value));
        groups.entry(index / GROUP_INDICES).or_default().push((index % GROUP_INDICES, value));
    }
    for group in groups.values() {
        let run = group.len() == 16 && group.iter().all(|&(offset, value)| value == group[0].1 + offset);
        mixed += usize::from(!run);
    }
    prop_assert_eq!(map.fragments.used(), mixed);
    Ok(())
}

proptest! {
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let (mut map, mut model) = (RunMap::new(), Model::new());
        for step in steps {
            take(&mut map, &mut model, step)?;
        }
        check(&map, &model)?;
    }

    /// Within two groups everything collides with everything: checked after each step.
    #[test]
    fn small_forms_after_every_step(
        steps in prop::collection::vec((0..32u32, 0..=32u32, prop::option::of(0..3u32)), 1..40)
    ) {
        let (mut map, mut model) = (RunMap::new(), Model::new());
        for (index, count, value) in steps {
            let count = count.min(32 - index);
            let step = match value {
                Some(base) => Step::SetRun(index, count, base * 7 + index),
                None => Step::ClearRun(index, count),
            };
            take(&mut map, &mut model, step)?;
            check(&map, &model)?;
            for index in 0..34 {
                prop_assert_eq!(map.get(index), model.get(&index).copied());
                take(&mut map, &mut model, Step::GetRun(index, 34))?;
            }
        }
    }
}

/// Every way to fill a group in two pieces, and to take a piece out and put it back.
#[test]
fn groups_fold_back() {
    for from in 0..16 {
        for len in 1..=16 - from {
            let mut map = RunMap::new();
            map.set_run(32, 16, 100);
            assert_eq!(map.fragments.used(), 0);
            let mut removed = Vec::new();
            map.clear_run(32 + from, len, |index, count, first| removed.push((index, count, first)));
            assert_eq!(removed, [(32 + from, len, 100 + from)]);
            assert_eq!(map.fragments.used(), usize::from(len < 16));
            map.set_run(32 + from, len, 100 + from);
            assert_eq!(map.fragments.used(), 0);
            assert_eq!(map.get_run(32, 100), (Some(100), 16));
            map.set(32 + from, Some(5));
            assert_eq!(map.fragments.used(), 1);
            for index in 32..48 {
                map.set(index, None);
            }
            assert_eq!(map.fragments.used(), 0);
            assert!(map.page_is_empty(0));
        }
    }
}

#[test]
fn the_last_index_and_the_last_value() {
    let mut map = RunMap::new();
    map.set_run(u32::MAX - 15, 16, VALUE_LIMIT - 16);
    assert_eq!(map.get(u32::MAX), Some(VALUE_LIMIT - 1));
    assert_eq!(map.get_run(u32::MAX - 15, u32::MAX), (Some(VALUE_LIMIT - 16), 16));
    assert_eq!(map.get_run(0, u32::MAX), (None, u32::MAX - 15));
    assert_eq!(map.set(u32::MAX, None), Some(VALUE_LIMIT - 1));
    assert_eq!(map.get_run(u32::MAX, 9), (None, 1));
    map.clear_run(0, u32::MAX, |index, count, first| {
        assert_eq!((index, count, first), (u32::MAX - 15, 15, VALUE_LIMIT - 16));
    });
    assert!(map.page_is_empty(map.pages_end() - 1));
}

#[test]
#[should_panic(expected = "value out of range")]
fn a_value_too_large() {
    RunMap::new().set(1, Some(VALUE_LIMIT));
}

#[test]
#[should_panic(expected = "indices pass the end")]
fn a_clear_past_the_end() {
    RunMap::new().clear_run(u32::MAX, 2, |_, _, _| {});
}

/// A mebi of blocks in sequence takes 260 KiB; in random order 4.3 MiB, and again as little once it is in sequence.
#[test]
fn memory_is_as_promised() {
    const BLOCKS: u32 = 1 << 20;
    let mut map = RunMap::new();
    assert_eq!(map.memory_bytes(), 0);
    map.set_run(0, BLOCKS, 7);
    let directory = map.pages.capacity() * 8;
    assert_eq!(map.memory_bytes(), directory + BLOCKS.div_ceil(PAGE_INDICES) as usize * 1008);
    for index in 0..BLOCKS {
        map.set(index, Some(index * 5 % BLOCKS));
    }
    assert!(map.memory_bytes() < BLOCKS as usize * 43 / 10);
    assert_eq!(map.fragments.used(), BLOCKS as usize / 16);
    let full = map.memory_bytes();
    map.set_run(0, BLOCKS, 7);
    assert_eq!(map.fragments.used(), 0);
    for page in 0..map.pages_end() {
        map.drop_page(page);
    }
    assert_eq!(map.memory_bytes(), full - BLOCKS.div_ceil(PAGE_INDICES) as usize * 1008);
}
