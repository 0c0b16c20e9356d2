//! The oracle: the legal contents of every block of every volume.
//!
//! A block's content is a *version*: each write makes a new one, version 0 is zeros. While requests to a block overlap,
//! any of them may take effect last; when none is under way, the block holds the version of one that succeeded. After power
//! loss a block may also hold any version that it held since the last completed flush began.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};

/// One content of one block.
pub(crate) type Version = u64;

/// An unknown content.
const UNKNOWN: Version = Version::MAX;

/// A volume and one of its blocks.
pub(crate) type Place = (usize, u64);

/// A logical time: the number of requests that have ended.
type Moment = u64;

/// A version that a block may hold after power loss, and since when the block does not hold it without one.
#[derive(Clone, Copy, Debug)]
struct Remnant {
    version: Version,
    gone: Option<Moment>,
}

impl Remnant {
    fn there(version: Version) -> Remnant {
        Remnant { version, gone: None }
    }
}

#[derive(Clone, Debug)]
struct Block {
    /// The versions it could hold when the overlapping requests began; empty once one of them has succeeded.
    base: Vec<Version>,
    /// The versions of the overlapping requests.
    cluster: Vec<Version>,
    in_flight: u32,
    /// The versions it may hold after power loss, in their order.
    after_crash: Vec<Remnant>,
    /// Whether a partial write is under way: a version written meanwhile may include that part or not.
    merging: bool,
    /// The versions of all requests begun, so that a read knows which overlapped it.
    begun: Vec<Version>,
}

impl Default for Block {
    /// Never written: zeros.
    fn default() -> Block {
        Block {
            base: vec![0],
            cluster: Vec::new(),
            in_flight: 0,
            after_crash: vec![Remnant::there(0)],
            merging: false,
            begun: Vec::new(),
        }
    }
}

impl Block {
    fn possible(&self) -> impl Iterator<Item = Version> + '_ {
        self.base.iter().chain(&self.cluster).copied()
    }

    /// No request is under way any more: the block may hold any of the overlapping versions.
    fn end_cluster(&mut self) {
        self.base.append(&mut self.cluster);
        self.base.sort_unstable();
        self.base.dedup();
    }

    /// Notes that the overlapping requests have replaced the earlier versions.
    fn set_base(&mut self, base: Vec<Version>, now: Moment) {
        for version in std::mem::replace(&mut self.base, base) {
            let found = self.after_crash.binary_search_by_key(&version, |remnant| remnant.version);
            if let Ok(i) = found
                && !self.base.contains(&version)
            {
                self.after_crash[i].gone = Some(now);
            }
        }
    }
}

/// A flush under way. It makes the content durable that was there when it began.
pub(crate) struct Flush {
    volume: usize,
    began: Moment,
}

/// A read under way.
pub(crate) struct Reading {
    place: Place,
    begun: usize,
    /// Whether no request to the block was under way when the read began.
    idle: bool,
    /// All versions that the block could hold during the read.
    possible_before: Vec<Version>,
}

/// The legal contents of all volumes.
#[derive(Default)]
pub(crate) struct Oracle {
    blocks: BTreeMap<Place, Block>,
    /// Blocks that may hold more than one version after power loss.
    uncertain: BTreeSet<Place>,
    /// Contents that do not follow from their version number alone.
    special: BTreeMap<Version, Rc<Vec<u8>>>,
    /// Versions that are zeros.
    zeros: BTreeSet<Version>,
    version_last: Version,
    now: Moment,
}

impl Oracle {
    /// A block that may hold anything, until it is written.
    pub(crate) fn set_unknown(&mut self, place: Place) {
        let after_crash = vec![Remnant::there(UNKNOWN)];
        self.blocks.insert(place, Block { base: vec![UNKNOWN], after_crash, ..Block::default() });
    }

    pub(crate) fn begin_write(&mut self, place: Place) -> Version {
        self.version_last += 1;
        self.begin(place, self.version_last);
        self.version_last
    }

    /// A request that makes the block zeros.
    pub(crate) fn begin_zero(&mut self, place: Place) {
        let version = self.begin_write(place);
        self.zeros.insert(version);
    }

    /// Forgets a volume that has been deleted.
    pub(crate) fn forget(&mut self, volume: usize) {
        self.blocks.retain(|place, _| place.0 != volume);
        self.uncertain.retain(|place| place.0 != volume);
    }

    fn begin(&mut self, place: Place, version: Version) {
        let block = self.blocks.entry(place).or_default();
        block.begun.push(version);
        block.in_flight += 1;
        block.cluster.push(version);
        block.after_crash.push(Remnant::there(version));
        self.uncertain.insert(place);
    }

    /// Ends a write or zeroing. A failed request may have taken effect or not.
    pub(crate) fn end(&mut self, place: Place, succeeded: bool) {
        let block = self.blocks.get_mut(&place).expect("begun before");
        block.in_flight -= 1;
        block.merging = false;
        if succeeded {
            self.now += 1;
            block.set_base(Vec::new(), self.now);
        }
        if block.in_flight == 0 {
            block.end_cluster();
        }
    }

