//! `sinew layout`: where each block of an array lies, new or grown, and how even that is.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sinew_format::model::form::Form;
use sinew_layout::elastic::Slots;
use sinew_layout::grown::{Grown, Method};
use sinew_layout::history::History;
use sinew_layout::{LevelName, LevelParts, ParityWeights, Rotation};

use super::array;
use crate::names::named;
use crate::out::say;

mod places;
mod statistics;

/// Places of the blocks of an array, as arithmetic.
///
/// Shows where each block lies, and how even that is. Nothing is read or written.
///
/// A block is as large as a chunk, a row is the chunks at the same place of all members. Without --grow the array is new,
/// as md lays it out. Without --blocks, --stats and --json it is drawn row by row: numbers are blocks, P and Q parity, - is
/// unused.
///
/// Examples:
///   sinew layout --level 5 --members 4
///   sinew layout --level 0 --members 4 --grow 1,1,2 --method fastscale --blocks 0..10
///   sinew layout --level 5 --members 4 --grow 1,1 --method spread --rows 100000 --stats
///   sinew layout --level 5 --members 4 --elastic --form mirrored --rows 4
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LayoutArgs {
    /// The level.
    #[arg(long, value_parser = named::<LevelName>())]
    level: LevelName,
    /// Members that it is made with.
    #[arg(long, value_name = "N")]
    members: u32,
    /// How parity rotates.
    #[arg(long, value_parser = named::<Rotation>(), default_value_t)]
    layout: Rotation,
    /// Levels 5 and 6: members hold parity in proportion to these numbers, one for each member.
    #[arg(long, value_name = "N,N,...", conflicts_with_all = ["layout", "elastic", "grow"])]
    parity_weights: Option<ParityWeights>,
    /// Copies of every block, for level 10.
    #[arg(long, value_name = "N", default_value_t = 2)]
    copies: u32,
    /// Groups of equally many members, for levels 50 and 60.
    #[arg(long, value_name = "N", default_value_t = 2)]
    groups: u32,
    /// Chunks of each member; of an elastic array in each slot.
    #[arg(long, value_name = "N", default_value_t = 16)]
    rows: u32,
    /// An elastic array, of level 5 or 6: a slot for each copy that a stripe may have lies behind slot 0.
    #[arg(long, conflicts_with = "stats")]
    elastic: bool,
    /// The form of all stripes of an elastic array.
    #[arg(long, value_parser = named::<Form>(), default_value_t = Form::Parity, requires = "elastic")]
    form: Form,
    /// Members that were added since, addition by addition.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', requires = "method")]
    grow: Vec<u32>,
    /// How it grew. `slas` and `md-reshape` end in the layout of `round-robin`, which is to be named instead.
    #[arg(long, value_parser = named::<Method>(), requires = "grow")]
    method: Option<Method>,
    /// List these blocks only, from A to before B.
    #[arg(long, value_name = "A..B", value_parser = range, conflicts_with = "stats")]
    blocks: Option<Range<u64>>,
    /// Show the blocks of each member, how even they are, and the blocks that each addition moved.
    #[arg(long)]
    stats: bool,
    /// With --stats: what is elsewhere in an array that grew by these additions instead; none for one that did not grow.
    #[arg(long, value_name = "N,N,...|none", requires = "stats", value_parser = additions)]
    against: Option<Additions>,
    /// As JSON: a list of places, or with --stats an object.
    #[arg(long)]
    json: bool,
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
        let rotation = array::rotation(self.level, self.layout, self.parity_weights)?;
        let parts = LevelParts { rotation, copies: self.copies, groups: self.groups };
        let level = self.level.level(parts);
        let Some(method) = self.method else { return Ok(Grown::fresh(level, self.members, self.rows)?) };
        let mut history = History::new(self.members)?;
        for &members in added {
            history.add(members)?;
        }
        Ok(Grown::new(level, history, method, self.rows)?)
    }

    /// The slots of the array.
    fn slots<'a>(&self, array: &'a Grown) -> Result<Slots<'a>> {
        if !self.elastic {
            return Ok(Slots::one(array));
        }
        ensure!(
            self.form != Form::Empty,
            "an empty stripe uses no place; ask for --form parity or --form mirrored"
        );
        let slots = Slots::elastic(array, self.form == Form::Mirrored);
        slots.with_context(|| format!("{} cannot be elastic; levels 5 and 6 can", array.level()))
    }

    fn form_in_words(&self) -> &'static str {
        if self.form == Form::Mirrored { "mirrored" } else { "with parity" }
    }

    /// A description for people.
    fn title(&self, array: &Grown) -> Result<String> {
        let grown = match self.method {
            Some(method) => {
                format!(" and {} more by {}", statistics::sum(&self.grow), method)
            }
            None => String::new(),
        };
        let form = match self.elastic {
            true => format!(", elastic, all stripes {}", self.form_in_words()),
            false => String::new(),
        };
        Ok(format!(
            "{}, {} members{grown}{form}: {} rows, {} blocks",
            array.level(),
            self.members,
            self.rows,
            array.blocks()
        ))
    }
}

/// Runs the command.
///
/// # Errors
/// When there can be no such array, or it has not the blocks asked for.
pub(crate) fn run(args: &LayoutArgs) -> Result<()> {
    if args.against.is_some() {
        ensure!(
            args.method.is_some(),
            "--against compares arrays that grew; say how with --grow and --method"
        );
    }
    let array = args.array(&args.grow)?;
    let slots = args.slots(&array)?;
    if args.stats {
        let history = statistics::History {
            grow: &args.grow,
            against: args.against.as_ref().map(|other| other.0.as_slice()),
            build: &|added| args.array(added),
        };
        let statistics = statistics::count(&array, &history)?;
        if args.json {
            say!("{}", serde_json::to_string_pretty(&statistics)?);
        } else {
            say!("{}\n", args.title(&array)?);
            statistics::print(&statistics);
        }
        return Ok(());
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
        return if by_blocks { places::blocks_json(&slots, blocks) } else { places::all_json(&slots) };
    }
    say!("{}\n", args.title(&array)?);
    if by_blocks { places::table(&slots, blocks) } else { places::map(&slots) }
}
