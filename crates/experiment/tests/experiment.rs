//! Experiments from the file to JSON.

use std::path::Path;
use std::sync::Arc;

use sinew_experiment::batch::{self, Options, Outcome};
use sinew_experiment::plan::Plan;
use sinew_experiment::results::{Part, Results};
use sinew_experiment::{Error, builtin, report};

/// A small pool under a short load.
const SMALL: &str = r#"
description = "small"

[run]
duration_s = 0.2
warm_up_s = 0.05
interval_s = 0.05
seeds = [1, 2]

[[members]]
model = "slc"
count = 4
size = "256M"
aging = 0.2

[[volumes]]
size = "128M"
fill = true
overwrite = 0.1

[workload.source.generator]
arrival = { poisson = { iops = 1000.0 } }
flush_every = 50
streams = [
    { kind = "read", share = 0.5, sizes = { fixed = "4K" }, place = "uniform", footprint = "128M" },
    { kind = "write", share = 0.5, sizes = { fixed = "8K" }, place = { zipf = { theta = 0.9 } }, footprint = "128M" },
]

[[cases]]
name = "pool"

[[cases]]
name = "alone"
set = { target = "member" }

[sweep]
"workload.speed" = [1.0, 2.0]

[quick]
"run.duration_s" = 0.1

[[references]]
what = "reads per second"
figure = "requests.read.iops"
of = { case = "pool", set = { "workload.speed" = 2 } }
over = { case = "pool", set = { "workload.speed" = 1 } }
published = 2
source = "the file"

[[references]]
what = "flash"
figure = "members.0.flash.write_amplification"
of = { case = "alone" }
published = "members.0.flash.closed_form_amplification"
source = "theory"
"#;

fn plan(text: &str) -> sinew_experiment::Result<Plan> {
    Plan::new("small", text, Path::new(""), false)
}

fn execute(plan: &Plan, threads: usize, cache: Option<&Path>) -> Outcome {
    let options = Options { threads, cache: cache.map(Path::to_owned) };
    batch::execute(plan, &options, &(Arc::new(|_| {}) as batch::Observer)).unwrap()
}

#[test]
fn equal_files_and_seeds_give_equal_json() {
    let first = execute(&plan(SMALL).unwrap(), 1, None);
    let json = first.results.to_json();
    assert_eq!(json, execute(&plan(SMALL).unwrap(), 2, None).results.to_json());
    assert!(first.member_requests > 1000);

    let results: Results = serde_json::from_str(&json).unwrap();
    assert!(results == first.results, "the JSON is read back as it was written");
    let labels: Vec<_> = results.runs.iter().map(|run| (run.label(), run.seed)).collect();
    assert_eq!(labels.len(), 8);
    assert_eq!(labels[1], ("pool, speed = 1".to_owned(), 2));
    assert_eq!(labels[7], ("alone, speed = 2".to_owned(), 2));
    assert_ne!(results.runs[0].figures, results.runs[1].figures, "seeds differ");
}

#[test]
fn figures_are_consistent() {
    let outcome = execute(&plan(SMALL).unwrap(), 2, None);
    for run in &outcome.results.runs {
        let (what, f) = (run.label(), run.figures.simulated().unwrap());
        assert_eq!(f.requests.keys().collect::<Vec<_>>(), ["flush", "read", "write"], "{what}");
        for kind in f.requests.values() {
            assert_eq!(kind.summary.errors, 0, "{what}: {:?}", kind.first_error);
            assert_eq!(kind.histogram.iter().map(|step| step.1).sum::<u64>(), kind.summary.requests);
            assert_eq!(kind.series.iter().map(|bucket| bucket.requests).sum::<u64>(), kind.summary.requests);
        }
        assert_eq!(f.series.iter().map(|span| span.client_bytes).sum::<u64>(), f.writes.client_bytes);
        assert_eq!(f.series.iter().map(|span| span.member_bytes).sum::<u64>(), f.writes.member_bytes);
        let rate = f.requests["read"].summary.iops + f.requests["write"].summary.iops;
        let wanted = 1000.0 * run.settings["workload.speed"].as_float().unwrap();
        assert!((rate / wanted - 1.0).abs() < 0.2, "{what}: {rate} requests per second");
        for member in &f.members {
            assert_eq!(member.busy_series.len(), 4);
            assert!(member.busy > 0.0 && member.busy <= 1.0, "{what}: busy {}", member.busy);
            let flash = member.flash.as_ref().unwrap();
            assert!(flash.write_amplification >= Some(1.0) && flash.die_busy <= 1.0, "{what}: {flash:?}");
        }
        match run.case.as_deref() {
            Some("pool") => {
                let pool = f.pool.as_ref().unwrap();
                assert_eq!(f.members.len(), 4);
                assert_eq!((pool.after.stored_bytes, pool.after.stripes_degraded), (128 << 20, 0));
                assert!(f.writes.array_amplification.unwrap() > 1.0);
                assert!(pool.work["writes"] > 0);
            }
            _ => {
                assert!(f.pool.is_none());
                assert_eq!((f.members.len(), f.writes.array_amplification), (1, Some(1.0)), "{what}");
            }
        }
    }
}

