//! What a seed stands for.

use sinew_engine::array::geometry::{ArrayGeometry, ArraySpec};
use sinew_engine::geometry::{Geometry, Protection};

use sinew_layout::{Level, Rotation};

use crate::random::Rng;

/// Everything drawn before a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Sizes of the members in bytes.
    pub members: Vec<u64>,
    /// It is an array of this shape, and what follows about mapped pools means nothing.
    pub array: Option<ArraySpec>,
    /// No crashes: with the write hole open, a crash while a member is out loses data.
    pub calm: bool,
    /// Protection of the pool.
    pub protection: Protection,
    /// Data columns; 0 for the default.
    pub data_columns: usize,
    /// Shards.
    pub shards: usize,
    /// With checksums.
    pub checksums: bool,
    /// Blocks of a journal ring.
    pub journal_blocks: u32,
    /// Sizes of the volumes in blocks.
    pub volumes: Vec<u64>,
    /// Clients at work at the same time.
    pub clients: usize,
    /// Requests of each client between two endings of the pool.
    pub requests: u64,
    /// Times the pool is opened.
    pub openings: usize,
    /// Members that silently corrupt data.
    pub corrupt: usize,
    /// Members that may be gone, failed or offline at one time.
    pub lost: usize,
    /// Volumes that a tenant makes, resizes and deletes while the clients work, one after the other.
    pub tenancies: u64,
    /// Largest request in blocks.
    pub blocks_max: u64,
    /// Share of writes among requests, in percent.
    pub writes: u64,
    /// Share of discards among requests, in percent.
    pub discards: u64,
    /// Share of flushes among requests, in percent.
    pub flushes: u64,
    /// Requests fall mostly on this share of a volume, in percent.
    pub hot: u64,
    /// Chance, per look at the world, of trouble.
    pub trouble: f64,
}

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::stream(seed, "plan", 0);
        // Apart, so that what was added later leaves the other draws of a seed as they were.
        let later = &mut Rng::stream(seed, "plan, later", 0);
        let wide = later.chance(0.05);
        let count = if rng.chance(0.1) { rng.between(8, 20) } else { rng.between(3, 9) } as usize;
        let count = if wide { later.between(18, 32) as usize } else { count };
        let protection = match rng.below(5) {
            0 => Protection::Mirror { copies: 2 },
            1 => Protection::Mirror { copies: 3 },
            2 | 3 => Protection::Parity1,
            _ => Protection::Parity2,
        };
        let shards = [1, 1, 1, 2, 3][rng.below(5) as usize];
        let uneven = rng.chance(0.4);
        let base = rng.between(5, 9) << 20;
        let size = |rng: &mut Rng| base * shards as u64 + if uneven { rng.between(0, 3) << 20 } else { 0 };
        let members: Vec<u64> = (0..count).map(|_| size(rng)).collect();
        let parity = protection.parity_columns();
        let data_columns =
            if rng.chance(0.5) { 0 } else { rng.between(1, (count - parity).min(8) as u64) as usize };
        // Stripes of more blocks than a record of the journal can name.
        let data_columns =
            if wide { later.between(16, (count - parity) as u64) as usize } else { data_columns };
        let geometry = Geometry::new(protection, data_columns, shards, true, count, 64);
        let data_columns = if geometry.is_ok() { data_columns } else { 0 };
        let failures = protection.failures() as u64;
        let checksums = rng.chance(0.85);
        let corrupt = if checksums && rng.chance(0.4) { rng.between(0, failures) } else { 0 };
        let lost = if rng.chance(0.8) { failures - corrupt } else { 0 };
        let fits = members.iter().sum::<u64>() / 4096;
        // All volumes together are less than the overcommitment of the smallest pool drawn here.
        let share = [3, 5, 20][rng.below(3) as usize];
        let volume_count = rng.between(1, 3);
        let volumes = (0..volume_count).map(|_| rng.between(64, 64 + fits / share / volume_count)).collect();
        let plan = Plan {
            seed,
            members,
            array: None,
            calm: false,
            protection,
            data_columns,
            shards,
            checksums,
            journal_blocks: [40, 64, 200][rng.below(3) as usize],
            volumes,
            clients: rng.between(1, 12) as usize,
            requests: rng.between(20, 250),
            openings: rng.between(1, 6) as usize,
            corrupt: corrupt as usize,
            lost: lost as usize,
            tenancies: if later.chance(0.3) { later.between(1, 6) } else { 0 },
            blocks_max: [1, 4, 40, if wide { 1500 } else { 260 }][rng.below(4) as usize],
            writes: rng.between(20, 90),
            discards: rng.between(0, 8),
            flushes: rng.between(0, 20),
            hot: [100, 100, 20, 2][rng.below(4) as usize],
            trouble: [0.0, 0.002, 0.01, 0.05][rng.below(4) as usize],
        };
        let arrays = &mut Rng::stream(seed, "plan, arrays", 0);
        if arrays.chance(0.45) { plan.of_array(arrays) } else { plan }
    }

    /// The same work and trouble on an array.
    fn of_array(self, rng: &mut Rng) -> Plan {
        let (level, count) = draw_level(rng);
        let chunk_bytes = [4096, 8192, 16384, 65536][rng.below(4) as usize];
        let spares = if rng.chance(0.25) { rng.between(1, 2) as usize } else { 0 };
        let spec =
            ArraySpec { level, chunk_bytes, journal: rng.chance(0.7), spares, zeroed: rng.chance(0.7) };
        let members: Vec<u64> = (0..count + spares)
            .map(|i| {
                ((4 + 2 * self.shards as u64) << 20) + (self.members[i % self.members.len()] & 0x30_0000)
            })
            .collect();
        let smallest = *members.iter().min().expect("not empty");
        let geometry = ArrayGeometry::new(&spec, count, smallest, self.shards, Some(self.journal_blocks));
        let geometry = geometry.expect("a possible array");
        let failures = geometry.layout.tolerates() as usize;
        let corrupt = if rng.chance(0.3) { rng.below(failures as u64 + 1) as usize } else { 0 };
        let open_hole = geometry.parity_columns() > 0 && !geometry.journal;
        let calm = open_hole && rng.chance(0.5);
        let corrupt = if open_hole { 0 } else { corrupt };
        let lost = if open_hole && !calm { 0 } else { failures - corrupt };
        Plan {
            array: Some(spec),
            calm,
            members,
            volumes: vec![geometry.data_bytes() / 4096],
            corrupt,
            lost,
            tenancies: 0,
            checksums: false,
            ..self
        }
    }
}

/// A level and a number of members it can have.
fn draw_level(rng: &mut Rng) -> (Level, usize) {
    let rotation = Rotation::ALL[rng.below(4) as usize];
    let few = |rng: &mut Rng, least: u64| rng.between(least, least + 3) as usize;
    match rng.below(10) {
        0 => (Level::Raid0, few(rng, 1)),
        1 => (Level::Raid1, few(rng, 2)),
        2 => {
            let copies = rng.between(2, 3);
            (Level::Raid10 { copies: copies as u32 }, few(rng, copies + 1))
        }
        3..=5 => (Level::Raid5(rotation), few(rng, 2)),
        6 | 7 => (Level::Raid6(rotation), few(rng, 4)),
        8 => (Level::Raid50 { groups: 2, rotation }, 2 * few(rng, 2)),
        _ => (Level::Raid60 { groups: 2, rotation }, 8),
    }
}
