//! Sizes as people write them: 4096, 64K, 1.5G.

use anyhow::{Context, Result, bail};

const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];

/// Bytes from a number with an optional K, M, G or T (powers of 1024).
pub(crate) fn parse(text: &str) -> Result<u64> {
    let trimmed = text.trim().trim_end_matches(['B', 'b']).trim_end_matches(['i']);
    let unit = UNITS.iter().find(|(c, _)| trimmed.ends_with([*c, c.to_ascii_lowercase()]));
    let (digits, factor) = match unit {
        Some((c, factor)) => (trimmed.trim_end_matches([*c, c.to_ascii_lowercase()]), *factor),
        None => (trimmed, 1),
    };
    let number: f64 = digits.parse().with_context(|| format!("{text} is not a size; write for example 512M or 4G"))?;
    if !(0.0..1e18).contains(&(number * factor as f64)) {
        bail!("{text} is not a usable size");
    }
    Ok((number * factor as f64) as u64)
}

/// Bytes for people.
pub(crate) fn show(bytes: u64) -> String {
    match UNITS.iter().rev().find(|(_, factor)| bytes >= *factor) {
        Some((c, factor)) => format!("{:.1} {c}iB", bytes as f64 / *factor as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("4096", 4096), ("64K", 65536), ("1.5g", 3 << 29), ("2GiB", 2 << 30), ("0", 0)] {
            assert_eq!(super::parse(text).unwrap(), bytes, "{text}");
        }
        assert!(super::parse("many").is_err() && super::parse("-1K").is_err());
        assert_eq!(super::show(3 << 29), "1.5 GiB");
    }
}
