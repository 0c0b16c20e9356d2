//! `sinew layout`: where each block of an array lies, new or grown, and how even that is.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use sinew_layout::Home;
use sinew_layout::Role;
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::History;

use crate::commands::array::{LevelName, RotationName};
use crate::out::{self, say};

mod statistics;

/// Shows where each block of an array lies, and how even that is. Nothing is read or written: it is arithmetic.
///
/// A block is as large as a chunk, a row is the chunks at the same place of all members. Without --grow the array is new,
/// as md lays it out. Without --blocks, --stats and --json it is drawn row by row: numbers are blocks, P and Q parity, - is
/// unused.
///
/// Examples:
///   sinew layout --level 5 --members 4
///   sinew layout --level 0 --members 4 --grow 1,1,2 --method fastscale --blocks 0..10
///   sinew layout --level 5 --members 4 --grow 1,1 --method spread --rows 100000 --stats
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LayoutArgs {
    /// The level.
    #[arg(long, value_enum)]
    level: LevelName,
    /// Members that it is made with.
    #[arg(long, value_name = "N")]
    members: u32,
    /// How parity rotates.
    #[arg(long, value_enum, default_value_t)]
    layout: RotationName,
    /// Copies of every block, for level 10.
    #[arg(long, value_name = "N", default_value_t = 2)]
    copies: u32,
    /// Groups of equally many members, for levels 50 and 60.
    #[arg(long, value_name = "N", default_value_t = 2)]
    groups: u32,
    /// Chunks of each member.
    #[arg(long, value_name = "N", default_value_t = 16)]
    rows: u32,
    /// Members that were added since, addition by addition.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', requires = "method")]
    grow: Vec<u32>,
    /// How it grew: RAID 0 and 10 by one of the first three, RAID 5 and 6 by one of the last two.
    #[arg(long, value_enum, requires = "grow")]
    method: Option<MethodName>,
    /// List these blocks only, from A to before B.
    #[arg(long, value_name = "A..B", value_parser = range, conflicts_with = "stats")]
    blocks: Option<Range<u64>>,
    /// What each member holds, how even that is, and what each addition moved.
    #[arg(long)]
    stats: bool,
    /// With --stats: what is elsewhere in an array that grew by these additions instead; none for one that did not grow.
    #[arg(long, value_name = "N,N,...|none", requires = "stats", value_parser = additions)]
    against: Option<Additions>,
    /// As JSON: a list of places, or with --stats an object.
    #[arg(long)]
    json: bool,
}

/// How an array grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// Moves the least, and stays even (FAST '11).
    #[value(name = "fastscale")]
    FastScale,
    /// As a new array: moves nearly everything.
    RoundRobin,
    /// Moves the least, and becomes uneven; says the member of a block only.
    SemiRoundRobin,
    /// As a new array, as md does: moves nearly everything, and computes all parity again.
    Restripe,
    /// Moves little: a few stripes are taken apart to widen the others.
    Spread,
}

impl From<MethodName> for Method {
    fn from(name: MethodName) -> Method {
        match name {
            MethodName::FastScale => Method::FastScale,
            MethodName::RoundRobin => Method::RoundRobin,
            MethodName::SemiRoundRobin => Method::SemiRoundRobin,
            MethodName::Restripe => Method::Restripe,
            MethodName::Spread => Method::Spread,
        }
    }
}

/// Members that were added, addition by addition.
#[derive(Clone, Debug)]
struct Additions(Vec<u32>);

fn additions(text: &str) -> Result<Additions> {
    if text == "none" {
        return Ok(Additions(Vec::new()));
    }
    let number = |part: &str| part.trim().parse().ok();
    let all: Option<Vec<u32>> = text.split(',').map(number).collect();
    all.map(Additions).with_context(|| format!("{text} are no additions; write for example 1,1,2, or none"))
}

fn range(text: &str) -> Result<Range<u64>> {
    let parts = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match parts {
        Some((first, end)) if first < end => Ok(first..end),
        _ => bail!("{text} is not a range of blocks; write for example 0..100"),
    }
}

impl LayoutArgs {
    /// The array after these additions.
    fn array(&self, added: &[u32]) -> Result<Grown> {
        let level = self.level.level(self.layout, self.copies, self.groups);
        let Some(method) = self.method else { return Ok(Grown::fresh(level, self.members, self.rows)?) };
        let mut history = History::new(self.members)?;
        for &members in added {
            history.add(members)?;
        }
        Ok(Grown::new(level, history, method.into(), self.rows)?)
    }

    /// What it is, for people.
    fn title(&self, array: &Grown) -> String {
        let grown = match self.method {
            Some(method) => format!(" and {} more by {}", list(&self.grow), Method::from(method)),
            None => String::new(),
        };
        format!(
            "{}, {} members{grown}: {} rows, {} blocks",
            array.level(),
            self.members,
            self.rows,
            array.blocks()
        )
    }
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" + ")
}

