//! `sinew pool damage`: which parts of volumes have no good copy.

use anyhow::Result;
use clap::Args;

use crate::client::Target;
use crate::out::say;
use crate::protocol::Request;
use crate::table::{Align, Table};

/// Lists the parts of volumes that had no good copy when they were read.
///
/// The list is kept on the members. A part leaves it when it is written, discarded, or read well.
#[derive(Args)]
pub(crate) struct DamageArgs {
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the command.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn run(args: &DamageArgs) -> Result<()> {
    let damage = args.target.ask(&Request::Damage)?;
    if args.json {
        say!("{damage:#}");
        return Ok(());
    }
    let ranges = damage.as_array().map(Vec::as_slice).unwrap_or_default();
    if ranges.is_empty() {
        say!("no damage is known");
        return Ok(());
    }
    let columns =
        [("volume", Align::Left), ("offset", Align::Right), ("bytes", Align::Right), ("found", Align::Left)];
    let mut table = Table::new(&columns);
    for range in ranges {
        let text = |key: &str| range[key].as_str().unwrap_or("-").to_owned();
        let number = |key: &str| range[key].as_u64().map_or("-".to_owned(), |number| number.to_string());
        table.row([text("volume"), number("offset"), number("bytes"), text("since")]);
    }
    table.print();
    Ok(())
}
