//! One device: its written and its durable content, and the effect of a power loss on the difference.
//!
//! Completed writes sit in a volatile cache, in order of completion, each with a sequence number. A flush that was
//! issued when the last completed write had number n makes durable everything up to n, nothing else. On power loss each
//! cached or in-flight write is kept, dropped or torn by blocks, in order, so that every block ends as one of its
//! versions since the durable one, or as the durable one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use sinew_core::buf::BLOCK_BYTES;
use sinew_core::io::DeviceId;

use crate::blocks::{BlockTable, Content};
use crate::faults::{Corruption, CorruptionKind, DeviceFaults, FaultCounts, Scripted};
use crate::latency::{Latency, Timing};
use crate::model::Modelled;
use crate::random::Rng;
use crate::thin::Thin;

/// The properties of a device.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Size in bytes, a multiple of 4 KiB.
    pub bytes: u64,
    /// How long requests take.
    pub latency: Latency,
    /// Probabilities of faults at the start.
    pub faults: DeviceFaults,
    /// The content of a discarded block.
    pub discard: DiscardReads,
    /// Writes in the volatile cache at most; beyond that, the oldest become durable by themselves.
    pub cache_writes: usize,
    /// Store handles to the writer's buffers (fast) instead of copies. A writer that wants to fill its buffer again
    /// once the write is done needs `false`, because the device would still share it.
    pub share_writes: bool,
    /// Do not store blocks of zeros, which saves memory. Reads are the same; random faults strike only stored blocks.
    pub drop_zeros: bool,
    /// Requests that take no time end where they are made, as those of members in memory do, not when the caller has given way.
    pub inline: bool,
}

impl DeviceConfig {
    /// A faultless device of `bytes` bytes.
    pub fn of_bytes(bytes: u64) -> DeviceConfig {
        DeviceConfig {
            bytes,
            latency: Latency::default(),
            faults: DeviceFaults::default(),
            discard: DiscardReads::Zeros,
            cache_writes: 1 << 16,
            share_writes: true,
            drop_zeros: false,
            inline: false,
        }
    }
}

/// The content of a discarded block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReads {
    /// Zeros.
    Zeros,
    /// Its old content: the device ignores discards.
    Kept,
    /// Each block at random: zeros, its old content, or garbage.
    Anything,
    /// Garbage, and other garbage the next time, until it is written.
    Unstable,
}

/// The effect of a power loss on a device's unflushed and in-flight writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CrashPolicy {
    /// One of the others, drawn for each device.
    Random,
    /// Everything survives, in-flight writes included.
    KeepAll,
    /// Nothing survives.
    DropAll,
    /// Each write is torn with the second probability, otherwise kept with the first.
    Mix {
        /// Probability that a write that is not torn is kept.
        keep: f64,
        /// Probability that a write is torn: each block kept or dropped by itself.
        torn: f64,
    },
    /// A random number of writes survives, in order of completion; the next is torn, the rest dropped.
    Prefix,
}

/// Counts of completed requests, failed ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes requested by reads.
    pub read_bytes: u64,
    /// Bytes sent by writes.
    pub written_bytes: u64,
}

impl DeviceStats {
    /// Requests of every kind.
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.flushes + self.discards
    }
}

struct Cached {
    seq: u64,
    /// Not a write of the host's but a change of the medium itself: survives everything.
    certain: bool,
    content: Content,
}

/// A corruption and the sequence numbers that decide whether it is still there.
struct Damage {
    corruption: Corruption,
    seq: u64,
    overwritten: Option<u64>,
}

