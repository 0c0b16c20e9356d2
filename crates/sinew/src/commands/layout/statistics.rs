//! `sinew layout --stats`: what each member holds, how even that is, and what each addition moved.

use anyhow::Result;
use serde::Serialize;
use sinew_layout::grown::Grown;
use sinew_layout::stats::{Counts, coefficient_of_variation};

use super::{LayoutArgs, list};
use crate::out::say;

/// Fractions are parts of 1.
#[derive(Serialize)]
struct Statistics {
    level: String,
    rows: u32,
    blocks: u64,
    members: Vec<Member>,
    /// Coefficient of variation over the members: standard deviation by mean.
    data_cv: f64,
    /// Null without parity.
    parity_cv: Option<f64>,
    additions: Vec<Addition>,
    against: Option<Against>,
}

#[derive(Serialize)]
struct Member {
    member: u32,
    data: u64,
    parity: u64,
}

/// What one addition did to the array as it was then.
#[derive(Serialize)]
struct Addition {
    members_before: u32,
    members: u32,
    blocks: u64,
    /// Of the blocks that there were before.
    moved: f64,
    least_moved: Option<f64>,
    /// Of all parity; null without parity.
    parity_written: Option<f64>,
    data_cv: f64,
    parity_cv: Option<f64>,
}

/// Another history of the same members.
#[derive(Serialize)]
struct Against {
    grow: Vec<u32>,
    /// Of the blocks that both arrays have.
    elsewhere: f64,
}

pub(super) fn run(args: &LayoutArgs, array: &Grown) -> Result<()> {
    let statistics = count(args, array)?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&statistics)?);
    } else {
        say!("{}\n", args.title(array));
        print(&statistics);
    }
    Ok(())
}

fn count(args: &LayoutArgs, array: &Grown) -> Result<Statistics> {
    let counts = array.counts();
    let held = counts.data.iter().zip(&counts.parity);
    let members = (0..).zip(held).map(|(member, (&data, &parity))| Member { member, data, parity }).collect();
    let (data_cv, parity_cv) = evenness(&counts);
    let mut additions = Vec::new();
    let mut before = args.array(&[])?;
    for end in 1..=args.grow.len() {
        let after = args.array(&args.grow[..end])?;
        let (data_cv, parity_cv) = evenness(&after.counts());
        additions.push(Addition {
            members_before: before.members(),
            members: after.members(),
            blocks: after.blocks(),
            moved: after.moved_from(&before),
            least_moved: after.least_moved(),
            parity_written: after.parity_written(),
            data_cv,
            parity_cv,
        });
        before = after;
    }
    let against = args.against.as_ref().map(|other| -> Result<Against> {
        Ok(Against { grow: other.0.clone(), elsewhere: array.moved_from(&args.array(&other.0)?) })
    });
    Ok(Statistics {
        level: array.level().to_string(),
        rows: array.rows(),
        blocks: array.blocks(),
        members,
        data_cv,
        parity_cv,
        additions,
        against: against.transpose()?,
    })
}

/// The coefficients of variation of data and of parity.
fn evenness(counts: &Counts) -> (f64, Option<f64>) {
    let parity =
        counts.parity.iter().any(|&count| count > 0).then(|| coefficient_of_variation(&counts.parity));
    (coefficient_of_variation(&counts.data), parity)
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

fn maybe(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), percent)
}

fn print(all: &Statistics) {
    say!("member          data        parity");
    for Member { member, data, parity } in &all.members {
        say!("{member:>6}  {data:>12}  {parity:>12}");
    }
    say!("    CV  {:>12}  {:>12}", percent(all.data_cv), maybe(all.parity_cv));
    if !all.additions.is_empty() {
        say!("\nmembers        blocks       moved       least  parity written  CV of data  CV of parity");
    }
    for a in &all.additions {
        say!(
            "{:>3} to {:<3}  {:>10}  {:>10}  {:>10}  {:>14}  {:>10}  {:>12}",
            a.members_before,
            a.members,
            a.blocks,
            percent(a.moved),
            maybe(a.least_moved),
            maybe(a.parity_written),
            percent(a.data_cv),
            maybe(a.parity_cv)
        );
    }
    if let Some(Against { grow, elsewhere }) = &all.against {
        let other =
            if grow.is_empty() { "did not grow".to_owned() } else { format!("grew by {}", list(grow)) };
        say!("\n{} of the blocks are elsewhere in an array that {other}", percent(*elsewhere));
    }
}