/// Runs the command.
pub(crate) fn run(args: &LayoutArgs) -> Result<()> {
    if args.against.is_some() {
        ensure!(
            args.method.is_some(),
            "--against compares arrays that grew; say how with --grow and --method"
        );
    }
    let array = args.array(&args.grow)?;
    if args.stats {
        return statistics::run(args, &array);
    }
    let blocks = args.blocks.clone().unwrap_or(0..array.blocks());
    if blocks.end > array.blocks() {
        bail!(
            "the array has {} blocks; ask for some of those, or make it larger with --rows",
            array.blocks()
        );
    }
    // Only by blocks can one go through an array that does not say which chunk a block is in.
    let by_blocks = args.blocks.is_some() || array.place(0, 0).chunk.is_none();
    if args.json {
        return if by_blocks { json(copies(&array, blocks)) } else { json(places(&array)) };
    }
    say!("{}\n", args.title(&array));
    if by_blocks { table(&array, blocks) } else { map(&array) }
}

/// One place, as JSON has it.
#[derive(Serialize)]
struct Entry {
    /// The block; null for parity and what is unused.
    block: Option<u64>,
    member: u32,
    /// Null where the way of growing leaves it open.
    chunk: Option<u64>,
    role: &'static str,
    /// Of arrays that keep several copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<u32>,
    /// Of parity.
    #[serde(skip_serializing_if = "Option::is_none")]
    stripe: Option<u64>,
}

/// The copies of blocks, in the order of blocks.
fn copies(array: &Grown, blocks: Range<u64>) -> impl Iterator<Item = Entry> {
    blocks.flat_map(move |block| {
        (0..array.copies()).map(move |copy| {
            let place = array.place(block, copy);
            let copy = (array.copies() > 1).then_some(copy);
            Entry {
                block: Some(block),
                member: place.member,
                chunk: place.chunk,
                role: "data",
                copy,
                stripe: None,
            }
        })
    })
}

/// All places, row by row.
fn places(array: &Grown) -> impl Iterator<Item = Entry> {
    let homes = (0..u64::from(array.rows()))
        .flat_map(|chunk| (0..array.members()).map(move |member| Home { member, chunk }));
    homes.filter_map(move |home| {
        let (block, role, copy, stripe) = match array.role(home)? {
            Role::Data { logical, copy } => (Some(logical), "data", Some(copy), None),
            Role::P { stripe } => (None, "P", None, Some(stripe)),
            Role::Q { stripe } => (None, "Q", None, Some(stripe)),
            Role::Unused => (None, "unused", None, None),
        };
        let copy = copy.filter(|_| array.copies() > 1);
        Some(Entry { block, member: home.member, chunk: Some(home.chunk), role, copy, stripe })
    })
}

/// A list, an entry a line.
fn json(entries: impl Iterator<Item = Entry>) -> Result<()> {
    out::stream(|to| {
        write!(to, "[")?;
        for (i, entry) in entries.enumerate() {
            write!(to, "{}\n ", if i == 0 { "" } else { "," })?;
            serde_json::to_writer(&mut *to, &entry)?;
        }
        writeln!(to, "\n]")
    })
}

/// Blocks, a copy a line.
fn table(array: &Grown, blocks: Range<u64>) -> Result<()> {
    let width = digits(blocks.end - 1).max("block".len());
    let has_copies = array.copies() > 1;
    out::stream(|to| {
        let copy = if has_copies { "  copy" } else { "" };
        writeln!(to, "{:>width$}{copy}  member  chunk", "block")?;
        for Entry { block, member, chunk, copy, .. } in copies(array, blocks) {
            write!(to, "{:>width$}", block.unwrap_or_default())?;
            if let Some(copy) = copy {
                write!(to, "  {copy:>4}")?;
            }
            let chunk = chunk.map_or("-".to_owned(), |chunk| chunk.to_string());
            writeln!(to, "  {member:>6}  {chunk:>5}")?;
        }
        Ok(())
    })
}

/// A line for each row, a column for each member.
fn map(array: &Grown) -> Result<()> {
    let rows = u64::from(array.rows());
    let number = digits(rows - 1).max("row".len());
    let cell = digits(array.blocks() - 1).max(digits(u64::from(array.members()) - 1) + 1);
    out::stream(|to| {
        write!(to, "{:>number$} ", "row")?;
        for member in 0..array.members() {
            write!(to, "  {:>cell$}", format_args!("m{member}").to_string())?;
        }
        for row in 0..rows {
            write!(to, "\n{row:>number$} ")?;
            for member in 0..array.members() {
                match array.role(Home { member, chunk: row }) {
                    Some(Role::Data { logical, .. }) => write!(to, "  {logical:>cell$}")?,
                    Some(Role::P { .. }) => write!(to, "  {:>cell$}", "P")?,
                    Some(Role::Q { .. }) => write!(to, "  {:>cell$}", "Q")?,
                    Some(Role::Unused) | None => write!(to, "  {:>cell$}", "-")?,
                }
            }
        }
        writeln!(to)
    })
}

fn digits(number: u64) -> usize {
    number.max(1).ilog10() as usize + 1
}
