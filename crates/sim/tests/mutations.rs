//! The simulator's own proof: break the engine on purpose, one way at a time, and see that the torture notices.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sinew_core::mutation::{Mutation, choose};
use sinew_sim::torture::{Failure, Kind, Plan, run, shrink};

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
const FOUND_BY: [(Mutation, u64); 67] = [
    (Mutation::AbortOpening, 16),
    (Mutation::AcknowledgeEarly, 10),
    (Mutation::AlternateSlots, 71),
    (Mutation::AroundUnlocked, 497),
    (Mutation::ChangeUnflushed, 73),
    (Mutation::ChangeUnlogged, 1622),
    (Mutation::ConvertWithoutFlush, 31),
    (Mutation::CopiesBeforeJournal, 2046),
    (Mutation::CopiesTogether, 48),
    (Mutation::CountLateJournal, 32),
    (Mutation::CountLateRun, 18),
    (Mutation::DemoteFromStale, 133),
    (Mutation::DropReleased, 101),
    (Mutation::DrainOutOfOrder, 10),
    (Mutation::EmptyReadsDevice, 45),
    (Mutation::EmptyRevives, 2153),
    (Mutation::FlushAround, 18),
    (Mutation::ForgetDirty, 9),
    (Mutation::ForgetFormVoid, 1202),
    (Mutation::ForgetReaders, 677),
    (Mutation::ForgetStale, 245),
    (Mutation::ForgetStale, 372),
    (Mutation::ForgetVoid, 26),
    (Mutation::FormBeforeCopies, 8383),
    (Mutation::GiveUpNeeded, 26),
    (Mutation::GrowMirrored, 133),
    (Mutation::GrowUnfilled, 133),
    (Mutation::InventEvents, 9),
    (Mutation::KeepEpoch, 12),
    (Mutation::KeepImages, 1_635_811_761),
    (Mutation::KeepMarks, 131_416_083),
    (Mutation::LeakChunks, 6),
    (Mutation::LeakSlots, 189),
    (Mutation::LeaveEarly, 7),
    (Mutation::LimitUncharged, 7),
    (Mutation::LoseImageParity, 66),
    (Mutation::MoveUnconditionally, 6),
    (Mutation::MoveUnflushed, 324),
    (Mutation::NeverCompact, 16),
    (Mutation::NoSpaceIsFailure, 29),
    (Mutation::OneDataCopy, 9),
    (Mutation::OneFormCopy, 48),
    (Mutation::OneJournalCopy, 7),
    (Mutation::OneJournalCopy, 10),
    (Mutation::OverwriteUnmoved, 91),
    (Mutation::PagesBeforeJournal, 12),
    (Mutation::PresumeDead, 156),
    (Mutation::PromoteUnlocked, 48),
    (Mutation::RebuildOneUnit, 103),
    (Mutation::RecordUnflushed, 734),
    (Mutation::RecordUnplaced, 61),
    (Mutation::ReplayOutOfOrder, 10),
    (Mutation::ReuseEarly, 6),
    (Mutation::SkipAfterImage, 66),
    (Mutation::SkipChecksums, 12),
    (Mutation::SkipReplay, 48),
    (Mutation::SkipResync, 14),
    (Mutation::StrayImageParity, 10),
    (Mutation::TailPassesForms, 214),
    (Mutation::TailPastFlushed, 90),
    (Mutation::TrimBeforeForm, 391),
    (Mutation::TrimUnderReaders, 391),
    (Mutation::TrustOldGroup, 32),
    (Mutation::TrustOldMap, 20),
    (Mutation::UseBeforeStored, 43),
    (Mutation::WriteUnrecorded, 259),
    (Mutation::WrongCoefficient, 149),
];

/// No operator changes the members or the volumes.
const WITHOUT_OPERATORS: [&str; 4] = ["growths=0", "added=", "growth=", "tenancies=0"];

/// Power fails in growths with parity all the time.
const POWER_LOSS_IN_GROWTH: [&str; 23] = [
    "growth_cut=0.3",
    "openings=12",
    "endings=power",
    "requests=60",
    "clients=3",
    "depth=2",
    "throttle=0",
    "shards=1",
    "array=5/left-symmetric:16K:spares=0:log:zeroed",
    "array_growth=spread+1+1",
    "members=5M,5M,5M,5M,5M,5M",
    "corrupt=0",
    "lost=0",
    "trouble=0",
    "writes=70",
    "discards=5",
    "flushes=5",
    "sequential=0",
    "pause=0",
    "blocks_max=40",
    "hot=100",
    "jitter=60",
    "cache_writes=65536",
];

