//! The plans that show a deliberate defect: those of seeds, with settings for defects that show only under conditions which few of
//! these have.

use sinew_core::mutation::Mutation;
use sinew_sim::torture::Plan;

/// No operator changes the members or the volumes.
const WITHOUT_OPERATORS: [&str; 4] = ["growths=0", "added=", "growth=", "tenancies=0"];

/// Volumes of mirrors, in a pool with parity, are larger than the pool and written completely.
const MIRRORS_FILL_THE_POOL: [&str; 14] = [
    "array=none",
    "protection=parity1",
    "pinned=3",
    "volumes=2000,2000,2000",
    "members=6M,6M,6M,6M",
    "physical=0",
    "corrupt=0",
    "lost=0",
    "trouble=0",
    "writes=95",
    "discards=1",
    "requests=600",
    "blocks_max=40",
    "hot=100",
];

/// Clients overwrite what fills a pool that may lack a member.
const OVERWRITES_FILL_THE_POOL: [&str; 22] = [
    "array=none",
    "protection=parity2",
    "pinned=0",
    "volumes=900,900,900",
    "writes=95",
    "discards=1",
    "requests=1040",
    "blocks_max=40",
    "members=7M:femu:aged,5M:femu,6M:femu,8M:femu:compressing,8M:femu:compressing",
    "added=6M:femu",
    "growths=3",
    "growth=remove,keep,weigh",
    "openings=5",
    "clients=3",
    "depth=8",
    "shards=1",
    "sequential=95",
    "flushes=20",
    "physical=0",
    "squeeze=0",
    "lost=1",
    "states_reach=false",
];

/// A volume larger than the capacity is overwritten and discarded in large requests, without other troubles.
const DISCARDS_IN_A_FULL_POOL: [&str; 18] = [
    "array=none",
    "pinned=0",
    "tenancies=0",
    "growths=0",
    "trouble=0",
    "lost=0",
    "corrupt=0",
    "protection=parity1",
    "data_columns=2",
    "members=9M,9M,9M,9M,9M",
    "shards=1",
    "volumes=9000",
    "writes=85",
    "discards=8",
    "sequential=95",
    "blocks_max=260",
    "clients=8",
    "requests=100",
];

/// Volumes that fill the pool become mirrors.
const VOLUMES_BECOME_MIRRORS_IN_A_FULL_POOL: [&str; 15] = [
    "array=none",
    "protection=parity1",
    "pinned=1",
    "tenancies=12",
    "growths=0",
    "volumes=1500,1500",
    "members=6M,6M,6M,6M",
    "physical=0",
    "corrupt=0",
    "lost=0",
    "trouble=0",
    "writes=95",
    "requests=600",
    "blocks_max=40",
    "hot=100",
];

/// Power fails in growths with parity all the time.
const POWER_LOSS_IN_GROWTH: [&str; 24] = [
    "group_form=copies",
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
const POWER_LOSS_WHILE_LOGGING: [&str; 10] = [
    "group_form=copies",
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

/// Power fails often, while groups of an array's log are striped, and members are late, fail and come back.
const POWER_LOSS_WHILE_STRIPING: [&str; 22] = [
    "group_form=striped",
    "openings=100",
    "endings=power",
    "array=5/left-symmetric:4K:spares=0:log:zeroed",
    "array_growth=none",
    "spike_avoidance=auto",
    "lost=1",
    "troubles=slow,offline,online,fail",
    "trouble=0.3",
    "requests=12",
    "shards=1",
    "blocks_max=24",
    "writes=95",
    "sequential=50",
    "flushes=5",
    "corrupt=0",
    "physical=0",
    "squeeze=0",
    "discards=0",
    "depth=4",
    "clients=3",
    "members=6M,6M,6M,6M,6M",
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
const POWER_LOSS_WHILE_OVERWRITING: [&str; 21] = [
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
    "blocks_max=8",
    "volumes=40",
    "clients=1",
    "protection=mirror2",
    "depth=2",
    "states_reach=false",
];

/// Power fails often, while the tail of a small journal advances, mostly without a flush.
const POWER_LOSS_BESIDE_CHECKPOINTS: [&str; 20] = [
    "array=none",
    "openings=90",
    "endings=power",
    "throttle=0",
    "lost=0",
    "corrupt=0",
    "trouble=0",
    "shards=1",
    "physical=0",
    "squeeze=0",
    "protection=mirror2",
    "requests=12",
    "flushes=1",
    "sequential=0",
    "writes=95",
    "blocks_max=16",
    "clients=6",
    "depth=8",
    "journal_blocks=32",
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

/// The members of a mapped pool run full.
const MEMBERS_RUN_FULL: [&str; 6] = [
    "array=none",
    "protection=parity2",
    "data_columns=1",
    "members=12M,10M,10M",
    "physical=140",
    "squeeze=0.3",
];

/// Slots and map pages of a mapped pool are in memory only while they are used.
const WITHOUT_TABLE_CACHE: [&str; 2] = ["array=none", "table_cache=1"];

/// The plan of a seed, with these settings for a defect that shows only under conditions which few plans have.
pub(crate) fn draw(way: Mutation, seed: u64) -> Plan {
    let (operators, own): (&[&str], &[&str]) = match way {
        Mutation::AlternateSlots => (&[], &POWER_LOSS_WITHOUT_SPACE),
        Mutation::SettleEarly | Mutation::PinTogether | Mutation::TrustOldGroup => {
            (&[], &POWER_LOSS_WHILE_LOGGING)
        }
        Mutation::CountLateUnit | Mutation::LeaveUnitMissing => {
            (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_STRIPING)
        }
        Mutation::EvictUnwritten
        | Mutation::EncodeAbsent
        | Mutation::UnpinEarly
        | Mutation::LeaveOutUncounted => (&[], &WITHOUT_TABLE_CACHE),
        Mutation::TrustOldMap => (&[], &LAST_RESORT),
        Mutation::EvictGuesses => (&["table_cache=1"], &LAST_RESORT),
        Mutation::CountMirrorsAsParity => (&WITHOUT_OPERATORS, &MIRRORS_FILL_THE_POOL),
        Mutation::OfferDiscarded => (&[], &DISCARDS_IN_A_FULL_POOL),
        Mutation::CompactIntoNarrower => (&[], &OVERWRITES_FILL_THE_POOL),
        Mutation::MoveUnreserved => (&[], &VOLUMES_BECOME_MIRRORS_IN_A_FULL_POOL),
        Mutation::ConvertWithoutFlush => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_CONVERTING),
        Mutation::DropReleased => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_RELEASING),
        Mutation::TailPastFlushed => (&WITHOUT_OPERATORS, &POWER_LOSS_BESIDE_CHECKPOINTS),
        Mutation::PresumeDead => (&WITHOUT_OPERATORS, &POWER_LOSS_WHILE_OVERWRITING),
        Mutation::ChangeUnflushed => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_GROWTH),
        Mutation::KeepImages => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_SLOW_GROWTH),
        Mutation::RecordUnplaced => (&WITHOUT_OPERATORS, &POWER_LOSS_IN_GROWTH_WITHOUT_SPACE),
        Mutation::RefuseUnsettled => (&WITHOUT_OPERATORS, &MEMBERS_RUN_FULL),
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
