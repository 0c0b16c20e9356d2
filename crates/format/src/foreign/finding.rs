//! Findings on a device, and their text for messages.

use std::fmt;

/// One signature on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is a signature of.
    pub kind: &'static str,
    /// The name that it carries, if any: the label of a file system, the name of an array.
    pub name: Option<String>,
    /// The byte of the device at which the signature lies.
    pub offset: u64,
}

impl Finding {
    pub(super) fn new(kind: &'static str, offset: u64) -> Finding {
        Finding { kind, name: None, offset }
    }

    pub(super) fn named(kind: &'static str, offset: u64, name: Option<String>) -> Finding {
        Finding { kind, name, offset }
    }
}

/// What the searched parts of a device hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Content {
    /// The signatures, in the order of their places.
    pub findings: Vec<Finding>,
    /// The first byte at either end of the device that is not zero.
    pub first_byte: Option<u64>,
}

impl Content {
    /// Whether there is nothing but zeros, and no signature.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty() && self.first_byte.is_none()
    }
}

impl fmt::Display for Content {
    /// `an ext4 file system "home" at byte 1080, a GPT at bytes 512 and 1048064`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.first_byte.filter(|_| self.findings.is_empty()) else {
            return list(&self.findings, f);
        };
        write!(f, "unknown data, the first at byte {first}")
    }
}

fn list(findings: &[Finding], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_same = |a: &Finding, b: &Finding| a.kind == b.kind && a.name == b.name;
    let mut told = 0;
    for (i, finding) in findings.iter().enumerate() {
        if findings[..i].iter().any(|earlier| is_same(earlier, finding)) {
            continue;
        }
        f.write_str(if told > 0 { ", " } else { "" })?;
        told += 1;
        f.write_str(finding.kind)?;
        if let Some(name) = &finding.name {
            write!(f, " \"{name}\"")?;
        }
        let places: Vec<String> = findings[i..]
            .iter()
            .filter(|other| is_same(other, finding))
            .map(|other| other.offset.to_string())
            .collect();
        match places.as_slice() {
            [place] => write!(f, " at byte {place}")?,
            [places @ .., last] => write!(f, " at bytes {} and {last}", places.join(", "))?,
            [] => {}
        }
    }
    Ok(())
}