    /// The content of an idle block, if only one is legal.
    pub(crate) fn certain(&self, place: Place) -> Option<Vec<u8>> {
        match self.blocks.get(&place) {
            None => Some(self.content(place, 0)),
            Some(block) if block.in_flight == 0 && block.base.len() == 1 && block.base[0] != UNKNOWN => {
                Some(self.content(place, block.base[0]))
            }
            Some(_) => None,
        }
    }

    /// As `begin_write`, with a given content.
    pub(crate) fn begin_special(&mut self, place: Place, content: Vec<u8>) {
        let version = self.begin_write(place);
        self.special.insert(version, Rc::new(content));
        self.blocks.get_mut(&place).expect("just begun").merging = true;
    }

    /// Whether a part of any of these blocks is being written.
    pub(crate) fn is_merging(&self, volume: usize, start: u64, count: u64) -> bool {
        self.blocks.range((volume, start)..(volume, start + count)).any(|(_, b)| b.merging)
    }

    pub(crate) fn begin_flush(&self, volume: usize) -> Flush {
        Flush { volume, began: self.now }
    }

    pub(crate) fn end_flush(&mut self, flush: Flush) {
        self.uncertain.retain(|place| {
            if place.0 != flush.volume {
                return true;
            }
            let after_crash = &mut self.blocks.get_mut(place).expect("begun before").after_crash;
            after_crash.retain(|remnant| remnant.gone.is_none_or(|gone| gone > flush.began));
            after_crash.len() > 1
        });
    }

    /// A write with FUA has succeeded: where no request overlapped it, its version is durable.
    pub(crate) fn force(&mut self, place: Place, version: Version) {
        let block = self.blocks.get_mut(&place).expect("begun before");
        if block.in_flight == 0 && block.base == [version] {
            block.after_crash = vec![Remnant::there(version)];
            self.uncertain.remove(&place);
        }
    }

    pub(crate) fn begin_read(&self, place: Place) -> Reading {
        let block = self.blocks.get(&place);
        Reading {
            place,
            begun: block.map_or(0, |b| b.begun.len()),
            idle: block.is_none_or(|b| b.in_flight == 0),
            possible_before: block.map_or(vec![0], |b| b.possible().collect()),
        }
    }

    /// Checks the data that a read returned.
    pub(crate) fn end_read(&mut self, reading: Reading, content: &[u8]) -> Result<(), String> {
        let place = reading.place;
        let (mut legal, undisturbed) = match self.blocks.get(&place) {
            None => (vec![0], false),
            Some(block) => (block.possible().collect(), reading.idle && block.begun.len() == reading.begun),
        };
        if !undisturbed {
            legal.extend(&reading.possible_before);
            legal.extend(self.blocks.get(&place).iter().flat_map(|b| &b.begun[reading.begun..]));
        }
        legal.sort_unstable();
        legal.dedup();
        let Some(found) = self.recognise(place, content, &legal) else {
            return Err(format!(
                "volume {} block {}: read {}, legal are versions {legal:?}",
                place.0,
                place.1,
                describe(place, content)
            ));
        };
        // Zeros in a block of which nothing is known may be what was there before a request for zeros that failed. Its copies may
        // differ until it is written, so the next read may return something else.
        let is_unsure = legal.contains(&UNKNOWN) && content == ZEROS;
        if undisturbed
            && !is_unsure
            && let Some(block) = self.blocks.get_mut(&place)
        {
            self.now += 1;
            block.set_base(vec![found], self.now);
        }
        Ok(())
    }

    /// Checks a content without taking note of it: what the block may hold now, or, of `any_age`, ever has.
    pub(crate) fn check(&self, place: Place, content: &[u8], any_age: bool) -> Result<(), String> {
        let block = self.blocks.get(&place);
        let mut legal: Vec<Version> = block.map_or(vec![0], |block| block.possible().collect());
        if any_age {
            legal.push(0);
            legal.extend(block.iter().flat_map(|block| &block.begun));
        }
        legal.sort_unstable();
        legal.dedup();
        match self.recognise(place, content, &legal) {
            Some(_) => Ok(()),
            None => {
                let found = describe(place, content);
                Err(format!(
                    "volume {} block {}: read {found}, legal are versions {legal:?}",
                    place.0, place.1
                ))
            }
        }
    }

    /// Finds a content among the legal versions. A pattern contains its version, so that few have to be generated to compare.
    fn recognise(&self, place: Place, content: &[u8], legal: &[Version]) -> Option<Version> {
        let named = u64::from_le_bytes(content[16..24].try_into().expect("eight bytes"));
        let may_be = |v: &Version| {
            *v == named || *v == 0 || *v == UNKNOWN || self.zeros.contains(v) || self.special.contains_key(v)
        };
        legal.iter().copied().filter(may_be).find(|&v| self.holds(place, v, content))
    }