/// Power fails in growths without a journal which are slow, while clients write to the first rows.
const POWER_LOSS_IN_SLOW_GROWTH: [&str; 19] = [
    "growth_cut=0.1",
    "openings=8",
    "endings=power",
    "requests=200",
    "throttle=2000000",
    "shards=1",
    "array=5/left-symmetric:16K:spares=0:zeroed",
    "array_growth=restripe+1",
    "members=6M,6M,6M,6M,8M,8M",
    "journal_blocks=200",
    "physical=0",
    "squeeze=0",
    "corrupt=0",
    "lost=0",
    "trouble=0",
    "writes=70",
    "flushes=10",
    "blocks_max=8",
    "hot=100",
];

/// Power fails all the time, while arrays without a journal grow on members without space.
const POWER_LOSS_IN_GROWTH_WITHOUT_SPACE: [&str; 19] = [
    "array=6/right-asymmetric:4K:spares=0:zeroed",
    "endings=power",
    "openings=16",
    "requests=30",
    "writes=90",
    "flushes=9",
    "compressing=false",
    "lost=0",
    "corrupt=0",
    "trouble=0",
    "shards=1",
    "journal_blocks=40",
    "growth_cut=0",
    "jitter=0",
    "pause=0",
    "physical=100",
    "members=12M,12M,10M,13M,12M,10M,10M,10M,10M",
    "array_growth=spread+3",
    "squeeze=0.05",
];

/// Arrays grow slowly onto members that go and come back, while clients write everywhere.
const GROWTH_ONTO_MISSING: [&str; 22] = [
    "array=5/left-symmetric:16K:spares=0:log:zeroed",
    "array_growth=spread+1+1",
    "members=7M,7M,7M,7M,7M",
    "shards=1",
    "journal_blocks=200",
    "physical=50",
    "squeeze=0",
    "compressing=false",
    "lost=1",
    "trouble=0.5",
    "troubles=offline,online,replace",
    "growth_cut=0",
    "corrupt=0",
    "endings=close",
    "openings=5",
    "writes=90",
    "discards=0",
    "flushes=5",
    "requests=150",
    "throttle=1000000",
    "hot=100",
    "blocks_max=16",
];

/// Power fails all the time, while the log of an array without growth is written by many at once.
const POWER_LOSS_WHILE_LOGGING: [&str; 9] = [
    "openings=30",
    "endings=power",
    "array=5/left-symmetric:4K:spares=0:log:zeroed",
    "array_growth=none",
    "depth=8",
    "blocks_max=4",
    "lost=0",
    "trouble=0",
    "requests=60",
];

/// Power fails often, while members that compress have no space.
const POWER_LOSS_WITHOUT_SPACE: [&str; 8] = [
    "requests=40",
    "clients=2",
    "volumes=200",
    "physical=60",
    "openings=30",
    "endings=power",
    "compressing=true",
    "squeeze=1",
];

/// Power fails often, while stripes of a mapped pool are converted.
const POWER_LOSS_WHILE_CONVERTING: [&str; 16] = [
    "array=none",
    "openings=10",
    "endings=power",
    "convert_free=100",
    "convert_pause=0",
    "throttle=0",
    "members=5M,5M,5M,5M,5M,5M",
    "volumes=900",
    "clients=2",
    "requests=60",
    "cache_writes=64",
    "trouble=0",
    "lost=0",
    "corrupt=0",
    "physical=0",
    "squeeze=0",
];

/// Power fails all the time, while chunks of a mapped pool without much space are released.
const POWER_LOSS_WHILE_RELEASING: [&str; 16] = [
    "array=none",
    "compressing=true",
    "squeeze=1",
    "openings=30",
    "endings=power",
    "convert_free=100",
    "convert_pause=0",
    "throttle=0",
    "requests=120",
    "flushes=20",
    "physical=100",
    "lost=0",
    "corrupt=0",
    "clients=4",
    "volumes=100",
    "blocks_max=40",
];

