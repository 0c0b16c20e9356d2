//! How parity rotates through the stripes of RAID 5 and RAID 6, in md's four ways, or goes to members by weights.
//!
//! A stripe has `width` chunks on members 0 to `width` - 1, of which `parities` (one or two) are P and Q. Everything
//! here is one stripe's permutation of members; the formulas are those of `raid5_compute_sector` in Linux'
//! drivers/md/raid5.c, and the tests compare them with what md wrote.

use crate::named;
use crate::parity_weights::ParityWeights;

/// Which way parity moves from stripe to stripe, and where data begins.
///
/// The first four are md's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rotation {
    /// P begins on the last member and moves left; data fills the members in order, stepping over parity.
    LeftAsymmetric,
    /// P begins on the first member and moves right; data fills the members in order, stepping over parity.
    RightAsymmetric,
    /// P moves left; data begins behind parity and wraps, so that consecutive chunks use all members. md's default.
    #[default]
    LeftSymmetric,
    /// P moves right; data begins behind parity and wraps.
    RightSymmetric,
    /// Members hold parity in proportion to weights; data begins behind P, wraps, and steps over Q.
    Weighted(ParityWeights),
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
    /// md's four, in the order of md's numbers for the layouts (`ALGORITHM_…` in drivers/md/raid5.h).
    pub const ALL: [Rotation; 4] = [
        Rotation::LeftAsymmetric,
        Rotation::RightAsymmetric,
        Rotation::LeftSymmetric,
        Rotation::RightSymmetric,
    ];

    /// md's number of the layout, or 4 for parity by weights, which md does not have.
    pub fn number(self) -> u8 {
        Rotation::ALL.iter().position(|&rotation| rotation == self).unwrap_or(Rotation::ALL.len()) as u8
    }

    /// The weights by which members hold parity, if they do.
    pub fn weights(self) -> Option<ParityWeights> {
        match self {
            Rotation::Weighted(weights) => Some(weights),
            _ => None,
        }
    }

    fn is_left(self) -> bool {
        matches!(self, Rotation::LeftAsymmetric | Rotation::LeftSymmetric)
    }

    fn is_symmetric(self) -> bool {
        matches!(self, Rotation::LeftSymmetric | Rotation::RightSymmetric | Rotation::Weighted(_))
    }
}

// md's names.
named! {
    Rotation, "rotation", other "weighted":
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

    /// Stripes after which all is where it was.
    pub(crate) fn turn(self) -> u32 {
        self.rotation.weights().map_or(self.width, |weights| weights.turn())
    }

    /// The member that holds P.
    pub(crate) fn p(self, stripe: u64) -> u32 {
        if let Rotation::Weighted(weights) = self.rotation {
            return weights.member(stripe, 0, self.parities);
        }
        let turn = (stripe % u64::from(self.width)) as u32;
        if self.rotation.is_left() { self.width - 1 - turn } else { turn }
    }

    /// The member that holds Q: without weights the one behind P, cyclically. RAID 6 only.
    pub(crate) fn q(self, stripe: u64) -> u32 {
        if let Rotation::Weighted(weights) = self.rotation {
            return weights.member(stripe, 1, self.parities);
        }
        (self.p(stripe) + 1) % self.width
    }

    /// How many members behind P the one with Q is, cyclically; the width without Q.
    fn q_behind(self, stripe: u64, p: u32) -> u32 {
        if self.parities < 2 { self.width } else { (self.q(stripe) + self.width - p) % self.width }
    }

    /// The member that holds a data column.
    pub(crate) fn member(self, stripe: u64, column: u32) -> u32 {
        let p = self.p(stripe);
        if self.rotation.is_symmetric() {
            let behind = column + 1;
            let behind = behind + u32::from(behind >= self.q_behind(stripe, p));
            return (p + behind) % self.width;
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
        if self.parities < 2 || self.rotation.is_symmetric() {
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
        let q_behind = self.q_behind(stripe, p);
        match (member + self.width - p) % self.width {
            0 => Cell::P,
            behind if behind == q_behind => Cell::Q,
            behind if self.rotation.is_symmetric() => Cell::Data(behind - 1 - u32::from(behind > q_behind)),
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
