//! Physical space of thin devices: those that may have less of it than addresses.

/// Devices of one domain share their physical space, for example files on one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(pub u64);

/// The origin of the figures about physical space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhysicalSource {
    /// The statistics of a zram device.
    Zram,
    /// The file system of a file.
    FileSystem,
    /// The device itself.
    Device,
    /// A total given by an operator, and the space that the pool uses, counted as if nothing were compressed.
    Given,
}

impl PhysicalSource {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PhysicalSource::Zram => "zram",
            PhysicalSource::FileSystem => "file system",
            PhysicalSource::Device => "device",
            PhysicalSource::Given => "given",
        }
    }
}

/// The physical space of a device at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Physical {
    /// Space that the device takes of its domain.
    pub used: u64,
    /// Space that is free in its domain; `None` if no limit is known.
    pub free: Option<u64>,
    /// The devices that share the space.
    pub domain: Domain,
    /// The origin of the figures.
    pub source: PhysicalSource,
}

impl Physical {
    /// The space that the device may have; `None` if no limit is known.
    pub fn total(&self) -> Option<u64> {
        self.free.map(|free| self.used + free)
    }

    /// The space within a limit that an operator has given for the device.
    pub fn limited_to(self, total: u64) -> Physical {
        let left = total.saturating_sub(self.used);
        Physical { free: Some(self.free.map_or(left, |free| free.min(left))), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_limit_only_lowers_what_is_free() {
        let asked = |free| Physical { used: 30, free, domain: Domain(0), source: PhysicalSource::FileSystem };
        assert_eq!(asked(None).limited_to(100).free, Some(70));
        assert_eq!(asked(Some(50)).limited_to(100).free, Some(50));
        assert_eq!(asked(Some(50)).limited_to(40).free, Some(10));
        assert_eq!(asked(Some(50)).limited_to(20).free, Some(0), "more is used than the operator allows");
        assert_eq!((asked(None).total(), asked(Some(50)).total()), (None, Some(80)));
    }
}