#[test]
fn results_are_cached_and_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let first = execute(&plan(SMALL).unwrap(), 2, Some(directory.path()));
    assert_eq!(first.cached, 0);
    let second = execute(&plan(SMALL).unwrap(), 2, Some(directory.path()));
    assert_eq!((second.cached, second.member_requests), (8, 0));
    assert!(first.results.to_json() == second.results.to_json());
    let other = SMALL.replace("[1.0, 2.0]", "[1.0, 2.0, 4.0]");
    assert_eq!(execute(&plan(&other).unwrap(), 2, Some(directory.path())).cached, 8);
}

#[test]
fn a_report_is_one_page_with_charts() {
    let results = execute(&plan(SMALL).unwrap(), 2, None).results;
    let page = report::html(&results).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.matches("<svg").count() >= 8);
    assert!(!page.contains("http-equiv") && !page.contains("<script") && !page.contains("NaN"));
    let text = report::text(&results);
    assert!(text.contains("p99.9") && text.contains("alone, speed = 2"), "{text}");
}

#[test]
fn figures_are_compared_with_published_ones() {
    let results = execute(&plan(SMALL).unwrap(), 2, None).results;
    let [rate, flash, _] = &results.references[..] else { panic!("{:?}", results.references) };
    let ours = rate.ours.unwrap();
    assert_eq!((rate.published, rate.case.as_deref()), ([2.0, 2.0], Some("pool")));
    assert!(ours.low <= ours.mean && ours.mean <= ours.high && (ours.mean - 2.0).abs() < 0.4, "{ours:?}");
    let alone = results.runs[4].figures.simulated().unwrap();
    let closed = alone.members[0].flash.as_ref().unwrap().closed_form_amplification;
    assert_eq!(
        (flash.published, flash.figure.as_str()),
        ([closed; 2], "members.0.flash.write_amplification")
    );
    let text = report::text(&results);
    assert!(text.contains("reads per second") && text.contains("[1] the file\n[2] theory\n"), "{text}");
    assert!(report::html(&results).unwrap().contains("Compared with published figures"));

    let wrong = SMALL.replace("\"requests.read.iops\"", "\"requests.read.rate\"");
    let options = Options { threads: 2, cache: None };
    let plan = plan(&wrong).unwrap();
    let error = batch::execute(&plan, &options, &(Arc::new(|_| {}) as batch::Observer)).unwrap_err();
    assert!(error.to_string().contains("references.0: a run has no figure requests.read.rate"), "{error}");
    let nowhere = error_of("over = { case = \"pool\"", "over = { case = \"pond\"");
    assert!(nowhere.contains("references.0.over: there is no such run"), "{nowhere}");
    let unclear = error_of("over = { case = \"pool\", set = { \"workload.speed\" = 1 } }", "over = {}");
    assert!(unclear.contains("references.0.over: it selects several"), "{unclear}");
}

/// A case that is not swept is run once, and drawn as a horizontal line.
#[test]
fn a_case_that_is_not_swept_is_run_once() {
    let text = SMALL.replace("[1.0, 2.0]", "[1.0, 1.5, 2.0]").replace("seeds = [1, 2]", "");
    let alone = "set = { target = \"member\" }\n";
    let text = text.replace(alone, &format!("{alone}sweep = {{}}\n"));
    let results = execute(&plan(&text).unwrap(), 2, None).results;
    let labels: Vec<_> = results.runs.iter().map(|run| run.label()).collect();
    assert_eq!(labels, ["pool, speed = 1", "pool, speed = 1.5", "pool, speed = 2", "alone"]);
    assert!(results.references.iter().all(|found| found.ours.is_some()), "{:?}", results.references);
    let page = report::html(&results).unwrap();
    assert!(page.contains("By speed") && !page.contains("NaN") && !page.contains("inf"));
    let nowhere = text
        .replace("of = { case = \"alone\" }", "of = { case = \"alone\", set = { \"workload.speed\" = 1 } }");
    assert!(plan(&nowhere).unwrap_err().to_string().contains("references.1.of: there is no such run"));
}

