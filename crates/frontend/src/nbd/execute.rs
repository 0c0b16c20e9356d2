//! Carries a command out on the volume and encodes the reply.

use sinew_core::buf::{BLOCK_BYTES, Buf, Bufs};
use sinew_core::volume::{Volume, VolumeError};

use super::handshake::ALLOCATION_CONTEXT;
use super::outbox::Outbox;
use super::proto::{self, Headers, ReplyTo, Request, chunk, command, state};
use super::transmission::{Command, Range, Refusal};
use crate::zeroes::store_zeroes;

/// Zeros inside a read are told as a hole from this length on: a shorter one costs the client more in messages than it
/// saves in bytes.
const HOLE_BYTES_MIN: usize = 32 << 10;
/// Extents in one reply to block status; a client asks again behind the last one.
const EXTENTS_MAX: usize = 8192;
/// Block status asks the volume about this much first, then twice as much each time up to the maximum: so that one
/// extent does not cost a list of a whole disk, and no list gets long.
const STATUS_BYTES_FIRST: u64 = 1 << 20;
const STATUS_BYTES_MAX: u64 = 64 << 20;
/// The memory a block status may take: its extents, here and on the wire, and the volume's for one
/// window of single blocks.
pub(super) const STATUS_HELD_BYTES: u64 =
    EXTENTS_MAX as u64 * 32 + STATUS_BYTES_MAX / BLOCK_BYTES as u64 * 16;
/// No reply to block status covers more: a longer request would keep a shard busy for long. A client asks again behind it.
const STATUS_COVERED_BYTES_MAX: u64 = 64 << 30;

/// What a successful command tells the client besides success.
pub(super) enum Outcome {
    /// Nothing.
    Done,
    /// The data read; its range, and whether holes may be told apart.
    Data(Bufs, Range, bool),
    /// Extents as length and state bits.
    Extents(Vec<(u64, u32)>),
}

/// Carries out a command; `payload` is what a write brought along.
pub(super) async fn execute<V: Volume>(
    volume: &V,
    command: Command,
    payload: Option<Buf>,
) -> Result<Outcome, VolumeError> {
    match command {
        Command::Read { range: Range { len: 0, .. }, .. } | Command::Cache => {}
        Command::Read { range, holes } => {
            let data = volume.read(range.offset, range.len as u32).await?;
            let len: usize = data.iter().map(Buf::len).sum();
            // A reply of another length would put the stream out of step and hand garbage to the client.
            assert_eq!(len, range.len as usize, "the volume's read gave another length than asked for");
            return Ok(Outcome::Data(data, range, holes));
        }
        Command::Write { range, fua } => {
            if let Some(data) = payload.filter(|data| !data.is_empty()) {
                volume.write(range.offset, data, fua).await?;
            } else if fua {
                volume.flush().await?;
            }
        }
        Command::Flush => volume.flush().await?,
        // Rare, and held on the heap: every request takes the room of the largest.
        Command::Trim { range, fua } => {
            Box::pin(volume.discard(range.offset, range.len)).await?;
            if fua {
                volume.flush().await?;
            }
        }
        Command::WriteZeroes { range, fua, free: true } => {
            Box::pin(volume.write_zeroes(range.offset, range.len, fua)).await?;
        }
        Command::WriteZeroes { range, fua, free: false } => {
            Box::pin(store_zeroes(volume, range.offset, range.len, fua)).await?;
        }
        Command::Status { range, one } => {
            return Box::pin(extents(volume, range, one)).await.map(Outcome::Extents);
        }
    }
    Ok(Outcome::Done)
}

