//! Sizes and times as people write and read them: 4096, 64K, 1.5G; 20ms.

use std::time::Duration;

use anyhow::{Context, Result, bail};

const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];

/// Bytes from a number with an optional K, M, G or T (powers of 1024; `GiB` and the like mean the same).
///
/// # Errors
/// When the text is no size, or one above 64 bits.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let wrong = || format!("{text} is not a size; write for example 4096, 64K, 512M or 1.5G");
    let upper = text.trim().to_ascii_uppercase();
    let number = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let unit = UNITS.iter().find_map(|(c, factor)| Some((number.strip_suffix(*c)?, *factor)));
    let (digits, factor) = unit.unwrap_or((number, 1));
    if digits.is_empty() || !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
        bail!(wrong());
    }
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(factor).with_context(|| format!("{text} is too large"));
    }
    // A fraction is rounded down to whole blocks, the unit of everything stored.
    let bytes = digits.parse::<f64>().with_context(wrong)? * factor as f64;
    Ok(bytes as u64 / 4096 * 4096)
}

/// A limit in bytes per second; 0 for `none`.
///
/// # Errors
/// When the text is no size.
pub(crate) fn parse_rate(text: &str) -> Result<u64> {
    if text == "none" { Ok(0) } else { parse_size(text) }
}

/// A time from a number with us, ms, s, m (minutes) or h.
///
/// # Errors
/// When the text is no such time.
pub(crate) fn parse_time(text: &str) -> Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().with_context(|| format!("{text} is not a time such as 20ms"))?;
    match &text[digits.len()..] {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_mins(number)),
        "h" => Ok(Duration::from_hours(number)),
        _ => bail!("{text}: a time is in us, ms, s, m or h"),
    }
}

/// Bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    match UNITS.iter().rev().find(|(_, factor)| bytes >= *factor) {
        Some((c, factor)) if bytes.is_multiple_of(*factor) => format!("{} {c}iB", bytes / factor),
        Some((c, factor)) => format!("{:.1} {c}iB", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

/// Milliseconds for people, from nanoseconds.
pub(crate) fn ms(ns: f64) -> String {
    format!("{:.3}", ns / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        let right =
            [("4096", 4096), ("64K", 65536), ("1.5g", 3 << 29), ("2GiB", 2 << 30), ("0", 0), ("8 ", 8)];
        for (text, bytes) in right {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
        for wrong in ["", "many", "-1K", "K", "1e3", "inf", "nan", "1KK", "99999999999T", "1.2.3"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(super::bytes(3 << 29), "1.5 GiB");
        assert_eq!(super::bytes(2 << 30), "2 GiB");
        assert_eq!(super::bytes(5), "5 B");
    }
}
