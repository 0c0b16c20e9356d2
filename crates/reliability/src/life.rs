//! The endurance of a drive in the units of catalogues: bytes written (TBW), drive writes per day (DWPD), P/E cycles.
//!
//! Predictions of a drive's life come from its catalogue's TBW and a measured write amplification. The physics of
//! [`crate::rber`] ranks schemes, it does not date a failure: Schroeder and others (FAST '16) find that the bit error rate
//! does not predict uncorrectable errors in the field.

use crate::error::{Result, positive};

/// Days of a year.
const DAYS_PER_YEAR: f64 = 365.0;

/// The rated endurance of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    /// Bytes of the drive.
    pub bytes: f64,
    /// Bytes that its hosts may write in its life.
    pub writable_bytes: f64,
}

impl Rating {
    /// A rating in drive writes per day over a warranty.
    ///
    /// # Errors
    /// A value that is not positive.
    pub fn of_dwpd(bytes: f64, drive_writes_per_day: f64, warranty_years: f64) -> Result<Rating> {
        positive("bytes", bytes)?;
        positive("drive_writes_per_day", drive_writes_per_day)?;
        positive("warranty_years", warranty_years)?;
        let writable_bytes = bytes * drive_writes_per_day * warranty_years * DAYS_PER_YEAR;
        Ok(Rating { bytes, writable_bytes })
    }

    /// The rating of flash: `cycles` P/E cycles of `flash_bytes`, of which hosts write one part in `amplification`.
    ///
    /// # Errors
    /// A value that is not positive.
    pub fn of_cycles(bytes: f64, flash_bytes: f64, cycles: f64, amplification: f64) -> Result<Rating> {
        for (name, value) in [
            ("bytes", bytes),
            ("flash_bytes", flash_bytes),
            ("cycles", cycles),
            ("amplification", amplification),
        ] {
            positive(name, value)?;
        }
        Ok(Rating { bytes, writable_bytes: flash_bytes * cycles / amplification })
    }

    /// Drive writes per day over a warranty.
    pub fn dwpd(&self, warranty_years: f64) -> f64 {
        self.writable_bytes / (self.bytes * warranty_years * DAYS_PER_YEAR)
    }

    /// Years until the rating is used up at a rate of writes; infinite without writes.
    pub fn years(&self, bytes_per_s: f64) -> f64 {
        self.writable_bytes / (bytes_per_s * 86_400.0 * DAYS_PER_YEAR)
    }

    /// P/E cycles that the flash has seen when the rating is used up.
    pub fn cycles(&self, flash_bytes: f64, amplification: f64) -> f64 {
        self.writable_bytes * amplification / flash_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_agree_with_each_other() {
        // 1 TB at one drive write a day for 5 years: 1825 TB.
        let rating = Rating::of_dwpd(1e12, 1.0, 5.0).unwrap();
        assert_eq!(rating.writable_bytes, 1.825e15);
        assert!((rating.dwpd(5.0) - 1.0).abs() < 1e-12);
        // 1 TB a day is 11.574 MB/s.
        assert!((rating.years(1e12 / 86_400.0) - 5.0).abs() < 1e-12);
        let cycles = rating.cycles(1.1e12, 2.0);
        let again = Rating::of_cycles(1e12, 1.1e12, cycles, 2.0).unwrap();
        assert!((again.writable_bytes / rating.writable_bytes - 1.0).abs() < 1e-12);
        assert!(Rating::of_dwpd(0.0, 1.0, 5.0).is_err());
    }
}
