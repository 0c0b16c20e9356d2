//! What a request asks for, decided before anything is done: a checked command or a refusal.
//!
//! Pure. A command that comes out of [`check_request`] lies inside the volume, has only flags that belong to it, and is allowed
//! on the export.

use sinew_core::volume::VolumeError;

use super::proto::{Errno, Headers, PAYLOAD_BYTES_MAX, Request, command, command_flag};

/// What the handshake agreed on, as far as requests are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The headers of requests and replies.
    pub headers: Headers,
    /// Block status may be asked for.
    pub allocation: bool,
    /// Nothing may be changed.
    pub read_only: bool,
    /// The size that the client was told.
    pub announced_bytes: u64,
}

impl Terms {
    /// Whether replies with data are chunks.
    fn is_structured(self) -> bool {
        self.headers >= Headers::Structured
    }

    /// The bytes of payload behind the header of a request. More than a connection can bear is `None`.
    pub fn payload_bytes(self, request: &Request) -> Option<usize> {
        let is_extended = self.headers == Headers::Extended;
        // With extended headers other commands may announce a payload too; none of them takes one.
        let has_payload = request.command == command::WRITE
            || (is_extended && request.flags & command_flag::PAYLOAD_LEN != 0);
        match request.len {
            _ if !has_payload => Some(0),
            len => u32::try_from(len).ok().map(|len| len as usize),
        }
    }
}

/// A range of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Bytes from the start.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A checked command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Read; in one chunk unless `holes` may be told apart.
    Read {
        /// What.
        range: Range,
        /// Whether the reply may consist of several chunks.
        holes: bool,
    },
    /// Write the payload.
    Write {
        /// Where.
        range: Range,
        /// Durable before the reply.
        fua: bool,
    },
    /// Make completed writes durable.
    Flush,
    /// Forget.
    Trim {
        /// What.
        range: Range,
        /// Durable before the reply.
        fua: bool,
    },
    /// Zero.
    WriteZeroes {
        /// What.
        range: Range,
        /// Durable before the reply.
        fua: bool,
        /// Whether blocks may be freed; otherwise zeros are stored, so that later overwrites find their space.
        free: bool,
    },
    /// Nothing is done: the engine keeps no cache that could be warmed.
    Cache,
    /// Tell what is stored.
    Status {
        /// Where.
        range: Range,
        /// Only the first extent.
        one: bool,
    },
}

/// Why a request is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For programs.
    pub errno: Errno,
    /// For people.
    pub message: &'static str,
}

impl Refusal {
    const fn new(errno: Errno, message: &'static str) -> Refusal {
        Refusal { errno, message }
    }
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To be carried out.
    Run(Command),
    /// To be answered with an error; a write's payload must be skipped.
    Refuse(Refusal),
    /// The end: no reply, and what is under way is finished first.
    Disconnect,
}

/// Decides what a request means on a volume of `size` bytes.
pub fn check_request(request: &Request, terms: Terms, size: u64) -> Verdict {
    if request.command == command::DISC {
        return Verdict::Disconnect;
    }
    match checked(request, terms, size) {
        Ok(command) => Verdict::Run(command),
        Err(refusal) => Verdict::Refuse(refusal),
    }
}

fn checked(request: &Request, terms: Terms, size: u64) -> Result<Command, Refusal> {
    check_flags(request, terms)?;
    let changes = matches!(request.command, command::WRITE | command::TRIM | command::WRITE_ZEROES);
    if changes && terms.read_only {
        return Err(Refusal::new(Errno::Perm, "the export is read-only"));
    }
    check_len(request, terms)?;
    let range = Range { offset: request.offset, len: request.len };
    let end = request.offset.checked_add(request.len);
    if end.is_none_or(|end| end > size) {
        return Err(match end {
            // A volume without bytes is one that was deleted.
            _ if size == 0 => refusal_of(VolumeError::Gone, request.command),
            // To the client, the range is inside the export. "No space" would look like a full pool.
            Some(end) if end <= terms.announced_bytes => {
                Refusal::new(Errno::Io, "the volume was made smaller")
            }
            _ => refusal_of(VolumeError::OutOfRange, request.command),
        });
    }
    let has = |flag| request.flags & flag != 0;
    let fua = has(command_flag::FUA);
    Ok(match request.command {
        command::READ => Command::Read { range, holes: terms.is_structured() && !has(command_flag::DF) },
        command::WRITE => Command::Write { range, fua },
        command::FLUSH => Command::Flush,
        command::TRIM => Command::Trim { range, fua },
        command::CACHE => Command::Cache,
        command::WRITE_ZEROES if has(command_flag::NO_HOLE) && has(command_flag::FAST_ZERO) => {
            return Err(Refusal::new(Errno::NotSup, "zeros that keep their space are written like data"));
        }
        command::WRITE_ZEROES => Command::WriteZeroes { range, fua, free: !has(command_flag::NO_HOLE) },
        command::BLOCK_STATUS => Command::Status { range, one: has(command_flag::REQ_ONE) },
        _ => return Err(Refusal::new(Errno::Inval, "unknown command")),
    })
}

