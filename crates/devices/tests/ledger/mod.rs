//! A ledger of what flash holds, kept from the drive's events alone, and a test of what the drive says after a failure.
//!
//! Each granule of data has a token, and each parity the combination (exclusive or) of the tokens of the granules that the
//! drive has named for it. When something fails, its tokens are wiped. What the drive then says about each block (where it is,
//! or what has to be combined) must give the token of the newest version of the block.

use std::collections::BTreeMap;

use sinew_devices::flash::{
    Cleaning, Config, Content, Drain, Failure, FlashEvent, ParityReads, Redundancy, Ssd, Striping, consumer,
    datacenter, femu, mqsim, slc,
};
use sinew_devices::flash::{MappingCache, SlcCache, WearLevelling};
use sinew_devices::{Command, Device, Kind, Ns, Outcome, Rng};

/// Draws the parts of a drive in a stream of their own.
const PARTS: u64 = 0x5EC0_11D5_72EA_4000;

/// Requests under way at most, and blocks of one.
const DEPTH: usize = 20;
const BLOCKS_MAX: u32 = 24;

/// How old data may be that no parity on flash covers.
///
/// P_wait counts from the last data of the stripe, so all data of a stripe may come that much apart. Then the parity waits
/// for the work before it on its die: reads of the host, which go first; as many units as the buffer has blocks; and the
/// cleaning of as many erase blocks as a die cleans in one go, one step of it between two units, or all of it before a unit
/// can be opened. If the parity of the window before is still being written, that waits for the same first.
fn uncovered_max_ns(config: &Config, striping: Striping) -> Ns {
    let transfer_ns = u64::from(config.unit_blocks()) * config.channel_block_ns;
    let step_ns = config.sense_ns + config.program_ns + 2 * transfer_ns;
    let read_ns = config.sense_ns + transfer_ns;
    let erases = if config.cleaning.single_erase { config.all_dies() } else { 1 };
    let clean_ns = u64::from(config.pages) * step_ns + u64::from(erases) * config.erase_ns;
    let reads = DEPTH as u64 * u64::from(BLOCKS_MAX);
    let queued_ns = reads * read_ns
        + u64::from(config.buffer_blocks) * step_ns
        + u64::from(config.cleaning.high + 1) * clean_ns;
    let data = u64::from((striping.units - 1) * config.unit_blocks());
    data * (striping.wait_ns + 1) + 2 * queued_ns
}

#[derive(Clone)]
struct Ledger {
    unit_granules: usize,
    content: Vec<u64>,
    programmed: Vec<bool>,
    running: [Vec<u64>; 2],
    computed: BTreeMap<u32, u64>,
    version: Vec<u64>,
    placed_at: Vec<Ns>,
    discarded: Vec<bool>,
}

/// Blocks of the host, and pages of the mapping table on flash after them.
fn addresses(config: &Config) -> u32 {
    config.blocks + config.mapping_cache.map_or(0, |cache| cache.table_pages(config.blocks))
}

fn token(lba: u32, version: u64, part: u32) -> u64 {
    Rng::new(u64::from(lba) << 40 ^ version << 8 ^ u64::from(part)).bits()
}

impl Ledger {
    fn new(ssd: &Ssd) -> Ledger {
        let config = ssd.config();
        let per_block = 4096 / config.compression.map_or(4096, |compression| compression.granule_bytes);
        let granules = config.physical_blocks() as usize * per_block as usize;
        let unit_granules = ssd.unit_granules() as usize;
        let addresses = addresses(config) as usize;
        Ledger {
            unit_granules,
            content: vec![0; granules],
            programmed: vec![false; granules / unit_granules],
            running: [vec![0; unit_granules], vec![0; unit_granules]],
            computed: BTreeMap::new(),
            version: vec![0; addresses],
            placed_at: vec![0; addresses],
            discarded: vec![false; addresses],
        }
    }

    fn granules(&self, unit: u32) -> std::ops::Range<usize> {
        let first = unit as usize * self.unit_granules;
        first..first + self.unit_granules
    }

    fn put(&mut self, at: u32, content: u64) {
        assert!(!self.programmed[at as usize / self.unit_granules], "granule {at} is programmed twice");
        assert_eq!(self.content[at as usize], 0, "granule {at} is filled twice");
        self.content[at as usize] = content;
    }

