//! Replies that wait to be sent, as the parts of one gathered send.
//!
//! Headers of neighbouring replies share a vector, vectors are used again, data is not copied.

use sinew_core::buf::Buf;

use crate::transport::Part;

/// Vectors kept for reuse, and the largest worth keeping.
const SPARE_MAX: usize = 256;
const SPARE_BYTES_MAX: usize = 4096;

/// Encoded replies, in the order in which they are sent.
#[derive(Default)]
pub(super) struct Outbox {
    parts: Vec<Part>,
    spare: Vec<Vec<u8>>,
    spare_parts: Vec<Part>,
}

impl Outbox {
    /// Where the next protocol bytes are appended.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.parts.last(), Some(Part::Bytes(_))) {
            self.parts.push(Part::Bytes(self.spare.pop().unwrap_or_default()));
        }
        match self.parts.last_mut() {
            Some(Part::Bytes(bytes)) => bytes,
            _ => unreachable!("just pushed"),
        }
    }

    /// Data that follows what was appended so far.
    pub(super) fn data(&mut self, buf: Buf) {
        if !buf.is_empty() {
            self.parts.push(Part::Buf(buf));
        }
    }

    /// Everything queued, for one send.
    pub(super) fn take(&mut self) -> Vec<Part> {
        std::mem::replace(&mut self.parts, std::mem::take(&mut self.spare_parts))
    }

    /// Takes the vectors of a finished send back.
    pub(super) fn recycle(&mut self, mut parts: Vec<Part>) {
        for part in parts.drain(..) {
            if let Part::Bytes(mut bytes) = part
                && self.spare.len() < SPARE_MAX
                && bytes.capacity() <= SPARE_BYTES_MAX
            {
                bytes.clear();
                self.spare.push(bytes);
            }
        }
        self.spare_parts = parts;
    }

    /// Drops everything queued.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Whether nothing is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}
