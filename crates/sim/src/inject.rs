//! The effect of a request on its device when it completes, and the faults that it meets.
//!
//! A scripted fault that waits for the request goes first, otherwise the device's probabilities are drawn, in a fixed
//! order. A fault that destroys data is drawn only where the caller allowed it.

use sinew_core::buf::{BLOCK_BYTES, Buf};
use sinew_core::io::{Gather, IoError};
use sinew_core::physical::{Domain, Physical, PhysicalSource};

use crate::blocks::{Content, Version, gather_bytes, leading};
use crate::device::{DeviceState, DiscardReads};
use crate::faults::{CorruptionKind, EIO, Fault, OpKind};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The content of the buffer of a failed read, so that it is not mistaken for data.
const POISON: u8 = 0xee;

/// The fate of a request when it arrives.
#[derive(Default)]
pub(crate) struct Arrival {
    pub(crate) delay_ns: u64,
    pub(crate) gone: bool,
}

impl DeviceState {
    fn take_script(&mut self, early: bool, kind: OpKind, first: u64, count: u64) -> Option<Fault> {
        let waiting = self
            .scripts
            .iter()
            .position(|script| script.strikes_early() == early && script.matches(kind, first, count))?;
        self.scripts.remove(waiting).map(|script| script.fault)
    }

    /// Draws the fault of a request before it is served.
    pub(crate) fn arrive(&mut self, now: u64, kind: OpKind, first: u64, count: u64) -> Arrival {
        let mut arrival = Arrival::default();
        match self.take_script(true, kind, first, count) {
            Some(Fault::Stall(ns)) => arrival.delay_ns = ns,
            Some(Fault::Gone) => arrival.gone = true,
            _ => {}
        }
        let (faults, rng) = (&self.config.faults, &mut self.fault_rng);
        arrival.gone |= rng.chance(faults.gone);
        if rng.chance(faults.stall) {
            arrival.delay_ns += rng.between(faults.stall_ns.0, faults.stall_ns.1);
        }
        self.counts.stalls += u64::from(arrival.delay_ns > 0);
        if rng.chance(faults.slow) && !self.timing.is_slow(now) {
            let factor = rng.between(faults.slow_factor.0, faults.slow_factor.1);
            self.timing.slow_down(now + rng.between(faults.slow_ns.0, faults.slow_ns.1), factor);
            self.counts.slow_periods += 1;
        }
        if rng.chance(faults.bit_rot) {
            self.rot_somewhere(now);
        }
        arrival
    }

    /// Whether random faults may destroy all of these blocks.
    fn may_damage(&self, first: u64, count: u64) -> bool {
        self.allowed.iter().any(|range| range.start <= first && first + count <= range.end)
    }

    /// A random place for `count` blocks where random faults may destroy data, other than `not`.
    fn somewhere(&mut self, count: u64, not: u64) -> Option<u64> {
        let fitting: Vec<_> =
            self.allowed.iter().filter(|range| range.end - range.start >= count).cloned().collect();
        let range = fitting.get(self.fault_rng.below(fitting.len() as u64) as usize)?;
        let place = self.fault_rng.between(range.start, range.end - count);
        (place.abs_diff(not) >= count).then_some(place)
    }

    fn rot_somewhere(&mut self, now: u64) {
        let Some(start) = self.somewhere(1, u64::MAX) else { return };
        let range = self.allowed.iter().find(|range| range.contains(&start)).cloned().unwrap_or(0..0);
        let stored = self
            .table
            .first_written(start, range.end)
            .or_else(|| self.table.first_written(range.start, start));
        if let Some(block) = stored {
            let bit = self.fault_rng.below(BLOCK * 8);
            self.rot(now, block, bit);
        }
    }

    /// Flips one bit of a block.
    pub(crate) fn rot(&mut self, now: u64, block: u64, bit: u64) {
        let mut content = Buf::zeroed(BLOCK_BYTES);
        self.table.read(block, content.bytes_mut());
        content.bytes_mut()[(bit / 8) as usize] ^= 1 << (bit % 8);
        let seq = self.store_certain(Content::Blocks(vec![(block, Some(content))]));
        self.log_damage(block, CorruptionKind::BitRot, now, seq);
        self.counts.bit_rot += 1;
    }

    /// Makes a block unreadable until it is rewritten.
    pub(crate) fn spoil(&mut self, now: u64, block: u64) {
        if self.unreadable.insert(block) {
            let seq = self.next_seq();
            self.log_damage(block, CorruptionKind::LatentError, now, seq);
            self.counts.latent_errors += 1;
        }
    }

