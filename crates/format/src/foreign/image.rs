//! The parts of a device that were read in search of signatures. Reads outside of them, and outside of the device, give
//! nothing, so that no content can make the search panic.

/// Consecutive bytes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where they begin.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A device of a known size, of which some extents were read.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: u64,
    extents: &'a [Extent],
}

impl<'a> Image<'a> {
    /// A device of `bytes` bytes, and what was read of it.
    pub fn new(bytes: u64, extents: &'a [Extent]) -> Image<'a> {
        Image { bytes, extents }
    }

    /// The size of the device in bytes.
    pub(super) fn size(&self) -> u64 {
        self.bytes
    }

    /// The bytes at an offset, if one extent holds all of them.
    pub(super) fn get(&self, offset: u64, len: usize) -> Option<&'a [u8]> {
        self.extents.iter().find_map(|extent| {
            let begin = usize::try_from(offset.checked_sub(extent.offset)?).ok()?;
            extent.bytes.get(begin..begin.checked_add(len)?)
        })
    }

    /// Whether these bytes are there.
    pub(super) fn has(&self, offset: u64, magic: &[u8]) -> bool {
        self.get(offset, magic.len()) == Some(magic)
    }

    fn array<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        self.get(offset, N)?.try_into().ok()
    }

    pub(super) fn u8(&self, offset: u64) -> Option<u8> {
        Some(self.get(offset, 1)?[0])
    }

    pub(super) fn le16(&self, offset: u64) -> Option<u16> {
        self.array(offset).map(u16::from_le_bytes)
    }

    pub(super) fn le32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub(super) fn be32(&self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_be_bytes)
    }

    pub(super) fn le64(&self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    pub(super) fn be64(&self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_be_bytes)
    }

    /// The text of a field that NUL bytes or blanks fill up, fit for a terminal; none if it is empty.
    pub(super) fn text(&self, offset: u64, len: usize) -> Option<String> {
        let field = self.get(offset, len)?;
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(len);
        let text: String =
            String::from_utf8_lossy(&field[..end]).chars().filter(|c| !c.is_control()).collect();
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}
