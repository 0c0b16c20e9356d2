//! Published closed forms that the models are checked against.
//!
//! Write amplification is in blocks programmed per block written, under writes that hit all addresses alike. The
//! spare factor alpha is physical over logical size, counting only what cleaning can use.

/// Write amplification of FIFO cleaning, and the limit of greedy cleaning for large erase blocks:
/// alpha / (alpha + W(-alpha e^-alpha)), W being Lambert's function.
///
/// L. Xiang, B. Kurkoski, "An improved analytic expression for write amplification in NAND flash", ICNC 2012;
/// P. Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012 (for LRU, that is FIFO, cleaning).
pub fn fifo_write_amplification(alpha: f64) -> f64 {
    let w = -live_at_cleaning(1.0 / alpha) * alpha;
    alpha / (alpha + w)
}

/// The share u of a victim that is live: the solution below 1 of u = exp(-(1 - u) / rho), rho being the utilisation.
fn live_at_cleaning(rho: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0 - 1e-12);
    // The function is concave with its other zero at 1, so it changes sign once below.
    for _ in 0..200 {
        let mid = (low + high) / 2.0;
        if (-(1.0 - mid) / rho).exp() > mid { low = mid } else { high = mid }
    }
    low
}

/// Write amplification of greedy cleaning with `pages` pages in an erase block.
///
/// The mean field of W. Bux, I. Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives",
/// Performance Evaluation 2010, and of greedy as the limit of many choices in Van Houdt 2013 (see
/// [`choices_write_amplification`]): every victim has one of two neighbouring counts of live pages, k (with
/// probability p) and k + 1, for which b - k - 1 + p = rho b (H_b - H_{k+1} + p / (k + 1)), H being harmonic numbers.
pub fn greedy_write_amplification(alpha: f64, pages: u32) -> f64 {
    let b = f64::from(pages);
    let rho = 1.0 / alpha;
    let mut harmonic = 0.0;
    // `harmonic` is H_b - H_{k+1}; start with the fullest victims and go down to the first k that solves it.
    for k in (0..pages).rev() {
        let next = f64::from(k + 1);
        if k + 1 < pages {
            harmonic += 1.0 / (next + 1.0);
        }
        let p = (b - next - rho * b * harmonic) / (rho * b / next - 1.0);
        if (0.0..=1.0).contains(&p) && k + 1 < pages {
            return b / (b - next + p);
        }
    }
    1.0
}

/// Write amplification when the victim is the emptiest of `choices` blocks drawn at random.
///
/// B. Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid state drives",
/// SIGMETRICS 2013: the fixed point of the shares of blocks with j live pages.
pub fn choices_write_amplification(alpha: f64, pages: u32, choices: u32) -> f64 {
    let (b, live) = (f64::from(pages), f64::from(pages) / alpha);
    // More pages freed per cleaning wear blocks down faster, so the mean of live pages falls with them.
    let (mut low, mut high) = (0.0, b);
    for _ in 0..60 {
        let freed = (low + high) / 2.0;
        if mean_live(pages, choices, freed / live) > live { low = freed } else { high = freed }
    }
    b / low
}

/// Mean live pages of a block if each cleaning lets `flow` of the live pages of all blocks of a size die.
///
/// Let A_j be the share of blocks with at least j live pages. Each cleaning adds one block to them and takes its victim
/// from them with probability A_j^d, and blocks leave by losing a page at level j: 1 = flow j (A_j - A_{j+1}) + A_j^d.
fn mean_live(pages: u32, choices: u32, flow: f64) -> f64 {
    let (mut above, mut mean) = (0.0f64, 0.0);
    for j in (1..=pages).rev() {
        let (mut low, mut high) = (above, 1.0);
        for _ in 0..50 {
            let share: f64 = (low + high) / 2.0;
            let leaving = flow * f64::from(j) * (share - above) + share.powi(choices as i32);
            if leaving < 1.0 { low = share } else { high = share }
        }
        above = low;
        mean += above;
    }
    mean
}

/// Mean wait before service of an M/D/1 queue (Poisson arrivals, constant service), in units of the service time.
pub fn md1_wait(load: f64) -> f64 {
    load / (2.0 * (1.0 - load))
}

/// Mean wait before service of an M/M/1 queue (Poisson arrivals, exponential service), in units of the mean service.
pub fn mm1_wait(load: f64) -> f64 {
    load / (1.0 - load)
}

/// Mean wait before service of an M/G/1 queue (Pollaczek and Khinchine), from the moments of the service time.
pub fn mg1_wait(arrivals_per_ns: f64, service_mean: f64, service_second_moment: f64) -> f64 {
    arrivals_per_ns * service_second_moment / (2.0 * (1.0 - arrivals_per_ns * service_mean))
}

