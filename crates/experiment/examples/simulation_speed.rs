//! The speed of simulation: requests to members per second of real time, on one thread, during load. Ageing, filling and
//! reports do not count.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinew_experiment::Result;
use sinew_experiment::batch::{self, Options, Step};
use sinew_experiment::plan::Plan;

/// The part of the file that is the same in all runs.
const COMMON: &str = r#"
[run]
duration_s = 20
[[volumes]]
size = "4G"
fill = true
"#;

const READ: &str =
    r#"{ kind = "read", share = 1.0, sizes = { fixed = "4K" }, place = "uniform", footprint = "4G" }"#;
const WRITE: &str =
    r#"{ kind = "write", share = 1.0, sizes = { fixed = "4K" }, place = "uniform", footprint = "4G" }"#;

fn main() -> Result<()> {
    println!("million requests to members per second of real time (lowest, median, highest of 5)");
    let both = format!("{READ}, {WRITE}").replace("1.0", "0.5");
    for (name, streams) in [("reads", READ), ("half and half", &both), ("writes", WRITE)] {
        for (place, target, count, aging) in [
            ("a drive", "member", 1, 0.0),
            ("an aged drive", "member", 1, 1.0),
            ("a pool of 6", "pool", 6, 1.0),
        ] {
            let text = format!(
                "description = \"speed\"\ntarget = \"{target}\"\npace = {{ closed = {{ depth = 32 }} }}\n{COMMON}\
                 [[members]]\nmodel = \"datacenter\"\nsize = \"4G\"\npages = 64\ncount = {count}\naging = {aging:.1}\n\
                 [workload.source.generator]\narrival = \"closed\"\nstreams = [{streams}]\n"
            );
            let mut rates = (0..5).map(|_| rate(&text)).collect::<Result<Vec<_>>>()?;
            rates.sort_by(f64::total_cmp);
            println!("4 KiB {name}, {place}: {:.2}, {:.2}, {:.2}", rates[0], rates[2], rates[4]);
        }
    }
    Ok(())
}

/// Millions of requests to members per second of real time during the load of a run.
fn rate(text: &str) -> Result<f64> {
    let plan = Plan::new("speed", text, Path::new(""), false)?;
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&times);
    let observer: batch::Observer = Arc::new(move |step: Step| {
        if matches!(step.doing, "warming up" | "running") {
            noted.lock().expect("no panic while held").push(Instant::now());
        }
    });
    let outcome = batch::execute(&plan, &Options { threads: 1, cache: None }, &observer)?;
    let times = times.lock().expect("no panic while held");
    let took: Duration = times[times.len() - 1] - times[0];
    let figures = outcome.results.runs[0].figures.simulated().expect("a simulation was run");
    let members = &figures.members;
    let requests: u64 = members.iter().map(|m| m.reads + m.writes + m.flushes).sum();
    Ok(requests as f64 / took.as_secs_f64() / 1e6)
}