    /// Completes a read.
    pub(crate) fn finish_read(&mut self, now: u64, offset: u64, buf: &mut Buf) -> Result<(), IoError> {
        let (first, count) = (offset / BLOCK, buf.len() as u64 / BLOCK);
        self.stats.reads += 1;
        self.stats.read_bytes += buf.len() as u64;
        let fault = self.take_script(false, OpKind::Read, first, count);
        let fault = fault.or_else(|| self.draw_read_fault(now, first, count));
        let spoiled = || self.unreadable.range(first..first + count).next().is_some();
        let result = match fault {
            Some(Fault::Error(errno)) => {
                self.counts.read_errors += 1;
                Err(IoError::Failed(errno))
            }
            _ if !self.unreadable.is_empty() && spoiled() => {
                self.counts.latent_hits += 1;
                Err(IoError::Failed(EIO))
            }
            _ => Ok(()),
        };
        let from = match fault {
            Some(Fault::Misdirected(from)) if result.is_ok() => {
                self.counts.misdirected_reads += 1;
                from / BLOCK
            }
            _ => first,
        };
        match result {
            Ok(()) => {
                self.table.read(from, buf.bytes_mut());
                for block in self.unstable.range(from..from + count) {
                    // Not the same by chance, so that no parity fits twice.
                    let garbage = self.discard_rng.bits().to_le_bytes();
                    let block = &mut buf.bytes_mut()[(block - from) as usize * BLOCK_BYTES..][..BLOCK_BYTES];
                    block.as_chunks_mut().0.fill(garbage);
                }
            }
            Err(_) => buf.bytes_mut().fill(POISON),
        }
        result
    }

    fn draw_read_fault(&mut self, now: u64, first: u64, count: u64) -> Option<Fault> {
        if self.fault_rng.chance(self.config.faults.read_error) {
            return Some(Fault::Error(EIO));
        }
        if self.fault_rng.chance(self.config.faults.latent_error) && self.may_damage(first, count) {
            let block = first + self.fault_rng.below(count);
            self.spoil(now, block);
        }
        if self.fault_rng.chance(self.config.faults.misdirected_read) && self.may_damage(first, count) {
            return self.somewhere(count, first).map(|from| Fault::Misdirected(from * BLOCK));
        }
        None
    }

    /// Completes a write.
    pub(crate) fn finish_write(&mut self, now: u64, offset: u64, data: Gather) -> Result<(), IoError> {
        let (first, count) = (offset / BLOCK, gather_bytes(&data) / BLOCK);
        if !self.is_battery_backed(offset, count * BLOCK) {
            self.stats.writes += 1;
            self.stats.written_bytes += count * BLOCK;
        }
        let fault = self.take_script(false, OpKind::Write, first, count);
        let fault = fault.or_else(|| self.draw_write_fault(first, count));
        match fault {
            Some(Fault::Error(errno)) => {
                self.counts.write_errors += 1;
                let part = self.some_part(&Content::Gather { first, data });
                self.store(part);
                return Err(IoError::Failed(errno));
            }
            Some(Fault::Lost) => {
                self.counts.lost_writes += 1;
                let seq = self.next_seq();
                self.log_each(now, first, count, CorruptionKind::Stale, seq);
            }
            Some(Fault::Misdirected(to)) => {
                self.counts.misdirected_writes += 1;
                let seq = self.store(Content::Gather { first: to / BLOCK, data });
                self.log_each(now, first, count, CorruptionKind::Stale, seq);
                self.log_each(now, to / BLOCK, count, CorruptionKind::Misdirected, seq);
            }
            _ => {
                let fits = self.blocks_with_space(now, first, &data);
                if fits < count {
                    self.counts.no_space += 1;
                    self.store(Content::Gather { first, data: leading(&data, fits) });
                    return Err(IoError::NoSpace);
                }
                self.store(Content::Gather { first, data });
            }
        }
        Ok(())
    }

    /// The physical space, if it may be less than the addresses.
    pub(crate) fn physical(&self, now: u64) -> Option<Physical> {
        let (thin, used) = (self.thin.as_ref()?, self.table.stored_bytes());
        let free = Some(thin.limit(now).saturating_sub(used));
        let domain = Domain(thin.domain().unwrap_or(u64::from(self.id.0)));
        Some(Physical { used, free, domain, source: PhysicalSource::Device })
    }

