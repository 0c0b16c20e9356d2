//! Programs per host page, and P/E cycles, of an SSD that protects its pages by ECC only, by eSAP or by RAID-5.
//!
//! Two steps. The **balance** is exact in a steady state, whatever the victims of cleaning are: if a share u of a victim's
//! pages is live, cleaning moves u of every page that is programmed. The **mean field** predicts u, for uniformly random
//! writes, greedy cleaning, and separate erase blocks for host data and moved data: a page stays live while no write hits
//! it, and a block of either kind is cleaned when its live share has fallen to the same u. Large erase blocks are assumed.
//!
//! A stripe has N pages, one of them parity. eSAP writes stripes in the order in which pages arrive, so parity costs one page
//! in N of host data and of moved data (k = N / (N - 1)), and partial parity of stripes that wait costs pi more pages per host
//! page. Parity of eSAP is never live: it dies with the stripe's row. RAID-5 has a fixed stripe for every address: its parity
//! pages are live data that each host write hits.

use crate::error::{Error, Result, positive};
use crate::solve::bisect;

/// How an SSD protects its pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// By the code of each page alone.
    EccOnly,
    /// Elastic striping with anywhere parity.
    Elastic {
        /// Pages of a stripe, parity included.
        pages: u32,
        /// Partial parity pages per host page (pi).
        partial_parity: f64,
    },
    /// Stripes at fixed addresses.
    Raid5 {
        /// Pages of a stripe, parity included.
        pages: u32,
        /// Parity pages written per host page; 1 if no two writes of a stripe share one.
        parity_writes: f64,
    },
}

/// What spare space is a fraction of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareOf {
    /// Host data alone: schemes are compared on equal flash, and parity takes from the spare space.
    Data,
    /// Host data and its parity: schemes are compared with equal spare space.
    DataAndParity,
}

/// Page programs in a steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Programs {
    /// The live share of a victim's pages.
    pub victim_live: f64,
    /// Pages moved by cleaning per host page.
    pub moved: f64,
    /// Parity pages of complete stripes of host data, per host page.
    pub parity_of_writes: f64,
    /// Parity pages of moved data, per host page.
    pub parity_of_cleaning: f64,
    /// Partial parity pages, per host page.
    pub partial_parity: f64,
}

impl Programs {
    /// All pages programmed per host page.
    pub fn total(&self) -> f64 {
        1.0 + self.moved + self.parity_of_writes + self.parity_of_cleaning + self.partial_parity
    }

    /// P/E cycles of each erase block after `drive_writes` times the host's pages were written, with `flash` pages of flash
    /// for each of the host's pages.
    pub fn cycles(&self, drive_writes: f64, flash: f64) -> f64 {
        drive_writes * self.total() / flash
    }
}

impl Scheme {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A stripe of fewer than two pages, or shares out of their range.
    pub fn check(&self) -> Result<()> {
        let of_stripe = |pages: u32| {
            if pages >= 2 {
                return Ok(());
            }
            Err(Error::new("pages", format!("a stripe needs two pages or more, not {pages}")))
        };
        match *self {
            Scheme::EccOnly => Ok(()),
            Scheme::Elastic { pages, partial_parity } => {
                of_stripe(pages)?;
                if (0.0..=1.0).contains(&partial_parity) {
                    return Ok(());
                }
                Err(Error::new(
                    "partial_parity",
                    format!("{partial_parity} is not from 0 to 1 page per host page"),
                ))
            }
            Scheme::Raid5 { pages, parity_writes } => {
                of_stripe(pages)?;
                let least = 1.0 / f64::from(pages - 1);
                if (least * (1.0 - 1e-12)..=1.0).contains(&parity_writes) {
                    return Ok(());
                }
                let why =
                    format!("{parity_writes} is not from {least:.4} (whole stripes) to 1 page per host page");
                Err(Error::new("parity_writes", why))
            }
        }
    }

    /// Pages of a stripe; nothing without stripes.
    pub fn stripe_pages(&self) -> Option<u32> {
        match *self {
            Scheme::EccOnly => None,
            Scheme::Elastic { pages, .. } | Scheme::Raid5 { pages, .. } => Some(pages),
        }
    }

    /// Pages of data and parity for each page of data (k): N / (N - 1), or 1 without stripes.
    pub fn stored_per_data(&self) -> f64 {
        self.stripe_pages().map_or(1.0, |pages| f64::from(pages) / f64::from(pages - 1))
    }

