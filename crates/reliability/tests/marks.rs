//! Published and independently computed figures that the arithmetic has to meet: to seven digits where they are exact.

use sinew_reliability::HOURS_PER_YEAR;
use sinew_reliability::array::Pool;
use sinew_reliability::chain::{Chain, Kind, To, Transition};
use sinew_reliability::ecc::Code;
use sinew_reliability::mttdl::Rates;
use sinew_reliability::page::{loss_rate_in_stripe, page_error_rate};
use sinew_reliability::rare;
use sinew_reliability::trial::{Law, Repairs, Trial};
use sinew_reliability::wear::{Scheme, SpareOf};

/// Asserts agreement to seven digits with a figure given to seven digits or fewer.
fn same(ours: f64, expected: f64) {
    assert!((ours / expected - 1.0).abs() < 5.1e-7, "{ours:e} is not {expected:e}");
}

/// Sums of exact fractions, evaluated with forty digits.
#[test]
fn code_words_pages_and_stripes_fail_as_often_as_exact_sums_say() {
    let rows = [
        (24, 5e-4, 5.88321561e-12, 2.353286244e-11, [3.876569302e-21, 8.306934218e-21, 1.716766405e-20]),
        (24, 1e-3, 3.461705114e-6, 1.384674856e-5, [1.342071368e-9, 2.875707939e-9, 5.942471462e-9]),
        (40, 1e-3, 2.379959718e-15, 9.51983887e-15, [6.343913248e-28, 1.359409982e-27, 2.809447295e-27]),
        (40, 3e-3, 0.004565353217, 0.01813673834, [0.002181023725, 0.004354354443, 0.007853248858]),
        (72, 3e-3, 5.033322448e-13, 2.013328979e-12, [2.837445505e-23, 6.080240368e-23, 1.256583009e-22]),
    ];
    for (corrects, rber, word, page, stripes) in rows {
        let ours = Code::bch_of_1_kib(corrects).unwrap().word_error_rate(rber).unwrap();
        same(ours, word);
        let ours = page_error_rate(ours, 4).unwrap();
        same(ours, page);
        for (pages, stripe) in [8, 16, 32].into_iter().zip(stripes) {
            same(loss_rate_in_stripe(ours, pages).unwrap(), stripe);
        }
    }
}

/// Solutions of the same equations by an independent program, at six digits.
#[test]
fn the_mean_field_has_the_values_of_an_independent_solution() {
    let elastic = |pages, partial_parity| Scheme::Elastic { pages, partial_parity };
    let schemes = [
        Scheme::EccOnly,
        elastic(8, 0.0),
        elastic(16, 0.0),
        elastic(32, 0.0),
        elastic(8, 0.6429),
        elastic(16, 0.7),
        elastic(32, 0.7258),
    ];
    for (spare, expected) in [
        (0.0526, [10.1781, 11.6322, 10.8567, 10.5065, 13.4179, 12.6233, 12.2645]),
        (0.15, [4.01603, 4.58975, 4.28377, 4.14558, 6.37551, 6.05043, 5.90364]),
        (0.3, [2.36423, 2.70198, 2.52185, 2.4405, 4.45039, 4.28223, 4.19769]),
    ] {
        for (scheme, expected) in schemes.iter().zip(expected) {
            let flash = scheme.flash_per_data(spare, SpareOf::DataAndParity).unwrap();
            let ours = scheme.under_random_writes(flash).unwrap().total();
            assert!((ours / expected - 1.0).abs() < 1e-5, "{scheme:?} {spare}: {ours}");
        }
    }
    // As flash for each page of data.
    for (scheme, flash, expected) in [
        (elastic(8, 0.0), 1.4104, 3.23087),
        (elastic(8, 0.6429), 1.4104, 5.01662),
        (elastic(32, 0.0), 1.2739, 2.91829),
    ] {
        let ours = scheme.under_random_writes(flash).unwrap().total();
        assert!((ours / expected - 1.0).abs() < 1e-5, "{scheme:?}: {ours}");
    }
}

const SYSTEMS: [(u32, f64, f64); 3] = [(6, 2e6, 4.0), (8, 1.5e6, 10.0), (12, 1e6, 24.0)];

fn pool(members: u32, mttf_hours: f64, rebuild_hours: f64, survives: u32) -> Pool {
    Pool {
        members,
        width: members,
        survives,
        sets: 1,
        mttf_hours,
        rebuild_hours,
        critical_first: false,
        latent: None,
        stored_bytes: 1.0,
    }
}

