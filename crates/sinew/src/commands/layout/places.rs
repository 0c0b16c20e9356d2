//! The places of an array: each block with its member and chunk, as JSON, as a list, and drawn row by row.
//!
//! Arrays can have millions of blocks, so everything is written as it is found.

use std::ops::Range;

use anyhow::Result;
use serde::Serialize;
use sinew_layout::Role;
use sinew_layout::elastic::Slots;

use crate::out;

/// One place, as JSON has it.
#[derive(Serialize)]
struct Entry {
    /// The block; null for parity and what is unused.
    block: Option<u64>,
    member: u32,
    /// Null where the way of growing leaves it open. The slots of an elastic array follow one another.
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
fn copies(slots: &Slots<'_>, blocks: Range<u64>) -> impl Iterator<Item = Entry> {
    blocks.flat_map(move |block| {
        (0..slots.copies()).map(move |copy| {
            let place = slots.place(block, copy);
            let copy = (slots.copies() > 1).then_some(copy);
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
fn places(slots: &Slots<'_>) -> impl Iterator<Item = Entry> {
    let rows = u64::from(slots.array().rows());
    let members = slots.array().members();
    let all = (0..rows).flat_map(move |row| {
        (0..slots.count()).flat_map(move |slot| (0..members).map(move |member| (slot, row, member)))
    });
    all.filter_map(move |(slot, row, member)| {
        let (block, role, copy, stripe) = match slots.role(slot, row, member)? {
            Role::Data { logical, copy } => (Some(logical), "data", Some(copy), None),
            Role::P { stripe } => (None, "P", None, Some(stripe)),
            Role::Q { stripe } => (None, "Q", None, Some(stripe)),
            Role::Unused => (None, "unused", None, None),
        };
        let copy = copy.filter(|_| slots.copies() > 1);
        Some(Entry { block, member, chunk: Some(u64::from(slot) * rows + row), role, copy, stripe })
    })
}

/// Lists the copies of blocks as JSON.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn blocks_json(slots: &Slots<'_>, blocks: Range<u64>) -> Result<()> {
    json(copies(slots, blocks))
}

/// Lists all places as JSON, row by row.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn all_json(slots: &Slots<'_>) -> Result<()> {
    json(places(slots))
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
pub(super) fn table(slots: &Slots<'_>, blocks: Range<u64>) -> Result<()> {
    let width = digits(blocks.end - 1).max("block".len());
    let has_copies = slots.copies() > 1;
    out::stream(|to| {
        let copy = if has_copies { "  copy" } else { "" };
        writeln!(to, "{:>width$}{copy}  member  chunk", "block")?;
        for Entry { block, member, chunk, copy, .. } in copies(slots, blocks) {
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

/// A line for each row, of an elastic array for each slot of it; a column for each member.
///
/// # Errors
/// When the output cannot be written.
pub(super) fn map(slots: &Slots<'_>) -> Result<()> {
    let (rows, members) = (u64::from(slots.array().rows()), slots.array().members());
    let number = digits(rows - 1).max("row".len());
    let cell = digits(slots.array().blocks() - 1).max(digits(u64::from(members) - 1) + 1);
    let has_slots = slots.count() > 1;
    out::stream(|to| {
        write!(to, "{:>number$} {}", "row", if has_slots { " slot" } else { "" })?;
        for member in 0..members {
            write!(to, "  {:>cell$}", format_args!("m{member}").to_string())?;
        }
        for (row, slot) in (0..rows).flat_map(|row| (0..slots.count()).map(move |slot| (row, slot))) {
            write!(to, "\n{row:>number$} ")?;
            if has_slots {
                write!(to, " {slot:>4}")?;
            }
            for member in 0..members {
                match slots.role(slot, row, member) {
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
