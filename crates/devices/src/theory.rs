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

#[cfg(test)]
mod tests {
    use super::*;

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