fn check_flags(request: &Request, terms: Terms) -> Result<(), Refusal> {
    // Some clients set FUA on everything, and the protocol lets them.
    let allowed = command_flag::FUA
        | match request.command {
            command::READ if terms.is_structured() => command_flag::DF,
            command::WRITE if terms.headers == Headers::Extended => command_flag::PAYLOAD_LEN,
            command::WRITE_ZEROES => command_flag::NO_HOLE | command_flag::FAST_ZERO,
            command::BLOCK_STATUS => command_flag::REQ_ONE,
            _ => 0,
        };
    if request.flags & !allowed != 0 {
        return Err(Refusal::new(Errno::Inval, "unknown flag for this command"));
    }
    Ok(())
}

fn check_len(request: &Request, terms: Terms) -> Result<(), Refusal> {
    let is_long = request.len > u64::from(PAYLOAD_BYTES_MAX);
    match request.command {
        command::READ if is_long && terms.is_structured() => {
            Err(Refusal::new(Errno::Overflow, "read longer than the announced maximum"))
        }
        command::READ | command::WRITE if is_long => {
            Err(Refusal::new(Errno::Inval, "payload longer than the announced maximum"))
        }
        command::FLUSH if request.offset != 0 || request.len != 0 => {
            Err(Refusal::new(Errno::Inval, "a flush has no range"))
        }
        command::BLOCK_STATUS if !terms.allocation => {
            Err(Refusal::new(Errno::Inval, "block status without a selected context"))
        }
        command::BLOCK_STATUS if request.len == 0 => {
            Err(Refusal::new(Errno::Inval, "block status of nothing"))
        }
        _ => Ok(()),
    }
}

