//! Where sectors are and how long it takes to get to them.

use crate::{BLOCK_BYTES, Ns};

const SECTOR_BYTES: u64 = 512;

/// Platters, tracks and arm, as data sheets describe them.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    /// Size in blocks of 4 KiB.
    pub blocks: u32,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces.
    pub heads: u32,
    /// Groups of cylinders with equally many sectors to a track.
    pub zones: u32,
    /// Bytes per second passing the head on the outermost track.
    pub outer_rate: u64,
    /// Bytes per second on the innermost track.
    pub inner_rate: u64,
    /// The arm.
    pub seek: Seek,
}

/// Published seek times, from which the others follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// To the next track, and to another head.
    pub single_ns: Ns,
    /// Mean over random places.
    pub average_ns: Ns,
    /// From end to end.
    pub full_ns: Ns,
    /// Added for a write, which needs the head to be steadier.
    pub write_ns: Ns,
}

/// Where the arm is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arm {
    cylinder: u64,
    head: u64,
}

#[cfg(test)]
impl Arm {
    pub(super) fn cylinder(self) -> u64 {
        self.cylinder
    }
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    track_sectors: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Platters {
    zones: Vec<Zone>,
    heads: u64,
    rev_ns: Ns,
    seek: Seek,
    /// Seek over distance d: single + root * sqrt(d - 1) + linear * (d - 1).
    root: f64,
    linear: f64,
}

/// The track of a sector.
struct Track {
    number: u64,
    /// The sector within the track, and sectors in it.
    sector: u64,
    sectors: u64,
}

impl Platters {
    pub(super) fn new(geometry: &Geometry) -> Platters {
        let rev_ns = 60_000_000_000 / u64::from(geometry.rpm);
        let zones = u64::from(geometry.zones);
        let track_sectors = |zone: u64| {
            let slower = (geometry.outer_rate - geometry.inner_rate) * zone / (zones - 1).max(1);
            (geometry.outer_rate - slower) * rev_ns / 1_000_000_000 / SECTOR_BYTES
        };
        let heads = u64::from(geometry.heads);
        let sectors = u64::from(geometry.blocks) * u64::from(BLOCK_BYTES) / SECTOR_BYTES;
        let in_a_cylinder_of_each: u64 = (0..zones).map(track_sectors).sum::<u64>() * heads;
        let zone_cylinders = sectors.div_ceil(in_a_cylinder_of_each);
        let mut first_sector = 0;
        let zones: Vec<Zone> = (0..zones)
            .map(|zone| {
                let first_track = zone * zone_cylinders * heads;
                let this = Zone { first_sector, first_track, track_sectors: track_sectors(zone) };
                first_sector += zone_cylinders * heads * this.track_sectors;
                this
            })
            .collect();
        let cylinders = (zone_cylinders * u64::from(geometry.zones)) as f64;
        let (root, linear) = curve(geometry.seek, cylinders);
        Platters { zones, heads, rev_ns, seek: geometry.seek, root, linear }
    }

    fn track(&self, sector: u64) -> Track {
        let zone = self.zones.partition_point(|zone| zone.first_sector <= sector) - 1;
        let Zone { first_sector, first_track, track_sectors } = self.zones[zone];
        let within = sector - first_sector;
        Track {
            number: first_track + within / track_sectors,
            sector: within % track_sectors,
            sectors: track_sectors,
        }
    }

    pub(super) fn seek_ns(&self, distance: u64) -> Ns {
        match distance {
            0 => 0,
            _ => {
                let further = (distance - 1) as f64;
                self.seek.single_ns + (self.root * further.sqrt() + self.linear * further) as Ns
            }
        }
    }

    /// When the first sector of an access passes the head.
    pub(super) fn begin(&self, arm: Arm, now: Ns, sector: u64, write: bool) -> Ns {
        let track = self.track(sector);
        let target = Arm { cylinder: track.number / self.heads, head: track.number % self.heads };
        let mut there = now + self.seek_ns(target.cylinder.abs_diff(arm.cylinder));
        if target.cylinder == arm.cylinder && target.head != arm.head {
            there += self.seek.single_ns;
        }
        if write {
            there += self.seek.write_ns;
        }
        // Each track begins so much later that the head arrives in time when it comes from the one before.
        let angle =
            (track.number * self.seek.single_ns + track.sector * self.rev_ns / track.sectors) % self.rev_ns;
        let wait = (angle + self.rev_ns - there % self.rev_ns) % self.rev_ns;
        there + wait
    }

    /// When the sectors up to `end` have passed the head, if the first does so at `at`, and where the arm is then.
    pub(super) fn pass(&self, mut at: Ns, mut sector: u64, end: u64) -> (Ns, Arm) {
        loop {
            let track = self.track(sector);
            let here = (end - sector).min(track.sectors - track.sector);
            at += here * self.rev_ns / track.sectors;
            sector += here;
            if sector == end {
                return (at, Arm { cylinder: track.number / self.heads, head: track.number % self.heads });
            }
            at += self.seek.single_ns;
        }
    }

    /// 1024 times the time of a sector in the long run, changes of track included.
    pub(super) fn sector_ns_times_1024(&self, sector: u64) -> u64 {
        (self.rev_ns + self.seek.single_ns) * 1024 / self.track(sector).sectors
    }
}

/// The curve single + root * sqrt(d - 1) + linear * (d - 1) through the three published points (E. Lee, R. Katz,
/// "An analytic performance model of disk arrays", SIGMETRICS 1993): with distances as of two random places, the mean
/// of d is a third of the full stroke and that of its root 8/15.
fn curve(seek: Seek, cylinders: f64) -> (f64, f64) {
    let average = seek.average_ns as f64 - seek.single_ns as f64;
    let full = seek.full_ns as f64 - seek.single_ns as f64;
    let by_root = (average - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
    assert!(by_root >= 0.0 && by_root <= full, "no curve of this kind has these seek times");
    (by_root / cylinders.sqrt(), (full - by_root) / cylinders)
}