    fn apply(&mut self, now: Ns, event: FlashEvent) {
        match event {
            FlashEvent::Placed { lba, at, count } => {
                self.version[lba as usize] += 1;
                self.placed_at[lba as usize] = now;
                (0..count).for_each(|part| self.put(at + part, token(lba, self.version[lba as usize], part)));
            }
            FlashEvent::Moved { from, to, count } => {
                for part in 0..count {
                    self.put(to + part, self.content[(from + part) as usize]);
                }
            }
            FlashEvent::Joined { side, unit } => {
                let granules = self.granules(unit);
                let running = self.running[side as usize].iter_mut();
                running.zip(&self.content[granules]).for_each(|(sum, content)| *sum ^= content);
            }
            FlashEvent::ParityFormed { unit, terms } => {
                for offset in 0..self.unit_granules {
                    let sum = terms.iter().map(|&term| self.content[self.granules(term).start + offset]);
                    let sum = sum.fold(0, |a, b| a ^ b);
                    self.put((self.granules(unit).start + offset) as u32, sum);
                }
            }
            FlashEvent::StripeClosed { side } => self.running[side as usize].fill(0),
            FlashEvent::ParityComputed { address, terms } => {
                let sum = terms.iter().map(|&at| self.content[at as usize]).fold(0, |a, b| a ^ b);
                self.computed.insert(address, sum);
            }
            FlashEvent::ParityPlaced { address, at } => self.put(at, self.computed[&address]),
            FlashEvent::Programmed { unit } => self.programmed[unit as usize] = true,
            FlashEvent::Erased { units } => {
                for unit in units {
                    assert!(
                        self.granules(unit).all(|at| self.content[at] == 0 || self.programmed[unit as usize])
                    );
                    let granules = self.granules(unit);
                    self.content[granules].fill(0);
                    self.programmed[unit as usize] = false;
                }
            }
        }
    }

    /// What is left after a failure.
    fn after(&self, ssd: &Ssd, failure: Option<Failure>, powered: bool) -> Ledger {
        let mut left = self.clone();
        let protected = ssd.config().redundancy.striping().is_some_and(|striping| striping.protected_buffer);
        let powered = powered || ssd.config().power_loss_protected || protected;
        for unit in 0..self.programmed.len() as u32 {
            let failed = match failure {
                None => false,
                Some(Failure::Die(die)) => ssd.die_of(unit) == die,
                Some(Failure::Unit(failed)) => unit == failed,
            };
            let gone = if self.programmed[unit as usize] { failed } else { !powered };
            if gone {
                let granules = left.granules(unit);
                left.content[granules].fill(0);
            }
        }
        if !powered {
            left.running.iter_mut().for_each(|running| running.fill(0));
        }
        left
    }
}

/// What a run has found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) checked: u64,
    pub(crate) combined: u64,
    pub(crate) from_memory: u64,
    pub(crate) lost: u64,
    /// Reads after the loss of a die that ended well though a block of them was on it, and those that did not.
    pub(crate) degraded_reads: u64,
    pub(crate) unreadable_reads: u64,
}

impl Found {
    pub(crate) fn add(&mut self, other: Found) {
        self.checked += other.checked;
        self.combined += other.combined;
        self.from_memory += other.from_memory;
        self.lost += other.lost;
        self.degraded_reads += other.degraded_reads;
        self.unreadable_reads += other.unreadable_reads;
    }
}

