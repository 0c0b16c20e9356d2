//! The features of block traces, or of workloads described in TOML, as JSON.
//!
//!     cargo run --release -p sinew-workload --example features -- hm_0.csv.gz exchange-like.toml

use std::path::Path;

use sinew_workload::trace::{ReadOptions, TraceReader};
use sinew_workload::{Boxed, Error, Features, Workload};

fn main() {
    for path in std::env::args().skip(1) {
        match open(Path::new(&path)).and_then(Features::of) {
            Ok(features) => {
                println!("{}", serde_json::to_string_pretty(&features).expect("numbers and names only"))
            }
            Err(error) => eprintln!("{error}"),
        }
    }
}

fn open(path: &Path) -> Result<Boxed, Error> {
    if path.extension().is_some_and(|extension| extension == "toml") {
        let text = std::fs::read_to_string(path).expect("a readable file");
        let base = path.parent().unwrap_or(Path::new(""));
        return Ok(Workload::from_toml(&text)?.open(base)?.requests);
    }
    Ok(Box::new(TraceReader::open(path, ReadOptions::default())?))
}
