//! One request, and what every stream of requests can do.
//!
//! A stream is any iterator over `Result<Request>`, so streams that read files and streams that cannot fail compose. All
//! streams of this crate are ordered by time, and so are the results of the operations here.

use serde::{Deserialize, Serialize};

use crate::Result;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Bytes from the volume.
    Read,
    /// Bytes to the volume.
    Write,
    /// The bytes are no longer needed.
    Discard,
    /// Everything completed before must survive a power loss. Its offset and length are 0.
    Flush,
}

impl Kind {
    /// Every kind, in the order of [`Kind::index`].
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Write, Kind::Discard, Kind::Flush];

    /// 0 to 3, for arrays by kind.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// One request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// When it is due, in nanoseconds after the first request of its source.
    pub at_ns: u64,
    /// Its first byte in the volume.
    pub offset: u64,
    /// How many bytes; never 0 but for a flush.
    pub len: u64,
    /// Which volume, or device of the trace.
    pub volume: u32,
    /// What it asks for.
    pub kind: Kind,
}

impl Request {
    /// The byte after its last one.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Brought into a volume of `bytes`, as [`Fold`] says.
    #[must_use]
    pub fn folded_into(self, bytes: u64) -> Request {
        let len = self.len.min(bytes);
        Request { offset: (self.offset % bytes).min(bytes - len), len, ..self }
    }
}

/// A stream behind a pointer, as descriptions open it.
pub type Boxed = Box<dyn Iterator<Item = Result<Request>> + Send>;

/// What every stream can do. Each operation is lazy and keeps the order by time.
pub trait Requests: Iterator<Item = Result<Request>> + Sized {
    /// The same requests `speed` times as fast; `speed` must be above 0.
    fn speed(self, speed: f64) -> impl Iterator<Item = Result<Request>> {
        let mut stream = self;
        std::iter::from_fn(move || {
            let next = stream.next()?;
            Some(next.map(|r| Request { at_ns: (r.at_ns as f64 / speed).round() as u64, ..r }))
        })
    }

    /// Requests widened to whole multiples of `bytes` (512 or 4096, say).
    fn align(self, bytes: u64) -> Align<Self> {
        assert!(bytes > 0, "alignment to 0 bytes");
        Align { stream: self, bytes }
    }

    /// Requests brought into a volume of `bytes`: see [`Fold`].
    fn fold_into(self, bytes: u64) -> Fold<Self> {
        assert!(bytes > 0, "a volume of 0 bytes");
        Fold { stream: self, bytes }
    }

    /// All requests to one volume.
    fn onto(self, volume: u32) -> impl Iterator<Item = Result<Request>> {
        self.map(move |next| next.map(|r| Request { volume, ..r }))
    }

    /// Requests due in `from_ns..to_ns`, with time counted from `from_ns`.
    fn window(self, from_ns: u64, to_ns: u64) -> Window<Self> {
        Window { stream: self, from_ns, to_ns }
    }

    /// The first `requests` of them.
    fn first(self, requests: u64) -> First<Self> {
        First { stream: self, left: requests }
    }
}

impl<S: Iterator<Item = Result<Request>>> Requests for S {}

/// See [`Requests::align`].
#[derive(Debug)]
pub struct Align<S> {
    stream: S,
    bytes: u64,
}

impl<S: Iterator<Item = Result<Request>>> Iterator for Align<S> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.bytes;
        let widen = |r: Request| {
            let offset = r.offset / bytes * bytes;
            // The last unit of the address space cannot be rounded up; nothing real lies there.
            let end = r.end().checked_next_multiple_of(bytes).unwrap_or(u64::MAX / bytes * bytes);
            if r.kind == Kind::Flush { r } else { Request { offset, len: end - offset, ..r } }
        };
        Some(self.stream.next()?.map(widen))
    }
}

/// Folds addresses into a volume: offset modulo its size. A request that would cross the end is moved back to end there,
/// and one larger than the volume covers all of it. Alignment survives if the size is aligned too.
#[derive(Debug)]
pub struct Fold<S> {
    stream: S,
    bytes: u64,
}

impl<S: Iterator<Item = Result<Request>>> Iterator for Fold<S> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.bytes;
        Some(self.stream.next()?.map(|request| request.folded_into(bytes)))
    }
}

/// See [`Requests::window`].
#[derive(Debug)]
pub struct Window<S> {
    stream: S,
    from_ns: u64,
    to_ns: u64,
}

impl<S: Iterator<Item = Result<Request>>> Iterator for Window<S> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let next = match self.stream.next()? {
                Ok(r) if r.at_ns < self.from_ns => continue,
                Ok(r) if r.at_ns >= self.to_ns => return None,
                Ok(r) => Ok(Request { at_ns: r.at_ns - self.from_ns, ..r }),
                Err(error) => Err(error),
            };
            return Some(next);
        }
    }
}

/// See [`Requests::first`].
#[derive(Debug)]
pub struct First<S> {
    stream: S,
    left: u64,
}

impl<S: Iterator<Item = Result<Request>>> Iterator for First<S> {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.stream.next()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(at_ns: u64, offset: u64, len: u64) -> Request {
        Request { at_ns, offset, len, volume: 3, kind: Kind::Write }
    }

    fn stream(requests: &[Request]) -> impl Iterator<Item = Result<Request>> {
        requests.iter().copied().map(Ok)
    }

    fn all(stream: impl Iterator<Item = Result<Request>>) -> Vec<Request> {
        stream.map(|r| r.expect("nothing here fails")).collect()
    }

    #[test]
    fn a_request_is_small() {
        assert!(size_of::<Option<Result<Request>>>() <= 32);
    }

    #[test]
    fn time_is_scaled_windowed_and_limited() {
        let ten: Vec<Request> = (0..10).map(|i| at(i * 100, 0, 512)).collect();
        let times = |s: Vec<Request>| s.iter().map(|r| r.at_ns).collect::<Vec<_>>();
        assert_eq!(times(all(stream(&ten).speed(2.0).first(3))), [0, 50, 100]);
        assert_eq!(times(all(stream(&ten).window(200, 500))), [0, 100, 200]);
        assert_eq!(all(stream(&ten).onto(7))[9].volume, 7);
        assert!(all(stream(&ten).first(0)).is_empty());
    }

    #[test]
    fn a_flush_stays_empty() {
        let flush = Request { kind: Kind::Flush, ..at(5, 0, 0) };
        assert_eq!(all(stream(&[flush]).align(4096).fold_into(8192)), [flush]);
    }

    proptest! {
        #[test]
        fn folded_and_aligned_requests_lie_in_the_volume(
            offset in 0..u64::MAX / 2, len in 1..1u64 << 30, blocks in 1u64..100_000,
        ) {
            let bytes = blocks * 4096;
            let original = at(9, offset, len);
            let wide = all(stream(&[original]).align(4096))[0];
            prop_assert!(wide.offset <= offset && wide.end() >= original.end());
            prop_assert!(wide.len < len + 2 * 4096);
            let folded = all(stream(&[wide]).fold_into(bytes))[0];
            prop_assert!(folded.end() <= bytes && folded.len == wide.len.min(bytes));
            prop_assert!(folded.offset % 4096 == 0 && folded.len % 4096 == 0);
        }
    }
}