/// Checks every block after a failure.
fn check(ssd: &Ssd, ledger: &Ledger, failure: Option<Failure>, powered: bool, found: &mut Found) {
    let left = ledger.after(ssd, failure, powered);
    let config = ssd.config();
    let context = || format!("{failure:?}, power {powered}, {:?}", config.redundancy);
    let survives = match failure {
        Some(Failure::Die(_)) => config.redundancy.survives_a_die(config.all_dies()),
        _ => config.redundancy != Redundancy::EccOnly,
    };
    let striping = config.redundancy.striping();
    let keeps_memory = powered || config.power_loss_protected || striping.is_some_and(|s| s.protected_buffer);
    let uncovered_max_ns = striping.map_or(0, |striping| uncovered_max_ns(config, striping));
    for lba in 0..addresses(config) {
        found.checked += 1;
        let version = ledger.version[lba as usize];
        let expected = |part: u32| token(lba, version, part);
        let age = ssd.now() - ledger.placed_at[lba as usize];
        let is_young = age <= uncovered_max_ns;
        match ssd.content_after(lba, failure, powered) {
            Content::Unwritten => {
                assert!(
                    version == 0 || ledger.discarded[lba as usize],
                    "block {lba} is forgotten; {}",
                    context()
                );
            }
            Content::Stored { at, count } => {
                for part in 0..count {
                    let content = left.content[(at + part) as usize];
                    assert_eq!(content, expected(part), "block {lba} at {at}; {}", context());
                }
            }
            Content::Memory => {
                found.from_memory += 1;
                assert!(
                    keeps_memory && (is_young || striping.is_some_and(|s| s.protected_buffer)),
                    "block {lba}"
                );
            }
            Content::Combined { terms, running, at } => {
                found.combined += 1;
                assert!(survives || config.redundancy != Redundancy::EccOnly);
                for (part, terms) in (0..).zip(terms) {
                    let mut sum = terms.iter().map(|&term| left.content[term as usize]).fold(0, |a, b| a ^ b);
                    if let Some(side) = running {
                        let offset = (at as usize + part as usize) % left.unit_granules;
                        sum ^= left.running[side as usize][offset];
                    }
                    assert_eq!(
                        sum,
                        expected(part),
                        "block {lba} is combined to something else; {}",
                        context()
                    );
                }
            }
            Content::Volatile => {
                assert!(!powered, "block {lba} is lost with power");
                assert!(
                    striping.is_none() || is_young,
                    "block {lba}, {} ms old, is not on flash; {}",
                    age / 1_000_000,
                    context()
                );
            }
            Content::Lost => {
                found.lost += 1;
                let allowed = !survives || (!keeps_memory && is_young);
                assert!(allowed, "block {lba}, {} ms old, is lost; {}", age / 1_000_000, context());
            }
        }
    }
}

/// Runs random requests on a random drive and looks at it after failures; all from one seed.
pub(crate) fn run(seed: u64) -> Found {
    let mut rng = Rng::new(seed);
    let drive = with_parts(drive(&mut rng), &mut Rng::new(seed ^ PARTS));
    let mut ssd = Ssd::new(drive, seed);
    let mut ledger = Ledger::new(&ssd);
    let mut found = Found::default();
    ssd.observe_flash();
    let mut done = Vec::new();
    let span = [ssd.blocks(), ssd.blocks() / 8, 64][rng.below(3) as usize];
    let (mut now, mut submitted) = (0, 0);
    for _ in 0..3 {
        if rng.below(3) == 0 && ssd.next_event().is_none() {
            ssd.overwrite_at_once(u64::from(rng.below(2_000)), ssd.blocks());
            take_events(&mut ssd, &mut ledger);
        }
        for _ in 0..100 + rng.below(600) {
            while submitted > done.len() + DEPTH {
                step(&mut ssd, &mut ledger, &mut done, None);
            }
            if rng.below(5) == 0 {
                let gap = [10_000, 1_000_000, 80_000_000][rng.below(3) as usize];
                let until = now.max(ssd.now()) + u64::from(rng.below(gap));
                step(&mut ssd, &mut ledger, &mut done, Some(until));
            }
            now = ssd.now();
            let kind = match rng.below(30) {
                0 => Kind::Flush,
                1 => Kind::Discard,
                2..5 => Kind::Read,
                _ => Kind::Write,
            };
            let blocks_max = [1, 4, BLOCKS_MAX][rng.below(3) as usize];
            let blocks = 1 + rng.below(blocks_max);
            let lba = rng.below(span - blocks);
            if kind == Kind::Discard {
                (lba..lba + blocks).for_each(|lba| ledger.discarded[lba as usize] = true);
            }
            if ssd.config().compression.is_some() {
                let lengths: Vec<u16> = (0..blocks).map(|_| 1 + rng.below(4096) as u16).collect();
                ssd.announce_lengths(lba, &lengths);
            }
            ssd.submit(now, Command { tag: 0, kind, lba, blocks });
            submitted += 1;
            take_events(&mut ssd, &mut ledger);
        }
        for _ in 0..4 {
            step(&mut ssd, &mut ledger, &mut done, None);
            let failure = match rng.below(3) {
                0 => Some(Failure::Unit(rng.below(ledger.programmed.len() as u32))),
                _ => Some(Failure::Die(rng.below(ssd.config().all_dies()))),
            };
            check(&ssd, &ledger, failure, rng.below(2) == 0, &mut found);
        }
        if rng.below(2) == 0 {
            while ssd.next_event().is_some() {
                step(&mut ssd, &mut ledger, &mut done, None);
            }
            if rng.below(2) == 0 {
                // Nothing is left to be done, so what is uncovered now stays so.
                now = ssd.now() + 60_000_000_000;
                step(&mut ssd, &mut ledger, &mut done, Some(now));
            }
            let die = rng.below(ssd.config().all_dies());
            let quiet = |power| (Some(Failure::Die(die)), power);
            for (failure, powered) in [quiet(true), quiet(false), (None, false)] {
                check(&ssd, &ledger, failure, powered, &mut found);
            }
        }
    }
    lose_die(&mut ssd, &mut ledger, &mut rng, submitted - done.len(), &mut found);
    found
}