/// How a client is told that `command` failed.
pub fn refusal_of(error: VolumeError, command: u16) -> Refusal {
    match error {
        VolumeError::OutOfRange if matches!(command, command::WRITE | command::WRITE_ZEROES) => {
            Refusal::new(Errno::NoSpc, "the range reaches past the end")
        }
        VolumeError::OutOfRange => Refusal::new(Errno::Inval, "the range reaches past the end"),
        VolumeError::NoSpace => Refusal::new(Errno::NoSpc, "no space left in the pool"),
        VolumeError::Failed => Refusal::new(Errno::Io, "too many failed members or no good copy"),
        VolumeError::Unsupported => {
            Refusal::new(Errno::NotSup, "this kind of pool does not support the request")
        }
        VolumeError::ReadOnly => Refusal::new(Errno::Perm, "the volume is read-only"),
        VolumeError::Gone => Refusal::new(Errno::Shutdown, "the volume is gone"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;
    const TERMS: Terms =
        Terms { headers: Headers::Structured, allocation: true, read_only: false, announced_bytes: SIZE };

    fn planned(command: u16, flags: u16, offset: u64, len: u64, terms: Terms) -> Verdict {
        check_request(&Request { flags, command, cookie: 1, offset, len }, terms, SIZE)
    }

    fn errno(verdict: Verdict) -> Errno {
        match verdict {
            Verdict::Refuse(refusal) => refusal.errno,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn ranges_past_the_end_get_the_errno_of_their_command() {
        for (offset, len) in
            [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 1), (u64::MAX, u64::from(u32::MAX)), (SIZE + 1, 0)]
        {
            for (code, want) in [
                (command::READ, Errno::Inval),
                (command::WRITE, Errno::NoSpc),
                (command::TRIM, Errno::Inval),
                (command::WRITE_ZEROES, Errno::NoSpc),
                (command::CACHE, Errno::Inval),
                (command::BLOCK_STATUS, Errno::Inval),
            ] {
                let len = if code <= command::WRITE { len.min(u64::from(PAYLOAD_BYTES_MAX)) } else { len };
                if code == command::BLOCK_STATUS && len == 0 {
                    continue;
                }
                assert_eq!(errno(planned(code, 0, offset, len, TERMS)), want, "command {code} at {offset}");
            }
        }
    }

    #[test]
    fn what_lay_inside_when_the_client_connected_is_an_io_error_after_shrinking() {
        let terms = Terms { announced_bytes: 2 * SIZE, ..TERMS };
        for code in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(errno(planned(code, 0, 2 * SIZE - 4096, 4096, terms)), Errno::Io, "command {code}");
        }
        assert_eq!(errno(planned(command::WRITE, 0, 2 * SIZE, 4096, terms)), Errno::NoSpc);
    }

    #[test]
    fn a_deleted_volume_does_not_look_like_a_full_pool() {
        for code in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            let request = Request { flags: 0, command: code, cookie: 1, offset: 0, len: 4096 };
            assert_eq!(errno(check_request(&request, TERMS, 0)), Errno::Shutdown, "command {code}");
        }
    }

    #[test]
    fn the_last_byte_is_in_range() {
        let range = Range { offset: SIZE - 1, len: 1 };
        let read = Command::Read { range, holes: true };
        assert_eq!(planned(command::READ, 0, SIZE - 1, 1, TERMS), Verdict::Run(read));
    }

    #[test]
    fn flags_belong_to_commands() {
        for flag in 0..16u16 {
            let bit = 1 << flag;
            for code in 0..9u16 {
                let len = u64::from(code != command::FLUSH);
                let known = bit == command_flag::FUA
                    || (code == command::READ && bit == command_flag::DF)
                    || (code == command::WRITE_ZEROES && bit & 0b1_0010 != 0)
                    || (code == command::BLOCK_STATUS && bit == command_flag::REQ_ONE);
                match planned(code, bit, 0, len, TERMS) {
                    Verdict::Disconnect => assert_eq!(code, command::DISC),
                    Verdict::Run(_) => assert!(known && code < 8, "command {code} bit {flag}"),
                    Verdict::Refuse(r) => assert!(!known || code == 8, "command {code} bit {flag}: {r:?}"),
                }
            }
        }
        let simple = Terms { headers: Headers::Simple, ..TERMS };
        assert_eq!(errno(planned(command::READ, command_flag::DF, 0, 1, simple)), Errno::Inval);
    }

    #[test]
    fn zeros_that_keep_their_space_are_not_fast() {
        let both = command_flag::NO_HOLE | command_flag::FAST_ZERO;
        assert_eq!(errno(planned(command::WRITE_ZEROES, both, 0, 4096, TERMS)), Errno::NotSup);
    }

    #[test]
    fn read_only_exports_refuse_changes_only() {
        let terms = Terms { read_only: true, ..TERMS };
        for code in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            assert_eq!(errno(planned(code, 0, 0, 1, terms)), Errno::Perm);
        }
        assert!(matches!(planned(command::READ, 0, 0, 1, terms), Verdict::Run(_)));
        assert_eq!(planned(command::FLUSH, 0, 0, 0, terms), Verdict::Run(Command::Flush));
    }

    #[test]
    fn oversized_payloads_are_refused() {
        let len = u64::from(PAYLOAD_BYTES_MAX) + 1;
        let at = |code, headers| {
            let request = Request { flags: 0, command: code, cookie: 0, offset: 0, len };
            errno(check_request(&request, Terms { headers, ..TERMS }, u64::MAX))
        };
        assert_eq!(at(command::READ, Headers::Structured), Errno::Overflow);
        assert_eq!(at(command::READ, Headers::Simple), Errno::Inval);
        assert_eq!(at(command::WRITE, Headers::Structured), Errno::Inval);
    }
}
