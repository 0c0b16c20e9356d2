//! `sinew layout --stats`: what each member holds, how even that is, and what each addition moved.

use anyhow::Result;
use serde::Serialize;
use sinew_layout::grown::Grown;
use sinew_layout::stats::{Counts, coefficient_of_variation};

use crate::out::say;
use crate::table::Table;

/// Fractions are parts of 1.
#[derive(Serialize)]
pub(super) struct Statistics {
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

/// The effect of one addition on the array as it was then.
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

/// How the array came to be what it is.
pub(super) struct History<'a> {
    /// Members that were added, addition by addition.
    pub(super) grow: &'a [u32],
    /// Other additions to compare with.
    pub(super) against: Option<&'a [u32]>,
    /// The array after some additions.
    pub(super) build: &'a dyn Fn(&[u32]) -> Result<Grown>,
}

/// Counts what each member holds and what each addition moved.
///
/// # Errors
/// When one of the arrays on the way cannot exist.
pub(super) fn count(array: &Grown, history: &History<'_>) -> Result<Statistics> {
    let counts = array.counts();
    let held = counts.data.iter().zip(&counts.parity);
    let members = (0..).zip(held).map(|(member, (&data, &parity))| Member { member, data, parity }).collect();
    let (data_cv, parity_cv) = evenness(&counts);
    let mut additions = Vec::new();
    let mut before = (history.build)(&[])?;
    for end in 1..=history.grow.len() {
        let after = (history.build)(&history.grow[..end])?;
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
    let against = history.against.map(|other| -> Result<Against> {
        Ok(Against { grow: other.to_vec(), elsewhere: array.moved_from(&(history.build)(other)?) })
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

/// Additions as a sum.
pub(super) fn sum(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" + ")
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}

fn maybe(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), percent)
}

/// For people.
pub(super) fn print(all: &Statistics) {
    let mut table = Table::of_numbers(&["member", "data", "parity"]);
    for Member { member, data, parity } in &all.members {
        table.row([member.to_string(), data.to_string(), parity.to_string()]);
    }
    table.row(["CV".to_owned(), percent(all.data_cv), maybe(all.parity_cv)]);
    table.print();
    if !all.additions.is_empty() {
        say!("");
        additions(&all.additions);
    }
    if let Some(Against { grow, elsewhere }) = &all.against {
        let other =
            if grow.is_empty() { "did not grow".to_owned() } else { format!("grew by {}", sum(grow)) };
        say!("\n{} of the blocks are elsewhere in an array that {other}", percent(*elsewhere));
    }
}

fn additions(all: &[Addition]) {
    let heads = ["members", "blocks", "moved", "least", "parity written", "CV of data", "CV of parity"];
    let mut table = Table::of_numbers(&heads);
    for a in all {
        table.row([
            format!("{} to {}", a.members_before, a.members),
            a.blocks.to_string(),
            percent(a.moved),
            maybe(a.least_moved),
            maybe(a.parity_written),
            percent(a.data_cv),
            maybe(a.parity_cv),
        ]);
    }
    table.print();
}
