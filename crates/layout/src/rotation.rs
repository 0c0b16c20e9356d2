//! How parity rotates through the stripes of RAID 5 and RAID 6, in md's four ways.
//!
//! A stripe has `width` chunks on members 0 to `width` - 1, of which `parities` (one or two) are P and Q. Everything
//! here is one stripe's permutation of members; the formulas are those of `raid5_compute_sector` in Linux'
//! drivers/md/raid5.c, and the tests compare them with what md wrote.

use crate::named;

/// Which way parity moves from stripe to stripe, and where data begins.
///
/// The discriminants are md's numbers for the layouts (`ALGORITHM_…` in drivers/md/raid5.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rotation {
    /// P begins on the last member and moves left; data fills the members in order, stepping over parity.
    LeftAsymmetric = 0,
    /// P begins on the first member and moves right; data fills the members in order, stepping over parity.
    RightAsymmetric = 1,
    /// P moves left; data begins behind parity and wraps, so that consecutive chunks use all members. md's default.
    #[default]
    LeftSymmetric = 2,
    /// P moves right; data begins behind parity and wraps.
    RightSymmetric = 3,
}

/// What a member holds in a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cell {
    /// The data column of this number.
    Data(u32),
    /// The XOR of the data columns.
    P,
    /// The sum of the data columns times powers of the generator.
    Q,
}

/// The stripes of one RAID 5 or RAID 6 array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripes {
    pub(crate) rotation: Rotation,
    pub(crate) width: u32,
    pub(crate) parities: u32,
}

impl Rotation {
    /// All four, in md's order.
    pub const ALL: [Rotation; 4] = [
        Rotation::LeftAsymmetric,
        Rotation::RightAsymmetric,
        Rotation::LeftSymmetric,
        Rotation::RightSymmetric,
    ];

    fn is_left(self) -> bool {
        matches!(self, Rotation::LeftAsymmetric | Rotation::LeftSymmetric)
    }

    fn is_symmetric(self) -> bool {
        matches!(self, Rotation::LeftSymmetric | Rotation::RightSymmetric)
    }
}

// md's names.
named! {
    Rotation, "rotation":
    Rotation::LeftAsymmetric => "left-asymmetric", "Parity moves left, data begins on the first member";
    Rotation::RightAsymmetric => "right-asymmetric", "Parity moves right, data begins on the first member";
    Rotation::LeftSymmetric => "left-symmetric", "Parity moves left, data begins behind it; md's default";
    Rotation::RightSymmetric => "right-symmetric", "Parity moves right, data begins behind it";
}

impl Stripes {
    /// Data columns of a stripe.
    pub(crate) fn columns(self) -> u32 {
        self.width - self.parities
    }

    /// The member that holds P.
    pub(crate) fn p(self, stripe: u64) -> u32 {
        let turn = (stripe % u64::from(self.width)) as u32;
        if self.rotation.is_left() { self.width - 1 - turn } else { turn }
    }

    /// The member that holds Q: the one behind P, cyclically. RAID 6 only.
    pub(crate) fn q(self, stripe: u64) -> u32 {
        (self.p(stripe) + 1) % self.width
    }

    /// The member that holds a data column.
    pub(crate) fn member(self, stripe: u64, column: u32) -> u32 {
        let p = self.p(stripe);
        if self.rotation.is_symmetric() {
            return (p + self.parities + column) % self.width;
        }
        column + self.stepped_over(p, column)
    }

    /// The power of the generator by which a data column enters Q. md counts from the member behind Q on, cyclically
    /// (`raid6_idx_to_slot` in drivers/md/raid5.c), which is the order of the columns only where data begins there.
    pub(crate) fn power(self, stripe: u64, column: u32) -> u32 {
        if self.parities < 2 || self.rotation.is_symmetric() {
            return column;
        }
        (self.member(stripe, column) + 2 * self.width - self.p(stripe) - 2) % self.width
    }

    /// The member that holds the data column of this power.
    pub(crate) fn member_of_power(self, stripe: u64, power: u32) -> u32 {
        if self.parities < 2 {
            return self.member(stripe, power);
        }
        (self.p(stripe) + 2 + power) % self.width
    }

    /// The data column of this power, as `member` counts them.
    pub(crate) fn position(self, stripe: u64, power: u32) -> u32 {
        match self.cell(stripe, self.member_of_power(stripe, power)) {
            Cell::Data(column) => column,
            Cell::P | Cell::Q => unreachable!("parity has no power"),
        }
    }

    /// What a member holds.
    pub(crate) fn cell(self, stripe: u64, member: u32) -> Cell {
        let p = self.p(stripe);
        match (member + self.width - p) % self.width {
            0 => Cell::P,
            1 if self.parities == 2 => Cell::Q,
            behind if self.rotation.is_symmetric() => Cell::Data(behind - self.parities),
            _ if p + self.parities > self.width => Cell::Data(member - 1),
            _ if member < p => Cell::Data(member),
            _ => Cell::Data(member - self.parities),
        }
    }

    /// Parity chunks that lie before a data column when data does not wrap.
    fn stepped_over(self, p: u32, column: u32) -> u32 {
        if p + self.parities > self.width {
            1 // P is on the last member, Q on the first.
        } else if column < p {
            0
        } else {
            self.parities
        }
    }
}
