//! Sizes as people write them in a description: 4096, "64K", "1.5G".

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The units of the command line: powers of 1024.
const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];

/// A number of bytes; in a description a number, or a string with K, M, G or T (`KiB` and the like mean the same).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    fn parse(text: &str) -> Option<ByteSize> {
        let upper = text.trim().to_ascii_uppercase();
        let number = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
        let unit = UNITS.iter().find_map(|(c, factor)| Some((number.strip_suffix(*c)?, *factor)));
        let (digits, factor) = unit.map_or((number, 1), |(digits, factor)| (digits.trim_end(), factor));
        if let Ok(whole) = digits.parse::<u64>() {
            return whole.checked_mul(factor).map(ByteSize);
        }
        let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
        let bytes = digits.parse::<f64>().ok().filter(|_| plain)? * factor as f64;
        // A fraction that is not whole bytes is a slip.
        (bytes.fract() == 0.0 && bytes < u64::MAX as f64).then_some(ByteSize(bytes as u64))
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, for example 4096, \"64K\" or \"1.5G\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(bytes), &self);
                u64::try_from(bytes).map(ByteSize).map_err(|_| wrong())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                ByteSize::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let right = [("4096", 4096), ("64K", 65536), ("64 KiB", 65536), ("1.5g", 3 << 29), ("2TiB", 2 << 40)];
        for (text, bytes) in right {
            assert_eq!(ByteSize::parse(text), Some(ByteSize(bytes)), "{text}");
        }
        for wrong in ["", "K", "-1", "1e3", "4.0001K", "99999999999T", "inf"] {
            assert_eq!(ByteSize::parse(wrong), None, "{wrong}");
        }
    }
}
