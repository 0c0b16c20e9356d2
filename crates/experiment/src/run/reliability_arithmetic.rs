//! The arithmetic of reliability: no requests, no simulated time. Random numbers only where a file asks for trials or cycles.

use sinew_reliability::HOURS_PER_YEAR;
use sinew_reliability::ageing::{self, Lives};
use sinew_reliability::array::Pool;
use sinew_reliability::confidence::Interval;
use sinew_reliability::mttdl::Rates;
use sinew_reliability::page::{loss_rate_in_stripe, page_error_rate};
use sinew_reliability::rare;
use sinew_reliability::rber::Condition;
use sinew_reliability::trial::{Law, Repairs, Trial};

use crate::Result;
use crate::file::reliability::{AgeingSpec, FlashLifeSpec, PoolLossSpec, ReliabilitySpec, invalid};
use crate::progress::Progress;
use crate::results::reliability::{
    AgeingFigures, ErrorFigures, FlashLifeFigures, PoolLossFigures, ReliabilityFigures,
};
use crate::results::spread::Spread;

/// The result of a call of the arithmetic.
type Arithmetic<T> = sinew_reliability::Result<T>;

/// The figures of the subject.
///
/// # Errors
/// [`crate::Error::Setting`] if a value has no meaning.
pub(crate) fn run(spec: &ReliabilitySpec, seed: u64, progress: &Progress) -> Result<ReliabilityFigures> {
    progress("counting", 0.0);
    let pool = spec.pool.as_ref().map(|pool| of_pool(pool, seed)).transpose()?;
    let flash = spec.flash.as_ref().map(of_flash).transpose()?;
    let ageing =
        spec.ageing.as_ref().map(of_ageing).transpose().map_err(|error| invalid("ageing", &error))?;
    Ok(ReliabilityFigures { pool, flash, ageing })
}

/// The figures of a pool whose members fail.
///
/// # Errors
/// [`crate::Error::Setting`] if a value has no meaning.
pub(crate) fn of_pool(spec: &PoolLossSpec, seed: u64) -> Result<PoolLossFigures> {
    let pool = spec.pool()?;
    loss_of(spec, &pool, seed).map_err(|error| invalid("pool", &error))
}

fn loss_of(spec: &PoolLossSpec, pool: &Pool, seed: u64) -> Arithmetic<PoolLossFigures> {
    let loss = pool.loss(spec.mission_years)?;
    let (mission_hours, sets) = (spec.mission_years * HOURS_PER_YEAR, f64::from(pool.sets));
    let of_all_sets = |one: f64| -(sets * (-one).ln_1p()).exp_m1();
    let sampled = match spec.cycles {
        0 => None,
        cycles => {
            Some(rare::sample(&pool.chain(true)?, cycles, seed)?.within(mission_hours).map(of_all_sets))
        }
    };
    let trials = match spec.trials {
        0 => None,
        trials => Some(trial_of(spec, pool).loss_within(mission_hours, trials, seed)?.map(of_all_sets)),
    };
    Ok(PoolLossFigures {
        rebuild_hours: pool.rebuild_hours,
        latent_loss: pool.latent_loss(),
        mttdl_years: loss.pool_years,
        loss: loss.pool_in_mission,
        any_mttdl_years: loss.any_years,
        any_closed_form_years: closed_form(pool).map(|hours| hours / HOURS_PER_YEAR / sets),
        any_loss: loss.any_in_mission,
        pool_bytes_per_year: loss.pool_bytes_per_year,
        latent_bytes_per_year: loss.latent_bytes_per_year,
        sampled_any_loss: sampled.map(spread),
        trials_any_loss: trials.map(spread),
    })
}

/// The closed form for one set, where stripes use all members.
fn closed_form(pool: &Pool) -> Option<f64> {
    let rates = Rates {
        members: pool.members,
        mttf_hours: pool.mttf_hours,
        mttr_hours: pool.rebuild_hours,
        latent: pool.latent_loss(),
    };
    match pool.survives {
        1 if pool.width == pool.members => Some(rates.one_loss()),
        2 if pool.width == pool.members => Some(rates.two_losses()),
        _ => None,
    }
}

