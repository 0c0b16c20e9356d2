//! Which format a file has, by its content: headers first, then whose parser accepts most of the first lines.

use super::format::Format;
use super::parser::Parser;
use super::{columns, iolog, vscsi};

/// Lines that are tried.
const SAMPLE_LINES: usize = 50;

/// Without a header; of two that accept the same lines the earlier wins.
///
/// Five bare columns are MQSim's where times are whole, because DiskSim's are milliseconds with a fraction. With a
/// fraction they are Heimdall's if all addresses and sizes are multiples of 512, which sectors hardly ever all are.
const CANDIDATES: [Format; 8] = [
    Format::Msr,
    Format::Spc,
    Format::Tencent,
    Format::Normalised,
    Format::Blkparse,
    Format::VscsiText,
    Format::Mqsim,
    Format::Disksim,
];

pub(super) fn format(head: &[u8]) -> Option<Format> {
    if head.starts_with(iolog::HEADER) {
        return Some(Format::Iolog);
    }
    if head.starts_with(columns::HEADER) {
        return Some(Format::Normalised);
    }
    if head.contains(&0) {
        return vscsi::Layout::of(head).map(|_| Format::Vscsi);
    }
    let lines: Vec<&[u8]> = head
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .take(SAMPLE_LINES)
        .collect();
    let score = |format| {
        let mut parser = Parser::new(format, head);
        lines.iter().filter(|line| parser.parse(line).is_ok()).count()
    };
    let scores = CANDIDATES.map(|format| (format, score(format)));
    // The last of the largest is what `max_by_key` finds.
    let (best, accepted) = scores.into_iter().rev().max_by_key(|(_, accepted)| *accepted)?;
    if accepted * 2 <= lines.len() {
        return None;
    }
    let heimdall = best == Format::Disksim && lines.iter().all(|line| columns::looks_like_heimdall(line));
    Some(if heimdall { Format::Heimdall } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::input;

    #[test]
    fn what_is_no_trace_is_not_taken_for_one() {
        for text in [&b""[..], b"hello\nworld\n", b"1 2 3\n", b"\0\0\0\0", &[0x7f; 100]] {
            assert_eq!(format(text), None, "{}", input::shown(text));
        }
    }

    #[test]
    fn a_few_bad_lines_do_not_hide_the_format() {
        assert_eq!(format(b"# comment\n1.5 0 100 8 1\n2.5 0 107 8 1\n"), Some(Format::Disksim));
        assert_eq!(format(b"1.5 0 4096 8192 1\n"), Some(Format::Heimdall));
        assert_eq!(format(b"15 0 100 8 1\n"), Some(Format::Mqsim));
    }
}
