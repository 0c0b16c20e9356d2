//! The chain of a pool or array: members that fail and are rebuilt, stripes that are declustered or not, critical stripes
//! rebuilt first, and latent errors.
//!
//! A state is a number of lost members. With declustered stripes a lost member leaves only some stripes without redundancy, so
//! a further loss costs part of the data, and the rebuild of the critical part is short. Two kinds of loss are told apart: the
//! **loss of the pool**, more members than it survives, and the loss of **blocks** to latent errors that a rebuild without
//! further redundancy meets. With checksums such an error costs a block, and not the pool.
//!
//! Latent errors are a rate per member and hour with a scrub interval, not an error rate per bit read: Schroeder and others
//! (FAST '16) find the latter to be meaningless for SSDs. A latent error is half a scrub interval old on average.

use crate::HOURS_PER_YEAR;
use crate::chain::{Chain, Kind, To, Transition};
use crate::error::{Error, Result, positive};

/// Latent errors of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentErrors {
    /// New errors per member and hour.
    pub per_member_hour: f64,
    /// Hours between two scrubs of a block.
    pub scrub_hours: f64,
    /// Bytes that an error makes unreadable.
    pub bytes: f64,
}

/// A pool or array. Levels of mirrored sets are several `sets`, each of them a pool of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pool {
    /// Members of a set.
    pub members: u32,
    /// Columns of a stripe, redundancy included. With as many as members, every stripe uses all of them.
    pub width: u32,
    /// Lost members of a set that it survives.
    pub survives: u32,
    /// Independent sets.
    pub sets: u32,
    /// Mean hours to the failure of a member.
    pub mttf_hours: f64,
    /// Mean hours until the redundancy of a lost member is restored. Lost members are rebuilt one after the other.
    pub rebuild_hours: f64,
    /// Stripes without further redundancy are rebuilt before the others.
    pub critical_first: bool,
    /// Latent errors, if they are counted.
    pub latent: Option<LatentErrors>,
    /// Bytes of data that a set stores.
    pub stored_bytes: f64,
}

/// The rate of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RebuildRate {
    /// Bytes on the lost member that are rebuilt.
    pub used_bytes: f64,
    /// Bytes per second that rebuild may read or write on each member.
    pub bytes_per_s: f64,
    /// Columns that are read for each lost one.
    pub reads: u32,
    /// Members that are left, if all of them take part; otherwise one replacement receives everything.
    pub spread_over: Option<u32>,
}

/// How probable a loss is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Mean years until a pool is lost.
    pub pool_years: f64,
    /// The probability that a pool is lost within the mission.
    pub pool_in_mission: f64,
    /// Mean years until any data is lost, be it a block.
    pub any_years: f64,
    /// The probability that any data is lost within the mission.
    pub any_in_mission: f64,
    /// Bytes lost per year with lost pools.
    pub pool_bytes_per_year: f64,
    /// Bytes lost per year to latent errors.
    pub latent_bytes_per_year: f64,
}

impl RebuildRate {
    /// Hours of a rebuild. One replacement takes the used bytes at its own rate. If all members take part, each of them reads
    /// its share of what is read: used bytes times `reads`, divided by the members that are left.
    ///
    /// # Errors
    /// A value that is not positive.
    pub fn hours(&self) -> Result<f64> {
        positive("used_bytes", self.used_bytes)?;
        positive("bytes_per_s", self.bytes_per_s)?;
        if self.reads == 0 || self.spread_over == Some(0) {
            return Err(Error::new("reads", "a rebuild reads at least one column, on at least one member"));
        }
        let share = self.spread_over.map_or(1.0, |left| f64::from(self.reads) / f64::from(left));
        Ok(self.used_bytes * share / self.bytes_per_s / 3600.0)
    }
}

impl Pool {
    /// Checks the parameters.
    ///
    /// # Errors
    /// A stripe wider than the set, redundancy that leaves no column for data, or values that are not positive.
    pub fn check(&self) -> Result<()> {
        if self.width > self.members || self.members > 255 {
            let why = format!(
                "a stripe of {} columns does not fit {} members of at most 255",
                self.width, self.members
            );
            return Err(Error::new("width", why));
        }
        if self.survives >= self.width {
            let why = format!("a stripe of {} columns cannot survive {} losses", self.width, self.survives);
            return Err(Error::new("survives", why));
        }
        if self.sets == 0 {
            return Err(Error::new("sets", "there is at least one set"));
        }
        positive("mttf_hours", self.mttf_hours)?;
        positive("rebuild_hours", self.rebuild_hours)?;
        positive("stored_bytes", self.stored_bytes)?;
        if let Some(latent) = self.latent {
            positive("scrub_hours", latent.scrub_hours)?;
            positive("bytes", latent.bytes)?;
            if !(latent.per_member_hour.is_finite() && latent.per_member_hour >= 0.0) {
                return Err(Error::new("per_member_hour", "the rate of latent errors is a number from 0 on"));
            }
        }
        Ok(())
    }