/// A die fails for good: the drive still says the truth about each block, and goes on to do so; requests end as that says,
/// those under way at that time too, and flash does not change any more.
fn lose_die(ssd: &mut Ssd, ledger: &mut Ledger, rng: &mut Rng, under_way: usize, found: &mut Found) {
    let die = rng.below(ssd.config().all_dies());
    let failure = Some(Failure::Die(die));
    let losses = ssd.lose_die(ssd.now(), die);
    for powered in [true, false] {
        check(ssd, ledger, failure, powered, found);
    }
    let contents = |ssd: &Ssd| {
        (0..ssd.blocks()).map(|lba| ssd.content_after(lba, failure, true)).collect::<Vec<Content>>()
    };
    let before = contents(ssd);
    let commands: Vec<Command> = (0..60)
        .map(|tag| {
            let kind =
                [Kind::Write, Kind::Discard, Kind::Flush, Kind::Read, Kind::Read][rng.below(5) as usize];
            let blocks = 1 + rng.below(BLOCKS_MAX);
            Command { tag: 1 + tag, kind, lba: rng.below(ssd.blocks() - blocks), blocks }
        })
        .collect();
    let mut done = Vec::new();
    for &command in &commands {
        if rng.below(2) == 0 {
            step(ssd, ledger, &mut done, None);
        }
        ssd.submit(ssd.now(), command);
    }
    while ssd.next_event().is_some() {
        step(ssd, ledger, &mut done, None);
    }
    assert_eq!(done.len(), under_way + commands.len(), "requests did not end after the loss of a die");
    for completion in done.iter().filter(|completion| completion.tag > 0) {
        let command = commands[completion.tag as usize - 1];
        let read = &before[command.lba as usize..(command.lba + command.blocks) as usize];
        let any = |is: fn(&Content) -> bool| command.kind == Kind::Read && read.iter().any(is);
        let is_lost = any(|content| matches!(content, Content::Lost));
        let expected = match command.kind {
            Kind::Read if is_lost => Outcome::Unreadable,
            Kind::Read => Outcome::Done,
            // Data that is only in memory cannot get to flash.
            Kind::Flush if completion.outcome == Outcome::Done => Outcome::Done,
            Kind::Flush | Kind::Write | Kind::Discard => Outcome::ReadOnly,
        };
        assert_eq!(completion.outcome, expected, "{command:?} after the loss of die {die}");
        found.unreadable_reads += u64::from(is_lost);
        found.degraded_reads +=
            u64::from(!is_lost && any(|content| matches!(content, Content::Combined { .. })));
    }
    let after = contents(ssd);
    let changed =
        (0..after.len()).find(|&lba| after[lba] != before[lba]).map(|lba| (lba, &before[lba], &after[lba]));
    assert_eq!(changed, None, "the drive has changed after the loss of a die");
    let lost = (0..).zip(&before).filter(|(_, content)| matches!(content, Content::Lost)).map(|(lba, _)| lba);
    assert_eq!(losses.lost, lost.collect::<Vec<u32>>());
}

