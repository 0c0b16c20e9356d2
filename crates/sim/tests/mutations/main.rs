//! The simulator's own proof: break the engine on purpose, one way at a time, and see that the torture notices.

mod plans;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sinew_core::mutation::{Mutation, choose};
use sinew_sim::torture::{Failure, Kind, Plan, run, shrink};

use crate::plans::draw;

/// Seeds tried for each defect before it counts as not found.
const SEEDS_MAX: usize = 600;
/// Seeds that may be tried for a defect before its seed has to be noted in `FOUND_BY`: without this limit the test becomes
/// slow and nothing tells why.
const SEARCHED_MAX: usize = 30;
/// Runs that shrinking may take.
const SHRINK_RUNS: u64 = 150;

/// Defects that mapped pools and arrays may both have.
const OF_BOTH: [Mutation; 8] = [
    Mutation::SkipJournal,
    Mutation::OneJournalCopy,
    Mutation::AcknowledgeEarly,
    Mutation::SkipFlush,
    Mutation::OneDataCopy,
    Mutation::SkipParity,
    Mutation::ForgetStale,
    Mutation::RebuildShort,
];

/// Defects of growing arrays.
const OF_ARRAY_GROWTH: [Mutation; 10] = [
    Mutation::GrowMirrored,
    Mutation::GrowUnfilled,
    Mutation::ChangeUnlogged,
    Mutation::KeepImages,
    Mutation::RecordUnplaced,
    Mutation::KeepMarks,
    Mutation::RecordUnflushed,
    Mutation::WriteUnrecorded,
    Mutation::OverwriteUnmoved,
    Mutation::ForgetReaders,
];

/// Defects of elastic arrays.
const OF_ELASTIC: [Mutation; 17] = [
    Mutation::TrimBeforeForm,
    Mutation::DemoteFromStale,
    Mutation::CopiesTogether,
    Mutation::TailPassesForms,
    Mutation::OneFormCopy,
    Mutation::EmptyReadsDevice,
    Mutation::GrowMirrored,
    Mutation::GrowUnfilled,
    Mutation::ForgetFormVoid,
    Mutation::CopiesBeforeJournal,
    Mutation::FormBeforeCopies,
    Mutation::TrimUnderReaders,
    Mutation::LeakSlots,
    Mutation::RebuildOneUnit,
    Mutation::EmptyUnfilled,
    Mutation::EmptyRevives,
    Mutation::PromoteUnlocked,
];

