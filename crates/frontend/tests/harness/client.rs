//! A client's side of the protocol: encoders of what it sends, decoders of what it gets. And how a server begins, for
//! tests of the real client.

use std::cell::Cell;
use std::rc::Rc;

use sinew_core::io::Io;
use sinew_frontend::exports::Exports;
use sinew_frontend::nbd::proto::{
    self, Headers, InfoRequest, Request, handshake_flag, info, option_reply, transmission_flag,
};
use sinew_frontend::nbd::{ConnectionEnd, TlsMode, serve_connection};

use super::memory::{MemoryExports, MemoryVolume, TaskIo};
use super::wire::Wire;

/// An option as sent.
pub(crate) fn option(code: u32, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    proto::option(&mut out, code, data);
    out
}

/// A string with its length.
fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

/// The data of INFO and GO.
pub(crate) fn info_data(name: &str, kinds: &[u16]) -> Vec<u8> {
    let mut data = Vec::new();
    InfoRequest::encode(&mut data, name, kinds);
    data
}

/// The data of the options about contexts.
pub(crate) fn meta_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

/// A handshake that ends in transmission on `name`.
pub(crate) fn hello(name: &str, structured: bool) -> Vec<u8> {
    let mut out = 3u32.to_be_bytes().to_vec();
    if structured {
        out.extend(option(proto::option::STRUCTURED_REPLY, &[]));
        out.extend(option(proto::option::SET_META_CONTEXT, &meta_data(name, &["base:allocation"])));
    }
    out.extend(option(proto::option::GO, &info_data(name, &[])));
    out
}

/// As [`hello`], with extended headers.
pub(crate) fn hello_extended(name: &str) -> Vec<u8> {
    let mut out = 3u32.to_be_bytes().to_vec();
    out.extend(option(proto::option::EXTENDED_HEADERS, &[]));
    out.extend(option(proto::option::SET_META_CONTEXT, &meta_data(name, &["base:allocation"])));
    out.extend(option(proto::option::GO, &info_data(name, &[])));
    out
}

/// What a server of `bytes` says up to the beginning of transmission.
pub(crate) fn welcome(bytes: u64, structured: bool) -> Vec<u8> {
    let mut out = Vec::new();
    proto::greeting(&mut out, handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    proto::option_reply(&mut out, proto::option::EXTENDED_HEADERS, option_reply::ERR_UNSUP, &[]);
    let kind = if structured { option_reply::ACK } else { option_reply::ERR_UNSUP };
    proto::option_reply(&mut out, proto::option::STRUCTURED_REPLY, kind, &[]);
    let flags = transmission_flag::HAS_FLAGS | transmission_flag::SEND_FLUSH;
    let about = [&info::EXPORT.to_be_bytes()[..], &bytes.to_be_bytes(), &flags.to_be_bytes()];
    proto::option_reply(&mut out, proto::option::GO, option_reply::INFO, &about);
    proto::option_reply(&mut out, proto::option::GO, option_reply::ACK, &[]);
    out
}

/// A request as sent, with its payload.
pub(crate) fn request(
    command: u16,
    flags: u16,
    cookie: u64,
    offset: u64,
    len: u32,
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    Request { flags, command, cookie, offset, len: u64::from(len) }.encode(&mut out, Headers::Simple);
    out.extend(payload);
    out
}

/// An extended request as sent, with its payload.
pub(crate) fn extended_request(
    command: u16,
    flags: u16,
    cookie: u64,
    (offset, len): (u64, u64),
    payload: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    Request { flags, command, cookie, offset, len }.encode(&mut out, Headers::Extended);
    out.extend(payload);
    out
}

/// A reply to an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionReply {
    pub(crate) option: u32,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
}

/// A message of the transmission phase.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    Simple { cookie: u64, error: u32, data: Vec<u8> },
    Chunk { cookie: u64, done: bool, kind: u16, data: Vec<u8> },
}

/// What a server sent, taken apart from the front.
pub(crate) struct Received(pub(crate) Vec<u8>);

impl Received {
    fn take(&mut self, len: usize) -> Vec<u8> {
        assert!(len <= self.0.len(), "the server's bytes end inside a message");
        self.0.drain(..len).collect()
    }

    fn int(&mut self, len: usize) -> u64 {
        self.take(len).iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
    }

    pub(crate) fn greeting(&mut self) {
        assert_eq!(self.take(18), b"NBDMAGICIHAVEOPT\0\x03");
    }

    pub(crate) fn option_reply(&mut self) -> OptionReply {
        assert_eq!(self.int(8), proto::OPTION_REPLY_MAGIC);
        let (option, kind) = (self.int(4) as u32, self.int(4) as u32);
        let len = self.int(4) as usize;
        OptionReply { option, kind, data: self.take(len) }
    }

