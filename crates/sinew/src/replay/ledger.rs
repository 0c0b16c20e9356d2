//! Which data a read may see, given the writes so far and those under way at the same time.
//!
//! Every write has a number, which its content is made from. A range of a volume holds one of several *versions*: numbers
//! of writes, or whatever was there before. A write adds its version when it begins. When it has succeeded, the versions
//! that were settled before it began are gone: an acknowledged write may not be lost. Versions that were under way at the
//! same time stay, as their order is open, and so does a write that failed, of which nothing is known. A read may see what
//! had not gone when it began.
//!
//! Pure: time is a counter of its own, no clock and no I/O.

use std::collections::BTreeMap;

/// The number of a write, from 1. `None` is unknown content: from before the replay, or discarded.
pub(crate) type Number = Option<u64>;

/// A moment of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

/// A range of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) volume: u32,
    pub(crate) from: u64,
    pub(crate) end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    number: Number,
    begun: Moment,
    /// When its request ended, with success or not.
    settled: Option<Moment>,
    /// When a later write had replaced it for good.
    gone: Option<Moment>,
}

#[derive(Clone, Debug)]
struct Span {
    end: u64,
    versions: Vec<Version>,
}

/// All that was written. Memory is that of the distinct ranges written.
#[derive(Default)]
pub(crate) struct Ledger {
    /// By volume and first byte; spans of a volume do not overlap.
    spans: BTreeMap<(u32, u64), Span>,
    now: u64,
    /// Moments at which reads under way began, and how many did.
    reading: BTreeMap<Moment, u32>,
}

impl Ledger {
    fn tick(&mut self) -> Moment {
        self.now += 1;
        Moment(self.now)
    }

    /// A change of a range begins: a write with its number, a discard without one.
    pub(crate) fn begin_change(&mut self, range: Range, number: Number) -> Moment {
        let begun = self.tick();
        self.cut(range);
        let oldest = self.reading.keys().next().copied();
        for span in self.within(range) {
            // A version that is gone for every read under way is never needed again.
            span.versions.retain(|v| v.gone.is_none_or(|gone| oldest.is_some_and(|oldest| gone > oldest)));
            span.versions.push(Version { number, begun, settled: None, gone: None });
        }
        begun
    }

    /// The change that began then has ended.
    pub(crate) fn end_change(&mut self, range: Range, begun: Moment, ok: bool) {
        let now = self.tick();
        for span in self.within(range) {
            for version in &mut span.versions {
                if version.begun == begun {
                    version.settled = Some(now);
                } else if ok
                    && version.gone.is_none()
                    && version.settled.is_some_and(|settled| settled < begun)
                {
                    version.gone = Some(now);
                }
            }
        }
    }

    /// A read begins.
    pub(crate) fn begin_read(&mut self) -> Moment {
        let begun = self.tick();
        *self.reading.entry(begun).or_default() += 1;
        begun
    }

    /// What the read that began then may have seen: ranges, and the versions each may have had. What is not in them was
    /// never written.
    pub(crate) fn end_read(&mut self, range: Range, begun: Moment) -> Vec<(Range, Vec<Number>)> {
        if let Some(count) = self.reading.get_mut(&begun) {
            *count -= 1;
            if *count == 0 {
                self.reading.remove(&begun);
            }
        }
        self.legal(range, begun)
    }

    fn legal(&self, range: Range, begun: Moment) -> Vec<(Range, Vec<Number>)> {
        let Range { volume, from, end } = range;
        // The span that `from` lies in may begin before it.
        let first = self.spans.range(..=(volume, from)).next_back().filter(|((v, _), _)| *v == volume);
        let first = first.map_or(from, |((_, start), _)| *start);
        let spans = self.spans.range((volume, first)..(volume, end)).filter(|(_, span)| span.end > from);
        let legal = spans.map(|(&(_, start), span)| {
            let part = Range { volume, from: start.max(from), end: span.end.min(end) };
            let versions = span.versions.iter().filter(|v| v.gone.is_none_or(|gone| gone > begun));
            (part, versions.map(|v| v.number).collect())
        });
        legal.collect()
    }

    /// The ranges whose content is known, in order.
    pub(crate) fn known(&self) -> Vec<Range> {
        let known = |span: &Span| span.versions.iter().all(|v| v.gone.is_some() || v.number.is_some());
        let spans = self.spans.iter().filter(|(_, span)| known(span));
        let mut ranges: Vec<Range> = Vec::new();
        for (&(volume, from), span) in spans {
            match ranges.last_mut() {
                Some(last) if last.volume == volume && last.end == from => last.end = span.end,
                _ => ranges.push(Range { volume, from, end: span.end }),
            }
        }
        ranges
    }

    /// Makes spans begin and end where the range does, and fills it with spans.
    fn cut(&mut self, Range { volume, from, end }: Range) {
        self.cut_at(volume, from);
        self.cut_at(volume, end);
        let before = || Version { number: None, begun: Moment(0), settled: Some(Moment(0)), gone: None };
        let fresh = |end| Span { end, versions: vec![before()] };
        let (mut at, mut gaps) = (from, Vec::new());
        for (&(_, start), span) in self.spans.range((volume, from)..(volume, end)) {
            if at < start {
                gaps.push((at, start));
            }
            at = span.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        self.spans.extend(gaps.into_iter().map(|(from, end)| ((volume, from), fresh(end))));
    }

    fn cut_at(&mut self, volume: u32, at: u64) {
        let around = self.spans.range_mut((volume, 0)..(volume, at)).next_back();
        if let Some((_, span)) = around.filter(|(_, span)| span.end > at) {
            let tail = span.clone();
            span.end = at;
            self.spans.insert((volume, at), tail);
        }
    }

    fn within(&mut self, Range { volume, from, end }: Range) -> impl Iterator<Item = &mut Span> {
        self.spans.range_mut((volume, from)..(volume, end)).map(|(_, span)| span)
    }
}

#[cfg(test)]
mod tests;
