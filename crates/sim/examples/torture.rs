//! Runs seeds: `torture FROM COUNT`.
use sinew_sim::torture::{Plan, run};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (from, count) = (args[0], args.get(1).copied().unwrap_or(1));
    let mut failed = 0;
    for seed in from..from + count {
        let plan = Plan::draw(seed);
        if count == 1 {
            println!("{plan:?}");
        }
        let t = std::time::Instant::now();
        let result = std::panic::catch_unwind(|| run(&plan));
        match result {
            Ok(Ok(o)) => {
                if count == 1 || t.elapsed().as_secs() > 10 {
                    println!("seed {seed} ok {:?} {o:?}", t.elapsed());
                }
            }
            Ok(Err(f)) => {
                failed += 1;
                let s = f.to_string();
                println!("{}", &s[..s.len().min(9000)]);
            }
            Err(_) => {
                failed += 1;
                println!("seed {seed} panicked");
            }
        }
    }
    println!("{failed} of {count} failed");
}
