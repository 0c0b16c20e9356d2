//! Runs random drives, with and without redundancy, and checks what they say about each block after the loss of a die or of a
//! page.
//!
//! `cargo run --release -p sinew-devices --example chip_loss [-- SEEDS [FIRST]]`

#[path = "../tests/ledger/mod.rs"]
mod ledger;

fn main() {
    let number =
        |place: usize| std::env::args().nth(place).map(|text| text.parse().expect("a number of seeds"));
    let (seeds, first): (u64, u64) = (number(1).unwrap_or(1_000), number(2).unwrap_or(0));
    let mut all = ledger::Found::default();
    for seed in first..first + seeds {
        let found = std::panic::catch_unwind(|| ledger::run(seed)).unwrap_or_else(|_| {
            eprintln!("seed {seed} failed: `chip_loss -- 1 {seed}` runs it again");
            std::process::exit(1);
        });
        all.add(found);
    }
    println!("{seeds} seeds: {all:?}");
}
