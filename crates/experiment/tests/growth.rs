//! Experiments with arrays that grow by arithmetic alone. No test measures times.

use std::path::Path;
use std::sync::Arc;

use sinew_experiment::batch::{self, Observer, Options};
use sinew_experiment::plan::Plan;
use sinew_experiment::results::{GrowthFigures, Results};
use sinew_experiment::{builtin, report};

/// An experiment that ships with the program, with `rows` rows and without times.
fn untimed(name: &str, rows: u32) -> String {
    let text = builtin::find(name).unwrap().text.replace("timed = true\n", "");
    let (above, below) = text.split_once("[quick]").unwrap();
    let references = below.split("[[references]]").skip(1);
    // Published times cannot be compared without ours.
    let kept = references.filter(|reference| !reference.contains("growth.times"));
    let references: String = kept.map(|reference| format!("[[references]]{reference}")).collect();
    format!("{above}[quick]\n\"growth.rows\" = {rows}\n{references}")
}

fn execute(text: &str, threads: usize, cache: Option<&Path>) -> batch::Outcome {
    let plan = Plan::new("growth", text, Path::new(""), true).unwrap();
    let options = Options { threads, cache: cache.map(Path::to_owned) };
    batch::execute(&plan, &options, &(Arc::new(|_| {}) as Observer)).unwrap()
}

fn figures<'r>(results: &'r Results, case: &str) -> Vec<&'r GrowthFigures> {
    let runs = results.runs.iter().filter(|run| run.case.as_deref() == Some(case));
    runs.map(|run| run.figures.growth().unwrap()).collect()
}

#[test]
fn the_figures_of_fastscale_are_those_of_the_paper() {
    let results = execute(&untimed("fastscale", 50_000), 2, None).results;
    let of = |case| figures(&results, case);
    let (fast, robin, semi) = (of("FastScale"), of("round-robin"), of("semi-round-robin"));
    assert_eq!((fast.len(), robin.len(), semi.len()), (10, 10, 10));
    for ((fast, semi), robin) in fast.iter().zip(&semi).zip(&robin) {
        let least = 1.0 / f64::from(fast.members);
        assert_eq!((fast.least_moved, fast.data_cv, robin.data_cv), (Some(least), 0.0, 0.0));
        assert!((fast.moved.unwrap() - least).abs() < 1e-4, "{:?}", fast.moved);
        assert!((semi.moved.unwrap() - least).abs() < 1e-4, "{:?}", semi.moved);
        assert!(robin.moved > Some(0.9999), "{:?}", robin.moved);
    }
    // 1/5, 2/15, 1/5, 2/15, 1/6, 1/6 of the blocks.
    assert!((semi[1].data_cv - 0.1633).abs() < 1e-4, "{}", semi[1].data_cv);
    // The data of the first members alone, after ten additions.
    assert!((fast[9].first_data_cv - 0.4162).abs() < 1e-3, "{}", fast[9].first_data_cv);

    assert_eq!(results.references.len(), 3 + 30);
    let (of_fast, of_semi) = (&results.references[0], &results.references[2]);
    assert_eq!((of_fast.ours.unwrap().high, of_fast.published), (0.0, [0.0; 2]));
    let highest = semi.iter().map(|figures| figures.data_cv).fold(0.0, f64::max);
    assert_eq!((of_semi.ours.unwrap().mean, of_semi.published), (highest, [0.1306; 2]));
    assert_eq!(of_semi.figure, "highest growth.data_cv");
    assert_eq!(of_semi.settings["growth.additions"].as_integer(), Some(10));
}

#[test]
fn equal_files_give_equal_json_and_are_cached() {
    let text = untimed("spread", 600);
    let directory = tempfile::tempdir().unwrap();
    let first = execute(&text, 1, Some(directory.path()));
    let json = first.results.to_json();
    let again = execute(&text, 2, Some(directory.path()));
    assert_eq!((first.cached, again.cached), (0, 40));
    assert!(json == execute(&text, 2, None).results.to_json() && json == again.results.to_json());
    let read: Results = serde_json::from_str(&json).unwrap();
    assert!(read == first.results, "the JSON is read back as it was written");
    let (spread, restripe) = (figures(&read, "RAID 5, spread"), figures(&read, "RAID 5, restripe"));
    for (spread, restripe) in spread.iter().zip(restripe) {
        assert!(spread.moved < Some(0.26) && restripe.moved > Some(0.9));
        assert!(restripe.data_cv < 0.01 && restripe.space == 1.0);
        assert_eq!((spread.parity.iter().sum::<u64>(), spread.times.is_some()), (600, false));
    }
}

#[test]
fn text_and_page_show_only_figures_of_the_runs() {
    let results = execute(&untimed("fastscale", 2000), 2, None).results;
    let text = report::text(&results);
    assert!(text.contains("FastScale, additions = 10") && text.contains("7.14 %"), "{text}");
    assert!(!text.contains("parity") && !text.contains("ns, random") && !text.contains("p99"), "{text}");
    let page = report::html(&results).unwrap();
    assert!(page.contains("By additions") && page.contains("Compared with published figures"));
    assert_eq!(page.matches("<svg").count(), 3, "CV of data, CV of first data, moved blocks");
    assert!(!page.contains("NaN") && !page.contains("Latency"));
}

#[test]
fn errors_name_the_setting() {
    let error_of = |from: &str, to: &str| {
        let text = builtin::find("fastscale").unwrap().text;
        assert!(text.contains(from));
        Plan::new("growth", &text.replace(from, to), Path::new(""), false).unwrap_err().to_string()
    };
    let level = error_of("\"raid0\"", "\"raid5\"");
    assert!(level.contains("growth.timed") && level.contains("raid0"), "{level}");
    let method = error_of("method = \"fastscale\"", "method = \"slas\"");
    assert!(method.contains("\"slas\"") && method.contains("semi-round-robin"), "{method}");
    let members = error_of("members = 4", "members = 250");
    assert!(members.contains("256 members") && members.contains("additions = 6"), "{members}");
    let mixed = error_of("[growth]", "members = []\n[growth]");
    assert!(mixed.contains("unknown field `members`"), "{mixed}");
}