/// The chain of a pool, with a probability that the last rebuild is a loss.
fn chain(pool: &Pool, h: f64) -> Chain {
    let plain = pool.chain(false).unwrap();
    let critical = pool.survives as usize;
    let mut transitions = Vec::new();
    for transition in (0..plain.states()).flat_map(|state| plain.leaving(state)) {
        if transition.from == critical && transition.kind == Kind::Repair {
            let per_hour = transition.per_hour;
            transitions.push(Transition { per_hour: per_hour * (1.0 - h), ..*transition });
            transitions.push(Transition {
                to: To::Loss,
                per_hour: per_hour * h,
                kind: Kind::Failure,
                ..*transition
            });
        } else {
            transitions.push(*transition);
        }
    }
    Chain::new(plain.states(), transitions).unwrap()
}

#[test]
fn chains_and_closed_forms_have_the_mean_times_of_independent_solutions() {
    // Years: RAID 5, RAID 5 with h = 0.01, RAID 6, RAID 6 with h = 0.01, mirrored pairs.
    let expected = [
        [3_805_258.752, 3801.457295, 4.756563928e11, 3.802209755e8, 19_025_989.35],
        [458705.3571, 2130.681818, 1.146755756e10, 45_687_501.64, 3_210_680.651],
        [36053.74521, 927.3371723, 150_220_366.3, 3_520_799.125, 396400.9386],
    ];
    for ((members, mttf_hours, mttr_hours), expected) in SYSTEMS.into_iter().zip(expected) {
        let rates = |latent| Rates { members, mttf_hours, mttr_hours, latent };
        let closed = [
            rates(0.0).one_loss(),
            rates(0.01).one_loss(),
            rates(0.0).two_losses(),
            rates(0.01).two_losses(),
            rates(0.0).pairs(),
        ];
        for (ours, expected) in closed.into_iter().zip(expected) {
            same(ours / HOURS_PER_YEAR, expected);
        }
        for (i, (survives, h)) in [(1, 0.0), (1, 0.01), (2, 0.0), (2, 0.01)].into_iter().enumerate() {
            let chain = chain(&pool(members, mttf_hours, mttr_hours, survives), h);
            same(chain.mean_hours_to_loss() / HOURS_PER_YEAR, expected[i]);
            assert!((chain.mean_hours_to_loss() / closed[i] - 1.0).abs() < 1e-12);
        }
    }
}

/// Rates at which losses are not rare.
fn exaggerated(survives: usize, latent_loss: f64) -> (Trial, Chain) {
    let trial = Trial {
        lives: vec![Law::Exponential { mean_hours: 1000.0 }; 6],
        repair: Some(Law::Exponential { mean_hours: 50.0 }),
        repairs: Repairs::InTurn,
        survives,
        latent_loss,
    };
    (trial, chain(&pool(6, 1000.0, 50.0, survives as u32), latent_loss))
}

#[test]
fn monte_carlo_finds_the_chain_in_17_of_20_seeds() {
    for (survives, latent_loss) in [(1, 0.0), (1, 0.1), (2, 0.0), (2, 0.1)] {
        let (trial, chain) = exaggerated(survives, latent_loss);
        let (mean, within) = (chain.mean_hours_to_loss(), chain.loss_within(2000.0).unwrap());
        let seeds = |contains: &dyn Fn(u64) -> bool| (1..=20).filter(|seed| contains(*seed)).count();
        let mean_found = seeds(&|seed| trial.mean_hours_to_loss(20_000, seed).unwrap().contains(mean));
        let within_found = seeds(&|seed| trial.loss_within(2000.0, 2000, seed).unwrap().contains(within));
        assert!(
            mean_found >= 17 && within_found >= 17,
            "{survives} {latent_loss}: {mean_found} {within_found}"
        );
        // The interval is not so wide that it contains anything.
        let one = trial.mean_hours_to_loss(20_000, 1).unwrap();
        assert!((one.high - one.low) / one.mean < 0.04, "{one:?}");
        assert!(!one.contains(mean * 1.05) && !one.contains(mean * 0.95), "{one:?}");
    }
}

#[test]
fn importance_sampling_finds_a_loss_of_two_in_a_hundred_thousand() {
    let chain = pool(8, 1.5e6, 10.0, 1).chain(false).unwrap();
    let ten_years = 10.0 * HOURS_PER_YEAR;
    let exact = chain.loss_within(ten_years).unwrap();
    assert!((exact - 2.18e-5).abs() < 5e-8, "{exact}");
    let mut found = 0;
    for seed in 1..=20 {
        let sampled = rare::sample(&chain, 100_000, seed).unwrap().within(ten_years);
        assert!((sampled.mean / exact - 1.0).abs() < 0.02, "seed {seed}: {sampled:?} {exact}");
        found += usize::from(sampled.contains(exact));
    }
    assert!(found >= 17, "{found}");
}

