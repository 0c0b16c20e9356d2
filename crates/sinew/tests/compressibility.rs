//! `sinew workload compressibility`: text, JSON, and errors that say what to do.

mod harness;

use std::fs;

use harness::Sandbox;

#[test]
fn a_file_is_told_with_its_parity() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    // Lines of different lengths: repeated, but never at the same place of two blocks.
    let lines: String =
        (0..20_000).map(|i| format!("entry {} of a log, {}\n", i * i, "=".repeat(i % 7))).collect();
    fs::write(&text, lines).unwrap();
    let (sandbox, path) = (Sandbox::new(), text.to_str().unwrap());
    let shown = sandbox.ok(&["workload", "compressibility", path]);
    assert!(
        shown.contains("in stripes of 3+1, by lz4") && shown.contains("--expect of an elastic array"),
        "{shown}"
    );
    let told = sandbox.json(&[
        "workload",
        "compressibility",
        path,
        "--compressor",
        "zstd",
        "--chunk",
        "4K",
        "--json",
    ]);
    let ratio = |name: &str| told[0][name].as_f64().unwrap();
    assert!(ratio("data_ratio") > ratio("ratio") && ratio("ratio") > ratio("parity_ratio"), "{told}");
    assert_eq!(told[0]["found"]["data"]["blocks"], told[0]["found"]["stripes"].as_u64().unwrap() * 3);
}

#[test]
fn errors_say_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let small = directory.path().join("small");
    fs::write(&small, [1; 100_000]).unwrap();
    let (sandbox, path) = (Sandbox::new(), small.to_str().unwrap());
    let error = sandbox.fails(&["workload", "compressibility", path]);
    assert!(error.contains("does not fill one stripe of 192 KiB; choose a smaller --chunk"), "{error}");
    let error = sandbox.fails(&["workload", "compressibility", path, "--chunk", "5000"]);
    assert!(error.contains("a multiple of 4096 bytes"), "{error}");
    let error = sandbox.fails(&["workload", "compressibility", &format!("{path}.not")]);
    assert!(error.contains("cannot open"), "{error}");
}