    /// Of the stripes on a member that is lost last, the fraction that has no redundancy left.
    pub fn critical_fraction(&self) -> f64 {
        (1..self.survives).map(|lost| self.in_stripe(lost)).product()
    }

    /// Of all stripes, the fraction that is lost with one member more than the set survives.
    pub fn lost_fraction(&self) -> f64 {
        (0..=self.survives).map(|lost| self.in_stripe(lost)).product()
    }

    /// The probability that a stripe uses a member, of those that `before` of its members are no longer among.
    fn in_stripe(&self, before: u32) -> f64 {
        f64::from(self.width - before) / f64::from(self.members - before)
    }

    /// Latent errors that the rebuild without further redundancy meets, on average: those of the members that are left, in
    /// the stripes that have no redundancy.
    pub fn latent_met(&self) -> f64 {
        let Some(latent) = self.latent else { return 0.0 };
        let left = f64::from(self.members - self.survives);
        // Of the chunks of a member that is left, those in stripes of all lost members.
        let critical: f64 = (0..self.survives)
            .map(|lost| f64::from(self.width - 1 - lost) / f64::from(self.members - 1 - lost))
            .product();
        left * latent.per_member_hour * latent.scrub_hours / 2.0 * critical
    }

    /// The probability that this rebuild meets at least one (h).
    pub fn latent_loss(&self) -> f64 {
        -(-self.latent_met()).exp_m1()
    }

    /// The chain of one set. With `with_latent` a latent error that is met counts as the loss.
    ///
    /// # Errors
    /// Invalid parameters.
    pub fn chain(&self, with_latent: bool) -> Result<Chain> {
        self.check()?;
        let (last, fails, rebuilt) =
            (self.survives as usize, 1.0 / self.mttf_hours, 1.0 / self.rebuild_hours);
        let h = if with_latent { self.latent_loss() } else { 0.0 };
        let mut transitions = Vec::new();
        for lost in 0..=last {
            let to = if lost == last { To::Loss } else { To::State(lost + 1) };
            let per_hour = f64::from(self.members - lost as u32) * fails;
            transitions.push(Transition { from: lost, to, per_hour, kind: Kind::Failure });
        }
        for lost in 1..=last {
            let is_critical = lost == last;
            let shorter = if is_critical && self.critical_first { self.critical_fraction() } else { 1.0 };
            let rate = rebuilt / shorter;
            let met = if is_critical { h } else { 0.0 };
            let back = Transition {
                from: lost,
                to: To::State(lost - 1),
                per_hour: rate * (1.0 - met),
                kind: Kind::Repair,
            };
            transitions.push(back);
            if met > 0.0 {
                transitions.push(Transition {
                    from: lost,
                    to: To::Loss,
                    per_hour: rate * met,
                    kind: Kind::Failure,
                });
            }
        }
        Chain::new(last + 1, transitions)
    }