/// The extents of a range as the wire has them; at least one, maybe fewer than would cover the range.
async fn extents<V: Volume>(volume: &V, range: Range, one: bool) -> Result<Vec<(u64, u32)>, VolumeError> {
    let end = range.offset + range.len.min(STATUS_COVERED_BYTES_MAX);
    let mut found: Vec<(u64, u32)> = Vec::new();
    let mut at = range.offset;
    let mut window = STATUS_BYTES_FIRST;
    while at < end {
        let len = window.min(end - at);
        for extent in volume.status(at, len).await? {
            let bits = if extent.allocated { 0 } else { state::HOLE | state::ZERO };
            let full = one || found.len() == EXTENTS_MAX;
            match found.last_mut() {
                Some((last, last_bits)) if *last_bits == bits => *last += extent.bytes,
                Some(_) if full => return Ok(found),
                _ => found.push((extent.bytes, bits)),
            }
        }
        at += len;
        window = (window * 2).min(STATUS_BYTES_MAX);
    }
    Ok(found)
}

/// Encodes the reply to a request.
pub(super) fn encode(
    outbox: &mut Outbox,
    request: &Request,
    headers: Headers,
    result: Result<Outcome, Refusal>,
) {
    let cookie = request.cookie;
    let to = match headers {
        Headers::Extended => ReplyTo::Extended { cookie, offset: request.offset },
        Headers::Structured => ReplyTo::Structured { cookie },
        Headers::Simple => {
            let error = result.as_ref().err().map_or(0, |refusal| refusal.errno as u32);
            proto::simple_reply(outbox.bytes(), cookie, error);
            if let Ok(Outcome::Data(data, _, _)) = result {
                data.into_iter().for_each(|buf| outbox.data(buf));
            }
            return;
        }
    };
    match result {
        Err(refusal) => proto::error_chunk(outbox.bytes(), to, refusal.errno, refusal.message),
        // Shorter than its structured form, and allowed where there is no payload.
        Ok(Outcome::Done) if headers == Headers::Structured && request.command != command::READ => {
            proto::simple_reply(outbox.bytes(), cookie, 0);
        }
        Ok(Outcome::Done) => proto::chunk_header(outbox.bytes(), to, chunk::NONE, chunk::FLAG_DONE, 0),
        Ok(Outcome::Data(data, range, holes)) => encode_chunks(outbox, to, data, range, holes),
        Ok(Outcome::Extents(extents)) => {
            proto::status_chunk(outbox.bytes(), to, ALLOCATION_CONTEXT, &extents);
        }
    }
}

/// Encodes read data as chunks of data and holes.
fn encode_chunks(outbox: &mut Outbox, to: ReplyTo, data: Bufs, range: Range, holes: bool) {
    let len = range.len as usize;
    let mut at = 0;
    let mut next = 0;
    let holes = if holes { find_holes(&data, len) } else { Vec::new() };
    let mut data = DataParts { data: data.into_iter(), rest: None };
    while at < len {
        let (hole_start, hole_end) = holes.get(next).copied().unwrap_or((len, len));
        let (end, is_hole) = if at == hole_start { (hole_end, true) } else { (hole_start, false) };
        let flags = if end == len { chunk::FLAG_DONE } else { 0 };
        let (offset, bytes) = (range.offset + at as u64, (end - at) as u32);
        if is_hole {
            proto::hole_chunk(outbox.bytes(), to, flags, offset, bytes);
            data.advance(end - at, |_| {});
            next += 1;
        } else {
            proto::data_chunk(outbox.bytes(), to, flags, offset, bytes);
            data.advance(end - at, |buf| outbox.data(buf));
        }
        at = end;
    }
}

/// Cuts a list of buffers where chunks begin.
struct DataParts {
    data: <Bufs as IntoIterator>::IntoIter,
    rest: Option<Buf>,
}

impl DataParts {
    fn advance(&mut self, len: usize, mut each: impl FnMut(Buf)) {
        let mut left = len;
        while left > 0 {
            let Some(buf) = self.rest.take().or_else(|| self.data.next()) else { return };
            if buf.len() > left {
                self.rest = Some(buf.slice(left, buf.len() - left));
                each(buf.slice(0, left));
                return;
            }
            left -= buf.len();
            each(buf);
        }
    }
}

