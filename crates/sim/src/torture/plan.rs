//! What a seed stands for.

use sinew_engine::geometry::{Geometry, Protection};

use crate::random::Rng;

/// Everything drawn before a run begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Sizes of the members in bytes.
    pub members: Vec<u64>,
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
        let mut volumes: Vec<u64> =
            (0..volume_count).map(|_| rng.between(64, 64 + fits / share / volume_count)).collect();
        // Volumes of about what the pool can hold, written all over.
        let crowded = later.chance(0.1);
        if crowded {
            let data = match protection {
                Protection::Mirror { copies } => 1.0 / copies as f64,
                _ => 0.75,
            };
            let part = later.between(50, 110) as f64 / 100.0;
            volumes = vec![(fits as f64 * data * part) as u64 / volume_count; volume_count as usize];
        }
        Plan {
            seed,
            members,
            protection,
            data_columns,
            shards,
            checksums,
            journal_blocks: [40, 64, 200][rng.below(3) as usize],
            volumes,
            clients: rng.between(1, 12) as usize,
            requests: rng.between(20, 250) * if crowded { 4 } else { 1 },
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
        }
    }
}