#[test]
fn builtin_experiments_can_be_planned() {
    for builtin in builtin::ALL {
        assert!(!builtin.description().unwrap().is_empty());
        for quick in [false, true] {
            match Plan::find(builtin.name, quick) {
                Ok(plan) => assert!(!plan.runs.is_empty()),
                // The project holds no traces.
                Err(error) => assert!(matches!(error, Error::NoTraces { .. }), "{}: {error}", builtin.name),
            }
        }
    }
}

fn error_of(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from));
    plan(&SMALL.replace(from, to)).expect_err("the file is invalid").to_string()
}

#[test]
fn errors_name_the_setting() {
    let unknown = error_of("warm_up_s", "warmup_s");
    assert!(unknown.contains("line 6") && unknown.contains("unknown field `warmup_s`"), "{unknown}");
    assert!(unknown.contains("`warm_up_s`"), "the error lists the known fields: {unknown}");
    let unit = error_of("\"256M\"", "\"256 MW\"");
    assert!(unit.contains("256 MW") && unit.contains("\"64K\""), "{unit}");
    let seconds = error_of("duration_s = 0.2", "duration_s = \"200 ms\"");
    assert!(seconds.contains("duration_s") && seconds.contains("line 5"), "{seconds}");
    let model = error_of("\"slc\"", "\"tlc\"");
    assert!(model.contains("unknown variant `tlc`") && model.contains("`datacenter`"), "{model}");
    let uneven = error_of("size = \"128M\"", "size = 1000");
    assert!(uneven.contains("volumes.0.size") && uneven.contains("4096"), "{uneven}");
    let share =
        error_of("share = 0.5, sizes = { fixed = \"4K\" }", "share = 0.6, sizes = { fixed = \"4K\" }");
    assert!(share.contains("share"), "{share}");
    let path = error_of("\"workload.speed\" =", "\"workload.spede\" =");
    assert!(path.contains("workload.spede") && path.contains("unknown field"), "{path}");
    let entry = error_of("\"workload.speed\" =", "\"members.3.count\" =");
    assert!(entry.contains("members has no entry 3; it has 1"), "{entry}");
    let disk = error_of("\"slc\"", "\"constellation2\"");
    assert!(disk.contains("members.0.aging"), "{disk}");
    let stalled = error_of("\"slc\"", "\"slc\"\nstalled = 99");
    assert!(stalled.contains("members.0.stalled") && stalled.contains("99 of"), "{stalled}");
}

#[test]
fn a_missing_trace_is_named_before_anything_runs() {
    let end = SMALL.find("[workload").unwrap();
    let text = format!("{}[workload]\nsource.trace = {{ path = \"gone.csv\" }}\n", &SMALL[..end]);
    let error = Plan::new("x", &text, Path::new("traces"), false).unwrap_err().to_string();
    assert!(error.contains("gone.csv") && error.contains("traces"), "{error}");
    assert!(Plan::find("frist", false).unwrap_err().to_string().contains("first, consistency"));
}

#[test]
fn a_request_outside_its_volume_ends_the_run() {
    let plan = plan(&SMALL.replace("footprint = \"128M\" },\n]", "footprint = \"256M\" },\n]")).unwrap();
    let options = Options { threads: 1, cache: None };
    let error = batch::execute(&plan, &options, &(Arc::new(|_| {}) as batch::Observer)).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("leaves volume 0") && source.contains("fold_into"), "{source}");
}

