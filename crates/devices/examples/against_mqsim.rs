//! Replays a trace in MQSim's format on a drive like MQSim's default one, for comparison with MQSim itself.
//!
//! The drive has eight channels with one chip of one die of two planes on each, blocks of 64 pages, 320 of them to a plane
//! (2.5 GiB), of which it offers 93 %, and is new.

use std::error::Error;
use std::time::Instant;

use sinew_devices::flash::{Config, Drain, Ssd, mqsim};
use sinew_devices::{Command, Completion, Device, Kind};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "against_mqsim TRACE ROUNDS: lines of time in ns, device, sector, sectors, 1 for a read";
    let path = arguments.next().ok_or(usage)?;
    let rounds: u64 = arguments.next().ok_or(usage)?.parse()?;
    let trace = std::fs::read_to_string(&path)?.lines().map(line).collect::<Option<Vec<_>>>().ok_or(usage)?;

    let planes = Config { chips: 1, dies: 1, pages: 64, erase_blocks: 320, drain: Drain::Through, ..mqsim() };
    let blocks = (planes.physical_blocks() * 93 / 100) as u32;
    let mut ssd = Ssd::new(Config { blocks, ..planes }, 1);

    let begun = Instant::now();
    let mut done = Vec::new();
    let length = trace.last().map_or(0, |last| last.0);
    for round in 0..rounds {
        for (number, &(at, lba, blocks, kind)) in trace.iter().enumerate() {
            let at = round * length + at;
            ssd.advance(at, &mut done);
            ssd.submit(at, Command { tag: number as u64, kind, lba, blocks });
        }
    }
    while let Some(at) = ssd.next_event() {
        ssd.advance(at, &mut done);
    }
    let seconds = begun.elapsed().as_secs_f64();
    for kind in [Kind::Read, Kind::Write] {
        tell(
            kind,
            done.iter().filter(|completion| completion.kind == kind).map(Completion::latency_ns).collect(),
        );
    }
    println!("write amplification {:.3}, {} erases", ssd.stats().write_amplification(), ssd.stats().erases);
    println!(
        "{} requests in {seconds:.3} s: {:.2} million per second",
        done.len(),
        done.len() as f64 / seconds / 1e6
    );
    Ok(())
}

/// Time, first block, blocks, kind.
fn line(line: &str) -> Option<(u64, u32, u32, Kind)> {
    let mut fields = line.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    let (at, _, sector, sectors) = (next()?, next()?, next()?, next()?);
    let kind = if next()? == 1 { Kind::Read } else { Kind::Write };
    Some((at, (sector / 8) as u32, sectors.div_ceil(8) as u32, kind))
}

fn tell(kind: Kind, mut latencies: Vec<u64>) {
    latencies.sort_unstable();
    let count = latencies.len();
    if count == 0 {
        return;
    }
    let at = |part: f64| latencies[((count as f64 * part) as usize).min(count - 1)] as f64 / 1e3;
    let mean = latencies.iter().sum::<u64>() as f64 / count as f64 / 1e3;
    println!(
        "{kind:?}: {count}, mean {mean:.0} us, p50 {:.0}, p90 {:.0}, p99 {:.0}, p99.9 {:.0}, longest {:.0}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