/// The state of one device.
pub(crate) struct DeviceState {
    pub(crate) id: DeviceId,
    pub(crate) config: DeviceConfig,
    pub(crate) table: BlockTable,
    cache: VecDeque<Cached>,
    /// Number of the last completed write.
    seq: u64,
    durable_seq: u64,
    pub(crate) gone: bool,
    /// The device hangs until then.
    pub(crate) silent_until: u64,
    /// The device was abandoned, and not opened again since.
    pub(crate) abandoned: bool,
    pub(crate) timing: Timing,
    /// Bytes in memory with a battery: written at once, durable, and not counted as traffic of the device.
    pub(crate) battery_backed: Vec<Range<u64>>,
    /// Blocks that read differently each time.
    pub(crate) unstable: BTreeSet<u64>,
    /// The model, in place of `timing`.
    pub(crate) model: Option<Modelled>,
    /// The number of the controller before its model.
    pub(crate) controller: Option<usize>,
    /// Writes announce the compressed lengths of their blocks to the model.
    pub(crate) announces: bool,
    /// The physical space, if it may be less than the addresses.
    pub(crate) thin: Option<Thin>,
    pub(crate) scripts: VecDeque<Scripted>,
    /// Block ranges where random faults may destroy data.
    pub(crate) allowed: Vec<Range<u64>>,
    pub(crate) unreadable: BTreeSet<u64>,
    damages: Vec<Damage>,
    damaged: BTreeMap<u64, Vec<usize>>,
    pub(crate) counts: FaultCounts,
    pub(crate) stats: DeviceStats,
    pub(crate) fault_rng: Rng,
    pub(crate) discard_rng: Rng,
    crash_rng: Rng,
}

impl DeviceState {
    pub(crate) fn new(id: DeviceId, config: DeviceConfig, seed: u64) -> DeviceState {
        assert!(config.bytes.is_multiple_of(BLOCK_BYTES as u64), "a device is a whole number of blocks");
        let stream = |purpose| Rng::stream(seed, purpose, u64::from(id.0));
        DeviceState {
            id,
            table: BlockTable::new(config.bytes / BLOCK_BYTES as u64, config.drop_zeros),
            cache: VecDeque::new(),
            seq: 0,
            durable_seq: 0,
            gone: false,
            silent_until: 0,
            abandoned: false,
            timing: Timing::new(config.latency.clone(), stream("latency")),
            battery_backed: Vec::new(),
            unstable: BTreeSet::new(),
            model: None,
            controller: None,
            announces: false,
            thin: None,
            scripts: VecDeque::new(),
            allowed: Vec::new(),
            unreadable: BTreeSet::new(),
            damages: Vec::new(),
            damaged: BTreeMap::new(),
            counts: FaultCounts::default(),
            stats: DeviceStats::default(),
            fault_rng: stream("faults"),
            discard_rng: stream("discard"),
            crash_rng: stream("crash"),
            config,
        }
    }

    /// Whether all of these bytes are in memory with a battery.
    pub(crate) fn is_battery_backed(&self, offset: u64, bytes: u64) -> bool {
        bytes > 0 && self.battery_backed.iter().any(|r| r.start <= offset && offset + bytes <= r.end)
    }

