//! Writing and reading little-endian fields in order.

use crate::FORMAT_VERSION;

/// Why bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not a structure of Sinew.
    #[error("not a Sinew structure")]
    Foreign,
    /// Written by a newer (or much older) Sinew.
    #[error("format version {0} is not supported by this version of Sinew (it knows {known:?})", known = crate::VERSIONS)]
    Version(u16),
    /// The checksum does not match: the structure is torn or damaged.
    #[error("checksum mismatch")]
    Checksum,
    /// The checksum matches but the content is impossible.
    #[error("invalid {0}")]
    Invalid(&'static str),
}

/// Appends fields to a byte vector.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Begins a structure: its magic number and its version.
    pub(crate) fn structure(magic: u32) -> Writer {
        let mut w = Writer::default();
        w.u32(magic);
        w.u16(FORMAT_VERSION);
        w
    }
    /// One byte.
    pub fn u8(&mut self, v: u8) {
        self.0.push(v);
    }
    /// Two bytes.
    pub fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// Four bytes.
    pub fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// Eight bytes.
    pub fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }
    /// Bytes as they are.
    pub fn bytes(&mut self, v: &[u8]) {
        self.0.extend_from_slice(v);
    }
    /// Text of at most 65,535 bytes, length first.
    pub fn text(&mut self, v: &str) {
        let len = v.len().min(usize::from(u16::MAX));
        self.u16(len as u16);
        self.bytes(&v.as_bytes()[..len]);
    }
}

/// Reads fields from the front of a slice. Too few bytes are an error, never a panic.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads a structure from behind its magic number and its version.
    ///
    /// # Errors
    /// [`DecodeError`] when it is another structure, of another version, or too short for them.
    pub(crate) fn structure(bytes: &'a [u8], magic: u32) -> Result<Reader<'a>, DecodeError> {
        let mut r = Reader(bytes);
        if r.u32()? != magic {
            return Err(DecodeError::Foreign);
        }
        match r.u16()? {
            FORMAT_VERSION => Ok(r),
            version => Err(DecodeError::Version(version)),
        }
    }
    /// The next `n` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(DecodeError::Invalid("length"))?;
        self.0 = tail;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        Ok(self.take(N)?.try_into().expect("take gives N bytes"))
    }
    /// One byte.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    /// Two bytes.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    /// Four bytes.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    /// Eight bytes.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    /// An identity.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left.
    pub fn uuid(&mut self) -> Result<sinew_core::ids::Uuid, DecodeError> {
        self.array()
    }
    /// Text.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] when fewer bytes are left, or when they are not UTF-8.
    pub fn text(&mut self) -> Result<String, DecodeError> {
        let len = self.u16()?;
        let bytes = self.take(usize::from(len))?;
        String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Invalid("text"))
    }
}
