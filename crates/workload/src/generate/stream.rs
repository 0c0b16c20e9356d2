//! The description of the requests of one kind.

use serde::{Deserialize, Serialize};

use super::place::Place;
use super::sizes::Sizes;
use crate::{ByteSize, Error, Kind, Result};

/// The alignment of requests by default.
const ALIGN_BYTES: u64 = 4096;

/// Requests of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Read, write or discard.
    pub kind: Kind,
    /// Their share of all requests, flushes aside.
    pub share: f64,
    /// How large they are.
    pub sizes: Sizes,
    /// Where those go that do not continue the request before.
    pub place: Place,
    /// The probability that the next request continues one of this kind.
    #[serde(default)]
    pub sequential: f64,
    /// The first byte they go to.
    #[serde(default = "zero")]
    pub from: ByteSize,
    /// How many bytes from there on they go to.
    pub footprint: ByteSize,
    /// What offsets are multiples of; 4096 where not given.
    #[serde(default = "unit")]
    pub align: ByteSize,
}

fn zero() -> ByteSize {
    ByteSize(0)
}

fn unit() -> ByteSize {
    ByteSize(ALIGN_BYTES)
}

impl StreamSpec {
    /// Requests of a kind in the first `footprint` bytes, aligned to blocks.
    pub fn new(kind: Kind, share: f64, sizes: Sizes, place: Place, footprint: u64) -> StreamSpec {
        let (from, footprint, align) = (zero(), ByteSize(footprint), unit());
        StreamSpec { kind, share, sizes, place, sequential: 0.0, from, footprint, align }
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = |name, why: String| Err(Error::setting(name, why));
        if self.kind == Kind::Flush {
            return wrong("kind", "flushes have no share; use flush_every".to_owned());
        }
        if !(0.0..=1.0).contains(&self.share) {
            return wrong("share", format!("{} is not between 0 and 1", self.share));
        }
        if !(0.0..=1.0).contains(&self.sequential) {
            return wrong("sequential", format!("{} is not between 0 and 1", self.sequential));
        }
        if self.align.0 == 0 || !self.from.0.is_multiple_of(self.align.0) {
            return wrong("align", format!("{} does not divide from = {}", self.align.0, self.from.0));
        }
        if self.footprint.0 < self.align.0 || self.from.0.checked_add(self.footprint.0).is_none() {
            return wrong("footprint", format!("{} bytes hold no request", self.footprint.0));
        }
        Ok(())
    }
}