    /// Size in blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.config.bytes / BLOCK_BYTES as u64
    }

    /// The number of the last completed write: what a flush issued now covers.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Completed writes that no flush covers yet.
    pub(crate) fn unflushed(&self) -> usize {
        self.cache.iter().filter(|cached| !cached.certain).count()
    }

    /// Stores content in the cache: reads see it from now on. Returns its number.
    pub(crate) fn store(&mut self, content: Content) -> u64 {
        self.seq += 1;
        let (seq, table) = (self.seq, &mut self.table);
        if !self.unstable.is_empty() {
            content.each(|block, _| {
                self.unstable.remove(&block);
            });
        }
        if self.config.cache_writes == 0 && self.cache.is_empty() {
            content.each(|block, version| table.set_both(block, version));
            self.durable_seq = seq;
            self.note_overwritten(&content, seq);
            return seq;
        }
        content.each(|block, version| table.set_written(block, version));
        self.note_overwritten(&content, seq);
        let certain = !self.battery_backed.is_empty()
            && content.all(|block| self.is_battery_backed(block * BLOCK_BYTES as u64, BLOCK_BYTES as u64));
        self.cache.push_back(Cached { seq, certain, content });
        if self.cache.len() > self.config.cache_writes {
            self.persist_oldest();
        }
        seq
    }

    /// Changes the medium without a write of the host; no crash undoes that, and damage stays logged.
    pub(crate) fn store_certain(&mut self, content: Content) -> u64 {
        self.seq += 1;
        let table = &mut self.table;
        content.each(|block, version| table.set_written(block, version));
        self.cache.push_back(Cached { seq: self.seq, certain: true, content });
        self.seq
    }

    fn note_overwritten(&mut self, content: &Content, seq: u64) {
        if self.unreadable.is_empty() && self.damaged.is_empty() {
            return;
        }
        content.each(|block, _| {
            self.unreadable.remove(&block);
            for &index in self.damaged.get(&block).into_iter().flatten() {
                self.damages[index].overwritten = Some(seq);
            }
        });
    }

    /// Makes the oldest cached write durable.
    fn persist_oldest(&mut self) {
        if let Some(first) = self.cache.pop_front() {
            let table = &mut self.table;
            first.content.each(|block, version| table.set_durable(block, version));
            self.durable_seq = first.seq;
        }
    }

    /// Makes every write with a number up to `upto` durable.
    pub(crate) fn persist(&mut self, upto: u64) {
        while self.cache.front().is_some_and(|first| first.seq <= upto) {
            self.persist_oldest();
        }
        self.durable_seq = self.durable_seq.max(upto);
    }

    /// Power fails: cached and in-flight writes are kept, dropped or torn.
    pub(crate) fn power_loss(&mut self, policy: CrashPolicy, in_flight: Vec<Content>) {
        self.counts.power_losses += 1;
        for content in self.shuffled(in_flight) {
            self.seq += 1;
            self.cache.push_back(Cached { seq: self.seq, certain: false, content });
        }
        let mut fates = Fates::draw(policy, self.cache.len(), &mut self.crash_rng);
        let mut winners = BTreeMap::new();
        let cache = std::mem::take(&mut self.cache);
        for (index, cached) in cache.iter().enumerate() {
            let fate = if cached.certain { Fate::Keep } else { fates.next(index, &mut self.crash_rng) };
            let (mut kept, mut all) = (0, 0);
            let (table, rng) = (&mut self.table, &mut self.crash_rng);
            cached.content.each(|block, version| {
                all += 1;
                if fate.keeps(rng) {
                    kept += 1;
                    table.set_durable(block, version);
                    winners.insert(block, (cached.seq, cached.certain));
                }
            });
            if !cached.certain {
                self.count_fate(kept, all);
            }
        }
        for cached in &cache {
            let table = &mut self.table;
            cached.content.each(|block, _| table.revert(block));
        }
        self.reconsider_damage(&winners);
        self.durable_seq = self.seq;
        self.timing.reset();
    }

    /// The process ends, the device lives on: completed writes stay, those in flight happen, or not, or in part.
    pub(crate) fn process_kill(&mut self, in_flight: Vec<Content>) {
        self.counts.process_kills += 1;
        let mut fates = Fates::draw(CrashPolicy::Mix { keep: 0.5, torn: 0.3 }, 0, &mut self.crash_rng);
        for content in self.shuffled(in_flight) {
            let fate = fates.next(0, &mut self.crash_rng);
            let (mut kept, mut all) = (0, 0);
            let part = content.part(|_| {
                all += 1;
                let keep = fate.keeps(&mut self.crash_rng);
                kept += u64::from(keep);
                keep
            });
            self.count_fate(kept, all);
            self.store(part);
        }
        self.timing.reset();
    }

    fn shuffled(&mut self, mut in_flight: Vec<Content>) -> Vec<Content> {
        self.crash_rng.shuffle(&mut in_flight);
        in_flight
    }

    fn count_fate(&mut self, kept: u64, all: u64) {
        match kept {
            0 => self.counts.dropped_writes += 1,
            _ if kept == all => self.counts.kept_writes += 1,
            _ => self.counts.torn_writes += 1,
        }
    }

    /// Decides again, after a power loss, which damage is overwritten: a good write that was dropped healed nothing.
    fn reconsider_damage(&mut self, winners: &BTreeMap<u64, (u64, bool)>) {
        for damage in &mut self.damages {
            if damage.overwritten.is_none_or(|seq| seq > self.durable_seq) {
                let winner = winners.get(&damage.corruption.block);
                damage.overwritten =
                    winner.filter(|(seq, certain)| *seq > damage.seq && !certain).map(|(seq, _)| *seq);
            }
            if damage.overwritten.is_some() && damage.corruption.kind == CorruptionKind::LatentError {
                self.unreadable.remove(&damage.corruption.block);
            } else if damage.corruption.kind == CorruptionKind::LatentError {
                self.unreadable.insert(damage.corruption.block);
            }
        }
    }

    /// Writes destroyed data into the log; `seq` is the number of the event that destroyed it.
    pub(crate) fn log_damage(&mut self, block: u64, kind: CorruptionKind, at_ns: u64, seq: u64) {
        let corruption = Corruption { device: self.id, block, kind, at_ns, overwritten: false };
        self.damaged.entry(block).or_default().push(self.damages.len());
        self.damages.push(Damage { corruption, seq, overwritten: None });
    }

    /// Takes a number for an event that leaves nothing in the cache.
    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Everything destroyed so far.
    pub(crate) fn corruptions(&self) -> impl Iterator<Item = Corruption> {
        self.damages.iter().map(|damage| Corruption {
            overwritten: damage.overwritten.is_some(),
            ..damage.corruption.clone()
        })
    }

    /// Whether the block's data was destroyed and not replaced since.
    pub(crate) fn is_damaged(&self, block: u64) -> bool {
        let indices = self.damaged.get(&block).into_iter().flatten();
        indices.into_iter().any(|&index| self.damages[index].overwritten.is_none())
    }

    /// Forgets all content and all damage, as if the device were exchanged for a new one.
    pub(crate) fn wipe(&mut self) {
        let measure = self.table.take_measure();
        self.table = BlockTable::new(self.blocks(), self.config.drop_zeros);
        if let Some(measure) = measure {
            self.table.count_space(measure);
        }
        self.cache.clear();
        self.unreadable.clear();
        self.durable_seq = self.seq;
        self.damaged.clear();
        for damage in &mut self.damages {
            damage.overwritten = Some(self.seq);
        }
    }
}