#[test]
fn importance_sampling_follows_chains_of_two_losses() {
    for (members, mttf_hours, mttr_hours) in SYSTEMS {
        for h in [0.0, 0.01] {
            let chain = chain(&pool(members, mttf_hours, mttr_hours, 2), h);
            let sampled = rare::sample(&chain, 100_000, 7).unwrap().mean_hours_to_loss();
            let exact = chain.mean_hours_to_loss();
            assert!((sampled.mean / exact - 1.0).abs() < 0.04, "{members} {h}: {sampled:?} {exact}");
        }
    }
}

#[test]
fn lives_without_repair_meet_their_closed_forms() {
    let (shape, scale_hours, hours): (f64, f64, f64) = (1.5, 1000.0, 400.0);
    let lost = 1.0 - (-(hours / scale_hours).powf(shape)).exp();
    let trial = |members: usize| Trial {
        lives: vec![Law::Weibull { shape, scale_hours }; members],
        repair: None,
        repairs: Repairs::AtOnce,
        survives: 1,
        latent_loss: 0.0,
    };
    let pair = trial(2).loss_within(hours, 40_000, 3).unwrap();
    assert!(pair.contains(lost * lost), "{pair:?} {}", lost * lost);
    let kept = 1.0 - lost;
    let raid5 = 1.0 - kept.powi(6) - 6.0 * lost * kept.powi(5);
    let found = trial(6).loss_within(hours, 40_000, 3).unwrap();
    assert!(found.contains(raid5), "{found:?} {raid5}");
}

#[test]
fn drives_that_wear_out_alike_are_lost_together() {
    // Lives of five years with a variation of 2 %, replaced within a week: the first replacement comes too late for 1 - 0.7523 of
    // the arrays (the same integral as in the module `ageing`).
    let hours = 5.0 * HOURS_PER_YEAR;
    let trial = Trial {
        lives: vec![Law::Wear { limit_bytes: 1e15, variation: 0.02, bytes_per_hour: 1e15 / hours }; 8],
        repair: Some(Law::Constant { hours: 168.0 }),
        repairs: Repairs::AtOnce,
        survives: 1,
        latent_loss: 0.0,
    };
    let alone = Trial { repair: None, survives: 0, ..trial.clone() };
    // All are gone after the mean and ten deviations, none before the mean less ten.
    assert_eq!(alone.loss_within(hours * 1.2, 1000, 1).unwrap().mean, 1.0);
    assert_eq!(alone.loss_within(hours * 0.8, 1000, 1).unwrap().mean, 0.0);
    // Any two of the first losses may fall into one week, so the array is lost more often than by the first two alone.
    let lost = trial.loss_within(hours * 1.2, 5000, 1).unwrap();
    assert!(lost.low > 0.2477, "{lost:?}");
}

#[test]
fn equal_seeds_give_equal_estimates() {
    let (trial, chain) = exaggerated(2, 0.1);
    assert_eq!(trial.loss_within(500.0, 500, 9), trial.loss_within(500.0, 500, 9));
    assert_ne!(trial.mean_hours_to_loss(500, 9), trial.mean_hours_to_loss(500, 10));
    assert_eq!(trial.mean_hours_to_loss(500, 9), trial.mean_hours_to_loss(500, 9));
    assert_eq!(rare::sample(&chain, 500, 9), rare::sample(&chain, 500, 9));
}

#[test]
fn invalid_trials_are_refused() {
    let (trial, chain) = exaggerated(1, 0.0);
    let invalid = [
        Trial { survives: 6, ..trial.clone() },
        Trial { latent_loss: 2.0, ..trial.clone() },
        Trial { lives: vec![Law::Exponential { mean_hours: 0.0 }; 3], ..trial.clone() },
        Trial {
            lives: vec![Law::Wear { limit_bytes: 1.0, variation: 0.5, bytes_per_hour: 1.0 }; 3],
            ..trial
        },
    ];
    for trial in invalid {
        assert!(trial.loss_within(1.0, 10, 1).is_err(), "{trial:?}");
    }
    assert!(rare::sample(&chain, 1, 1).is_err());
    let trapped = Transition { from: 0, to: To::State(1), per_hour: 1.0, kind: Kind::Failure };
    assert!(rare::sample(&Chain::new(2, vec![trapped]).unwrap(), 10, 1).is_err());
}
