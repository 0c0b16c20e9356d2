//! Numbers and times in a line, without copies.

use memchr::memchr;

use super::parsed::Parse;

/// The fields of a line, one after the other.
pub(super) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Fields<'a> {
    /// Fields between commas.
    pub(super) fn commas(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: Some(line), separator: b',' }
    }

    /// Fields between spaces or tabs, any number of them.
    pub(super) fn spaces(line: &'a [u8]) -> Fields<'a> {
        Fields { rest: Some(line), separator: b' ' }
    }

    /// Whether nothing is left.
    pub(super) fn are_done(&mut self) -> bool {
        self.next().is_none()
    }

    pub(super) fn required(&mut self, expected: &'static str) -> Parse<&'a [u8]> {
        self.next().filter(|field| !field.is_empty()).ok_or(expected)
    }

    pub(super) fn number(&mut self, expected: &'static str) -> Parse<u64> {
        self.next().and_then(number).ok_or(expected)
    }

    pub(super) fn volume(&mut self, expected: &'static str) -> Parse<u32> {
        self.next().and_then(number).and_then(|n| u32::try_from(n).ok()).ok_or(expected)
    }

    /// A time with a fraction, in units of `unit_ns` nanoseconds.
    pub(super) fn time_ns(&mut self, unit_ns: u64, expected: &'static str) -> Parse<u64> {
        self.next().and_then(|field| decimal(field, unit_ns)).ok_or(expected)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        if self.separator == b',' {
            let cut = memchr(b',', rest);
            self.rest = cut.map(|at| &rest[at + 1..]);
            return Some(rest[..cut.unwrap_or(rest.len())].trim_ascii());
        }
        let field = rest.trim_ascii_start();
        let cut = field.iter().position(u8::is_ascii_whitespace).unwrap_or(field.len());
        self.rest = Some(&field[cut..]);
        (cut > 0).then(|| &field[..cut])
    }
}

/// Digits only, below 2^64.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    // 19 digits cannot overflow, and nearly all numbers are that short.
    if field.is_empty() || field.len() > 20 || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (safe, last) = field.split_at(field.len().min(19));
    let value = safe.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
    match last {
        [digit] => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => Some(value),
    }
}

/// Digits with or without a fraction, times `unit`; what is below 1 is cut off.
pub(super) fn decimal(field: &[u8], unit: u64) -> Option<u64> {
    let (whole, fraction) = match memchr(b'.', field) {
        Some(dot) => (&field[..dot], &field[dot + 1..]),
        None => (field, &b""[..]),
    };
    let whole = number(whole)?.checked_mul(unit)?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // The unit is at most 10^9, so what lies beyond nine digits is below 1.
    let digits = &fraction[..fraction.len().min(9)];
    let parts = digits.iter().fold(0, |n, digit| n * 10 + u64::from(digit - b'0'));
    whole.checked_add(parts * unit / 10u64.pow(digits.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_nothing() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in
            [&b""[..], b"18446744073709551616", b"-1", b"1.0", b"1e3", b" 1", b"123456789012345678901"]
        {
            assert_eq!(number(wrong), None);
        }
    }

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(decimal(b"1017.077", 1_000_000), Some(1_017_077_000));
        assert_eq!(decimal(b"0.000000001", 1_000_000_000), Some(1));
        assert_eq!(decimal(b"0.0000000019", 1_000_000_000), Some(1));
        assert_eq!(decimal(b"7", 1000), Some(7000));
        for wrong in [&b"."[..], b"1.x", b"1.2.3", b"99999999999999.0"] {
            assert_eq!(decimal(wrong, 1_000_000_000), None);
        }
    }

    #[test]
    fn fields_are_split() {
        assert_eq!(Fields::commas(b"a, b,,c").collect::<Vec<_>>(), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(Fields::spaces(b"  a  b\tc ").collect::<Vec<_>>(), [&b"a"[..], b"b", b"c"]);
    }
}