    /// Whether this is a block's content as a version.
    fn holds(&self, place: Place, version: Version, content: &[u8]) -> bool {
        if version == UNKNOWN {
            return true;
        }
        match self.special.get(&version) {
            Some(special) => content == &special[..],
            None if version == 0 || self.zeros.contains(&version) => content == ZEROS,
            None => is_pattern(place, version, content),
        }
    }

    /// The process died: requests under way have ended, each of which may have taken effect or not.
    pub(crate) fn process_died(&mut self) {
        for block in self.blocks.values_mut() {
            block.in_flight = 0;
            block.merging = false;
            block.end_cluster();
        }
    }

    /// The power failed.
    pub(crate) fn power_failed(&mut self) {
        self.process_died();
        for block in self.blocks.values_mut() {
            block.after_crash.iter_mut().for_each(|remnant| remnant.gone = None);
            block.base = block.after_crash.iter().map(|remnant| remnant.version).collect();
        }
    }

    /// The pool was opened and every block read: the present contents are durable.
    pub(crate) fn verified(&mut self) {
        for block in self.blocks.values_mut() {
            block.after_crash = block.base.iter().copied().map(Remnant::there).collect();
        }
        let uncertain = self.blocks.iter().filter(|(_, block)| block.after_crash.len() > 1);
        self.uncertain = uncertain.map(|(&place, _)| place).collect();
    }

    /// The content of a block with a version.
    fn content(&self, place: Place, version: Version) -> Vec<u8> {
        let mut bytes = ZEROS.to_vec();
        self.fill(place, version, &mut bytes);
        bytes
    }

    fn fill(&self, place: Place, version: Version, out: &mut [u8]) {
        match self.special.get(&version) {
            Some(content) => out.copy_from_slice(content),
            None if self.zeros.contains(&version) => out.fill(0),
            None => fill_pattern(place, version, out),
        }
    }
}

static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];

/// Fills `out` with the pattern of a version, which differs from block to block. Each word follows from its number alone, so
/// that the compiler uses vector instructions. Every second version compresses well, with another period than its neighbours, so
/// that their parity does not.
fn fill_pattern(place: Place, version: Version, out: &mut [u8]) {
    if version == 0 {
        return out.fill(0);
    }
    let seed = (place.1 << 20) ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((place.0 as u64) << 50);
    let words = BLOCK_BYTES / 8;
    let period = if version.is_multiple_of(2) { 29 + 2 * (place.1 % 3) as usize } else { words };
    for some in out.chunks_mut(period * 8) {
        for (i, word) in (0u64..).zip(some.chunks_exact_mut(8)) {
            word.copy_from_slice(&(seed ^ i.wrapping_mul(0x5851_f42d_4c95_7f2d)).to_le_bytes());
        }
    }
    for (word, name) in out.chunks_exact_mut(8).zip([place.0 as u64 + 1, place.1, version]) {
        word.copy_from_slice(&name.to_le_bytes());
    }
}

fn is_pattern(place: Place, version: Version, content: &[u8]) -> bool {
    let mut expected = ZEROS;
    fill_pattern(place, version, &mut expected);
    content == expected
}

/// The data of consecutive blocks with these versions.
pub(crate) fn data_of(volume: usize, first: u64, versions: &[Version]) -> Buf {
    let mut buf = Buf::stale(versions.len() * BLOCK_BYTES);
    let blocks = buf.bytes_mut().chunks_exact_mut(BLOCK_BYTES);
    for ((block, &version), out) in (first..).zip(versions).zip(blocks) {
        fill_pattern((volume, block), version, out);
    }
    buf
}

fn describe(place: Place, content: &[u8]) -> String {
    let word = |i: usize| u64::from_le_bytes(content[i * 8..i * 8 + 8].try_into().expect("eight bytes"));
    if content.iter().all(|&b| b == 0) {
        return "zeros".to_owned();
    }
    let (volume, block, version) = (word(0).wrapping_sub(1), word(1), word(2));
    if is_pattern((volume as usize, block), version, content) {
        if (volume as usize, block) == place {
            return format!("version {version}");
        }
        return format!("version {version} of volume {volume} block {block}");
    }
    format!("garbage {:02x?}...", &content[..24])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (0, 7);

    fn read(oracle: &mut Oracle, content: &[u8]) -> Result<(), String> {
        let reading = oracle.begin_read(PLACE);
        oracle.end_read(reading, content)
    }

    #[test]
    fn zeros_of_a_failed_discard_do_not_decide_an_unknown_block() {
        let former = [1; BLOCK_BYTES];
        for succeeded in [false, true] {
            let mut oracle = Oracle::default();
            oracle.set_unknown(PLACE);
            oracle.begin_zero(PLACE);
            oracle.end(PLACE, succeeded);
            read(&mut oracle, &ZEROS).unwrap();
            assert_eq!(read(&mut oracle, &former).is_err(), succeeded);
        }
    }
}
