//! Streams from a seed.
//!
//! A [`GeneratorSpec`] says when requests arrive, what share of them is of which kind, and for each kind how large they
//! are and where they go. Fitted generators ([`crate::fitted`]) are specs too, so what they assume can be printed.
//!
//! ```text
//! arrival     when: Poisson, fixed rate, bursts
//! place       where: uniform, sequential, Zipf, hot and cold
//! sizes       how much: fixed, a choice, known only by the mean
//! ```
//!
//! **Sequential requests.** With the probability `sequential` of the last request's kind, a request continues where the
//! last one ended and is of the same kind. Kinds of new places are drawn with probabilities corrected for that, so the
//! shares of the kinds are those asked for.

mod arrival;
mod place;
mod placer;
mod sizes;
mod stream;

use rand_distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use serde::{Deserialize, Serialize};

use crate::random::{self, Random};
use crate::{Error, Kind, Request, Result};
use arrival::Clock;
pub use arrival::{Arrival, Phase};
pub use place::Place;
use placer::Placer;
use sizes::Sizer;
pub use sizes::{SizeWeight, Sizes};
pub use stream::StreamSpec;

/// A stream to generate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSpec {
    /// Equal seeds give equal streams.
    #[serde(default)]
    pub seed: u64,
    /// How many requests; without it the stream does not end.
    #[serde(default)]
    pub requests: Option<u64>,
    /// The volume that all requests go to.
    #[serde(default)]
    pub volume: u32,
    /// When requests arrive.
    pub arrival: Arrival,
    /// The number of writes between two flushes.
    #[serde(default)]
    pub flush_every: Option<u32>,
    /// The kinds of requests; their shares add up to 1.
    pub streams: Vec<StreamSpec>,
}

/// One kind at work.
#[derive(Debug)]
struct Lane {
    kind: Kind,
    sequential: f64,
    sizer: Sizer,
    placer: Placer,
}

/// A request of a lane.
struct Drawn {
    lane: usize,
    offset: u64,
    len: u64,
}

/// A stream of generated requests.
#[derive(Debug)]
pub struct Generator {
    clock: Clock,
    lanes: Vec<Lane>,
    /// Which lane a request at a new place belongs to.
    lane_choice: WeightedAliasIndex<f64>,
    volume: u32,
    left: Option<u64>,
    flush_every: Option<u32>,
    unflushed: u32,
    at_ns: u64,
    /// The lane of the last request, and where it ended.
    last: Option<(usize, u64)>,
    kinds: Random,
    sizes: Random,
    places: Random,
}

impl Generator {
    /// The generator of a spec, or what is wrong with the spec.
    ///
    /// # Errors
    /// Names the parameter that is impossible.
    pub fn new(spec: &GeneratorSpec) -> Result<Generator> {
        let total: f64 = spec.streams.iter().map(|stream| stream.share).sum();
        // Shares are written with a few digits.
        if (total - 1.0).abs() > 1e-6 {
            return Err(Error::setting(
                "share",
                format!("the shares of all streams add up to {total}, not 1"),
            ));
        }
        if spec.flush_every == Some(0) {
            return Err(Error::setting("flush_every", "0 writes between flushes; leave it out for none"));
        }
        let mut lanes = Vec::with_capacity(spec.streams.len());
        for (index, stream) in spec.streams.iter().enumerate() {
            stream.check()?;
            let space = stream.footprint.0 / stream.align.0 * stream.align.0;
            let sizer = Sizer::new(&stream.sizes, space)?;
            let placer = Placer::new(stream, spec.seed ^ index as u64)?;
            lanes.push(Lane { kind: stream.kind, sequential: stream.sequential, sizer, placer });
        }
        // A lane begins a run of 1 / (1 - sequential) requests on average, so it may begin fewer runs.
        let all_sequential = lanes.len() > 1 && lanes.iter().any(|lane| lane.sequential >= 1.0);
        if all_sequential {
            return Err(Error::setting("sequential", "1 with several kinds: the first would never end"));
        }
        let weight =
            |s: &StreamSpec| if spec.streams.len() == 1 { 1.0 } else { s.share * (1.0 - s.sequential) };
        let weights = spec.streams.iter().map(weight).collect();
        let lane_choice =
            WeightedAliasIndex::new(weights).map_err(|e| Error::setting("share", e.to_string()))?;
        Ok(Generator {
            clock: Clock::new(&spec.arrival, spec.seed)?,
            lanes,
            lane_choice,
            volume: spec.volume,
            left: spec.requests,
            flush_every: spec.flush_every,
            unflushed: 0,
            at_ns: 0,
            last: None,
            kinds: random::stream(spec.seed, "kinds"),
            sizes: random::stream(spec.seed, "sizes"),
            places: random::stream(spec.seed, "places"),
        })
    }

    fn flush_is_due(&self) -> bool {
        self.flush_every.is_some_and(|every| self.unflushed >= every)
    }

    /// Draws the next request, which may continue the last one.
    fn pick(&mut self) -> Drawn {
        let continued = match self.last {
            Some((lane, end)) if random::unit(&mut self.kinds) < self.lanes[lane].sequential => {
                Some((lane, end))
            }
            _ => None,
        };
        let lane = continued.map_or_else(|| self.lane_choice.sample(&mut self.kinds), |(lane, _)| lane);
        let Lane { sizer, placer, .. } = &mut self.lanes[lane];
        let len = sizer.sample(&mut self.sizes);
        let offset = match continued {
            Some((_, end)) if placer.fits(end, len) => end,
            _ => placer.sample(len, &mut self.places),
        };
        Drawn { lane, offset, len }
    }
}

impl Iterator for Generator {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let (at_ns, volume) = (self.at_ns, self.volume);
        if self.flush_is_due() {
            // A flush comes with the write before it and takes no arrival of its own.
            self.unflushed = 0;
            let at_ns = self.clock.last_ns();
            return Some(Ok(Request { at_ns, offset: 0, len: 0, volume, kind: Kind::Flush }));
        }
        self.at_ns = self.clock.advance();
        let Drawn { lane, offset, len } = self.pick();
        self.last = Some((lane, offset + len));
        let kind = self.lanes[lane].kind;
        self.unflushed += u32::from(kind == Kind::Write && self.flush_every.is_some());
        Some(Ok(Request { at_ns, offset, len, volume, kind }))
    }
}

#[cfg(test)]
mod tests;