#[test]
fn ratios_are_of_paired_runs() {
    let ratio = "\n[[ratios]]\nwhat = \"median of reads\"\nfigure = \"requests.read.latency.p50_ns\"\n\
                 of = { case = \"pool\" }\nover = { case = \"alone\" }\napart = true\nwithin = [5.0, 6.0]\n";
    let results = execute(&plan(&format!("{SMALL}{ratio}")).unwrap(), 2, None).results;
    let median = |index: usize| {
        let figures = results.runs[index].figures.simulated().unwrap();
        figures.requests["read"].summary.latency.p50_ns as f64
    };
    // Runs are ordered by case, then by speed, then by seed.
    let logarithms: Vec<f64> = (0..4).map(|run| (median(run) / median(run + 4)).ln()).collect();
    let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len() as f64).exp();
    let [all, slow, fast] = &results.ratios[..] else { panic!("{:?}", results.ratios) };
    assert_eq!((all.pairs, slow.pairs, fast.pairs), (4, 2, 2));
    for (ratio, pairs) in [(all, &logarithms[..]), (slow, &logarithms[..2]), (fast, &logarithms[2..])] {
        assert!((ratio.mean.unwrap() - mean(pairs)).abs() < 1e-9, "{ratio:?}");
    }
    let [low, high] = all.interval.unwrap();
    assert!(low <= all.mean.unwrap() && all.mean.unwrap() <= high && slow.interval.is_none());
    assert!(!all.holds(), "far outside: {all:?}");
    assert!(report::text(&results).contains("outside 5 to 6"));
    assert!(report::html(&results).unwrap().contains("Ratios of paired runs"));

    let rare = ratio.replace("p50_ns", "p99_ns");
    let results = execute(&plan(&format!("{SMALL}{rare}")).unwrap(), 2, None).results;
    assert_eq!((results.ratios[0].mean, results.ratios[0].too_few_requests), (None, 4), "one request above");
}

#[test]
fn an_overload_is_called_saturated() {
    let results = execute(&plan(SMALL).unwrap(), 2, None).results;
    let load = |run: usize| results.runs[run].figures.simulated().unwrap().load.unwrap();
    assert!((0..8).all(|run| !load(run).saturated && load(run).completed > 0));
    let heavy = SMALL.replace("iops = 1000.0", "iops = 50000.0").replace("[1.0, 2.0]", "[1.0]");
    let heavy = heavy.split("[[references]]").next().unwrap().to_owned();
    let results = execute(&plan(&heavy).unwrap(), 2, None).results;
    let loads: Vec<_> =
        results.runs.iter().map(|run| run.figures.simulated().unwrap().load.unwrap()).collect();
    assert!(loads.iter().all(|load| load.saturated), "{loads:?}");
    assert!(report::text(&results).contains("SATURATED in 2 of 2 runs"));
}

#[test]
fn a_warm_up_lasts_until_the_load_is_steady() {
    let steady = |within: f64| {
        let steady =
            format!("warm_up_s = 0.05\nsteady = {{ window_s = 0.1, within = {within}, max_s = 0.5 }}");
        let text = SMALL.replace("warm_up_s = 0.05", &steady).replace("[1.0, 2.0]", "[1.0]");
        let text = text.split("[[references]]").next().unwrap().to_owned();
        let results = execute(&plan(&text).unwrap(), 2, None).results;
        results.runs[0].figures.simulated().unwrap().steadiness.clone().unwrap()
    };
    let (loose, strict) = (steady(0.9), steady(1e-6));
    assert_eq!((loose.reached, strict.reached), (Some(true), Some(false)));
    assert!((loose.warm_up_s - 0.35).abs() < 1e-9 && (strict.warm_up_s - 0.55).abs() < 1e-9);
    assert_eq!(loose.quarters.len(), 4);
    let known = |quarter: &Part| quarter.flash_amplification.is_some() && quarter.read_p99_ns.is_none();
    assert!(loose.quarters.iter().all(known), "25 reads have no p99");
}