/// Where the data is zero for long enough, as (start, end) pairs in order; the whole of it counts at any length.
///
/// Looks at whole pieces of [`BLOCK_BYTES`], so data costs a look at the first bytes of each.
fn find_holes(data: &[Buf], len: usize) -> Vec<(usize, usize)> {
    let mut holes = Vec::new();
    let mut run_start = None;
    let mut at = 0;
    let end_run = |start: usize, end: usize, holes: &mut Vec<_>| {
        if end - start >= HOLE_BYTES_MIN.min(len) {
            holes.push((start, end));
        }
    };
    for piece in data.iter().flat_map(|buf| buf.bytes().chunks(BLOCK_BYTES)) {
        if is_zero(piece) {
            run_start.get_or_insert(at);
        } else if let Some(start) = run_start.take() {
            end_run(start, at, &mut holes);
        }
        at += piece.len();
    }
    if let Some(start) = run_start {
        end_run(start, at, &mut holes);
    }
    holes
}

/// Whether all bytes are zero. Steps that the compiler turns into vector instructions, left at the first other byte.
fn is_zero(bytes: &[u8]) -> bool {
    let (steps, rest) = bytes.as_chunks::<128>();
    steps.iter().all(|step| step.iter().fold(0, |all, byte| all | byte) == 0) && rest.iter().all(|b| *b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(pattern: &[bool], piece: usize) -> Bufs {
        pattern.iter().map(|set| Buf::copy_of(&vec![u8::from(*set); piece])).collect()
    }

    #[test]
    fn zeros_are_told_from_data() {
        for len in [0, 1, 127, 128, 129, 4096] {
            let mut bytes = vec![0; len];
            assert!(is_zero(&bytes));
            for at in 0..len {
                bytes[at] = 1;
                assert!(!is_zero(&bytes), "byte {at} of {len}");
                bytes[at] = 0;
            }
        }
    }

    #[test]
    fn short_zeros_are_data_unless_they_are_all() {
        assert_eq!(find_holes(&data(&[false], 4096), 4096), vec![(0, 4096)]);
        assert_eq!(find_holes(&data(&[true, false, true], 4096), 12288), vec![]);
        let long = data(&[true, false, true, false], HOLE_BYTES_MIN);
        let unit = HOLE_BYTES_MIN;
        assert_eq!(find_holes(&long, 4 * unit), vec![(unit, 2 * unit), (3 * unit, 4 * unit)]);
    }

    proptest! {
        #[test]
        fn chunks_cover_the_range_once(
            pattern in proptest::collection::vec(any::<bool>(), 1..40), piece in 1usize..20000, holes: bool,
        ) {
            let data = data(&pattern, piece);
            let want: Vec<u8> = data.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
            let range = Range { offset: 77, len: want.len() as u64 };
            let mut outbox = Outbox::default();
            encode_chunks(&mut outbox, ReplyTo::Structured { cookie: 5 }, data, range, holes);
            let wire: Vec<u8> = outbox.take().iter().flat_map(|part| part.bytes().to_vec()).collect();
            let (mut at, mut got) = (0, Vec::new());
            while at < wire.len() {
                let field = |from: usize, len: usize| wire[at + from..at + from + len].to_vec();
                let len = u32::from_be_bytes(field(16, 4).try_into().unwrap()) as usize;
                prop_assert_eq!(field(20, 8), (77 + got.len() as u64).to_be_bytes());
                if field(6, 2) == [0, 1] {
                    got.extend_from_slice(&field(28, len - 8));
                } else {
                    let hole = u32::from_be_bytes(field(28, 4).try_into().unwrap());
                    prop_assert!(hole > 0 && holes);
                    got.resize(got.len() + hole as usize, 0);
                }
                let done = field(4, 2) == [0, 1];
                at += 20 + len;
                prop_assert_eq!(done, at == wire.len());
            }
            prop_assert_eq!(got, want);
        }
    }
}
