//! What a device is asked, what it answers, and the calls every model has.

/// Nanoseconds of virtual time.
pub type Ns = u64;

/// Bytes of the unit of addresses.
pub const BLOCK_BYTES: u32 = 4096;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fetch blocks.
    Read,
    /// Store blocks.
    Write,
    /// Make every completed write durable; address and length mean nothing.
    Flush,
    /// Forget blocks.
    Discard,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Returned with the completion; means nothing to the device.
    pub tag: u64,
    /// What is to be done.
    pub kind: Kind,
    /// First block, in units of [`BLOCK_BYTES`].
    pub lba: u32,
    /// Number of blocks.
    pub blocks: u32,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Done,
    /// A compressing device has addresses left but nothing to store the data in; the blocks keep what they had.
    NoSpace,
    /// A part of the device has failed, and since then it accepts reads only. The blocks keep what they had; those of a
    /// request that was under way at that time may have their new content instead.
    ReadOnly,
    /// Blocks of a read were lost with a part of the device that has failed.
    Unreadable,
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The command's tag.
    pub tag: u64,
    /// What it was.
    pub kind: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was submitted.
    pub submitted_at: Ns,
    /// When it ended.
    pub completed_at: Ns,
}

impl Completion {
    /// Time from submission to completion.
    pub fn latency_ns(&self) -> Ns {
        self.completed_at - self.submitted_at
    }
}

/// A device on a virtual clock.
pub trait Device {
    /// Size in blocks.
    fn blocks(&self) -> u32;

    /// Hands over a request. Events up to `now` must have been taken with [`Device::advance`] before. Panics when the
    /// request leaves the device or is an empty read, write or discard.
    fn submit(&mut self, now: Ns, command: Command);

    /// When [`Device::advance`] has something to do, or `None` while nothing is under way.
    fn next_event(&self) -> Option<Ns>;

    /// Moves the clock to `now` and appends what completed on the way, in order of time.
    fn advance(&mut self, now: Ns, completions: &mut Vec<Completion>);
}

/// Checks a command against a device of `blocks` blocks.
pub(crate) fn check(command: &Command, blocks: u32) {
    if command.kind != Kind::Flush {
        let end = u64::from(command.lba) + u64::from(command.blocks);
        assert!(
            command.blocks > 0 && end <= u64::from(blocks),
            "{command:?} leaves a device of {blocks} blocks"
        );
    }
}
