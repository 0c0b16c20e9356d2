//! `sinew pool list`: the pools that are served on this machine.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::client::{Target, running};
use crate::out::say;
use crate::protocol::Request;
use crate::table::{Align, Table};
use crate::units;

/// Lists the pools that are served: their health, and how full they are.
///
/// Those whose control sockets are in the usual directories.
#[derive(Args)]
pub(crate) struct ListArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a directory of control sockets may not be read and no pool is found.
pub(crate) fn run(args: &ListArgs) -> Result<()> {
    let pools: Vec<Value> = running()?.iter().map(|control| entry(control)).collect();
    if args.json {
        say!("{:#}", json!(pools));
        return Ok(());
    }
    if pools.is_empty() {
        say!("no pool is served");
        return Ok(());
    }
    let mut table = Table::new(&[
        ("pool", Align::Left),
        ("health", Align::Left),
        ("stored", Align::Right),
        ("capacity", Align::Right),
        ("control socket", Align::Left),
    ]);
    for pool in &pools {
        let text = |key: &str| pool[key].as_str().unwrap_or("?").to_owned();
        let bytes = |key: &str| pool[key].as_u64().map_or("?".to_owned(), units::bytes);
        table.row([
            text("pool"),
            text("health"),
            bytes("stored_bytes"),
            bytes("capacity_bytes"),
            text("control"),
        ]);
    }
    table.print();
    Ok(())
}

/// The entry of a pool in the list. If its server does not answer, the entry holds the pool's name and the error.
fn entry(control: &Path) -> Value {
    match Target::at(control).ask(&Request::Status) {
        Ok(status) => json!({
            "pool": status["pool"], "health": status["health"], "needs_attention": status["needs_attention"],
            "stored_bytes": status["stored_bytes"], "capacity_bytes": status["capacity_bytes"], "control": control,
        }),
        Err(error) => json!({
            "pool": control.file_stem().map(|name| name.to_string_lossy()), "health": "no answer",
            "error": format!("{error:#}"), "control": control,
        }),
    }
}