/// Random single blocks per second that one drive writes, and that it reads, when it does nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveRates {
    /// Blocks written per second.
    pub writes_per_s: f64,
    /// Blocks read per second.
    pub reads_per_s: f64,
}

/// What a random write of one block costs an array that updates in place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockWrites {
    /// Members, which share the load evenly.
    pub members: u32,
    /// Blocks written to members.
    pub writes: u32,
    /// Blocks read from members.
    pub reads: u32,
}

impl BlockWrites {
    /// An array of `copies` copies of each block; 1 without redundancy.
    pub fn copied(members: u32, copies: u32) -> BlockWrites {
        BlockWrites { members, writes: copies, reads: 0 }
    }

    /// An array with `parities` parity blocks in each stripe. It reads what is less: the old block and the old parity, or the
    /// blocks of the stripe that do not change.
    pub fn with_parity(members: u32, parities: u32) -> BlockWrites {
        let changed = 1 + parities;
        BlockWrites { members, writes: changed, reads: changed.min(members.saturating_sub(changed)) }
    }

    /// Writes per second of the array: each takes 1 / writes per second of its members for a write, and 1 / reads per second for a
    /// read. With rho reads for each write and f = writes / reads per second of a drive, that is n w / (W (1 + rho f)).
    pub fn per_second(&self, drive: DriveRates) -> f64 {
        let time = f64::from(self.writes) / drive.writes_per_s + f64::from(self.reads) / drive.reads_per_s;
        f64::from(self.members) / time
    }

    /// The factor by which the array gains less than one drive when the writes of its drives get faster: (1 + rho f1) / (1 + rho f2).
    /// The pitfalls study has it for rho = 1, which is RAID 5 from 4 members on and RAID 6 from 6.
    pub fn scalability(&self, before: DriveRates, after: DriveRates) -> f64 {
        let of_array = self.per_second(after) / self.per_second(before);
        of_array / (after.writes_per_s / before.writes_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_gain_what_the_general_form_of_the_pitfalls_study_says() {
        let drive = |writes_per_s| DriveRates { writes_per_s, reads_per_s: 35_000.0 };
        let (before, after) = (drive(600.0), drive(11_500.0));
        // Members, parities; the factor, the gain, and writes per second before and after.
        let expected = [
            (3, 1, 0.866, 16.60, 892.0, 14_816.0),
            (4, 1, 0.766, 14.67, 1180.0, 17_312.0),
            (5, 1, 0.766, 14.67, 1475.0, 21_640.0),
            (4, 2, 0.906, 17.4, 795.0, 13_820.0),
            (5, 2, 0.830, 15.9, 989.0, 15_723.0),
            (6, 2, 0.766, 14.7, 1180.0, 17_312.0),
        ];
        for (members, parities, factor, gain, from, to) in expected {
            let array = BlockWrites::with_parity(members, parities);
            let scalability = array.scalability(before, after);
            assert!((scalability - factor).abs() < 6e-4, "{array:?}: {scalability}");
            assert!((scalability * 11_500.0 / 600.0 - gain).abs() < 0.06, "{array:?}: {scalability}");
            let (first, last) = (array.per_second(before), array.per_second(after));
            assert!((first - from).abs() < 1.0 && (last - to).abs() < 1.0, "{array:?}: {first} {last}");
        }
        for array in [BlockWrites::copied(4, 1), BlockWrites::copied(4, 2)] {
            assert!((array.scalability(before, after) - 1.0).abs() < 1e-12);
        }
        assert!((BlockWrites::copied(4, 2).per_second(before) - 1200.0).abs() < 1e-9);
    }

    #[test]
    fn greedy_is_the_limit_of_many_choices_and_fifo_that_of_large_blocks() {
        for alpha in [1.07, 1.15, 1.28, 1.5, 2.0] {
            let greedy = greedy_write_amplification(alpha, 64);
            let many = choices_write_amplification(alpha, 64, 5_000);
            assert!((many / greedy - 1.0).abs() < 0.01, "{alpha}: {many} {greedy}");
            let large = greedy_write_amplification(alpha, 1 << 16);
            let fifo = fifo_write_amplification(alpha);
            assert!((large / fifo - 1.0).abs() < 0.001, "{alpha}: {large} {fifo}");
            // One choice is random cleaning: a victim is as full as the average.
            let random = choices_write_amplification(alpha, 64, 1);
            assert!((random / (alpha / (alpha - 1.0)) - 1.0).abs() < 0.001, "{alpha}: {random}");
        }
    }
}
