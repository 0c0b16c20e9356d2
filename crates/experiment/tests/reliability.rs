//! Experiments with reliability by arithmetic alone: the built-in files, and files that make no sense.

use std::path::Path;
use std::sync::Arc;

use sinew_experiment::batch::{self, Observer, Options};
use sinew_experiment::plan::Plan;
use sinew_experiment::results::{ReliabilityFigures, Results};
use sinew_experiment::{Error, builtin, report};

fn plan(text: &str) -> Result<Plan, Error> {
    Plan::new("reliability", text, Path::new(""), false)
}

fn execute(text: &str) -> Results {
    let options = Options { threads: 2, cache: None };
    batch::execute(&plan(text).unwrap(), &options, &(Arc::new(|_| {}) as Observer)).unwrap().results
}

fn builtin(name: &str) -> Results {
    execute(builtin::find(name).unwrap().text)
}

/// The figures of a case, in the order of its swept values and seeds.
fn figures<'r>(results: &'r Results, case: &str) -> Vec<&'r ReliabilityFigures> {
    let runs = results.runs.iter().filter(|run| run.case.as_deref() == Some(case));
    runs.map(|run| run.figures.reliability().unwrap()).collect()
}

#[test]
fn samples_contain_the_chain_and_critical_first_helps_declustered_pools() {
    let results = builtin("mttdl");
    let pool = |case| figures(&results, case).into_iter().map(|found| found.pool.as_ref().unwrap());
    // Three seeds, of which few may miss a 95 % interval.
    let all = results.runs.iter().map(|run| run.figures.reliability().unwrap().pool.as_ref().unwrap());
    let contains = |found: &sinew_experiment::results::PoolLossFigures| {
        let sampled = found.sampled_any_loss.unwrap();
        (sampled.low..=sampled.high).contains(&found.any_loss)
    };
    let (inside, count) = (all.clone().filter(|found| contains(found)).count(), all.count());
    assert!(count == 54 && inside >= 48, "{inside} of {count}");
    for (found, closed) in
        pool("3 RAID 6 of 8, idle").map(|found| (found, found.any_closed_form_years.unwrap()))
    {
        assert!((found.any_mttdl_years / closed - 1.0).abs() < 1e-9);
    }
    let (plain, first) = (pool("pool of 24, 6+2, idle"), pool("pool of 24, 6+2, critical first, idle"));
    for (plain, first) in plain.zip(first) {
        // Without redundancy for 7/23 of the time.
        assert!((first.mttdl_years / plain.mttdl_years * 7.0 / 23.0 - 1.0).abs() < 0.01);
        assert!(plain.any_closed_form_years.is_none());
    }
    // The samples of 6 pools at three rates, and 2 closed forms.
    assert_eq!(results.references.len(), 18 + 2);
    let text = report::text(&results);
    assert!(text.contains("MTTDL y") && text.contains("P(any loss)") && !text.contains("NaN"), "{text}");
    assert!(report::html(&results).unwrap().contains("pool of 24, 6+2, critical first, idle"));
}

#[test]
fn esap_keeps_the_life_of_ecc_only_with_equal_spare_space() {
    let results = builtin("esap-reliability");
    let flash = |case| -> Vec<_> {
        figures(&results, case).into_iter().map(|found| found.flash.clone().unwrap()).collect()
    };
    let (ecc, esap, raid5) = (flash("ECC only"), flash("eSAP(8)"), flash("RAID-5(8)"));
    assert_eq!((ecc.len(), esap.len()), (8, 8));
    for (ecc, esap) in ecc.iter().zip(&esap) {
        assert!((esap.programs / ecc.programs * 7.0 / 8.0 - 1.0).abs() < 1e-9);
        // The flash is larger by the parity too, so it wears as fast.
        assert!((esap.cycles - ecc.cycles).abs() <= ecc.cycles * 1e-9);
        assert!((ecc.ecc_age - ecc.life_used).abs() < 1e-9);
        assert!(esap.now.page_loss < ecc.now.page_loss);
        assert!(
            (esap.now.page_loss / (ecc.now.page * (1.0 - (1.0 - ecc.now.page).powi(7))) - 1.0).abs() < 1e-3
                || ecc.now.page < 1e-12
        );
    }
    assert!(raid5[7].life_used > 1.4 * esap[7].life_used);
    assert!(flash("eSAP(8), equal flash")[7].cycles > 1.2 * ecc[7].cycles);
    // At the end of its life eSAP is as reliable as ECC only was before, though not as new.
    assert!((0.6..0.8).contains(&(esap[7].ecc_age / esap[7].life_used)), "{:?}", esap[7]);
    let lives = &results.references[0];
    assert!((lives.ours.unwrap().mean - 1.0).abs() < 1e-9, "{lives:?}");
}

#[test]
fn staggered_drives_and_uneven_parity() {
    let results = builtin("ageing-together");
    let (equal, staggered) = (figures(&results, "equal means"), figures(&results, "means from -10 to +10 %"));
    for (equal, staggered) in equal.iter().zip(&staggered) {
        let (equal, staggered) = (equal.ageing.as_ref().unwrap(), staggered.ageing.as_ref().unwrap());
        assert!(staggered.second_within_week < equal.second_within_week);
    }
    let uneven = figures(&results, "parity 60/10/10/10/10")[0].ageing.as_ref().unwrap();
    assert!((uneven.writes_ratio.unwrap() - 2.1538).abs() < 1e-4);
    assert!(results.runs.iter().all(|run| run.seed == 0));
}

const POOL: &str = "description = \"x\"\n[reliability.pool]\nmembers = 8\nsurvives = 1\nmttf_hours = 2000\nmission_years = 1\nused = \"1T\"\nrebuild_hours = 100\ntrials = 20000\n";

#[test]
fn trials_of_exponential_lives_contain_the_chain() {
    let found = execute(POOL);
    let pool = found.runs[0].figures.reliability().unwrap().pool.clone().unwrap();
    let trials = pool.trials_any_loss.unwrap();
    assert!((trials.low..=trials.high).contains(&pool.any_loss), "{pool:?}");
    assert_eq!((found.runs[0].seed, pool.sampled_any_loss), (1, None));
}

#[test]
fn files_that_make_no_sense_are_refused() {
    let with = |from: &str, to: &str| plan(&POOL.replace(from, to)).err().map(|error| error.to_string());
    let refused = [
        (with("survives = 1", "survives = 8"), "survives"),
        (with("members = 8", "members = 8\nwidth = 9"), "width"),
        (with("mttf_hours = 2000", "mttf_hours = 0"), "mttf_hours"),
        (with("rebuild_hours = 100", ""), "rebuild_rate"),
        (with("rebuild_hours = 100", "rebuild_hours = 100\nrebuild_rate = \"1M\""), "rebuild_rate"),
        (with("mission_years = 1", "mission_years = -1"), "mission_years"),
        (with("[reliability.pool]", "[reliability.pools]"), "pools"),
        (
            with("trials = 20000", "[reliability.ageing]\ndrives = 8\nmean_years = 5\nvariation = 0.1"),
            "exactly one",
        ),
        (plan("description = \"x\"\n[reliability]\n").err().map(|error| error.to_string()), "exactly one"),
        (with("trials = 20000", "cycles = 1"), "cycles"),
    ];
    for (error, part) in refused {
        let error = error.expect(part);
        assert!(error.contains(part), "{error} does not say {part}");
    }
    assert!(plan(POOL).is_ok());
}