/// Plain trials of one set. Rebuilds are exponential, as in the chain, so that both can be compared.
fn trial_of(spec: &PoolLossSpec, pool: &Pool) -> Trial {
    let life = match spec.life_shape {
        None => Law::Exponential { mean_hours: pool.mttf_hours },
        Some(shape) => Law::Weibull { shape, scale_hours: pool.mttf_hours },
    };
    Trial {
        lives: vec![life; pool.members as usize],
        repair: Some(Law::Exponential { mean_hours: pool.rebuild_hours }),
        repairs: Repairs::InTurn,
        survives: pool.survives as usize,
        latent_loss: pool.latent_loss(),
    }
}

fn spread(interval: Interval) -> Spread {
    Spread { mean: interval.mean, low: interval.low, high: interval.high }
}

fn of_flash(spec: &FlashLifeSpec) -> Result<FlashLifeFigures> {
    let (scheme, flash, code) = (spec.scheme(), spec.flash_per_data()?, spec.code()?);
    let errors_at = |cycles: f64| -> Arithmetic<ErrorFigures> {
        let condition = Condition { cycles, retention_hours: spec.retention_hours, reads: spec.reads };
        let rber = spec.rber().at(condition);
        let word = match spec.correlation {
            None => code.word_error_rate(rber)?,
            Some(correlation) => code.word_error_rate_dispersed(rber, correlation)?,
        };
        let page = page_error_rate(word, spec.words)?;
        let page_loss = match scheme.stripe_pages() {
            None => page,
            Some(pages) => loss_rate_in_stripe(page, pages)?,
        };
        Ok(ErrorFigures { rber, word, page, page_loss })
    };
    // Page errors grow with the cycles, so the age is where they reach what is lost now.
    let ecc_age = |page_loss: f64| -> Arithmetic<f64> {
        let (mut young, mut old) = (0.0, 1.0);
        for _ in 0..60 {
            let age = (young + old) / 2.0;
            if errors_at(age * spec.rated_cycles)?.page < page_loss { young = age } else { old = age }
        }
        Ok(young)
    };
    let figures = || -> Arithmetic<FlashLifeFigures> {
        let programs = match spec.victim_live {
            None => scheme.under_random_writes(flash)?,
            Some(measured) => scheme.balance(measured)?,
        };
        let cycles = programs.cycles(spec.drive_writes, flash);
        let now = errors_at(cycles)?;
        let rated = spec.rated_cycles / programs.cycles(1.0, flash);
        Ok(FlashLifeFigures {
            flash_per_data: flash,
            programs: programs.total(),
            victim_live: programs.victim_live,
            moved: programs.moved,
            parity: programs.parity_of_writes + programs.parity_of_cleaning + programs.partial_parity,
            cycles,
            drive_writes_rated: rated,
            life_used: spec.drive_writes / rated,
            ecc_age: ecc_age(now.page_loss)?,
            now,
            rated: errors_at(spec.rated_cycles)?,
        })
    };
    figures().map_err(|error| invalid("flash", &error))
}

fn of_ageing(spec: &AgeingSpec) -> Arithmetic<AgeingFigures> {
    let lives = Lives::spaced(spec.drives, spec.mean_years * 365.0, spec.spread, spec.variation)?;
    let writes = spec.parity_shares.as_deref().map(ageing::writes_by_parity_share).transpose()?;
    let ratio = writes.as_ref().map(|writes| {
        let most = writes.iter().copied().fold(0.0, f64::max);
        most / writes.iter().copied().fold(f64::INFINITY, f64::min)
    });
    Ok(AgeingFigures {
        second_within_day: lives.second_within(1.0),
        second_within_week: lives.second_within(7.0),
        second_within_month: lives.second_within(30.0),
        writes,
        writes_ratio: ratio,
    })
}
