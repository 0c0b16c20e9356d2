//! The read cache: segments of sectors that have been read, the newest of which grows while the disk has nothing to do.

use std::collections::VecDeque;

use crate::Ns;

/// Sectors from `start` up to `end`.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
}

/// The reading ahead of the newest segment: from its end at some time, at some pace, up to a limit.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    since: Ns,
    sector_ns_times_1024: u64,
    limit: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// Newest first.
    segments: VecDeque<Segment>,
    segments_max: usize,
    segment_sectors: u64,
    ahead: Option<Ahead>,
}

impl Cache {
    pub(super) fn new(segments_max: usize, segment_sectors: u64) -> Cache {
        Cache {
            segments: VecDeque::with_capacity(segments_max + 1),
            segments_max,
            segment_sectors,
            ahead: None,
        }
    }

    /// When sectors will be in the cache if the disk goes on as it does; `None` if never.
    pub(super) fn ready_at(&self, now: Ns, sector: u64, end: u64) -> Option<Ns> {
        let held = |segment: &Segment| segment.start <= sector && end <= segment.end;
        if self.segments.iter().any(held) {
            return Some(now);
        }
        let (newest, ahead) = (self.segments.front()?, self.ahead?);
        // Data further ahead than what is being read now would be reached sooner by seeking.
        let follows =
            newest.start <= sector && sector <= self.reached(now).min(ahead.limit) && end <= ahead.limit;
        follows.then(|| now.max(ahead.since + (end - newest.end) * ahead.sector_ns_times_1024 / 1024))
    }

    /// The end of the newest segment at some time.
    fn reached(&self, now: Ns) -> u64 {
        let end = self.segments.front().map_or(0, |segment| segment.end);
        self.ahead.map_or(end, |ahead| {
            let read = now.saturating_sub(ahead.since) * 1024 / ahead.sector_ns_times_1024;
            (end + read).min(ahead.limit.max(end))
        })
    }

    /// Sectors have been taken from the cache: what was read before them makes room for more ahead.
    pub(super) fn used(&mut self, sector: u64, end: u64) {
        if let (Some(newest), Some(ahead)) = (self.segments.front_mut(), &mut self.ahead)
            && newest.start <= sector
            && end <= ahead.limit
        {
            ahead.limit = ahead.limit.max(end + self.segment_sectors / 2);
            newest.start = newest.start.max(ahead.limit.saturating_sub(self.segment_sectors));
        }
    }

    /// The arm has something else to do.
    pub(super) fn stop(&mut self, now: Ns) {
        let reached = self.reached(now);
        if let (Some(newest), Some(_)) = (self.segments.front_mut(), self.ahead.take()) {
            newest.end = reached;
        }
    }

    /// Sectors have been read from the medium; the disk goes on with those behind them.
    pub(super) fn read(&mut self, sector: u64, end: u64, now: Ns, sector_ns_times_1024: u64) {
        if self.segments_max == 0 {
            return;
        }
        self.segments
            .push_front(Segment { start: sector.max(end.saturating_sub(self.segment_sectors)), end });
        self.segments.truncate(self.segments_max);
        let limit = end + self.segment_sectors / 2;
        self.ahead = Some(Ahead { since: now, sector_ns_times_1024, limit });
    }

    /// Sectors have been overwritten.
    pub(super) fn forget(&mut self, sector: u64, end: u64) {
        self.segments.retain(|segment| segment.end <= sector || end <= segment.start);
    }
}
