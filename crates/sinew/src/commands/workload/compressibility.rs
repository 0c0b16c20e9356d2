//! `sinew workload compressibility`: how well files compress in an elastic array.

use std::fs::File;
use std::io::{Read, stdin};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use sinew_workload::compressibility::{BLOCK_BYTES, BlockSizes, Compressibility, Compressor, RATIOS};

use crate::out::say;
use crate::table::Table;
use crate::units;

/// Reads files or block devices as the content of a RAID 5, and tells how well data and parity compress block by block.
///
/// That is what members store that compress, and what `--expect` of an elastic array asks for. Stripes whose data
/// compresses so much better than their parity that they take less space mirrored become mirrored whatever the space
/// (Elastic RAID, 2022, section 3.3).
#[derive(Args)]
pub(crate) struct CompressibilityArgs {
    /// Files or block devices; `-` is the standard input.
    #[arg(required = true)]
    file: Vec<PathBuf>,
    /// Data chunks of a stripe: members without one.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=31))]
    columns: u8,
    /// Bytes of a chunk, a multiple of 4 KiB.
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = units::parse_size)]
    chunk: u64,
    /// The compressor of the members: gzip, lz4 or zstd.
    #[arg(long, value_parser = compressor, default_value = "lz4")]
    compressor: Compressor,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

fn compressor(name: &str) -> Result<Compressor> {
    let known = Compressor::ALL.into_iter().find(|compressor| compressor.name() == name);
    known.with_context(|| format!("{name} is no compressor known here; there are gzip, lz4 and zstd"))
}

pub(super) fn run(args: &CompressibilityArgs) -> Result<()> {
    let block = BLOCK_BYTES as u64;
    if args.chunk == 0 || !args.chunk.is_multiple_of(block) || args.chunk > 16 << 20 {
        bail!("--chunk is a multiple of 4096 bytes and at most 16M");
    }
    let (columns, chunk_blocks) = (usize::from(args.columns), (args.chunk / block) as usize);
    let mut all = Vec::new();
    for path in &args.file {
        let data: Box<dyn Read> = match path.as_os_str() == "-" {
            true => Box::new(stdin().lock()),
            false => Box::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?),
        };
        let found = Compressibility::of(data, args.compressor, columns, chunk_blocks)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if found.stripes == 0 {
            let needed = units::bytes(columns as u64 * args.chunk);
            bail!("{} does not fill one stripe of {needed}; choose a smaller --chunk", path.display());
        }
        match args.json {
            true => all.push(json!({
                "file": path, "compressor": args.compressor.name(), "columns": columns, "chunk_bytes": args.chunk,
                "ratios": RATIOS, "data_ratio": found.data.ratio(), "parity_ratio": found.parity.ratio(),
                "ratio": found.ratio(), "found": found,
            })),
            false => print(&path.display().to_string(), &found, args),
        }
    }
    if args.json {
        say!("{:#}", json!(all));
    }
    Ok(())
}

fn print(name: &str, found: &Compressibility, args: &CompressibilityArgs) {
    let bytes = units::bytes(found.data.blocks * BLOCK_BYTES as u64);
    say!("{name}: {bytes} in stripes of {}+1, by {}", args.columns, args.compressor.name());
    say!("  data        compresses {:.2} times", found.data.ratio());
    say!("  parity      compresses {:.2} times", found.parity.ratio());
    say!("  both        compress {:.2} times: --expect of an elastic array", found.ratio());
    let smaller = found.smaller_mirrored as f64 * 100.0 / found.stripes as f64;
    say!("  mirrored    {smaller:.1} % of the stripes take less space than with parity");
    let mut table = Table::of_numbers(&["ratio", "data %", "parity %"]);
    let share =
        |of: &BlockSizes, range: usize| format!("{:.1}", of.counts[range] as f64 * 100.0 / of.blocks as f64);
    for (range, least) in RATIOS.iter().enumerate() {
        let ratio = match RATIOS.get(range + 1) {
            Some(next) => format!("{least} to {next}"),
            None => format!("{least} and more"),
        };
        table.row([ratio, share(&found.data, range), share(&found.parity, range)]);
    }
    table.lines().iter().for_each(|line| say!("  {line}"));
    say!("");
}