/// The seeds that found the defects which the first six seeds do not find. They are played before the others, to save time.
/// When what is drawn has changed they may find nothing any more: then the test prints the lines that take their place.
const FOUND_BY: [(Mutation, u64); 82] = [
    (Mutation::AbortOpening, 40),
    (Mutation::AcknowledgeEarly, 10),
    (Mutation::AlternateSlots, 61),
    (Mutation::AroundUnlocked, 497),
    (Mutation::ChangeUnflushed, 23),
    (Mutation::ChangeUnlogged, 66),
    (Mutation::CompactIntoNarrower, 187),
    (Mutation::CompactTogether, 24),
    (Mutation::ConvertWithoutFlush, 46),
    (Mutation::CopiesBeforeJournal, 1682),
    (Mutation::CopiesTogether, 48),
    (Mutation::CountLateJournal, 75),
    (Mutation::CountLateRun, 52),
    (Mutation::CountLateUnit, 61),
    (Mutation::DemoteFromStale, 228),
    (Mutation::DrainOutOfOrder, 10),
    (Mutation::DropReleased, 88),
    (Mutation::EmptyReadsDevice, 45),
    (Mutation::EmptyRevives, 1242),
    (Mutation::EvictGuesses, 152),
    (Mutation::FlushAround, 81),
    (Mutation::ForgetDirty, 9),
    (Mutation::ForgetFormVoid, 1202),
    (Mutation::ForgetMetadataCopies, 35),
    (Mutation::ForgetMove, 12),
    (Mutation::ForgetPinned, 12),
    (Mutation::ForgetReaders, 677),
    (Mutation::ForgetStale, 245),
    (Mutation::ForgetStale, 372),
    (Mutation::ForgetVoid, 132),
    (Mutation::FormBeforeCopies, 12221),
    (Mutation::GiveUpNeeded, 26),
    (Mutation::GrowMirrored, 133),
    (Mutation::GrowUnfilled, 133),
    (Mutation::HideRoom, 81),
    (Mutation::InventEvents, 9),
    (Mutation::KeepEpoch, 81),
    (Mutation::KeepImages, 1639),
    (Mutation::KeepMarks, 458),
    (Mutation::LeakChunks, 6),
    (Mutation::LeakSlots, 189),
    (Mutation::LeaveEarly, 7),
    (Mutation::LeaveUnitMissing, 64),
    (Mutation::LimitUncharged, 7),
    (Mutation::LoseImageParity, 66),
    (Mutation::LoseUnit, 36),
    (Mutation::MoveUnconditionally, 6),
    (Mutation::MoveUnflushed, 324),
    (Mutation::NeverCompact, 16),
    (Mutation::NoSpaceIsFailure, 29),
    (Mutation::OfferDiscarded, 52),
    (Mutation::OneDataCopy, 9),
    (Mutation::OneFormCopy, 48),
    (Mutation::OneJournalCopy, 7),
    (Mutation::OneJournalCopy, 10),
    (Mutation::OverwriteUnmoved, 91),
    (Mutation::PagesBeforeJournal, 41),
    (Mutation::PinTogether, 212),
    (Mutation::PresumeDead, 48),
    (Mutation::PromoteUnlocked, 48),
    (Mutation::RebuildOneUnit, 103),
    (Mutation::RecordUnflushed, 2277),
    (Mutation::RecordUnplaced, 61),
    (Mutation::RefuseUnsettled, 156),
    (Mutation::ReplayOutOfOrder, 10),
    (Mutation::ReuseEarly, 6),
    (Mutation::SkipAfterImage, 133),
    (Mutation::SkipChecksums, 12),
    (Mutation::SkipReplay, 48),
    (Mutation::SkipResync, 14),
    (Mutation::StrayImageParity, 207),
    (Mutation::TailPassesForms, 214),
    (Mutation::TailPastFlushed, 7),
    (Mutation::TrimBeforeForm, 391),
    (Mutation::TrimUnderReaders, 524),
    (Mutation::TrustOldGroup, 104),
    (Mutation::TrustOldMap, 20),
    (Mutation::TrustUnit, 36),
    (Mutation::UseBeforeStored, 129),
    (Mutation::WriteAfterClose, 0),
    (Mutation::WriteUnrecorded, 259),
    (Mutation::WrongCoefficient, 149),
];

/// A failure and what it took to find it.
struct Found {
    failure: Failure,
    /// Seeds played, this one included.
    played: usize,
}

fn first_failure(way: Mutation, wanted: impl Fn(&Failure) -> bool) -> Option<Found> {
    first_failure_of(way, |_| true, wanted)
}

fn first_failure_of(
    way: Mutation,
    may_show_it: impl Fn(&Plan) -> bool,
    wanted: impl Fn(&Failure) -> bool,
) -> Option<Found> {
    choose(Some(way));
    let known = FOUND_BY.into_iter().filter(|(found, _)| *found == way).map(|(_, seed)| seed);
    // The settings of `draw` do not fit every seed.
    let can_be_played = |plan: &Plan| plan.check().is_ok();
    let plans = known.chain(0..).map(|seed| draw(way, seed)).filter(can_be_played).filter(may_show_it);
    let plans = plans.take(SEEDS_MAX);
    let mut played = 0;
    let mut failures = plans.filter_map(|plan| {
        played += 1;
        run(&plan).err()
    });
    let found = failures.find(|failure| wanted(failure));
    choose(None);
    found.map(|failure| Found { failure, played })
}

/// Searches for each way on all cores, the way of a thread being its own; what was found, in the order of `ways`.
fn for_each_way<T: Send>(ways: &[Mutation], search: impl Fn(Mutation) -> Option<T> + Sync) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(ways.iter().map(|_| None).collect::<Vec<_>>());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&way) = ways.get(index) else { return };
                    let result = search(way);
                    found.lock().expect("no panic while held")[index] = result;
                }
            });
        }
    });
    found.into_inner().expect("no panic while held")
}

