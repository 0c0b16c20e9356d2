//! The parsers behind one type.

use super::format::Format;
use super::input::Take;
use super::parsed::{Parse, Parsed};
use super::{blkparse, columns, iolog, vscsi};

/// One parser of each format. An enum rather than a trait object: one predictable branch per line.
#[derive(Debug)]
pub(super) enum Parser {
    Msr(columns::Msr),
    Spc,
    Tencent,
    Normalised,
    Blkparse(blkparse::Blkparse),
    Iolog(iolog::Iolog),
    VscsiText,
    Mqsim,
    Heimdall,
    Disksim,
    Vscsi(vscsi::Layout),
}

impl Parser {
    pub(super) fn new(format: Format, head: &[u8]) -> Parser {
        match format {
            Format::Msr => Parser::Msr(columns::Msr::default()),
            Format::Spc => Parser::Spc,
            Format::Tencent => Parser::Tencent,
            Format::Normalised => Parser::Normalised,
            Format::Blkparse => Parser::Blkparse(blkparse::Blkparse::default()),
            Format::Iolog => Parser::Iolog(iolog::Iolog::default()),
            Format::VscsiText => Parser::VscsiText,
            Format::Mqsim => Parser::Mqsim,
            Format::Heimdall => Parser::Heimdall,
            Format::Disksim => Parser::Disksim,
            Format::Vscsi => Parser::Vscsi(vscsi::Layout::of(head).unwrap_or(vscsi::Layout::V1)),
        }
    }

    pub(super) fn take(&self) -> Take {
        match self {
            Parser::Vscsi(layout) => Take::Record(layout.bytes()),
            _ => Take::Line,
        }
    }

    pub(super) fn parse(&mut self, line: &[u8]) -> Parse<Parsed> {
        match self {
            Parser::Msr(msr) => msr.parse(line),
            Parser::Spc => columns::spc(line),
            Parser::Tencent => columns::tencent(line),
            Parser::Normalised => columns::normalised(line),
            Parser::Blkparse(blkparse) => blkparse.parse(line),
            Parser::Iolog(iolog) => iolog.parse(line),
            Parser::VscsiText => vscsi::text(line),
            Parser::Mqsim => columns::mqsim(line),
            Parser::Heimdall => columns::heimdall(line),
            Parser::Disksim => columns::disksim(line),
            Parser::Vscsi(layout) => layout.parse(line),
        }
    }
}