#[test]
fn the_largest_load_served_is_searched_for() {
    let alone = SMALL.split("[[cases]]").next().unwrap();
    let text = |capacity: &str| {
        let alone =
            alone.replace("iops = 1000.0", "iops = 4000.0").replace("duration_s = 0.2", "duration_s = 2.5");
        format!("{}\n[capacity]\n{capacity}\n", alone.replacen("[run]", "target = \"member\"\n\n[run]", 1))
    };
    let found = |capacity: &str| {
        let results = execute(&plan(&text(capacity)).unwrap(), 2, None).results;
        let figures = results.runs[0].figures.simulated().unwrap().clone();
        (figures.capacity.clone().unwrap(), figures, results)
    };
    let (free, figures, results) = found("from = 0.5\nwithin = 0.1");
    let speed = free.speed.unwrap();
    assert!(!figures.load.unwrap().saturated, "the figures are those at the largest speed served");
    let refused = free.tried.iter().find(|load| !load.served).unwrap();
    assert!(refused.saturated && refused.speed > speed && refused.speed <= speed * 1.1, "{free:?}");
    assert!(report::text(&results).contains("largest speed served"));
    assert!(report::html(&results).unwrap().contains("Capacity"));

    let bound = free.tried[0].write_p99_ns.unwrap_or_else(|| panic!("{free:?}")) as f64 / 1e6 * 1.05;
    let (bounded, figures, _) = found(&format!("from = 0.5\nwithin = 0.1\np99_ms = {bound}"));
    assert!(bounded.speed.unwrap() <= speed, "{bounded:?} and {free:?}");
    for kind in ["read", "write"] {
        assert!(figures.requests[kind].summary.latency.p99_ns as f64 <= bound * 1e6, "{kind}");
    }
    // An overload is not simulated to its end, in which all of its requests would be served.
    let overload = execute(&plan(&text("from = 16.0\nwithin = 15.0")).unwrap(), 2, None);
    let tried = &overload.results.runs[0].figures.simulated().unwrap().capacity.as_ref().unwrap().tried;
    assert!(tried.last().unwrap().saturated, "{tried:?}");
    assert!(overload.member_requests < 16 * 4000 * 5 / 2, "{} requests", overload.member_requests);
    let (at_max, ..) = found("from = 0.1\nmax = 0.1");
    assert_eq!((at_max.speed, at_max.at_max, at_max.tried.len()), (Some(0.1), true, 1));

    let few = plan(&text("from = 0.01\np99_ms = 1.0")).unwrap();
    let options = Options { threads: 1, cache: None };
    let error = batch::execute(&few, &options, &(Arc::new(|_| {}) as batch::Observer)).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("capacity.p99_ms") && source.contains("measure longer"), "{source}");
    let closed = plan(&text("from = 1").replace("[run]", "pace.closed.depth = 4\n\n[run]")).unwrap_err();
    assert!(closed.to_string().contains("a closed loop"), "{closed}");
}

#[test]
fn loads_are_shares_of_the_lowest_capacity() {
    let alone = SMALL.split("[[cases]]").next().unwrap();
    let alone = alone
        .replace("iops = 1000.0", "iops = 4000.0")
        .replace("duration_s = 0.2", "duration_s = 1.0")
        .replacen("[run]", "target = \"member\"\n\n[run]", 1);
    let text = |capacity: &str| {
        format!(
            "{alone}\n[capacity]\nfrom = 0.5\nwithin = 0.2\n{capacity}\n\n[sweep]\n\"capacity.share\" = [0.25, 0.5]\n\n\
             [[cases]]\nname = \"slc\"\n\n[[cases]]\nname = \"consumer\"\nset = {{ \"members.0.model\" = \"consumer\" }}\n"
        )
    };
    let of_both = plan(&text("weakest_of = [\"slc\", \"consumer\"]")).unwrap();
    assert_eq!((of_both.searches.len(), of_both.runs.len()), (2, 8), "one search for each system");
    let results = execute(&of_both, 2, None).results;
    let capacities = &results.runs[0].figures.simulated().unwrap().load_share.clone().unwrap().capacities;
    assert!(capacities["slc"] < capacities["consumer"], "{capacities:?}");
    for run in &results.runs {
        let figures = run.figures.simulated().unwrap();
        let load = figures.load_share.as_ref().unwrap();
        assert_eq!(&load.capacities, capacities);
        assert!((load.speed / capacities["slc"] - load.share).abs() < 1e-9, "{load:?}");
        assert!(figures.capacity.is_none() && !figures.load.unwrap().saturated);
        let due = figures.load.unwrap().due as f64 / figures.duration_s;
        assert!((due / (load.speed * 4000.0) - 1.0).abs() < 0.2, "{due} a second at {}", load.speed);
    }
    assert!(report::text(&results).contains("share of the capacity"));
    assert!(report::html(&results).unwrap().contains("share of the capacity"));

    let own = plan(&text("")).unwrap();
    assert_eq!(own.runs[0].load.as_ref().unwrap().searches, [0]);
    assert_eq!(own.runs[7].load.as_ref().unwrap().searches, [1]);
    let refused = |capacity: &str| plan(&text(capacity)).unwrap_err().to_string();
    assert!(refused("weakest_of = [\"none\"]").contains("there is no case \"none\""));
    let without = text("weakest_of = [\"consumer\"]").replace("capacity.share", "capacity.within");
    assert!(plan(&without).unwrap_err().to_string().contains("give capacity.share"));
    let too_much = text("").replace("[0.25, 0.5]", "[1.5]");
    assert!(plan(&too_much).unwrap_err().to_string().contains("overloaded"));
}