    /// Pages of flash for each host page, with a fraction of spare space.
    ///
    /// # Errors
    /// Spare space that is not positive, or too little for the parity.
    pub fn flash_per_data(&self, spare: f64, of: SpareOf) -> Result<f64> {
        self.check()?;
        positive("spare", spare)?;
        let flash = match of {
            SpareOf::Data => 1.0 + spare,
            SpareOf::DataAndParity => (1.0 + spare) * self.stored_per_data(),
        };
        if flash > self.stored_per_data() {
            return Ok(flash);
        }
        let parity = self.stored_per_data() - 1.0;
        Err(Error::new(
            "spare",
            format!("{spare} of the data does not hold its parity, which takes {parity:.4}"),
        ))
    }

    /// The balance: programs in a steady state in which a share `victim_live` of a victim's pages is live.
    ///
    /// # Errors
    /// A share that leaves no room: not from 0 to below 1 / k.
    pub fn balance(&self, victim_live: f64) -> Result<Programs> {
        self.check()?;
        let k = if let Scheme::Elastic { .. } = self { self.stored_per_data() } else { 1.0 };
        if !(victim_live >= 0.0 && k * victim_live < 1.0) {
            let why = format!("{victim_live} is not from 0 to below {:.4}", 1.0 / k);
            return Err(Error::new("victim_live", why));
        }
        let host = match *self {
            Scheme::EccOnly => 1.0,
            Scheme::Elastic { partial_parity, .. } => k + partial_parity,
            Scheme::Raid5 { parity_writes, .. } => 1.0 + parity_writes,
        };
        let moved = victim_live * host / (1.0 - k * victim_live);
        Ok(self.programs(victim_live, moved))
    }

    /// The mean field: the programs under uniformly random writes, with `flash` pages of closed erase blocks for each host
    /// page.
    ///
    /// # Errors
    /// Flash that does not hold the data and its parity.
    pub fn under_random_writes(&self, flash: f64) -> Result<Programs> {
        self.check()?;
        if !(flash.is_finite() && flash > self.stored_per_data()) {
            let why = format!("{flash} pages do not hold {:.4} of data and parity", self.stored_per_data());
            return Err(Error::new("flash", why));
        }
        match *self {
            Scheme::EccOnly => self.balance(elastic_victim(1.0, 0.0, flash)),
            Scheme::Elastic { partial_parity, .. } => {
                self.elastic_programs(self.stored_per_data(), partial_parity, flash)
            }
            Scheme::Raid5 { pages, parity_writes } => {
                let (victim_live, moved) = raid5_victim(f64::from(pages - 1), parity_writes, flash);
                Ok(self.programs(victim_live, moved))
            }
        }
    }

    fn elastic_programs(&self, k: f64, pi: f64, flash: f64) -> Result<Programs> {
        let u = elastic_victim(k, pi, flash);
        let moved = moved_at(k, pi, u);
        // Host rows that begin below u are cleaned at once, so the mean of all victims can be lower.
        Ok(self.programs(moved / (k + pi + k * moved), moved))
    }

    fn programs(&self, victim_live: f64, moved: f64) -> Programs {
        let none = Programs {
            victim_live,
            moved,
            parity_of_writes: 0.0,
            parity_of_cleaning: 0.0,
            partial_parity: 0.0,
        };
        match *self {
            Scheme::EccOnly => none,
            Scheme::Elastic { pages, partial_parity } => {
                let data = f64::from(pages - 1);
                Programs {
                    parity_of_writes: 1.0 / data,
                    parity_of_cleaning: moved / data,
                    partial_parity,
                    ..none
                }
            }
            Scheme::Raid5 { parity_writes, .. } => Programs { parity_of_writes: parity_writes, ..none },
        }
    }
}

/// Pages moved per host page if victims are cleaned at a live share `u`. Host rows begin with a live share of 1 / (k + pi): if
/// that is below u already, they are cleaned at once, at the share they begin with.
fn moved_at(k: f64, pi: f64, u: f64) -> f64 {
    let host_live = 1.0 / (k + pi);
    (k + pi) * host_live.min(u) / (1.0 - k * u)
}

/// The live share at which victims are cleaned: the rows of either kind fill the flash. A row of live share a that is cleaned at
/// u stays for ln(a / u) overwrites of all data.
fn elastic_victim(k: f64, pi: f64, flash: f64) -> f64 {
    let (host_live, moved_live) = (1.0 / (k + pi), 1.0 / k);
    let filled = |u: f64| {
        let host = (k + pi) * (host_live / u).ln().max(0.0);
        host + k * moved_at(k, pi, u) * (moved_live / u).ln()
    };
    bisect(1e-12, moved_live * (1.0 - 1e-15), |u| filled(u) > flash)
}