    /// The replies up to and with the final one of an option.
    pub(crate) fn option_replies(&mut self) -> Vec<OptionReply> {
        let mut replies = vec![self.option_reply()];
        while !matches!(replies.last().map(|r| r.kind), Some(1 | 0x8000_0000..)) {
            replies.push(self.option_reply());
        }
        replies
    }

    /// All messages, given how much data the simple reply to a cookie carries when it is no error.
    pub(crate) fn replies(mut self, read_len: impl Fn(u64) -> usize) -> Vec<Reply> {
        let mut replies = Vec::new();
        while !self.0.is_empty() {
            let magic = self.int(4) as u32;
            if magic == proto::SIMPLE_REPLY_MAGIC {
                let (error, cookie) = (self.int(4) as u32, self.int(8));
                let data = if error == 0 { self.take(read_len(cookie)) } else { Vec::new() };
                replies.push(Reply::Simple { cookie, error, data });
            } else {
                assert_eq!(magic, proto::CHUNK_MAGIC);
                let (done, kind, cookie) = (self.int(2) == 1, self.int(2) as u16, self.int(8));
                let len = self.int(4) as usize;
                replies.push(Reply::Chunk { cookie, done, kind, data: self.take(len) });
            }
        }
        replies
    }
}

/// A chunk of an extended reply, with the offset of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExtendedReply {
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) done: bool,
    pub(crate) kind: u16,
    pub(crate) data: Vec<u8>,
}

impl Received {
    /// All messages of a connection with extended headers.
    pub(crate) fn extended_replies(mut self) -> Vec<ExtendedReply> {
        let mut replies = Vec::new();
        while !self.0.is_empty() {
            assert_eq!(self.int(4) as u32, proto::EXTENDED_CHUNK_MAGIC);
            let (done, kind) = (self.int(2) == 1, self.int(2) as u16);
            let (cookie, offset, len) = (self.int(8), self.int(8), self.int(8) as usize);
            replies.push(ExtendedReply { cookie, offset, done, kind, data: self.take(len) });
        }
        replies
    }
}

/// A served connection and everything around it.
pub(crate) struct Bench {
    pub(crate) io: TaskIo,
    pub(crate) wire: Wire,
    pub(crate) volume: MemoryVolume,
    end: Rc<Cell<Option<ConnectionEnd>>>,
}

impl Bench {
    /// Starts serving `exports` on `wire` without TLS; `volume` is the one the test looks at.
    pub(crate) fn start(wire: Wire, volume: MemoryVolume, exports: MemoryExports) -> Bench {
        Bench::start_with(wire, volume, exports, TlsMode::Off)
    }

    /// Starts serving `exports` on `wire`; `volume` is the one the test looks at.
    pub(crate) fn start_with(wire: Wire, volume: MemoryVolume, exports: impl Exports, tls: TlsMode) -> Bench {
        let bench = Bench { io: TaskIo::new(), wire, volume, end: Rc::default() };
        let (io, stream, end) = (bench.io.clone(), Rc::new(bench.wire.clone()), Rc::clone(&bench.end));
        bench.io.spawn(async move { end.set(Some(serve_connection(io, stream, exports, &tls).await)) });
        bench
    }

    /// Serves one volume of 64 MiB, named `disk`.
    pub(crate) fn one_disk(wire: Wire) -> Bench {
        let volume = MemoryVolume::new(64 << 20);
        let exports = MemoryExports(vec![("disk", volume.clone())]);
        Bench::start(wire, volume, exports)
    }

    /// Serves one volume and has the handshake behind it.
    pub(crate) fn in_transmission(structured: bool) -> Bench {
        let bench = Bench::one_disk(Wire::default());
        bench.talk(&hello("disk", structured));
        bench
    }

    /// Sends, lets everything happen that can, and gives what came back.
    pub(crate) fn talk(&self, bytes: &[u8]) -> Received {
        self.wire.push(bytes);
        self.io.settle();
        Received(self.wire.pull())
    }

    /// Sends requests and gives the replies; no simple reply may carry data.
    pub(crate) fn ask(&self, bytes: &[u8]) -> Vec<Reply> {
        self.talk(bytes).replies(|_| 0)
    }

    /// How the connection ended, if it did.
    pub(crate) fn end(&self) -> Option<ConnectionEnd> {
        self.io.settle();
        self.end.get()
    }
}

impl Drop for Bench {
    /// Ends every task: one that never ends would keep the executor, and that the task.
    fn drop(&mut self) {
        self.volume.release();
        self.wire.close();
        self.io.settle();
        self.io.advance(u64::MAX / 2);
        self.io.settle();
        if !std::thread::panicking() {
            assert!(self.end.get().is_some(), "the connection outlives its client");
        }
    }
}
