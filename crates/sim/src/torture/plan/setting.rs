//! Values of settings: their text, and the smaller values to try when a plan is shrunk.

use std::fmt::Write;

use sinew_format::model::mapped_geometry::Protection;
use sinew_format::model::policy::{Packing, Shares};
use sinew_layout::names;
use sinew_members::latency::SpikeAvoidance;
use sinew_members::ring::group_form::GroupForm;

/// A value of a setting.
pub(super) trait Value: Clone + PartialEq {
    /// The value as text.
    fn show(&self) -> String;
    /// The value of a text.
    ///
    /// # Errors
    /// A description of valid values.
    fn parse(text: &str) -> Result<Self, String>;
    /// Smaller values, the smallest first.
    fn smaller(&self) -> Vec<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Value for $number {
            fn show(&self) -> String {
                self.to_string()
            }

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| "a whole number".to_owned())
            }

            fn smaller(&self) -> Vec<Self> {
                let mut all = vec![0, 1, *self / 4, *self / 2, *self / 4 * 3, self.saturating_sub(1)];
                all.retain(|n| n < self);
                all.sort_unstable();
                all.dedup();
                all
            }
        }
    )*};
}

numbers!(u32, u64, usize);

impl Value for f64 {
    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(text: &str) -> Result<f64, String> {
        let number = text.parse().ok().filter(|n| (0.0..=1.0).contains(n));
        number.ok_or_else(|| "a number from 0 to 1".to_owned())
    }

    fn smaller(&self) -> Vec<f64> {
        if *self > 0.0 { vec![0.0] } else { Vec::new() }
    }
}

impl Value for bool {
    fn show(&self) -> String {
        self.to_string()
    }

    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| "true or false".to_owned())
    }

    fn smaller(&self) -> Vec<bool> {
        if *self { vec![false] } else { Vec::new() }
    }
}

const PROTECTIONS: [(&str, Protection); 4] = [
    ("mirror2", Protection::Mirror { copies: 2 }),
    ("parity1", Protection::Parity1),
    ("mirror3", Protection::Mirror { copies: 3 }),
    ("parity2", Protection::Parity2),
];

impl Value for Protection {
    fn show(&self) -> String {
        PROTECTIONS.iter().find(|p| p.1 == *self).map_or(String::new(), |p| p.0.to_owned())
    }

    fn parse(text: &str) -> Result<Protection, String> {
        let found = PROTECTIONS.iter().find(|p| p.0 == text);
        found.map(|p| p.1).ok_or_else(|| "mirror2, mirror3, parity1 or parity2".to_owned())
    }

    fn smaller(&self) -> Vec<Protection> {
        PROTECTIONS.iter().map(|p| p.1).take_while(|p| p != self).collect()
    }
}

/// Several values, with commas between.
impl<T: Value> Value for Vec<T> {
    fn show(&self) -> String {
        self.iter().map(Value::show).collect::<Vec<_>>().join(",")
    }

    fn parse(text: &str) -> Result<Vec<T>, String> {
        let items = text.split(',').filter(|item| !item.is_empty());
        items.map(|item| T::parse(item.trim())).collect()
    }

    /// Without half of them, without one of them, or with a smaller one.
    fn smaller(&self) -> Vec<Vec<T>> {
        let half = self.len() / 2;
        let mut all = Vec::new();
        if half > 1 {
            all.push(self[..half].to_vec());
            all.push(self[half..].to_vec());
        }
        let without =
            |i: usize| self.iter().enumerate().filter(move |(j, _)| *j != i).map(|(_, v)| v.clone());
        all.extend((0..self.len()).map(|i| without(i).collect()));
        for (i, value) in self.iter().enumerate() {
            all.extend(value.smaller().into_iter().map(|smaller| {
                let mut changed = self.clone();
                changed[i] = smaller;
                changed
            }));
        }
        all
    }
}

