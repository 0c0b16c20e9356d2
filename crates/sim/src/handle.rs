//! A device as tests and oracles handle it: look inside, change it, place faults.
//!
//! Nothing here takes virtual time or passes through the queue of requests. Offsets and lengths are bytes.

use std::ops::Range;
use std::rc::Rc;

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::DeviceId;

use crate::blocks::{Content, Version};
use crate::core::Core;
use crate::device::{CrashPolicy, DeviceState, DeviceStats};
use crate::faults::{DeviceFaults, Fault, FaultCounts, OpKind, Scripted};
use crate::latency::Latency;
use crate::lengths::{Lengths, Measure};
use crate::model::{Model, Modelled, Usage};
use crate::shared::Shared;
use crate::thin::Thin;
use crate::trace::{TraceHash, crc};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A device of a world.
#[derive(Clone)]
pub struct Device {
    shared: Rc<Shared>,
    id: DeviceId,
}

impl Device {
    pub(crate) fn new(shared: Rc<Shared>, id: DeviceId) -> Device {
        Device { shared, id }
    }

    fn with<T>(&self, f: impl FnOnce(&mut DeviceState, u64) -> T) -> T {
        let mut core = self.shared.core.borrow_mut();
        let now = core.now;
        f(core.device_mut(self.id).expect("handles are given out for existing devices"), now)
    }

