//! The form of a stripe of an elastic array (Elastic RAID, 2022, section 3.1), and what the configuration says of such an array.

/// How a stripe stores its data. Two bits of a form page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Nothing is stored: the stripe reads as zeros.
    #[default]
    Empty = 0,
    /// Data and parity, as RAID 5 and 6 have it.
    Parity = 1,
    /// Every data column and its copies, as RAID 10 has it; no parity.
    Mirrored = 2,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 3] = [Form::Empty, Form::Parity, Form::Mirrored];

    /// The other form of a stripe that stores something: what a conversion to this form begins with.
    pub fn counterpart(self) -> Form {
        if self == Form::Mirrored { Form::Parity } else { Form::Mirrored }
    }

    /// The form with this number; `None` when there is none.
    pub fn from_number(number: u8) -> Option<Form> {
        Form::ALL.get(usize::from(number)).copied()
    }
}

sinew_layout::named! {
    Form, "form":
    Form::Empty => "empty", "Nothing is stored";
    Form::Parity => "parity", "Data and parity";
    Form::Mirrored => "mirrored", "Data and copies";
}

/// Expected ratios of compression, in thousandths: from no compression to far beyond what drives reach.
pub const EXPECT_RANGE: std::ops::RangeInclusive<u32> = 1000..=16_000;

/// An array whose stripes change between parity and mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elastic {
    /// The ratio of compression that is expected of data and parity together, in thousandths (a_exp of section 3).
    pub expect_milli: u32,
    /// Physical bytes of each member for which the capacity is planned; 0 if addresses alone limit it.
    pub physical: u64,
    /// Form pages of each shard; 0 in a request: as many as the array needs.
    pub form_pages: u32,
}

impl Elastic {
    /// A capacity that follows from the addresses of the members.
    pub const BY_ADDRESSES: Elastic = Elastic { expect_milli: 1000, physical: 0, form_pages: 0 };

    /// Bytes of a slot on each member whose data is expected to fit the physical space; `None` for no such limit.
    pub fn slot_bytes(&self) -> Option<u64> {
        let bytes = u128::from(self.physical) * u128::from(self.expect_milli) / 1000;
        (self.physical > 0).then_some(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}