/// The live share and the pages moved of RAID-5: two classes of pages in the same erase blocks. Each data page is hit once per
/// overwrite of all data, each parity page `parity_writes * data` times, `data` being the data pages of a stripe.
fn raid5_victim(data: f64, parity_writes: f64, flash: f64) -> (f64, f64) {
    let classes = [(1.0, 1.0), (parity_writes, parity_writes * data)];
    let host = 1.0 + parity_writes;
    // For host blocks that are cleaned after `age` overwrites: u, what they move, and the age of blocks of moved data.
    let given = |age: f64| {
        let left = classes.map(|(written, rate)| written * (-rate * age).exp());
        let u = (left[0] + left[1]) / host;
        // In a steady state moved blocks receive what is left of host blocks and of themselves.
        let moved = |age: f64| [0, 1].map(|class| left[class] / -(-classes[class].1 * age).exp_m1());
        let live = |age: f64| {
            let moved = moved(age);
            let kept = [0, 1].map(|class| moved[class] * (-classes[class].1 * age).exp());
            (kept[0] + kept[1]) / (moved[0] + moved[1])
        };
        let moved_age = bisect(1e-12, 700.0, |age| live(age) > u);
        let moved = moved(moved_age);
        (u, moved[0] + moved[1], moved_age)
    };
    let filled = |age: f64| {
        let (_, moved, moved_age) = given(age);
        host * age + moved * moved_age
    };
    let (u, moved, _) = given(bisect(1e-9, 100.0, |age| filled(age) < flash));
    (u, moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elastic(pages: u32, partial_parity: f64) -> Scheme {
        Scheme::Elastic { pages, partial_parity }
    }

    #[test]
    fn the_balance_counts_every_page_once() {
        let programs = elastic(8, 0.25).balance(0.5).unwrap();
        let k = 8.0 / 7.0;
        assert!((programs.total() - (k + 0.25) / (1.0 - k * 0.5)).abs() < 1e-12);
        assert!((programs.moved / programs.total() - 0.5).abs() < 1e-12);
        let ecc = Scheme::EccOnly.balance(0.75).unwrap();
        assert_eq!((ecc.total(), ecc.moved), (4.0, 3.0));
        let raid5 = Scheme::Raid5 { pages: 8, parity_writes: 0.5 }.balance(0.5).unwrap();
        assert_eq!(raid5.total(), 3.0);
        assert!(elastic(8, 0.0).balance(0.9).is_err());
    }

    #[test]
    fn the_mean_field_meets_its_own_balance() {
        for scheme in [
            Scheme::EccOnly,
            elastic(8, 0.0),
            elastic(32, 0.05),
            elastic(8, 0.7),
            Scheme::Raid5 { pages: 8, parity_writes: 1.0 },
            Scheme::Raid5 { pages: 32, parity_writes: 0.3 },
        ] {
            let flash = scheme.flash_per_data(0.2, SpareOf::DataAndParity).unwrap();
            let predicted = scheme.under_random_writes(flash).unwrap();
            let balanced = scheme.balance(predicted.victim_live).unwrap();
            assert!((predicted.total() / balanced.total() - 1.0).abs() < 1e-9, "{scheme:?}");
        }
    }

    #[test]
    fn at_equal_spare_space_whole_stripes_cost_one_page_in_n() {
        for (pages, factor) in [(8, 8.0 / 7.0), (16, 16.0 / 15.0), (32, 32.0 / 31.0)] {
            for spare in [0.0526, 0.15, 0.3, 1.0] {
                let total = |scheme: Scheme| {
                    let flash = scheme.flash_per_data(spare, SpareOf::DataAndParity).unwrap();
                    scheme.under_random_writes(flash).unwrap().total()
                };
                let ratio = total(elastic(pages, 0.0)) / total(Scheme::EccOnly);
                assert!((ratio / factor - 1.0).abs() < 1e-9, "{pages} {spare}: {ratio}");
            }
        }
    }

    #[test]
    fn flash_that_does_not_hold_the_parity_is_refused() {
        assert!(elastic(8, 0.0).flash_per_data(0.05, SpareOf::Data).is_err());
        assert!(elastic(32, 0.0).flash_per_data(0.05, SpareOf::Data).is_ok());
        assert!(elastic(8, 0.0).under_random_writes(1.1).is_err());
        assert!(elastic(1, 0.0).check().is_err());
        assert!(Scheme::Raid5 { pages: 8, parity_writes: 0.1 }.check().is_err());
        assert!(Scheme::EccOnly.flash_per_data(0.0, SpareOf::Data).is_err());
    }
}
