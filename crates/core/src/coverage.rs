//! Coverage marks: names for code that only faults, crashes and shortages reach.
//!
//! Each crate declares its marks with [`coverage_marks!`](crate::coverage_marks) and reports every pass with
//! [`Io::mark`](crate::io::Io::mark). A simulator counts, so that a batch of its runs can tell which mark none of them
//! reached; any other world does nothing, and the calls compile to nothing. A mark that is declared and never reported is
//! found as never reached.
//!
//! Code that refuses what no engine ever wrote (damaged metadata with a right checksum) has no marks: nothing goes on after
//! it, and the tests of the formats reach it.

/// The name of a coverage mark, unique among all crates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MarkName(&'static str);

impl MarkName {
    /// A mark of this name. For [`coverage_marks!`](crate::coverage_marks) alone.
    pub const fn new(name: &'static str) -> MarkName {
        MarkName(name)
    }

    /// The name.
    pub const fn text(self) -> &'static str {
        self.0
    }
}

/// Declares the coverage marks of a crate as the variants of an enum `Mark`.
#[macro_export]
macro_rules! coverage_marks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A coverage mark of this crate.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mark {
            $($(#[$doc])* $name,)*
        }

        impl Mark {
            /// Every mark of this crate.
            pub const ALL: &[Mark] = &[$(Mark::$name,)*];

            /// Its name.
            pub const fn name(self) -> $crate::coverage::MarkName {
                $crate::coverage::MarkName::new(match self {
                    $(Mark::$name => stringify!($name),)*
                })
            }
        }

        impl From<Mark> for $crate::coverage::MarkName {
            fn from(mark: Mark) -> $crate::coverage::MarkName {
                mark.name()
            }
        }
    };
}