/// Moves a drive to its next event, or through all events until a time.
fn step(ssd: &mut Ssd, ledger: &mut Ledger, done: &mut Vec<sinew_devices::Completion>, until: Option<Ns>) {
    loop {
        let next = ssd.next_event();
        match (next, until) {
            (None, None) => return,
            (Some(at), None) => {
                ssd.advance(at, done);
                take_events(ssd, ledger);
                return;
            }
            (next, Some(until)) => {
                let at = next.unwrap_or(until).min(until);
                ssd.advance(at, done);
                take_events(ssd, ledger);
                if at == until {
                    return;
                }
            }
        }
    }
}

fn take_events(ssd: &mut Ssd, ledger: &mut Ledger) {
    let now = ssd.now();
    ssd.take_flash_events().into_iter().for_each(|event| ledger.apply(now, event));
}

/// A small drive of any model, with a redundancy.
fn drive(rng: &mut Rng) -> Config {
    let base = [slc(), mqsim(), femu(), datacenter(), consumer()][rng.below(5) as usize].clone();
    let dies = [4, 8, 9][rng.below(3) as usize];
    let units = [3, 4, 8, 16][rng.below(4) as usize];
    let striping = Striping {
        units,
        wait_ns: [0, 200_000, 50_000_000][rng.below(3) as usize],
        reads: [ParityReads::Fewer, ParityReads::Reconstruct][rng.below(2) as usize],
        protected_buffer: rng.below(6) == 0,
    };
    let page_bytes = [4096, 8192][rng.below(2) as usize];
    let redundancy = match rng.below(8) {
        0 => Redundancy::EccOnly,
        // Blocks of a stripe that is longer would share pages.
        1..4 if page_bytes == 4096 || units <= dies => Redundancy::Raid5(striping),
        _ => Redundancy::Elastic(striping),
    };
    let compresses = matches!(redundancy, Redundancy::Elastic(_)) && rng.below(6) == 0;
    let compression =
        sinew_devices::flash::Compression { granule_bytes: 1024, space_query: false, length_query: false };
    let config = Config {
        channels: dies,
        chips: 1,
        dies: 1,
        planes: 1,
        page_bytes: if compresses { 16_384 } else { page_bytes },
        pages: [8, 16][rng.below(2) as usize],
        buffer_blocks: [16, 64][rng.below(2) as usize],
        power_loss_protected: rng.below(4) == 0,
        drain: match base.drain {
            Drain::Batch { .. } => Drain::Batch { blocks: 16 },
            other => other,
        },
        cleaning: Cleaning { low: 3, high: 4, ..base.cleaning },
        compression: compresses.then_some(compression),
        redundancy,
        ..base
    };
    config.sized(1 << 10, 0.2 + f64::from(rng.below(8)) / 10.0)
}

/// The drive with parts that it may have, for one drive in two.
fn with_parts(config: Config, rng: &mut Rng) -> Config {
    let mut parts = config.clone();
    if rng.below(2) == 0 {
        parts.slc_cache = Some(SlcCache {
            erase_blocks: 2 + rng.below(4),
            bits: [2, 3, 4][rng.below(3) as usize],
            sense_ns: parts.sense_ns / 2,
            program_ns: parts.program_ns / 3,
            fold_after_ns: [100_000, 5_000_000, 1_000_000_000][rng.below(3) as usize],
        });
    }
    if rng.below(3) == 0 {
        // A table of more pages than are in memory.
        parts.mapping_cache = Some(MappingCache { pages: MappingCache::PAGES_MIN, entries: 64 });
    }
    if rng.below(3) == 0 {
        parts.wear_levelling = Some(WearLevelling { spread: 1 + rng.below(3) });
    }
    let spare = 0.2 + f64::from(rng.below(8)) / 10.0;
    let parts = parts.clone().sized(parts.blocks, spare);
    if rng.below(2) == 0 || parts.check_features().is_err() { config } else { parts }
}
