//! The places of an array: each block with its member and chunk, as JSON, as a list, and drawn row by row.
//!
//! Arrays can have millions of blocks, so everything is written as it is found.

use std::ops::Range;

use anyhow::Result;
use serde::Serialize;
use sinew_layout::grown::Grown;
use sinew_layout::{Home, Role};

use crate::out;

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

/// Lists the copies of blocks as JSON.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn blocks_json(array: &Grown, blocks: Range<u64>) -> Result<()> {
    json(copies(array, blocks))
}

/// Lists all places as JSON, row by row.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn all_json(array: &Grown) -> Result<()> {
    json(places(array))
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
///
/// # Errors
/// When the output cannot be written.
pub(super) fn table(array: &Grown, blocks: Range<u64>) -> Result<()> {
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
///
/// # Errors
/// When the output cannot be written.
pub(super) fn map(array: &Grown) -> Result<()> {
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