    fn with_core<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        f(&mut self.shared.core.borrow_mut())
    }

    /// Its number.
    pub fn id(&self) -> DeviceId {
        self.id
    }

    /// Size in bytes, also while it is gone.
    pub fn bytes(&self) -> u64 {
        self.with(|device, _| device.config.bytes)
    }

    /// The content that a read would return now without faults. Any alignment.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        self.with(|device, _| gather(offset, len, |block| device.table.written(block)))
    }

    /// Whether a range has any content that was written and not discarded.
    pub fn is_written(&self, offset: u64, bytes: u64) -> bool {
        self.with(|device, _| device.table.first_written(offset / BLOCK, (offset + bytes) / BLOCK).is_some())
    }

    /// The content that would be left if the power failed now and no unflushed write survived. Any alignment.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn peek_durable(&self, offset: u64, len: usize) -> Vec<u8> {
        self.with(|device, _| gather(offset, len, |block| device.table.durable(block)))
    }

    /// Changes the content without a request; no crash undoes that. Any alignment. The change is neither counted nor logged,
    /// and repairs no damage.
    ///
    /// # Panics
    /// When the range reaches past the end.
    pub fn poke(&self, offset: u64, bytes: &[u8]) {
        let first = offset / BLOCK;
        let end = (offset + bytes.len() as u64).div_ceil(BLOCK);
        let mut all = self.peek(first * BLOCK, ((end - first) * BLOCK) as usize);
        let start = (offset - first * BLOCK) as usize;
        all[start..start + bytes.len()].copy_from_slice(bytes);
        let blocks = all.chunks(BLOCK_BYTES).map(|block| Some(Buf::copy_of(block)) as Version);
        let content = Content::Blocks((first..).zip(blocks).collect());
        self.with(|device, _| device.store_certain(content));
    }

    /// Completed writes that no flush covers yet.
    pub fn unflushed_count(&self) -> usize {
        self.with(|device, _| device.unflushed())
    }

    /// Counts of its requests so far.
    pub fn stats(&self) -> DeviceStats {
        self.with(|device, _| device.stats)
    }

    /// Counts of its faults so far.
    pub fn fault_counts(&self) -> FaultCounts {
        self.with(|device, _| device.counts)
    }

    /// A hash of the content that reads see. Written zeros count as unwritten ones.
    pub fn snapshot(&self) -> u64 {
        self.with(|device, _| {
            let mut hash = TraceHash::default();
            let end = device.blocks();
            let mut next = 0;
            while let Some(block) = device.table.first_written(next, end) {
                next = block + 1;
                let content = device.table.written(block).expect("just found").bytes();
                if content.iter().any(|&byte| byte != 0) {
                    hash.word(block);
                    hash.word(crc(content));
                }
            }
            hash.value()
        })
    }

    /// Changes the probabilities of its faults, from the next request on.
    pub fn set_faults(&self, faults: DeviceFaults) {
        self.with(|device, _| device.config.faults = faults);
    }

    /// The probabilities of its faults.
    pub fn faults(&self) -> DeviceFaults {
        self.with(|device, _| device.config.faults.clone())
    }

    /// Changes how long its requests take, from the next one on.
    pub fn set_latency(&self, latency: Latency) {
        self.with(|device, _| device.timing.set(latency));
    }

    /// Puts these bytes into memory with a battery: requests to them complete at once, and their writes survive power loss.
    pub fn set_battery_backed(&self, ranges: Vec<Range<u64>>) {
        self.with(|device, _| device.battery_backed = ranges);
    }

    /// Makes its requests take the time of a model from now on, which must be new, or idle.
    ///
    /// # Panics
    /// When the model is smaller than the device, or the device has one already.
    pub fn set_model(&self, model: Model) {
        self.with(|device, now| {
            assert!(model.bytes() >= device.config.bytes, "the model is smaller than the device");
            assert!(device.model.is_none(), "requests of the model before may be under way");
            device.model = Some(Modelled::new(model, now));
        });
    }

    /// Takes its model away, if it has one. Nothing may be under way.
    ///
    /// # Panics
    /// When a request of the present incarnation is.
    pub fn remove_model(&self) {
        self.with_core(|core| core.remove_model(self.id));
    }

    /// A die fails, if it has the model of an SSD that has not lost one yet. From then on it refuses writes, and it reads
    /// only what its own redundancy covers. A number above that of the dies counts around.
    ///
    /// Returns whether a die has failed by this.
    pub fn lose_die(&self, die: u32) -> bool {
        let dies = self.model(Model::dies).unwrap_or(0);
        if dies > 0 {
            self.with_core(|core| core.lose_die(self.id, die % dies));
        }
        dies > 0
    }

    /// Whether it has lost a die.
    pub fn has_lost_die(&self) -> bool {
        self.with(|device, _| device.counts.dies_lost > 0 && device.model.is_some())
    }

    /// Looks at its model, if it has one.
    pub fn model<T>(&self, look: impl FnOnce(&Model) -> T) -> Option<T> {
        self.with(|device, _| device.model.as_ref().map(|modelled| look(&modelled.model)))
    }

    /// How busy it has been, if it has a model.
    pub fn usage(&self) -> Option<Usage> {
        self.with(|device, now| device.model.as_mut().map(|modelled| modelled.usage(now)))
    }

    /// Gives it this much physical space, in place of as much as it has addresses, and none in common with other devices.
    pub fn set_physical(&self, bytes: u64) {
        self.with(|device, _| {
            device.thin = Some(Thin::new(bytes));
            let measure = device.table.take_measure();
            device.table.count_space(measure.unwrap_or_else(|| Measure::new(Lengths::default())));
        });
    }

    /// As [`Device::set_physical`]; its blocks take as much of that as these lengths say.
    pub fn set_compressing(&self, bytes: u64, lengths: Lengths) {
        self.with(|device, _| {
            device.thin = Some(Thin::new(bytes));
            device.table.count_space(Measure::new(lengths));
        });
    }

    /// Its physical space and that of another thin device are one.
    pub fn share_space(&self, other: DeviceId) {
        self.with_core(|core| {
            for id in [self.id, other] {
                let thin = core.device_mut(id).and_then(|device| device.thin.as_mut());
                thin.expect("both are thin").join(u64::from(other.0));
            }
        });
    }

    /// Has writes announce the compressed lengths of their blocks to the model, an SSD that compresses: its cleaning then moves
    /// compressed blocks. Physical space is counted in granules of the model, and a write fails with `NoSpace` when the flash is
    /// full.
    ///
    /// # Panics
    /// When it has no such model.
    pub fn announce_lengths(&self) {
        self.with(|device, _| {
            let granule = device.model.as_ref().and_then(|modelled| modelled.model.granule_bytes());
            let granule = granule.expect("the model is an SSD that compresses");
            let measure = Measure::new(device.table.lengths()).in_granules(granule);
            device.table.count_space(measure);
            device.announces = true;
        });
    }

    /// Bytes of physical space that its content takes; 0 if it is not thin.
    pub fn physical_used(&self) -> u64 {
        self.with(|device, _| device.table.stored_bytes())
    }

    /// Of these, the bytes that the blocks in a range of the device take.
    pub fn physical_used_in(&self, range: Range<u64>) -> u64 {
        let blocks = range.start / BLOCK..range.end / BLOCK;
        self.with(|device, _| blocks.map(|block| device.table.stored_length_of(block)).sum())
    }

    /// Another tenant takes physical space for `ns` nanoseconds, so that `room` bytes are left.
    pub fn squeeze(&self, room: u64, ns: u64) {
        self.with_core(|core| core.count_space_beside(self.id));
        self.with(|device, now| {
            let used = device.table.stored_bytes();
            let Some(thin) = &mut device.thin else { return };
            let taken = thin.limit(u64::MAX).saturating_sub(used + room);
            thin.take(taken, now.saturating_add(ns));
            device.counts.squeezes += 1;
        });
    }

    /// Places a fault on the next request of this kind that touches the byte range, or on the next one at all. Each
    /// call is for one request; several wait in order.
    pub fn script(&self, kind: OpKind, range: Option<Range<u64>>, fault: Fault) {
        let blocks = range.map(|range| (range.start / BLOCK, range.end.div_ceil(BLOCK)));
        self.with(|device, _| device.scripts.push_back(Scripted { kind, blocks, fault }));
    }

    /// Scripted faults that still wait for their request.
    pub fn scripts_waiting(&self) -> usize {
        self.with(|device, _| device.scripts.len())
    }

    /// Makes every block of a byte range unreadable until it is rewritten.
    pub fn spoil(&self, range: Range<u64>) {
        self.with(|device, now| {
            (range.start / BLOCK..range.end.div_ceil(BLOCK)).for_each(|block| device.spoil(now, block));
        });
    }

    /// Flips one bit of the stored byte at `offset`.
    pub fn rot(&self, offset: u64, bit: u8) {
        self.with(|device, now| {
            device.rot(now, offset / BLOCK, offset % BLOCK * 8 + u64::from(bit % 8));
        });
    }

    /// Makes everything that starts within the next `ns` nanoseconds take `factor` times as long.
    pub fn slow_down(&self, factor: u64, ns: u64) {
        self.with(|device, now| {
            device.counts.slow_periods += 1;
            device.timing.slow_down(now.saturating_add(ns), factor);
        });
    }

    /// Makes everything that arrives within the next `ns` nanoseconds wait until then: a latency spike.
    pub fn hold_up(&self, ns: u64) {
        self.with(|device, now| {
            device.counts.slow_periods += 1;
            device.timing.hold_up(now.saturating_add(ns));
        });
    }

    /// Makes the device hang for `ns` nanoseconds, or longer if it hangs already: all requests are carried out and answered
    /// after that.
    pub fn silence(&self, ns: u64) {
        self.with(|device, now| {
            device.counts.silences += 1;
            device.silent_until = device.silent_until.max(now.saturating_add(ns));
        });
    }

    /// Whether it hangs now.
    pub fn is_silent(&self) -> bool {
        self.was_silent(0)
    }

    /// Whether it hangs, or did `ns` nanoseconds ago.
    pub fn was_silent(&self, ns: u64) -> bool {
        self.with(|device, now| now < device.silent_until.saturating_add(ns))
    }

    /// Ends its hang for requests that arrive from now on.
    pub fn end_silence(&self) {
        self.with(|device, _| device.silent_until = 0);
    }

    /// Whether the engine has abandoned it, and it was not opened again since.
    pub fn is_abandoned(&self) -> bool {
        self.with(|device, _| device.abandoned)
    }

    /// Opens it again if it was abandoned. False while requests from before are pending: it cannot be opened until then.
    pub fn reopen(&self) -> bool {
        self.with_core(|core| core.reopen(self.id))
    }

    /// Takes the device away: requests fail with `Gone`, those in flight too, and its unflushed writes meet `policy` as
    /// in a power loss.
    pub fn detach(&self, policy: CrashPolicy) {
        self.with_core(|core| core.detach(self.id, policy));
    }

    /// Brings the device back with the content it kept.
    pub fn attach(&self) {
        self.with(|device, _| {
            if std::mem::replace(&mut device.gone, false) {
                // To the engine that abandoned it, it is another device.
                device.abandoned = false;
                device.counts.attached += 1;
            }
        });
    }

    /// Whether it is away.
    pub fn is_gone(&self) -> bool {
        self.with(|device, _| device.gone)
    }

    /// Takes the device away and puts a blank one of the same size into its place, attached.
    pub fn replace_by_blank(&self) {
        self.detach(CrashPolicy::DropAll);
        self.with(|device, _| device.wipe());
        self.attach();
    }

    /// Whether the data of the 4 KiB block at this offset was destroyed by a fault and not replaced since.
    pub fn is_damaged(&self, offset: u64) -> bool {
        self.with(|device, _| device.is_damaged(offset / BLOCK))
    }
}

fn gather<'a>(offset: u64, len: usize, content: impl Fn(u64) -> Option<&'a Buf>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        let start = (at % BLOCK) as usize;
        let take = (len - bytes.len()).min(BLOCK_BYTES - start);
        match content(at / BLOCK) {
            Some(block) => bytes.extend_from_slice(&block.bytes()[start..start + take]),
            None => bytes.resize(bytes.len() + take, 0),
        }
    }
    bytes
}