/// A set of numbers, kept as ranges: the numbers of events that are left out of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    /// Whether a number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.0.partition_point(|range| range.1 < number);
        self.0.get(after).is_some_and(|range| range.0 <= number)
    }

    /// The set with more numbers.
    pub(crate) fn with(&self, more: &[u64]) -> Numbers {
        let mut all: Vec<(u64, u64)> = self.0.iter().copied().chain(more.iter().map(|&n| (n, n))).collect();
        all.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (first, last) in all {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        Numbers(joined)
    }
}

impl Value for Numbers {
    fn show(&self) -> String {
        let mut text = String::new();
        for (i, (first, last)) in self.0.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let _ = match first == last {
                true => write!(text, "{comma}{first}"),
                false => write!(text, "{comma}{first}-{last}"),
            };
        }
        text
    }

    fn parse(text: &str) -> Result<Numbers, String> {
        let mut set = Numbers::default();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            match (first.trim().parse(), last.trim().parse()) {
                (Ok(first), Ok(last)) if first <= last => set.0.push((first, last)),
                _ => return Err("numbers and ranges of them, such as 3,7-12".to_owned()),
            }
        }
        Ok(set.with(&[]))
    }

    /// None: events are left out by the shrinking of events, not by that of settings.
    fn smaller(&self) -> Vec<Numbers> {
        Vec::new()
    }
}

/// Types with a table of names, and the smallest value of each.
macro_rules! named_values {
    ($($named:ty: $least:expr;)*) => {$(
        impl Value for $named {
            fn show(&self) -> String {
                self.name().to_owned()
            }

            fn parse(text: &str) -> Result<Self, String> {
                names::parse(text).map_err(|_| names::valid::<Self>().join(", "))
            }

            fn smaller(&self) -> Vec<Self> {
                if *self == $least { Vec::new() } else { vec![$least] }
            }
        }
    )*};
}

named_values! {
    SpikeAvoidance: SpikeAvoidance::Off;
    GroupForm: GroupForm::Copies;
    Packing: Packing::Packed;
    Shares: Shares::Off;
}

/// Declares an enumeration whose variants have names, as a value of settings.
macro_rules! choices {
    ($(#[$doc:meta])* $choice:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $choice {
            $($(#[$item_doc])* $item,)*
        }

        impl $choice {
            /// All of them.
            pub const ALL: &[$choice] = &[$($choice::$item,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $($choice::$item => $text,)*
                }
            }
        }

        impl crate::torture::plan::setting::Value for $choice {
            fn show(&self) -> String {
                self.name().to_owned()
            }

            fn parse(text: &str) -> Result<$choice, String> {
                let found = $choice::ALL.iter().find(|choice| choice.name() == text);
                let names: Vec<&str> = $choice::ALL.iter().map(|choice| choice.name()).collect();
                found.copied().ok_or_else(|| format!("of {}", names.join(", ")))
            }

            fn smaller(&self) -> Vec<$choice> {
                Vec::new()
            }
        }
    };
}
pub(super) use choices;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_as_ranges() {
        let set = Numbers::parse("7-9,1,2,20").unwrap();
        assert_eq!(set.show(), "1-2,7-9,20");
        let found: Vec<u64> = (0..30).filter(|&n| set.contains(n)).collect();
        assert_eq!(found, [1, 2, 7, 8, 9, 20]);
        assert_eq!(set.with(&[3, 21, 30]).show(), "1-3,7-9,20-21,30");
        assert!(Numbers::parse("3-1").is_err());
        assert!(Numbers::parse("x").is_err());
    }

    #[test]
    fn what_is_smaller_is_not_the_same() {
        assert_eq!(8u64.smaller(), [0, 1, 2, 4, 6, 7]);
        assert_eq!(0u64.smaller(), [0u64; 0]);
        assert!(vec![5u64, 6].smaller().iter().all(|list| *list != [5, 6]));
    }
}