    /// How probable a loss is within a mission, over all sets.
    ///
    /// # Errors
    /// Invalid parameters, or a mission that is not positive.
    pub fn loss(&self, mission_years: f64) -> Result<Loss> {
        positive("mission_years", mission_years)?;
        let (pool, any) = (self.chain(false)?, self.chain(true)?);
        let sets = f64::from(self.sets);
        let in_states = pool.mean_hours_in_states();
        let pool_years = in_states.iter().sum::<f64>() / HOURS_PER_YEAR / sets;
        let within = |chain: &Chain| -> Result<f64> {
            let of_one = chain.loss_within(mission_years * HOURS_PER_YEAR)?;
            Ok(-(sets * (-of_one).ln_1p()).exp_m1())
        };
        // Rebuilds without further redundancy that end, per year: each meets its errors. Without redundancy there are none.
        let critical = self.survives as usize;
        let critical_rebuilds = if critical == 0 {
            0.0
        } else {
            let ends: f64 =
                pool.leaving(critical).filter(|t| t.kind == Kind::Repair).map(|t| t.per_hour).sum();
            in_states[critical] * ends / pool_years
        };
        let latent_bytes = self.latent.map_or(0.0, |latent| latent.bytes);
        // A stripe that is lost had half a chance to be rebuilt before; without rebuild there was none.
        let not_rebuilt = if critical == 0 { 1.0 } else { 0.5 };
        let lost_bytes = self.stored_bytes * self.lost_fraction() * not_rebuilt;
        Ok(Loss {
            pool_years,
            pool_in_mission: within(&pool)?,
            any_years: any.mean_hours_to_loss() / HOURS_PER_YEAR / sets,
            any_in_mission: within(&any)?,
            pool_bytes_per_year: lost_bytes / pool_years,
            latent_bytes_per_year: critical_rebuilds * self.latent_met() * latent_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mttdl::Rates;

    const RAID5: Pool = Pool {
        members: 8,
        width: 8,
        survives: 1,
        sets: 1,
        mttf_hours: 1.5e6,
        rebuild_hours: 10.0,
        critical_first: false,
        latent: None,
        stored_bytes: 7e12,
    };

    #[test]
    fn a_pool_whose_stripes_use_all_members_is_the_closed_form() {
        let rates = Rates { members: 8, mttf_hours: 1.5e6, mttr_hours: 10.0, latent: 0.0 };
        let years = RAID5.loss(10.0).unwrap().pool_years;
        assert!((years * HOURS_PER_YEAR / rates.one_loss() - 1.0).abs() < 1e-12);
        let latent = LatentErrors { per_member_hour: 1e-5, scrub_hours: 300.0, bytes: 4096.0 };
        let pool = Pool { latent: Some(latent), ..RAID5 };
        let h: f64 = 1.0 - (-7.0f64 * 1e-5 * 150.0).exp();
        assert!((pool.latent_loss() - h).abs() < 1e-15);
        let loss = pool.loss(10.0).unwrap();
        let with_h = Rates { latent: h, ..rates }.one_loss();
        assert!((loss.any_years * HOURS_PER_YEAR / with_h - 1.0).abs() < 1e-12);
        assert_eq!(loss.pool_years, years);
        // 8 members fail once in 1.5e6 hours each, and each rebuild meets 0.0105 errors of 4 KiB.
        let expected = 8.0 / 1.5e6 * HOURS_PER_YEAR * 0.0105 * 4096.0;
        assert!((loss.latent_bytes_per_year / expected - 1.0).abs() < 1e-3, "{}", loss.latent_bytes_per_year);
        // Half of the data is lost with the array.
        assert!((loss.pool_bytes_per_year * loss.pool_years / 3.5e12 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn mirrored_sets_are_lost_one_by_one() {
        let pool = Pool { members: 2, width: 2, sets: 4, ..RAID5 };
        let loss = pool.loss(10.0).unwrap();
        let pairs = Rates { members: 8, mttf_hours: 1.5e6, mttr_hours: 10.0, latent: 0.0 }.pairs();
        assert!((loss.pool_years * HOURS_PER_YEAR / pairs - 1.0).abs() < 1e-12);
        let one = Pool { sets: 1, ..pool }.loss(10.0).unwrap().pool_in_mission;
        assert!((loss.pool_in_mission / (4.0 * one) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn declustered_stripes_lose_a_part_and_critical_ones_are_few() {
        let pool = Pool { members: 20, width: 6, survives: 2, ..RAID5 };
        assert!((pool.critical_fraction() - 5.0 / 19.0).abs() < 1e-12);
        assert!((pool.lost_fraction() - 6.0 * 5.0 * 4.0 / (20.0 * 19.0 * 18.0)).abs() < 1e-12);
        let years = |pool: Pool| pool.loss(10.0).unwrap().pool_years;
        let first = years(Pool { critical_first: true, ..pool });
        // The time without redundancy is shorter by the fraction of critical stripes.
        assert!((first / years(pool) * 5.0 / 19.0 - 1.0).abs() < 1e-3, "{first}");
        // With one loss survived every stripe of the lost member is critical: there is no order to choose.
        let single = Pool { survives: 1, ..pool };
        assert_eq!(years(Pool { critical_first: true, ..single }), years(single));
    }

    #[test]
    fn a_rebuild_that_all_members_share_is_shorter() {
        let alone = RebuildRate { used_bytes: 3.6e12, bytes_per_s: 1e8, reads: 5, spread_over: None };
        assert_eq!(alone.hours(), Ok(10.0));
        let shared = RebuildRate { spread_over: Some(19), ..alone };
        assert!((shared.hours().unwrap() - 10.0 * 5.0 / 19.0).abs() < 1e-12);
        assert!(RebuildRate { reads: 0, ..alone }.hours().is_err());
    }

    #[test]
    fn no_redundancy_is_lost_with_the_first_member() {
        let none = Pool { survives: 0, ..RAID5 };
        let loss = none.loss(10.0).unwrap();
        assert!((loss.pool_years * HOURS_PER_YEAR - 1.5e6 / 8.0).abs() < 1e-6);
        assert_eq!(loss.latent_bytes_per_year, 0.0);
    }

    #[test]
    fn impossible_pools_are_refused() {
        for pool in [
            Pool { width: 9, ..RAID5 },
            Pool { survives: 8, ..RAID5 },
            Pool { sets: 0, ..RAID5 },
            Pool { mttf_hours: 0.0, ..RAID5 },
            Pool { rebuild_hours: f64::NAN, ..RAID5 },
        ] {
            assert!(pool.loss(10.0).is_err(), "{pool:?}");
        }
        assert!(RAID5.loss(0.0).is_err());
    }
}