#[test]
fn clients_beside_others_begin_later_and_write_content_of_their_own() {
    let text = SMALL[..SMALL.find("[[cases]]").unwrap()]
        .replace("seeds = [1, 2]", "")
        .replace("aging = 0.2", "physical = \"192M\"")
        .replace(
            "[workload",
            "[[volumes]]\nsize = \"128M\"\n\n[[beside]]\nstarts_s = 0.1\ncontent = \"random\"\n\
             workload.to_s = 0.02\n\
             workload.source.generator = { arrival = { poisson = { iops = 2000.0 } }, volume = 1, streams = [\n    \
             { kind = \"write\", share = 1.0, sizes = { fixed = \"4K\" }, place = \"uniform\", footprint = \"64M\" },\n\
             ]}\n\n[workload",
        );
    let run = |from: &str, to: &str| {
        let outcome = execute(&plan(&text.replace(from, to)).unwrap(), 1, None);
        let figures = outcome.results.runs[0].figures.simulated().unwrap().clone();
        let late = figures.volumes.get("volume1").map_or(0, |volume| volume.requests);
        (late, figures.series.last().unwrap().physical_used_bytes)
    };
    // In 20 ms 40 are due; the load ends after 0.25 s.
    let (whole, random) = run("", "");
    assert!((20..60).contains(&whole), "{whole}");
    assert!(run("starts_s = 0.1", "starts_s = 0.245").0 < whole / 2);
    assert_eq!(run("starts_s = 0.1", "starts_s = 1").0, 0);
    let (_, zeros) = run("content = \"random\"\n", "");
    assert!(random >= zeros + whole * 4096, "writes take space: {random}, {zeros}");

    let before = plan(&text.replace("starts_s = 0.1", "starts_s = -1")).unwrap_err();
    assert!(before.to_string().contains("beside.0.starts_s"), "{before}");
}

#[test]
fn clients_beside_others_keep_a_pace_of_their_own() {
    let text = SMALL[..SMALL.find("[[cases]]").unwrap()].replace("seeds = [1, 2]", "").replace(
        "[workload",
        "[[volumes]]\nsize = \"128M\"\nfill = true\n\n[[beside]]\npace = { closed = { depth = 4 } }\n\
         workload.source.generator = { arrival = \"closed\", volume = 1, streams = [\n    \
         { kind = \"read\", share = 1.0, sizes = { fixed = \"4K\" }, place = \"uniform\", footprint = \"128M\" },\n]}\n\n[workload",
    );
    let outcome = execute(&plan(&text).unwrap(), 1, None);
    let figures = outcome.results.runs[0].figures.simulated().unwrap();
    let (timed, closed) = (&figures.volumes["volume0"], &figures.volumes["volume1"]);
    let rate = timed.requests as f64 / 0.2;
    assert!((850.0..1150.0).contains(&rate), "as many as are due: {rate} a second");
    assert!(closed.requests > 4 * timed.requests, "as many as are served: {}", closed.requests);
    let load = figures.load.as_ref().unwrap();
    assert!(
        (load.due as f64 / timed.requests as f64 - 1.0).abs() < 0.1,
        "only the timed ones are due: {load:?}"
    );

    let all_closed = text.replace("[run]", "pace.closed.depth = 4\n\n[run]");
    let outcome = execute(&plan(&all_closed).unwrap(), 1, None);
    let figures = outcome.results.runs[0].figures.simulated().unwrap();
    assert!(figures.load.is_none(), "closed loops have no backlog");

    let idle = plan(&text.replace("depth = 4", "depth = 0")).unwrap_err();
    assert!(idle.to_string().contains("at least one request"), "{idle}");
    let searched = plan(&text.replace("[run]", "[capacity]\nfrom = 1\n\n[run]")).unwrap_err();
    assert!(searched.to_string().contains("`workload` alone"), "{searched}");
}
