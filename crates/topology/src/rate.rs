//! Speeds of links, as sysfs writes them. A text that is no speed is unknown.

use serde::Serialize;

/// The speed and width of a PCIe link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PcieLink {
    /// Transfers per second and lane, in billions.
    pub gt_per_s: f64,
    /// Lanes.
    pub lanes: u32,
}

/// Payload bytes per second of a lane after line coding, by generation: 8b/10b up to 5 GT/s, 128b/130b from 8 GT/s on, and
/// flits of 242 in 256 bytes at 64 GT/s.
const LANES: [(f64, f64); 6] =
    [(2.5, 0.25e9), (5.0, 0.5e9), (8.0, 0.985e9), (16.0, 1.97e9), (32.0, 3.94e9), (64.0, 7.56e9)];

/// The widths that PCIe defines.
const WIDTHS: [u32; 7] = [1, 2, 4, 8, 12, 16, 32];

impl PcieLink {
    /// The link of two texts of sysfs, such as "16.0 GT/s PCIe" and "4".
    pub fn parse(speed: &str, width: &str) -> Option<PcieLink> {
        let number: f64 = speed.trim().split_once(" GT/s")?.0.parse().ok()?;
        let gt_per_s = LANES.iter().map(|lane| lane.0).find(|known| (known - number).abs() < 0.01)?;
        let lanes = width.trim().trim_start_matches('x').parse().ok()?;
        WIDTHS.contains(&lanes).then_some(PcieLink { gt_per_s, lanes })
    }

    /// Bytes per second in one direction.
    pub fn bytes_per_s(self) -> f64 {
        let lane = LANES.iter().find(|lane| lane.0 == self.gt_per_s).map_or(0.0, |lane| lane.1);
        lane * f64::from(self.lanes)
    }

    /// The best link that both ends allow.
    pub fn common(self, other: PcieLink) -> PcieLink {
        PcieLink { gt_per_s: self.gt_per_s.min(other.gt_per_s), lanes: self.lanes.min(other.lanes) }
    }
}

/// Bytes per second of a SATA or SAS link of "6.0 Gbps" or "12.0 Gbit". Line coding takes 2 bits of 10 up to 12 Gbit/s, and 22 of
/// 150 at 22.5 Gbit/s.
pub fn serial_bytes_per_s(text: &str) -> Option<f64> {
    let number = text.trim().strip_suffix("Gbps").or_else(|| text.trim().strip_suffix("Gbit"))?;
    let gbit: f64 = number.trim().parse().ok()?;
    match gbit {
        1.5 | 3.0 | 6.0 | 12.0 => Some(gbit * 1e8),
        22.5 => Some(gbit * 1e9 * 128.0 / 150.0 / 8.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_in_all_spellings_of_the_kernel() {
        let link = PcieLink::parse("8.0 GT/s PCIe", "4").unwrap();
        assert_eq!((link.gt_per_s, link.lanes, link.bytes_per_s()), (8.0, 4, 3.94e9));
        assert_eq!(PcieLink::parse("8 GT/s", "16\n").unwrap().bytes_per_s(), 15.76e9);
        assert_eq!(PcieLink::parse("2.5 GT/s", "1").unwrap().bytes_per_s(), 0.25e9);
        for (speed, width) in [
            ("Unknown", "4"),
            ("Unknown speed", "4"),
            ("", ""),
            ("8.0 GT/s", "0"),
            ("8.0 GT/s", "255"),
            ("9 GT/s", "4"),
        ] {
            assert_eq!(PcieLink::parse(speed, width), None, "{speed} {width}");
        }
    }

    #[test]
    fn serial_links_are_read() {
        assert_eq!(serial_bytes_per_s("6.0 Gbps"), Some(6e8));
        assert_eq!(serial_bytes_per_s("12.0 Gbit\n"), Some(1.2e9));
        assert_eq!(serial_bytes_per_s("22.5 Gbit"), Some(2.4e9));
        for text in ["<unknown>", "Unknown", "", "Gbps", "-3.0 Gbps", "nan Gbit", "7 Gbps"] {
            assert_eq!(serial_bytes_per_s(text), None, "{text}");
        }
    }
}