/// The fate of one write.
#[derive(Clone, Copy)]
enum Fate {
    Keep,
    Drop,
    Tear,
}

impl Fate {
    fn keeps(self, rng: &mut Rng) -> bool {
        match self {
            Fate::Keep => true,
            Fate::Drop => false,
            Fate::Tear => rng.chance(0.5),
        }
    }
}

/// A policy made concrete for one crash of one device.
enum Fates {
    All(Fate),
    Mix { keep: f64, torn: f64 },
    Prefix(usize),
}

impl Fates {
    fn draw(policy: CrashPolicy, writes: usize, rng: &mut Rng) -> Fates {
        match policy {
            CrashPolicy::KeepAll => Fates::All(Fate::Keep),
            CrashPolicy::DropAll => Fates::All(Fate::Drop),
            CrashPolicy::Mix { keep, torn } => Fates::Mix { keep, torn },
            CrashPolicy::Prefix => Fates::Prefix(rng.below(writes as u64 + 1) as usize),
            CrashPolicy::Random => match rng.below(8) {
                0 => Fates::All(Fate::Keep),
                1 => Fates::All(Fate::Drop),
                2 => Fates::All(Fate::Tear),
                3 | 4 => Fates::Prefix(rng.below(writes as u64 + 1) as usize),
                _ => Fates::Mix { keep: rng.unit(), torn: rng.unit() * rng.unit() },
            },
        }
    }

    fn next(&mut self, index: usize, rng: &mut Rng) -> Fate {
        match *self {
            Fates::All(fate) => fate,
            Fates::Mix { torn, .. } if rng.chance(torn) => Fate::Tear,
            Fates::Mix { keep, .. } if rng.chance(keep) => Fate::Keep,
            Fates::Mix { .. } => Fate::Drop,
            Fates::Prefix(kept) if index < kept => Fate::Keep,
            Fates::Prefix(kept) if index == kept => Fate::Tear,
            Fates::Prefix(_) => Fate::Drop,
        }
    }
}