/// Power fails often, while blocks are overwritten again and again, mostly without a flush.
const POWER_LOSS_WHILE_OVERWRITING: [&str; 20] = [
    "array=none",
    "openings=60",
    "endings=power",
    "throttle=0",
    "requests=25",
    "flushes=1",
    "lost=0",
    "corrupt=0",
    "checksums=true",
    "trouble=0",
    "sequential=50",
    "writes=95",
    "shards=1",
    "physical=0",
    "squeeze=0",
    "blocks_max=24",
    "volumes=40",
    "clients=3",
    "protection=mirror2",
    "depth=4",
];

/// Power fails often, while the tail of a small journal advances, mostly without a flush.
const POWER_LOSS_BESIDE_CHECKPOINTS: [&str; 20] = [
    "array=none",
    "openings=100",
    "endings=power",
    "throttle=0",
    "lost=0",
    "corrupt=0",
    "trouble=0",
    "shards=1",
    "physical=0",
    "squeeze=0",
    "protection=mirror2",
    "requests=16",
    "flushes=1",
    "sequential=0",
    "writes=95",
    "blocks_max=64",
    "clients=7",
    "depth=8",
    "journal_blocks=64",
    "volumes=1000",
];

/// Power fails often, while groups of the journal are hedged and members fail.
const POWER_LOSS_BESIDE_SPIKES: [&str; 9] = [
    "array=none",
    "openings=16",
    "endings=power,death",
    "spike_avoidance=auto",
    "lost=1",
    "troubles=slow,fail,offline,online,replace",
    "trouble=0.1",
    "requests=60",
    "shards=1",
];

/// Openings as a last resort.
const LAST_RESORT: [&str; 6] =
    ["array=none", "checksums=true", "tenancies=0", "openings=12", "requests=60", "clients=2"];

/// Power fails often, while the forms of stripes change.
const POWER_LOSS_WHILE_FORMS_CHANGE: [&str; 22] = [
    "openings=2",
    "endings=power",
    "trouble=0",
    "governor=0",
    "mirrored_shares=100",
    "array=5/left-symmetric:4K:spares=0:log:zeroed:elastic",
    "array_growth=none",
    "shards=1",
    "discards=0",
    "corrupt=0",
    "corruptions=",
    "lost=0",
    "volumes=300",
    "members=5M,5M,5M,5M",
    "requests=60",
    "clients=2",
    "depth=2",
    "journal_blocks=200",
    "squeeze=0",
    "physical=0",
    "throttle=0",
    "blocks_max=4",
];

/// The plan of a seed, with these settings for a defect that shows only under conditions which few plans have.
fn draw(way: Mutation, seed: u64) -> Plan {
    let (operators, own): (&[&str], &[&str]) = match way {
        Mutation::AlternateSlots => (&[], &POWER_LOSS_WITHOUT_SPACE),
        Mutation::SettleEarly | Mutation::TrustOldGroup => (&[], &POWER_LOSS_WHILE_LOGGING),
        Mutation::TrustOldMap => (&[], &LAST_RESORT),
        Mutation::ConvertWithoutFlush => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_CONVERTING),
        Mutation::DropReleased => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_RELEASING),
        Mutation::TailPastFlushed => (&WITHOUT_OPERATORS, &POWER_LOSS_BESIDE_CHECKPOINTS),
        Mutation::PresumeDead => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_OVERWRITING),
        Mutation::ChangeUnflushed => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_GROWTH),
        Mutation::KeepImages => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_SLOW_GROWTH),
        Mutation::RecordUnplaced => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_GROWTH_WITHOUT_SPACE),
        Mutation::KeepMarks => (&WITHOUT_OPERATORS, &GROWTH_ONTO_MISSING),
        Mutation::CountLateJournal => (&WITHOUT_OPERATORS, &POWER_LOSS_BESIDE_SPIKES),
        Mutation::ForgetFormVoid => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_FORMS_CHANGE),
        _ => (&[], &[]),
    };
    let mut plan = Plan::draw(seed);
    for setting in operators.iter().chain(own) {
        let (name, value) = setting.split_once('=').expect("name=value");
        plan.set(name, value).expect("a setting");
    }
    plan
}

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
    let ways = Mutation::ALL.into_iter().filter(|way| !Mutation::BY_SCENARIO.contains(way));
    let ways: Vec<Mutation> = ways.collect();
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