/// Searches for all ways, and tells what was found.
///
/// # Panics
///
/// If one is not found, or only by a long search.
fn assert_found(ways: &[Mutation], may_show_it: impl Fn(Mutation, &Plan) -> bool + Sync) {
    let found = for_each_way(ways, |way| {
        let begun = Instant::now();
        let found = first_failure_of(way, |plan| may_show_it(way, plan), |_| true)?;
        let (seed, played) = (found.failure.plan.seed, found.played);
        let (what, seconds) = (found.failure.to_string(), begun.elapsed().as_secs_f64());
        let what: String = what.chars().take(140).collect();
        // At once, since a search for another may take minutes.
        eprintln!("{way:?} by seed {seed}, {played} played in {seconds:.1} s: {what}");
        Some((seed, played))
    });
    let (mut missed, mut unnoted) = (Vec::new(), String::new());
    for (way, found) in ways.iter().zip(found) {
        let Some((seed, played)) = found else {
            missed.push(way);
            continue;
        };
        if played > SEARCHED_MAX {
            unnoted.push_str(&format!("    (Mutation::{way:?}, {seed}),\n"));
        }
    }
    // Panics are silenced.
    eprintln!("not found in {SEEDS_MAX} seeds each: {missed:?}");
    if !unnoted.is_empty() {
        eprintln!(
            "these lines are to take the place of those in FOUND_BY, which find nothing any more:\n{unnoted}"
        );
    }
    assert!(missed.is_empty() && unnoted.is_empty());
}

/// Broken engines panic; that is one way of being found, and no news.
fn silence_panics() {
    std::panic::set_hook(Box::new(|_| ()));
}

#[test]
fn every_deliberate_defect_is_found() {
    silence_panics();
    // For work on single ones.
    let chosen = std::env::var("SINEW_MUTATIONS").ok();
    let is_chosen = |way: &Mutation| {
        chosen.as_ref().is_none_or(|names| names.split(',').any(|name| name == format!("{way:?}")))
    };
    let ways = Mutation::ALL.into_iter().filter(|way| !Mutation::BY_SCENARIO.contains(way));
    let ways: Vec<Mutation> = ways.filter(is_chosen).collect();
    assert_found(&ways, |way, plan| {
        let is_elastic = plan.array.is_some_and(|array| array.elastic.is_some());
        (!OF_ARRAY_GROWTH.contains(&way) || plan.array_growth.is_some())
            && (!OF_ELASTIC.contains(&way) || is_elastic)
    });
}

#[test]
fn defects_of_both_kinds_of_pool_are_found_in_arrays() {
    silence_panics();
    assert_found(&OF_BOTH, |_, plan| plan.array.is_some());
}

#[test]
fn a_lost_wakeup_is_found_when_everything_must_drain() {
    silence_panics();
    let found = first_failure(Mutation::LoseWakeup, |failure| failure.kind == Kind::NotDrained);
    let found = found.expect("a member that comes back is not rebuilt").failure;
    assert!(found.what.contains("does not end"), "{found}");
}

#[test]
fn a_leak_is_found_at_rest() {
    silence_panics();
    let found = first_failure(Mutation::LeakChunks, |failure| failure.kind == Kind::Leak);
    assert!(found.is_some_and(|found| found.failure.what.contains("chunks taken")));
}

#[test]
fn a_failing_plan_shrinks_to_one_that_fails_alike() {
    silence_panics();
    let found = first_failure(Mutation::SkipFlush, |_| true).expect("found within the seeds").failure;
    choose(Some(Mutation::SkipFlush));
    let shrunk = shrink(&found, SHRINK_RUNS, |_, _| ());
    let again = shrink(&found, SHRINK_RUNS, |_, _| ());
    let command = shrunk.failure.plan.command();
    // What the command says is the whole plan: drawn again from its seed and overrides, it fails again.
    let mut plan = Plan::draw(found.plan.seed);
    for text in shrunk.failure.plan.overrides() {
        let (name, value) = text.split_once('=').expect("name=value");
        plan.set(name, value).expect("a setting");
    }
    let replayed = run(&plan).expect_err("the shrunk plan fails");
    choose(None);
    assert!(shrunk.runs <= SHRINK_RUNS);
    assert!(shrunk.failure.is_like(&found), "{found} became {}", shrunk.failure);
    assert!(replayed.is_like(&found));
    assert_eq!(plan, *shrunk.failure.plan);
    assert_eq!(command, again.failure.plan.command());
    let (from, to) = (found.plan, shrunk.failure.plan);
    let work = |plan: &Plan| plan.openings as u64 * plan.clients as u64 * plan.requests;
    assert!(work(&to) < work(&from) && to.members.len() <= from.members.len(), "{command}");
}
