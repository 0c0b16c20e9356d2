//! Taking numbers off the front of an input. An input that has ended gives zeros, so every input means something.

/// The rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `n` bytes.
    pub fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(n.min(self.0.len()));
        self.0 = tail;
        head
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut all = [0; N];
        let head = self.take(N);
        all[..head.len()].copy_from_slice(head);
        all
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// Bytes with their length, two bytes, in front.
    pub fn bytes(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.take(len.into())
    }
}

/// The other way round, for the generator.
#[derive(Default)]
pub struct Output(pub Vec<u8>);

impl Output {
    /// One byte.
    pub fn u8(&mut self, v: u8) -> &mut Output {
        self.0.push(v);
        self
    }

    /// Two bytes.
    pub fn u16(&mut self, v: u16) -> &mut Output {
        self.0.extend(v.to_le_bytes());
        self
    }

    /// Four bytes.
    pub fn u32(&mut self, v: u32) -> &mut Output {
        self.0.extend(v.to_le_bytes());
        self
    }

    /// Eight bytes.
    pub fn u64(&mut self, v: u64) -> &mut Output {
        self.0.extend(v.to_le_bytes());
        self
    }

    /// Bytes with their length in front.
    ///
    /// # Panics
    /// When there are more than 65,535.
    pub fn bytes(&mut self, v: &[u8]) -> &mut Output {
        self.u16(v.len().try_into().expect("short"));
        self.0.extend(v);
        self
    }
}