    /// Announces the compressed lengths of a write's blocks to the model, where `announces` is set.
    pub(crate) fn announce(&mut self, offset: u64, data: &Gather) {
        let Some(modelled) = self.model.as_mut().filter(|_| self.announces) else { return };
        let content = data.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
        let lengths: Vec<u16> = content.map(|block| self.table.length_of_content(block) as u16).collect();
        modelled.announce_lengths(offset / BLOCK, &lengths);
    }

    /// The number of leading blocks of a write for which there is space.
    pub(crate) fn blocks_with_space(&self, now: u64, first: u64, data: &Gather) -> u64 {
        let blocks = data.iter().map(|buf| buf.len() / BLOCK_BYTES).sum::<usize>() as u64;
        let Some(thin) = &self.thin else { return blocks };
        let (limit, mut used) = (thin.limit(now), self.table.stored_bytes());
        let content = data.iter().flat_map(|buf| buf.bytes().chunks_exact(BLOCK_BYTES));
        let fits = content.zip(first..).take_while(|(content, block)| {
            let new = u64::from(self.table.length_of_content(content));
            // The old content is there until the new one is (zram, copy on write).
            let fits = new == 0 || used + new <= limit;
            used = used - self.table.stored_length_of(*block) + new;
            fits
        });
        fits.count() as u64
    }

    fn draw_write_fault(&mut self, first: u64, count: u64) -> Option<Fault> {
        if self.fault_rng.chance(self.config.faults.write_error) {
            return Some(Fault::Error(EIO));
        }
        if self.fault_rng.chance(self.config.faults.lost_write) && self.may_damage(first, count) {
            return Some(Fault::Lost);
        }
        if self.fault_rng.chance(self.config.faults.misdirected_write) && self.may_damage(first, count) {
            return self.somewhere(count, first).map(|to| Fault::Misdirected(to * BLOCK));
        }
        None
    }

    /// All, none or some of the blocks of a request that failed.
    fn some_part(&mut self, content: &Content) -> Content {
        let keep = [0.0, 1.0, 0.5][self.fault_rng.below(3) as usize];
        content.part(|_| self.fault_rng.chance(keep))
    }

    fn log_each(&mut self, now: u64, first: u64, count: u64, kind: CorruptionKind, seq: u64) {
        (first..first + count).for_each(|block| self.log_damage(block, kind, now, seq));
    }

    /// Completes a flush that was issued when `upto` was the last completed write.
    pub(crate) fn finish_flush(&mut self, upto: u64) -> Result<(), IoError> {
        self.stats.flushes += 1;
        let errno = match self.take_script(false, OpKind::Flush, 0, u64::MAX) {
            Some(Fault::Error(errno)) => Some(errno),
            _ => self.fault_rng.chance(self.config.faults.flush_error).then_some(EIO),
        };
        if let Some(errno) = errno {
            self.counts.flush_errors += 1;
            return Err(IoError::Failed(errno));
        }
        self.persist(upto);
        Ok(())
    }

    /// Completes a discard.
    pub(crate) fn finish_discard(&mut self, offset: u64, bytes: u64) -> Result<(), IoError> {
        self.stats.discards += 1;
        let (first, count) = (offset / BLOCK, bytes / BLOCK);
        if let Some(Fault::Error(errno)) = self.take_script(false, OpKind::Discard, first, count) {
            self.counts.write_errors += 1;
            return Err(IoError::Failed(errno));
        }
        let discarded = self.discarded(first, count);
        self.store(discarded);
        if self.config.discard == DiscardReads::Unstable {
            self.unstable.extend(first..first + count);
        }
        Ok(())
    }

    /// The content that a discard leaves in these blocks. Blocks that are zeros already need no new version.
    pub(crate) fn discarded(&mut self, first: u64, count: u64) -> Content {
        let mut blocks: Vec<(u64, Version)> = Vec::new();
        let mut next = first;
        while let Some(block) = self.table.first_written(next, first + count) {
            next = block + 1;
            let version = match self.config.discard {
                DiscardReads::Zeros => None,
                DiscardReads::Kept | DiscardReads::Unstable => continue,
                DiscardReads::Anything => match self.discard_rng.below(3) {
                    0 => None,
                    1 => continue,
                    _ => Some(Buf::copy_of(&[0xd1; BLOCK_BYTES])),
                },
            };
            blocks.push((block, version));
        }
        Content::Blocks(blocks)
    }
}
