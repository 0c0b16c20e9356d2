//! What is sent over a connection: protocol bytes and the data of volumes, without a copy.

use crate::buf::Buf;

/// A part of a gathered send.
#[derive(Debug)]
pub enum Part {
    /// Protocol bytes.
    Bytes(Vec<u8>),
    /// Data of a volume, sent from where it lies.
    Buf(Buf),
}

impl Part {
    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Buf(buf) => buf.bytes(),
        }
    }

    /// The bytes, to be received into.
    ///
    /// # Panics
    /// When the buffer is shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Part::Bytes(bytes) => bytes,
            Part::Buf(buf) => buf.bytes_mut(),
        }
    }
}
